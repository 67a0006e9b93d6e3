//! Long answers in pieces: their body, and a blocking thread that writes one.
//!
//! - At most [`MAX_PIECES_AHEAD`] + 2 pieces of [`PIECE_BYTES`] are in memory, however long the
//!   answer is.
//! - The permit of an answer is held until its last piece waits for the client or the client is
//!   gone. It ends too when the client has taken nothing for [`CLIENT_TIMEOUT`].

use std::io::{self, BufWriter, Write};
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

const PIECE_BYTES: usize = 64 * 1024;

/// Max pieces that wait for a client.
const MAX_PIECES_AHEAD: usize = 2;

/// Longest time in which a client may take nothing. A paused player requests the rest as a range.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(60);

/// A piece, or the error that ends the answer early.
type Piece = io::Result<Vec<u8>>;

/// The body of an answer whose pieces come from `pieces`.
fn body(pieces: mpsc::Receiver<Piece>) -> Body {
    Body::from_stream(stream::unfold(pieces, |mut pieces| async move {
        let piece = pieces.recv().await?;
        Some((piece, pieces))
    }))
}

/// Makes an answer of `length` bytes and starts the thread that writes it and holds `permit`. Where
/// `write` fails, the answer is shorter than announced.
pub fn respond(
    content_type: &'static str,
    length: u64,
    permit: OwnedSemaphorePermit,
    write: impl FnOnce(&mut BufWriter<Pieces>) -> io::Result<()> + Send + 'static,
) -> Response {
    respond_within(CLIENT_TIMEOUT, content_type, length, permit, write)
}

fn respond_within(
    timeout: Duration,
    content_type: &'static str,
    length: u64,
    permit: OwnedSemaphorePermit,
    write: impl FnOnce(&mut BufWriter<Pieces>) -> io::Result<()> + Send + 'static,
) -> Response {
    let (pieces, received) = mpsc::channel(MAX_PIECES_AHEAD);
    let out = Pieces {
        pieces: pieces.clone(),
        handle: Handle::current(),
        timeout,
    };
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let mut out = BufWriter::with_capacity(PIECE_BYTES, out);
        if let Err(error) = write(&mut out).and_then(|()| out.flush()) {
            log_unsent(&error);
            // The answer is shorter than announced, also if this is not taken.
            pieces.try_send(Err(error)).ok();
        }
        // The rest of a failed answer is not sent.
        drop(out.into_parts());
    });
    let head = [
        (CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (CONTENT_LENGTH, HeaderValue::from(length)),
    ];
    (head, body(received)).into_response()
}

/// Logs why an answer was not sent to its end: its client, or what it was read from.
fn log_unsent(error: &io::Error) {
    match error.kind() {
        io::ErrorKind::BrokenPipe => tracing::debug!("the client of an answer is gone"),
        io::ErrorKind::TimedOut => {
            tracing::info!("an answer was not sent to its end: the client takes nothing");
        }
        _ => tracing::warn!(%error, "an answer was not sent to its end: it can't be read"),
    }
}

/// The pieces of an answer, as a stream of a blocking thread. A write fails with
/// [`BrokenPipe`](io::ErrorKind::BrokenPipe) where the client is gone, and with
/// [`TimedOut`](io::ErrorKind::TimedOut) where it takes nothing.
#[derive(Debug)]
pub struct Pieces {
    pieces: mpsc::Sender<Piece>,
    handle: Handle,
    timeout: Duration,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let part = bytes.get(..PIECE_BYTES).unwrap_or(bytes);
        let sent = self.pieces.send_timeout(Ok(part.to_vec()), self.timeout);
        let sent = self.handle.block_on(sent);
        sent.map_err(|unsent| match unsent {
            SendTimeoutError::Closed(_) => io::ErrorKind::BrokenPipe,
            SendTimeoutError::Timeout(_) => io::ErrorKind::TimedOut,
        })?;
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use std::sync::Arc;

    use futures_util::StreamExt as _;
    use tokio::sync::Semaphore;

    use super::*;

    const LENGTH: usize = 10 * PIECE_BYTES + 7;

    fn answer(permits: &Arc<Semaphore>, timeout: Duration) -> Response {
        let permit = Arc::clone(permits).try_acquire_owned().unwrap();
        let write = |out: &mut BufWriter<Pieces>| out.write_all(&[7; LENGTH]);
        respond_within(timeout, "text/plain", LENGTH as u64, permit, write)
    }

    async fn taken(response: Response) -> (usize, bool) {
        let (mut bytes, mut is_whole) = (0, true);
        let mut pieces = response.into_body().into_data_stream();
        while let Some(piece) = pieces.next().await {
            match piece {
                Ok(piece) => {
                    assert!(piece.len() <= PIECE_BYTES);
                    bytes += piece.len();
                }
                Err(_) => is_whole = false,
            }
        }
        (bytes, is_whole)
    }

    #[tokio::test]
    async fn answer_is_whole_and_holds_its_permit_until_then() {
        let permits = Arc::new(Semaphore::new(1));
        let response = answer(&permits, CLIENT_TIMEOUT);
        assert_eq!(permits.available_permits(), 0);
        assert_eq!(taken(response).await, (LENGTH, true));
        drop(permits.acquire().await.unwrap());
    }

    #[tokio::test]
    async fn client_that_takes_nothing_or_is_gone_frees_the_permit() {
        let permits = Arc::new(Semaphore::new(1));
        let response = answer(&permits, Duration::from_millis(20));
        drop(permits.acquire().await.unwrap());
        let (bytes, _) = taken(response).await;
        assert!(bytes < LENGTH, "{bytes}");
        drop(answer(&permits, CLIENT_TIMEOUT));
        drop(permits.acquire().await.unwrap());
    }

    #[tokio::test]
    async fn client_that_is_gone_differs_from_one_that_takes_nothing() {
        let (sender, received) = mpsc::channel(1);
        let mut out = Pieces {
            pieces: sender,
            handle: Handle::current(),
            timeout: Duration::from_millis(20),
        };
        let write = move || {
            out.write_all(b"taken").unwrap();
            let stalled = out.write_all(b"not taken").unwrap_err().kind();
            drop(received);
            (stalled, out.write_all(b"gone").unwrap_err().kind())
        };
        let kinds = tokio::task::spawn_blocking(write).await.unwrap();
        assert_eq!(kinds, (io::ErrorKind::TimedOut, io::ErrorKind::BrokenPipe));
    }
}
