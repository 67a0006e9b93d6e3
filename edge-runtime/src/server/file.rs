//! Files as answers: the whole, or the range of bytes that was asked for.
//!
//! Invariants: a few pieces of [`PIECE`] bytes of a file are in memory, however long it is; whoever is sent one holds a place until the last byte is taken, the
//! client is gone, or it has taken nothing for [`PATIENCE`]; a file that goes to make room meanwhile is sent to its end, because it was opened before the answer began.

use std::convert::Infallible;
use std::fs::File;
use std::io::SeekFrom;
use std::ops::RangeInclusive;
use std::time::Duration;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_RANGE, RANGE,
};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use http_range_header::{RangeUnsatisfiableError, parse_range_header};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, Take};
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use watchkeeper_contract::problem::ProblemCode;
use watchkeeper_http::Refusal;
use watchkeeper_http::refusal::full;

use super::App;

/// Piece of a file that is held in memory while it is sent, in bytes.
const PIECE: u64 = 64 * 1024;

/// Pieces that wait for a client.
const AHEAD: usize = 2;

/// How long a client may take nothing before it is given up: a player that is paused asks for the rest by its range.
const PATIENCE: Duration = Duration::from_secs(60);

/// Most files that are sent at a time; the next one is refused with status 429.
pub const MAX_SENT: usize = 64;

/// A file that is going to be sent.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: File,
    /// In bytes, as it was promised; what is appended meanwhile is not sent.
    pub(super) length: u64,
    pub(super) content_type: &'static str,
    /// What nothing else will ever be called, where its content never changes.
    pub(super) tag: Option<HeaderValue>,
}

/// What a request says about the part that it wants.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    range: Option<HeaderValue>,
    /// The range holds for the file of this tag only.
    only_of: Option<HeaderValue>,
}

impl<S: Sync> FromRequestParts<S> for Wanted {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let header = |name: HeaderName| parts.headers.get(name).cloned();
        // A range of what is not sent means nothing (RFC 9110, 14.2).
        let range = header(RANGE).filter(|_| parts.method == Method::GET);
        let only_of = header(IF_RANGE);
        Ok(Self { range, only_of })
    }
}

impl Wanted {
    /// The bytes that are asked for; all of them where nothing is, where it can't be read, and where it is more than one range: a server may
    /// answer with the whole then (RFC 9110, 14.2).
    ///
    /// # Errors
    /// When there are no such bytes.
    fn part(&self, opened: &Opened) -> Result<Option<RangeInclusive<u64>>, Refusal> {
        let is_another = self.only_of.is_some() && self.only_of != opened.tag;
        let range = self.range.as_ref().filter(|_| !is_another);
        let Some(range) = range.and_then(|range| range.to_str().ok()) else {
            return Ok(None);
        };
        match parse_range_header(range).and_then(|ranges| ranges.validate(opened.length)) {
            Ok(ranges) => match <[_; 1]>::try_from(ranges) {
                Ok([one]) => Ok(Some(one)),
                Err(_) => Ok(None),
            },
            Err(RangeUnsatisfiableError::Unsatisfiable) => Err(Refusal::new(
                StatusCode::RANGE_NOT_SATISFIABLE,
                ProblemCode::InvalidRequest,
                format!(
                    "there are no such bytes, it has {}; ask for a range that begins before that",
                    opened.length
                ),
            )
            .at("range", range)),
            Err(_) => Ok(None),
        }
    }
}

/// A place among those who are sent files.
///
/// # Errors
/// When all are taken.
pub(super) fn place(app: &App) -> Result<OwnedSemaphorePermit, Refusal> {
    let place = app.sent.clone().try_acquire_owned();
    place.map_err(|_| {
        full(format!(
            "{MAX_SENT} files are being sent already; try again in a moment"
        ))
    })
}

/// Answers with what is `wanted` of the file, and keeps the place until it is sent.
///
/// # Errors
/// When there is no such part of it, or it can't be read.
pub(super) async fn answer(
    opened: Opened,
    wanted: &Wanted,
    place: OwnedSemaphorePermit,
) -> Result<Response, Refusal> {
    answer_within(PATIENCE, opened, wanted, place).await
}

