//! Connections: taken, served one by one, and ended.
//!
//! Owns every open connection of a listener. Invariants: there are never more than [`MAX_CONNECTIONS`]; one that asks for nothing within
//! [`HEAD`] is closed; the body of a request is waited for as [`crate::deadlines`] says; when the listener closes, streams have to end by
//! themselves and other requests get [`DRAIN`] to finish.

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

/// Most connections of one listener. The next one waits in the system's queue until one of them ends: more than all who may be at work, follow a stream and
/// be sent a file, and few enough that descriptors are left for cameras and files.
pub const MAX_CONNECTIONS: usize = 256;

/// How long a client may take for the head of a request, from the moment at which it could send one. So it is also how long a connection may rest between
/// two requests: a client opens another one.
pub const HEAD: Duration = Duration::from_secs(30);

/// How long requests in flight may take when the server ends.
const DRAIN: Duration = Duration::from_secs(5);

/// What a client may take of us.
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

/// Serves `app` until `closing` is true. Streams have to end then by themselves; other requests get a few seconds to finish.
///
/// # Errors
/// When the system takes the listener away.
pub async fn serve<L: Listener>(
    listener: L,
    app: Router,
    closing: watch::Receiver<bool>,
) -> io::Result<()> {
    within(Bounds::default(), listener, app, closing).await;
    Ok(())
}

async fn within<L: Listener>(
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
            // Never closed.
            let place = Arc::clone(&places).acquire_owned().await.ok();
            (listener.accept().await.0, place)
        };
        tokio::select! {
            () = &mut ending => break,
            Some(ended) = connections.join_next() => noted(ended),
            (stream, place) = accepted => {
                connections.spawn(connection(stream, place, bounds, app.clone(), closing.clone()));
            }
        }
    }
    // Whoever comes now is refused by the system, not left waiting.
    drop(listener);
    let drained = async {
        while let Some(ended) = connections.join_next().await {
            noted(ended);
        }
    };
    if tokio::time::timeout(DRAIN, drained).await.is_err() {
        tracing::warn!("requests were cut off at the end");
    }
}

/// A fault in a handler ends its connection and no other.
fn noted(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection ended by a fault of ours; report the log");
    }
}

/// Whether what is left of the body may still be on its way: not all of it need have been read, unless it was the body that did not come.
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

    /// Hands on what a test puts in.
    struct Door(mpsc::Receiver<DuplexStream>);

    impl Listener for Door {
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

    /// A server that repeats what it is sent, on which a client needs not be waited for long.
    struct Bench {
        door: mpsc::Sender<DuplexStream>,
        close: watch::Sender<bool>,
        served: JoinHandle<()>,
    }

    const SHORT: Duration = Duration::from_millis(200);
    const LONG: Duration = Duration::from_secs(600);

    /// As long as nothing is to be waited for.
    const PATIENT: Bounds = Bounds {
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
            let served = tokio::spawn(within(bounds, Door(comes), app, closing));
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

    /// All that comes until the server closes.
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
    async fn whoever_stops_in_the_middle_of_a_body_is_refused_and_gone() {
        let bench = Bench::new(Bounds {
            body: BodyDeadlines {
                idle: SHORT,
                whole: LONG,
            },
            ..PATIENT
        });
        let said = rest(bench.connect(HALF_A_BODY).await).await;
        assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
        assert!(said.contains("did not come in time"), "{said}");
    }

    #[tokio::test]
    async fn whoever_sends_drop_by_drop_is_refused_when_all_of_it_should_be_there() {
        let bench = Bench::new(Bounds {
            body: BodyDeadlines {
                idle: LONG,
                whole: SHORT,
            },
            ..PATIENT
        });
        let said = rest(bench.connect(HALF_A_BODY).await).await;
        assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
    }

    #[tokio::test]
    async fn whoever_is_refused_before_the_body_was_read_reads_the_refusal() {
        let bench = Bench::new(PATIENT);
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
    async fn whoever_sends_too_much_sends_it_to_the_end_and_reads_the_refusal() {
        let bench = Bench::new(PATIENT);
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
    async fn a_connection_that_asks_for_nothing_gives_its_place_to_the_next() {
        let bench = Bench::new(Bounds {
            connections: 2,
            head: SHORT,
            ..PATIENT
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
    async fn one_more_than_there_may_be_waits_for_one_to_end() {
        let bench = Bench::new(Bounds {
            connections: 1,
            ..PATIENT
        });
        let mut first = bench.connect(HALF_A_BODY).await;
        let second = tokio::spawn(rest(bench.connect(WHOLE).await));
        // Both are known to the server; nothing but the end of the first lets the second in.
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
    async fn at_the_end_a_request_in_flight_is_answered_and_a_resting_connection_closed() {
        let bench = Bench::new(PATIENT);
        let mut asking = bench.connect(HALF_A_BODY).await;
        let resting = bench.connect("").await;
        // Taken before the end begins.
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
