//! Connections of a listener: accepted, served, ended.
//!
//! - There are never more than [`MAX_CONNECTIONS`].
//! - A connection without a request within [`HEAD`] is closed.
//! - A request's body has the deadlines of [`crate::deadlines`].
//! - When the listener closes, streams end by themselves; other requests get [`DRAIN`] to finish.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::serve::Listener;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{JoinError, JoinSet};

use crate::closed;
use crate::deadlines::{BodyDeadlines, TimedBody};
use crate::rest::HeldBody;

/// Most connections of one listener; further ones wait in the system's queue.
///
/// More than all requests, streams and file transfers at work, and few enough to leave descriptors
/// for cameras and files.
pub const MAX_CONNECTIONS: usize = 256;

/// Timeout for the head of a request. Also the longest pause between two requests of a connection.
pub const HEAD: Duration = Duration::from_secs(30);

/// Time for requests in flight when the server ends.
const DRAIN: Duration = Duration::from_secs(5);

/// Limits of a connection.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    connections: usize,
    head: Duration,
    body: BodyDeadlines,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections: MAX_CONNECTIONS,
            head: HEAD,
            body: BodyDeadlines::default(),
        }
    }
}

/// Serves `app` until `closing` is true. Streams then have to end by themselves; other requests get
/// a few seconds.
///
/// # Errors
/// When the system closes the listener.
pub async fn serve<L: Listener>(
    listener: L,
    app: Router,
    closing: watch::Receiver<bool>,
) -> io::Result<()> {
    serve_within(Bounds::default(), listener, app, closing).await;
    Ok(())
}