async fn answer_within(
    patience: Duration,
    opened: Opened,
    wanted: &Wanted,
    place: OwnedSemaphorePermit,
) -> Result<Response, Refusal> {
    let length = opened.length;
    let part = match wanted.part(&opened) {
        Ok(part) => part,
        Err(refusal) => {
            let unsatisfied = [(CONTENT_RANGE, format!("bytes */{length}"))];
            return Ok((unsatisfied, refusal).into_response());
        }
    };
    let mut file = tokio::fs::File::from_std(opened.file);
    let (first, count) = match &part {
        Some(part) => (*part.start(), part.end() - part.start() + 1),
        None => (0, length),
    };
    if first > 0 {
        file.seek(SeekFrom::Start(first)).await.map_err(|error| {
            tracing::warn!(%error, "a file can't be read from its middle");
            watchkeeper_http::refusal::internal()
        })?;
    }
    let (gives, pieces) = mpsc::channel(AHEAD);
    tokio::spawn(send(file.take(count), gives, patience, place));
    let pieces = stream::unfold(pieces, |mut pieces| async move {
        let piece = pieces.recv().await?;
        Some((piece, pieces))
    });
    let head = [
        (CONTENT_TYPE, HeaderValue::from_static(opened.content_type)),
        (ACCEPT_RANGES, HeaderValue::from_static("bytes")),
        (CONTENT_LENGTH, HeaderValue::from(count)),
    ];
    let mut response = (head, Body::from_stream(pieces)).into_response();
    if let Some(tag) = opened.tag {
        response.headers_mut().insert(ETAG, tag);
    }
    if let Some(part) = part {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let range = format!("bytes {}-{}/{length}", part.start(), part.end());
        if let Ok(range) = HeaderValue::try_from(range) {
            response.headers_mut().insert(CONTENT_RANGE, range);
        }
    }
    Ok(response)
}

/// Gives the pieces of a file one by one to whoever waits for them, and has its place meanwhile. One who takes none is cut off: the answer is shorter than it
/// promised, and no client takes that for the whole.
async fn send(
    mut file: Take<tokio::fs::File>,
    gives: mpsc::Sender<std::io::Result<Vec<u8>>>,
    patience: Duration,
    _place: OwnedSemaphorePermit,
) {
    loop {
        let mut piece = Vec::with_capacity(PIECE as usize);
        let read = (&mut file).take(PIECE).read_to_end(&mut piece).await;
        let is_last = !matches!(read, Ok(1..));
        if matches!(read, Ok(0)) {
            return;
        }
        let given = gives.send_timeout(read.map(|_| piece), patience).await;
        if let Err(SendTimeoutError::Timeout(_)) = given {
            tracing::info!("a client that is sent a file takes nothing of it and is given up");
        }
        if is_last || given.is_err() {
            return;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use std::sync::Arc;

    use futures_util::StreamExt as _;
    use tokio::sync::Semaphore;

    use super::*;

    const LENGTH: usize = 10 * PIECE as usize + 7;

    fn opened(folder: &tempfile::TempDir) -> Opened {
        let path = folder.path().join("clip");
        let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(LENGTH).collect();
        std::fs::write(&path, bytes).unwrap();
        Opened {
            file: File::open(path).unwrap(),
            length: LENGTH as u64,
            content_type: "video/mp4",
            tag: None,
        }
    }

    async fn begin(places: &Arc<Semaphore>, patience: Duration) -> Response {
        let folder = tempfile::tempdir().unwrap();
        let place = Arc::clone(places).try_acquire_owned().unwrap();
        let wanted = Wanted::default();
        let answer = answer_within(patience, opened(&folder), &wanted, place);
        answer.await.unwrap()
    }

    #[tokio::test]
    async fn whoever_takes_nothing_loses_the_place_and_sees_that_it_is_not_the_whole() {
        let places = Arc::new(Semaphore::new(1));
        let response = begin(&places, Duration::from_millis(20)).await;
        drop(places.acquire().await.unwrap());
        let pieces = response.into_body().into_data_stream();
        let taken: Vec<_> = pieces.map(|piece| piece.unwrap().len()).collect().await;
        assert_eq!(taken, [PIECE as usize; AHEAD]);
    }

    #[tokio::test]
    async fn whoever_takes_the_pieces_is_sent_the_whole_and_holds_the_place_until_then() {
        let places = Arc::new(Semaphore::new(1));
        let response = begin(&places, PATIENCE).await;
        let mut pieces = response.into_body().into_data_stream();
        let mut taken = Vec::new();
        while let Some(piece) = pieces.next().await {
            taken.extend(piece.unwrap());
            // The pieces that wait and the one that is being given are not the last before that.
            if taken.len() + (AHEAD + 1) * (PIECE as usize) < LENGTH {
                assert_eq!(places.available_permits(), 0);
            }
        }
        assert_eq!(taken.len(), LENGTH);
        assert!(taken.iter().enumerate().all(|(i, byte)| *byte == i as u8));
        drop(places.acquire().await.unwrap());
    }

    #[tokio::test]
    async fn the_place_of_a_client_that_is_gone_is_free() {
        let places = Arc::new(Semaphore::new(1));
        drop(begin(&places, PATIENCE).await);
        drop(places.acquire().await.unwrap());
    }
}
