//! Requests over sockets: limits, timeouts, closing.

use axum::routing::{get, post};
use axum::serve::Listener;
use axum::{Extension, Json};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::*;
use crate::peer::Peer;
use crate::{Refusal, body};

/// Hands on the streams that a test sends.
struct TestListener(mpsc::Receiver<DuplexStream>);

impl NamesPeers for TestListener {
    fn peer(_: &DuplexStream, (): &()) -> Peer {
        Peer::Process {
            uid: 0,
            pid: Some(1),
        }
    }
}

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
    admission: Admission::Socket,
    places: PlaceLimits {
        all: 8,
        reserved: 0,
        user: 8,
        process: 8,
        unproven: 2,
    },
    head: LONG,
    write: LONG,
    body: BodyDeadlines {
        idle: LONG,
        whole: LONG,
    },
};

/// Places of one process among `all`.
fn places(all: usize, process: usize) -> PlaceLimits {
    PlaceLimits {
        all,
        process,
        ..UNLIMITED.places
    }
}

impl Bench {
    fn new(bounds: Bounds) -> Self {
        let (door, comes) = mpsc::channel(8);
        let (close, closing) = watch::channel(false);
        let repeat = async |body: body::Body| -> Result<Json<Value>, Refusal> {
            Ok(Json(body::json(body)?))
        };
        let prove = async |Extension(place): Extension<ConnectionPlace>| {
            place
                .prove()
                .then_some("proven")
                .ok_or(StatusCode::SERVICE_UNAVAILABLE)
        };
        let large = async || "x".repeat(1 << 20);
        let app = Router::new()
            .route("/", post(repeat))
            .route("/large", get(large))
            .route("/prove", get(prove));
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
        places: places(2, 2),
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
        places: places(1, 8),
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

const LARGE: &str = "GET /large HTTP/1.1\r\nhost: x\r\n\r\n";
const PROVE: &str = "GET /prove HTTP/1.1\r\nhost: x\r\n\r\n";

#[tokio::test]
async fn clients_that_pipeline_and_never_read_lose_their_places() {
    let bench = Bench::new(Bounds {
        places: places(2, 2),
        write: SHORT,
        ..UNLIMITED
    });
    let pipelined = LARGE.repeat(50);
    let held = [
        bench.connect(&pipelined).await,
        bench.connect(&pipelined).await,
    ];
    let said = rest(bench.connect(WHOLE).await).await;
    assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
    drop(held);
}

#[tokio::test]
async fn process_at_its_limit_is_refused_with_the_reason() {
    let bench = Bench::new(Bounds {
        places: places(8, 1),
        ..UNLIMITED
    });
    let _first = bench.connect(HALF_A_BODY).await;
    let said = rest(bench.connect(WHOLE).await).await;
    assert!(said.starts_with("HTTP/1.1 429 "), "{said}");
    assert!(
        said.contains("this process has 1 connections open"),
        "{said}"
    );
}

#[tokio::test]
async fn connections_without_a_token_never_keep_out_one_with_it() {
    let bench = Bench::new(Bounds {
        admission: Admission::Token,
        ..UNLIMITED
    });
    let mut proven = bench.connect(PROVE).await;
    let mut said = [0; 12];
    proven.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"HTTP/1.1 200");
    let mut without = Vec::new();
    for _ in 0..5 {
        without.push(bench.connect(HALF_A_HEAD).await);
    }
    // Two remain; the newer ones took the places of the older.
    for closed in without.drain(..3) {
        assert_eq!(rest(closed).await, "");
    }
    proven.write_all(WHOLE.as_bytes()).await.unwrap();
    let said = rest(proven).await;
    assert!(
        said.contains("HTTP/1.1 200 ") && said.ends_with("true"),
        "{said}"
    );
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