async fn serve_within<L: Listener>(
    bounds: Bounds,
    mut listener: L,
    app: Router,
    closing: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(bounds.connections));
    let mut connections = JoinSet::new();
    let mut ending = pin!(closed(closing.clone()));
    loop {
        let accepted = async {
            // The semaphore is never closed.
            let place = Arc::clone(&places).acquire_owned().await.ok();
            (listener.accept().await.0, place)
        };
        tokio::select! {
            () = &mut ending => break,
            Some(ended) = connections.join_next() => log_panic(ended),
            (stream, place) = accepted => {
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

/// Logs a handler that failed; other connections continue.
fn log_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a request handler panicked; please report the log");
    }
}

/// Returns whether the rest of the body may still be coming: it need not have been read, unless it
/// was the body that did not come.
fn is_refusal(status: StatusCode) -> bool {
    (status.is_client_error() || status.is_server_error()) && status != StatusCode::REQUEST_TIMEOUT
}

async fn connection<I>(
    stream: I,
    _place: Option<OwnedSemaphorePermit>,
    bounds: Bounds,
    app: Router,
    closing: watch::Receiver<bool>,
) where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let app = TowerToHyperService::new(app);
    let service = service_fn(move |request: Request<Incoming>| {
        let (head, body) = request.into_parts();
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
        .header_read_timeout(bounds.head);
    let mut served = pin!(http.serve_connection(TokioIo::new(stream), service));
    let outcome = tokio::select! {
        outcome = served.as_mut() => outcome,
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
mod tests {
    use axum::Json;
    use axum::routing::post;
    use serde_json::Value;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::sync::mpsc;
    use tokio::task::JoinHandle;

    use super::*;
    use crate::{Refusal, body};

    /// Hands on the streams that a test sends.
    struct TestListener(mpsc::Receiver<DuplexStream>);

    impl Listener for TestListener {
        type Io = DuplexStream;
        type Addr = ();

        async fn accept(&mut self) -> (DuplexStream, ()) {
            match self.0.recv().await {
                Some(stream) => (stream, ()),
                None => std::future::pending().await,
            }
        }

        fn local_addr(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A server that echoes, with limits of a test.
    struct Bench {
        door: mpsc::Sender<DuplexStream>,
        close: watch::Sender<bool>,
        served: JoinHandle<()>,
    }

    const SHORT: Duration = Duration::from_millis(200);
    const LONG: Duration = Duration::from_secs(600);

    /// Limits that never apply.
    const UNLIMITED: Bounds = Bounds {
        connections: 8,
        head: LONG,
        body: BodyDeadlines {
            idle: LONG,
            whole: LONG,
        },
    };

    impl Bench {
        fn new(bounds: Bounds) -> Self {
            let (door, comes) = mpsc::channel(8);
            let (close, closing) = watch::channel(false);
            let repeat = async |body: body::Body| -> Result<Json<Value>, Refusal> {
                Ok(Json(body::json(body)?))
            };
            let app = Router::new().route("/", post(repeat));
            let served = tokio::spawn(serve_within(bounds, TestListener(comes), app, closing));
            Self {
                door,
                close,
                served,
            }
        }

        async fn connect(&self, sent: &str) -> DuplexStream {
            let (mut client, server) = duplex(1 << 16);
            client.write_all(sent.as_bytes()).await.unwrap();
            self.door.send(server).await.unwrap();
            client
        }
    }

    /// Reads until the server closes.
    async fn rest(mut client: DuplexStream) -> String {
        let mut said = String::new();
        client.read_to_string(&mut said).await.unwrap();
        said
    }

    const WHOLE: &str =
        "POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 4\r\n\r\ntrue";
    const HALF_A_BODY: &str = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\ntr";
    const HALF_A_HEAD: &str = "POST / HTTP/1.1\r\nhost: x\r\ncontent-le";

    #[tokio::test]
    async fn client_that_stops_within_a_body_is_refused_and_closed() {
        let bench = Bench::new(Bounds {
            body: BodyDeadlines {
                idle: SHORT,
                whole: LONG,
            },
            ..UNLIMITED
        });
        let said = rest(bench.connect(HALF_A_BODY).await).await;
        assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
        assert!(said.contains("did not come in time"), "{said}");
    }

    #[tokio::test]
    async fn slow_body_is_refused_at_the_deadline() {
        let bench = Bench::new(Bounds {
            body: BodyDeadlines {
                idle: LONG,
                whole: SHORT,
            },
            ..UNLIMITED
        });
        let said = rest(bench.connect(HALF_A_BODY).await).await;
        assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
    }

    #[tokio::test]
    async fn client_refused_before_its_body_was_read_gets_the_refusal() {
        let bench = Bench::new(UNLIMITED);
        let body = vec![b' '; 1 << 20];
        let head = format!(
            "POST /nowhere HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let mut client = bench.connect(&head).await;
        client.write_all(&body).await.unwrap();
        let said = rest(client).await;
        assert!(said.starts_with("HTTP/1.1 404 "), "{said}");
    }

    #[tokio::test]
    async fn client_with_too_large_body_gets_the_refusal() {
        let bench = Bench::new(UNLIMITED);
        let body = vec![b' '; 8 << 20];
        let head = format!(
            "POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let mut client = bench.connect(&head).await;
        client.write_all(&body).await.unwrap();
        let said = rest(client).await;
        assert!(said.starts_with("HTTP/1.1 413 "), "{said}");
        assert!(said.contains("the body is too large"), "{said}");
    }

    #[tokio::test]
    async fn idle_connection_gives_its_place_to_the_next() {
        let bench = Bench::new(Bounds {
            connections: 2,
            head: SHORT,
            ..UNLIMITED
        });
        let half = bench.connect(HALF_A_HEAD).await;
        let silent = bench.connect("").await;
        let third = bench.connect(WHOLE).await;
        let said = rest(third).await;
        assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
        for gone in [half, silent] {
            assert_eq!(rest(gone).await, "");
        }
    }

    #[tokio::test]
    async fn connection_over_the_limit_waits() {
        let bench = Bench::new(Bounds {
            connections: 1,
            ..UNLIMITED
        });
        let mut first = bench.connect(HALF_A_BODY).await;
        let second = tokio::spawn(rest(bench.connect(WHOLE).await));
        // The server knows both; only the end of the first lets the second in.
        while bench.door.capacity() < bench.door.max_capacity() - 1 {
            tokio::task::yield_now().await;
        }
        assert!(!second.is_finished());
        first.write_all(b"ue").await.unwrap();
        let mut said = [0; 12];
        first.read_exact(&mut said).await.unwrap();
        assert_eq!(&said, b"HTTP/1.1 200");
        drop(first);
        let said = second.await.unwrap();
        assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
    }

    #[tokio::test]
    async fn shutdown_answers_requests_and_closes_idle_connections() {
        let bench = Bench::new(UNLIMITED);
        let mut asking = bench.connect(HALF_A_BODY).await;
        let resting = bench.connect("").await;
        // Accepted before the end begins.
        while bench.door.capacity() < bench.door.max_capacity() {
            tokio::task::yield_now().await;
        }
        bench.close.send_replace(true);
        assert_eq!(rest(resting).await, "");
        asking.write_all(b"ue").await.unwrap();
        let said = rest(asking).await;
        assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
        bench.served.await.unwrap();
    }
}
