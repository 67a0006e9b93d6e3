//! Files as responses: whole, or one range of bytes.
//!
//! - At most [`MAX_PIECES_AHEAD`] + 1 pieces of [`PIECE_BYTES`] are in memory, however long the
//!   file is.
//! - A transfer holds its permit until the last byte is taken, the client is gone, or the client
//!   has taken nothing for [`CLIENT_TIMEOUT`].
//! - A file that retention deletes meanwhile is sent to its end: it was opened before the response.

use std::convert::Infallible;
use std::fs::File;
use std::io::SeekFrom;
use std::ops::RangeInclusive;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_RANGE, RANGE,
};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use http_range_header::{RangeUnsatisfiableError, parse_range_header};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, Take};
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use watchkeeper_contract::problem::ProblemCode;
use watchkeeper_http::Refusal;
use watchkeeper_http::pieces::{self, CLIENT_TIMEOUT, MAX_PIECES_AHEAD, PIECE_BYTES, Piece};
use watchkeeper_http::refusal::full;

use super::app::App;
use super::limits::MAX_TRANSFERS;

/// An opened file that is about to be sent.
#[derive(Debug)]
pub(super) struct OpenedFile {
    pub(super) file: File,
    /// Length in bytes when the response began; bytes appended later are not sent.
    pub(super) length: u64,
    pub(super) content_type: &'static str,
    /// Entity tag, if the content of the file never changes.
    pub(super) etag: Option<HeaderValue>,
}

/// Range headers of a request.
#[derive(Debug, Default)]
pub(super) struct RangeRequest {
    range: Option<HeaderValue>,
    /// The range holds only for the file with this entity tag (`If-Range`).
    if_range: Option<HeaderValue>,
}

impl<S: Sync> FromRequestParts<S> for RangeRequest {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let header = |name: HeaderName| parts.headers.get(name).cloned();
        // A range header counts only with GET (RFC 9110, 14.2).
        let range = header(RANGE).filter(|_| parts.method == Method::GET);
        let if_range = header(IF_RANGE);
        Ok(Self { range, if_range })
    }
}

impl RangeRequest {
    /// Returns the requested range of bytes, or `None` for the whole file.
    ///
    /// A malformed range and more than one range mean the whole file (RFC 9110, 14.2).
    ///
    /// # Errors
    /// When the range begins behind the end of the file.
    fn range(&self, opened: &OpenedFile) -> Result<Option<RangeInclusive<u64>>, Refusal> {
        let is_another = self.if_range.is_some() && self.if_range != opened.etag;
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
                    "the range begins behind the end of the file, which has {} bytes",
                    opened.length
                ),
            )
            .at("range", range)),
            Err(_) => Ok(None),
        }
    }
}

/// Takes a permit for one transfer.
///
/// # Errors
/// When [`MAX_TRANSFERS`] are in progress.
pub(super) fn acquire_transfer(app: &App) -> Result<OwnedSemaphorePermit, Refusal> {
    let permit = app.transfers.clone().try_acquire_owned();
    permit.map_err(|_| {
        full(format!(
            "{MAX_TRANSFERS} files are being sent; try again in a moment"
        ))
    })
}

/// Builds the response and spawns the task that sends the file and holds `permit`.
///
/// # Errors
/// When the file can't be read from the start of the range.
pub(super) async fn respond(
    opened: OpenedFile,
    wanted: &RangeRequest,
    permit: OwnedSemaphorePermit,
) -> Result<Response, Refusal> {
    respond_within(CLIENT_TIMEOUT, opened, wanted, permit).await
}

