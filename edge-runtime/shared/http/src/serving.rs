//! Connections of a listener: accepted, served, ended.
//!
//! - No peer holds all places ([`crate::places`]); one over its limit gets 429.
//! - A connection without a request within [`HEAD`] is closed, and so is one that takes no byte of
//!   an answer for [`WRITE`].
//! - Requests of a connection are answered one after the other; at most [`MAX_BUFFERED`] bytes of
//!   further ones are read ahead.
//! - A request's body has the deadlines of [`crate::deadlines`].
//! - When the listener closes, streams end by themselves; other requests get [`DRAIN`] to finish.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::{CONNECTION, HeaderValue};
use axum::response::IntoResponse as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::process::geteuid;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use crate::closed;
use crate::deadlines::{BodyDeadlines, TimedBody};
use crate::peer::NamesPeers;
use crate::places::{ConnectionPlace, NoPlace, PlaceLimits, Places};
use crate::refusal::full;
use crate::rest::HeldBody;
use crate::write_timeout::TimedWrites;

/// Timeout for the head of a request. Also the longest pause between two requests of a connection.
pub const HEAD: Duration = Duration::from_secs(30);

/// Longest time without progress while an answer is written.
pub const WRITE: Duration = Duration::from_secs(30);

/// Most bytes of requests read ahead, and largest head of a request.
const MAX_BUFFERED: usize = 64 << 10;

/// Time for a connection that gets no place to read why.
const REFUSE: Duration = Duration::from_secs(1);

/// Refusals under way at a time; a connection beyond them is closed without an answer.
const MAX_REFUSING: usize = 16;

/// Pause between two warnings about connections that get no place.
const WARN_INTERVAL: Duration = Duration::from_secs(60);

/// Time for requests in flight when the server ends.
const DRAIN: Duration = Duration::from_secs(5);

/// Whether connections have to show a token before they hold a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// The system admits its users, by the permission of the socket.
    Socket,
    /// The router checks a token, then calls [`ConnectionPlace::prove`].
    Token,
}

/// Limits of connections.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    admission: Admission,
    places: PlaceLimits,
    head: Duration,
    write: Duration,
    body: BodyDeadlines,
}

impl Bounds {
    fn new(admission: Admission) -> Self {
        Self {
            admission,
            places: PlaceLimits::default(),
            head: HEAD,
            write: WRITE,
            body: BodyDeadlines::default(),
        }
    }
}

/// Serves `app` until `closing` is true. Streams then have to end by themselves; other requests get
/// a few seconds. Each request carries its [`ConnectionPlace`] as an extension.
///
/// # Errors
/// When the system closes the listener.
pub async fn serve<L: NamesPeers>(
    listener: L,
    admission: Admission,
    app: Router,
    closing: watch::Receiver<bool>,
) -> io::Result<()> {
    serve_within(Bounds::new(admission), listener, app, closing).await;
    Ok(())
}

async fn serve_within<L: NamesPeers>(
    bounds: Bounds,
    mut listener: L,
    app: Router,
    closing: watch::Receiver<bool>,
) {
    let places = Places::new(bounds.places, geteuid().as_raw());
    let mut connections = JoinSet::new();
    let mut refusing = JoinSet::new();
    let mut ending = pin!(closed(closing.clone()));
    let mut warned: Option<Instant> = None;
    loop {
        let accepted = async {
            places.wait_for_room().await;
            listener.accept().await
        };
        tokio::select! {
            () = &mut ending => break,
            Some(ended) = connections.join_next() => log_panic(ended),
            Some(ended) = refusing.join_next() => log_panic(ended),
            (stream, address) = accepted => {
                let peer = L::peer(&stream, &address);
                let place = match bounds.admission {
                    Admission::Token => ConnectionPlace::unproven(places.take_unproven(), peer),
                    Admission::Socket => match places.take(peer) {
                        Ok(place) => ConnectionPlace::taken(place),
                        Err(reason) => {
                            if warned.is_none_or(|at| at.elapsed() >= WARN_INTERVAL) {
                                warned = Some(Instant::now());
                                tracing::warn!(?peer, %reason, "connections are refused");
                            }
                            if refusing.len() < MAX_REFUSING {
                                refusing.spawn(refuse(stream, reason));
                            }
                            continue;
                        }
                    },
                };
                connections.spawn(connection(stream, place, bounds, app.clone(), closing.clone()));
            }
        }
    }
    // New connections are refused by the system instead of waiting.
    drop(listener);
    let drained = async {
        while let Some(ended) = connections.join_next().await {
            log_panic(ended);
        }
    };
    if tokio::time::timeout(DRAIN, drained).await.is_err() {
        tracing::warn!("requests were aborted at shutdown");
    }
}

/// Answers the first request with 429 and closes the connection.
async fn refuse<I>(stream: I, reason: NoPlace)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |_: Request<Incoming>| {
        let mut answer = full(reason.to_string()).into_response();
        answer
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
        async move { Ok::<_, Infallible>(answer) }
    });
    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    tokio::time::timeout(REFUSE, served).await.ok();
}

/// Logs a handler that failed; other connections continue.
fn log_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a request handler panicked; please report the log");
    }
}

/// Returns whether the rest of the body may still be coming. It need not have been read, unless it
/// was the body that did not come.
fn is_refusal(status: StatusCode) -> bool {
    (status.is_client_error() || status.is_server_error()) && status != StatusCode::REQUEST_TIMEOUT
}

async fn connection<I>(
    stream: I,
    place: ConnectionPlace,
    bounds: Bounds,
    app: Router,
    closing: watch::Receiver<bool>,
) where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let app = TowerToHyperService::new(app);
    let of_request = place.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (mut head, body) = request.into_parts();
        head.extensions.insert(of_request.clone());
        let body = HeldBody::new(TimedBody::new(body, bounds.body));
        let answering = app.call(Request::from_parts(head, body.clone()));
        async move {
            let answer = answering.await?;
            if is_refusal(answer.status()) {
                body.discard().await;
            }
            Ok::<_, Infallible>(answer)
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(bounds.head)
        .max_buf_size(MAX_BUFFERED);
    let stream = TokioIo::new(TimedWrites::new(stream, bounds.write));
    let mut served = pin!(http.serve_connection(stream, service));
    let outcome = tokio::select! {
        outcome = served.as_mut() => outcome,
        () = place.closed() => return,
        () = closed(closing) => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a connection broke");
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests;
