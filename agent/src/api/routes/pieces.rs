//! A bundle as the body of a response: written by a blocking thread, sent in pieces.

use std::io::{self, BufWriter, Write};
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::stream;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use watchkeeper_bundle::write::Bundle;

/// Bytes of a piece.
const PIECE_BYTES: usize = 128 << 10;
/// Pieces that wait for the client.
const MAX_PIECES_AHEAD: usize = 2;
/// Time after which a client that takes nothing ends the response.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(60);

type Piece = io::Result<Bytes>;

/// Builds the response and starts the thread that writes it.
pub(super) fn send(bundle: Bundle) -> Response {
    let (pieces, received) = mpsc::channel::<Piece>(MAX_PIECES_AHEAD);
    let length = bundle.length();
    let out = Pieces {
        pieces: pieces.clone(),
        handle: Handle::current(),
    };
    tokio::task::spawn_blocking(move || {
        let mut out = BufWriter::with_capacity(PIECE_BYTES, out);
        let written = bundle.write(&mut out).and_then(|()| out.flush());
        if let Err(error) = written {
            tracing::info!(%error, "api: a bundle was not sent to its end");
            // The response becomes shorter than announced, also if this is not taken.
            pieces.try_send(Err(error)).ok();
        }
    });
    let body = stream::unfold(received, |mut received| async move {
        let piece = received.recv().await?;
        Some((piece, received))
    });
    let head = [
        (CONTENT_TYPE, HeaderValue::from_static("application/x-tar")),
        (CONTENT_LENGTH, HeaderValue::from(length)),
    ];
    (head, Body::from_stream(body)).into_response()
}

/// The pieces of a response, as a stream of a blocking thread.
struct Pieces {
    pieces: mpsc::Sender<Piece>,
    handle: Handle,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = Ok(Bytes::copy_from_slice(bytes));
        let sent = self.pieces.send_timeout(piece, CLIENT_TIMEOUT);
        let sent = self.handle.block_on(sent);
        sent.map_err(|_| io::Error::other("the client is gone or takes nothing"))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