async fn respond_within(
    timeout: Duration,
    opened: OpenedFile,
    wanted: &RangeRequest,
    permit: OwnedSemaphorePermit,
) -> Result<Response, Refusal> {
    let length = opened.length;
    let part = match wanted.range(&opened) {
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
            tracing::warn!(%error, "cannot seek in a file to send");
            watchkeeper_http::refusal::internal()
        })?;
    }
    let (pieces_tx, pieces) = mpsc::channel(MAX_PIECES_AHEAD);
    tokio::spawn(send_pieces(file.take(count), pieces_tx, timeout, permit));
    let head = [
        (CONTENT_TYPE, HeaderValue::from_static(opened.content_type)),
        (ACCEPT_RANGES, HeaderValue::from_static("bytes")),
        (CONTENT_LENGTH, HeaderValue::from(count)),
    ];
    let mut response = (head, pieces::body(pieces)).into_response();
    if let Some(etag) = opened.etag {
        response.headers_mut().insert(ETAG, etag);
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

/// Sends the pieces of a file; holds the permit meanwhile.
///
/// A client that takes nothing is cut off: its response is shorter than announced.
async fn send_pieces(
    mut file: Take<tokio::fs::File>,
    pieces_tx: mpsc::Sender<Piece>,
    timeout: Duration,
    _permit: OwnedSemaphorePermit,
) {
    loop {
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        let read = (&mut file)
            .take(PIECE_BYTES as u64)
            .read_to_end(&mut piece)
            .await;
        let is_last = !matches!(read, Ok(1..));
        if matches!(read, Ok(0)) {
            return;
        }
        let given = pieces_tx.send_timeout(read.map(|_| piece), timeout).await;
        if let Err(SendTimeoutError::Timeout(_)) = given {
            tracing::info!("a client took nothing of a file in time; transfer stopped");
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

    const LENGTH: usize = 10 * PIECE_BYTES + 7;

    fn opened(folder: &tempfile::TempDir) -> OpenedFile {
        let path = folder.path().join("clip");
        let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(LENGTH).collect();
        std::fs::write(&path, bytes).unwrap();
        OpenedFile {
            file: File::open(path).unwrap(),
            length: LENGTH as u64,
            content_type: "video/mp4",
            etag: None,
        }
    }

    async fn respond_to(permits: &Arc<Semaphore>, timeout: Duration) -> Response {
        let folder = tempfile::tempdir().unwrap();
        let permit = Arc::clone(permits).try_acquire_owned().unwrap();
        let wanted = RangeRequest::default();
        let response = respond_within(timeout, opened(&folder), &wanted, permit);
        response.await.unwrap()
    }

    #[tokio::test]
    async fn client_that_takes_nothing_is_cut_off_and_frees_its_permit() {
        let permits = Arc::new(Semaphore::new(1));
        let response = respond_to(&permits, Duration::from_millis(20)).await;
        drop(permits.acquire().await.unwrap());
        let pieces = response.into_body().into_data_stream();
        let taken: Vec<_> = pieces.map(|piece| piece.unwrap().len()).collect().await;
        assert_eq!(taken, [PIECE_BYTES; MAX_PIECES_AHEAD]);
    }

    #[tokio::test]
    async fn transfer_holds_its_permit_until_the_last_piece() {
        let permits = Arc::new(Semaphore::new(1));
        let response = respond_to(&permits, CLIENT_TIMEOUT).await;
        let mut pieces = response.into_body().into_data_stream();
        let mut taken = Vec::new();
        while let Some(piece) = pieces.next().await {
            taken.extend(piece.unwrap());
            // One piece is in flight beside those that wait.
            if taken.len() + (MAX_PIECES_AHEAD + 1) * PIECE_BYTES < LENGTH {
                assert_eq!(permits.available_permits(), 0);
            }
        }
        assert_eq!(taken.len(), LENGTH);
        assert!(taken.iter().enumerate().all(|(i, byte)| *byte == i as u8));
        drop(permits.acquire().await.unwrap());
    }

    #[tokio::test]
    async fn client_that_is_gone_frees_its_permit() {
        let permits = Arc::new(Semaphore::new(1));
        drop(respond_to(&permits, CLIENT_TIMEOUT).await);
        drop(permits.acquire().await.unwrap());
    }
}
