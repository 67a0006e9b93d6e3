//! Files as responses: whole, or one range of bytes.
//!
//! - A file is sent in pieces ([`pieces`]), so a few are in memory, however long it is.
//! - A file that retention deletes meanwhile is sent to its end: it was opened before the response.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::ops::RangeInclusive;

use axum::extract::FromRequestParts;
use axum::http::header::{ACCEPT_RANGES, CONTENT_RANGE, ETAG, IF_RANGE, RANGE};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use http_range_header::{RangeUnsatisfiableError, parse_range_header};
use tokio::sync::OwnedSemaphorePermit;
use watchkeeper_contract::problem::ProblemCode;
use watchkeeper_http::Refusal;
use watchkeeper_http::pieces;
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
    /// When the range begins after the end of the file.
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
                    "the range begins after the end of the file, which has {} bytes",
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

/// Builds the response and starts the thread that sends the file and holds `permit`.
pub(super) fn respond(
    opened: OpenedFile,
    wanted: &RangeRequest,
    permit: OwnedSemaphorePermit,
) -> Response {
    let length = opened.length;
    let part = match wanted.range(&opened) {
        Ok(part) => part,
        Err(refusal) => {
            let unsatisfied = [(CONTENT_RANGE, format!("bytes */{length}"))];
            return (unsatisfied, refusal).into_response();
        }
    };
    let (first, count) = match &part {
        Some(part) => (*part.start(), part.end() - part.start() + 1),
        None => (0, length),
    };
    let mut file = opened.file;
    let mut response = pieces::respond(opened.content_type, count, permit, move |out| {
        if first > 0 {
            file.seek(SeekFrom::Start(first))?;
        }
        io::copy(&mut file.take(count), out).map(drop)
    });
    let headers = response.headers_mut();
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if let Some(etag) = opened.etag {
        headers.insert(ETAG, etag);
    }
    if let Some(part) = part {
        let range = format!("bytes {}-{}/{length}", part.start(), part.end());
        if let Ok(range) = HeaderValue::try_from(range) {
            headers.insert(CONTENT_RANGE, range);
        }
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    response
}
