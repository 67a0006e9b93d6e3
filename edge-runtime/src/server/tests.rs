//! Tests of the API over a real Unix socket, on a runtime whose journal is in memory.
#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

mod files;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use axum::response::IntoResponse as _;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use watchkeeper_board::identity::Identity;
use watchkeeper_board::reading::{Board, Reading};
use watchkeeper_config::bounded;
use watchkeeper_contract::coverage::{CoverageSpan, SpanEnd, Watched};
use watchkeeper_contract::effect::{Effect, HttpBody, HttpCall, HttpMethod};
use watchkeeper_contract::event::{Decision, EVENT_SCHEMA, Event, EventBody, Phase, Verdict};
use watchkeeper_contract::id::{EventId, EventSeq, PipelineId, SourceId};
use watchkeeper_contract::problem::{Problem, ProblemCode};
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_contract::workflow::DryRunReport;

use super::catalogue::run_for_client;
use super::limits::MAX_STATUS_CALLS;
use super::*;
use crate::board::BoardSampler;
use crate::board::tests::reading;
use crate::coverage::SigningKey;
use crate::pipeline::manager::tests::{config, manager, watching};

/// First bytes of a JPEG file.
const JPEG: &[u8] = &[0xff, 0xd8];

const NOW: Wall = Wall {
    unix_ms: 1_700_000_000_000,
    quality: TimeQuality::Synced,
};

/// A board that is 40 °C warm and takes 5 W.
struct ConstantBoard(Identity, Reading);

impl Board for ConstantBoard {
    fn identity(&self) -> &Identity {
        &self.0
    }

    fn sample(&mut self, now: Duration) -> &Reading {
        self.1.at = now;
        &self.1
    }
}

/// A server on a runtime whose journal is in memory, and a client that speaks plain HTTP/1.1.
struct Bench {
    folder: tempfile::TempDir,
    app: App,
    stop: Option<oneshot::Sender<()>>,
    served: tokio::task::JoinHandle<std::io::Result<()>>,
}

struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&self.body)))
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// Parses the refusal; every status from 400 on has one.
    fn problem(&self) -> Problem {
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json")
        );
        let problem: Problem = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(problem.status, self.status);
        problem
    }
}

impl Bench {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let manager = Arc::new(manager(folder.path()));
        let parts = manager.parts();
        let board = || ConstantBoard(Identity::default(), reading());
        let board = BoardSampler::spawn(board, parts.recorder.clone(), parts.boot.clone());
        let api = Api::new(
            Arc::clone(&manager),
            Arc::new(board.unwrap()),
            SigningKey::of(folder.path()),
            &config(folder.path()),
        );
        let (stop, stopped) = oneshot::channel();
        let server = Server::bind(&folder.path().join("runtime.sock"), 0o660).unwrap();
        let (close, closing) = watch::channel(false);
        let app = App::new(Arc::new(api), closing);
        let served = tokio::spawn(serve(server, app.clone(), close, async move {
            drop(stopped.await);
        }));
        Self {
            folder,
            app,
            stop: Some(stop),
            served,
        }
    }

    async fn add_source(&self) {
        let put = self
            .ask("PUT", "/v1/sources/gate", r#"{"uri": "demo:"}"#)
            .await;
        assert_eq!(put.status, 200);
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("runtime.sock")
    }

    fn connect(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> UnixStream {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: runtime\r\nconnection: close\r\n\
             content-length: {}\r\n{headers}\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        // A server that refuses a large body may close before it has read all of it.
        drop(stream.write_all(body));
        stream
    }

    async fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        self.ask_with(method, path, "", body).await
    }

    async fn ask_with(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let mut stream = self.connect(method, path, headers, body.as_bytes());
        tokio::task::spawn_blocking(move || {
            let mut bytes = Vec::new();
            drop(stream.read_to_end(&mut bytes));
            let at = bytes.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
            let head = String::from_utf8(bytes[..at].to_vec()).unwrap();
            let mut body = bytes[at + 4..].to_vec();
            if head.to_lowercase().contains("transfer-encoding: chunked") {
                body = unchunk(&body);
            }
            Answer {
                status: head[9..12].parse().unwrap(),
                head,
                body,
            }
        })
        .await
        .unwrap()
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "").await
    }

    async fn append(&self, n: usize) {
        let api = Arc::clone(&self.app.api);
        tokio::task::spawn_blocking(move || {
            let events = (0..n).map(|_| event()).collect();
            api.journal().append(events).unwrap();
        })
        .await
        .unwrap();
    }

    /// Follows the stream until `n` events came, then hangs up; returns their ids.
    async fn follow(&self, path: &str, headers: &str, n: usize) -> Vec<u64> {
        let stream = self.connect("GET", path, headers, b"");
        tokio::task::spawn_blocking(move || {
            let mut ids = Vec::new();
            let mut lines = BufReader::new(stream).lines();
            while ids.len() < n {
                let line = lines.next().expect("the stream goes on").unwrap();
                if let Some(id) = line.strip_prefix("id: ") {
                    ids.push(id.parse().unwrap());
                } else if let Some(data) = line.strip_prefix("data: ") {
                    let event: Event = serde_json::from_str(data).unwrap();
                    assert!(event.seq.0 > 0 && event.hash.len() == 64);
                }
            }
            ids
        })
        .await
        .unwrap()
    }
}

fn unchunk(mut body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(at) = body.windows(2).position(|w| w == b"\r\n") {
        let len = usize::from_str_radix(std::str::from_utf8(&body[..at]).unwrap(), 16).unwrap();
        out.extend_from_slice(&body[at + 2..at + 2 + len]);
        body = &body[at + 4 + len..];
    }
    out
}

fn event() -> Event {
    Event {
        schema: EVENT_SCHEMA,
        id: EventId::generate(),
        seq: EventSeq(0),
        boot_id: "b".to_owned(),
        mono_ms: 0,
        at: NOW,
        phase: Phase::New,
        source: None,
        pipeline: None,
        severity: Severity::Info,
        body: EventBody::Loss {
            from: "t".to_owned(),
            count: 1,
            message: "m".to_owned(),
            chain: None,
        },
        decision: Decision {
            verdict: Verdict::Record,
            confidence: 1.0,
            raw_confidence: None,
            reason: "r".to_owned(),
            asks: None,
        },
        evidence: Vec::new(),
        media: Vec::new(),
        definition: None,
        assessment: None,
        clip: None,
        hash: String::new(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn source_is_added_listed_saved_and_removed() {
    let bench = Bench::start();
    let put = bench
        .ask("PUT", "/v1/sources/gate", r#"{"uri": "demo:"}"#)
        .await;
    assert_eq!(put.status, 200);
    assert_eq!(put.json()["spec"]["id"], "gate");
    assert_eq!(
        bench
            .get("/v1/sources")
            .await
            .json()
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(bench.get("/v1/sources/gate").await.json(), put.json());
    let frame = bench.get("/v1/sources/gate/frame.jpg").await;
    assert!(frame.body.starts_with(JPEG), "{}", frame.head);
    assert_eq!(frame.header("content-type"), Some("image/jpeg"));

    let media = bench.ask("POST", "/v1/sources/gate/snapshot", "").await;
    assert_eq!(media.status, 201);
    let id = media.json()["id"].as_str().unwrap().to_owned();
    let stored = bench.get(&format!("/v1/media/{id}")).await;
    assert!(stored.body.starts_with(JPEG), "{}", stored.head);

    assert_eq!(
        bench.ask("DELETE", "/v1/sources/gate", "").await.status,
        204
    );
    assert_eq!(
        bench.get("/v1/sources/gate").await.problem().code,
        ProblemCode::NotFound
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipeline_is_created_paused_resumed_and_deleted() {
    let bench = Bench::start();
    bench.add_source().await;
    let spec = json!(watching("motion")).to_string();
    assert_eq!(bench.ask("POST", "/v1/pipelines", &spec).await.status, 201);
    let again = bench.ask("POST", "/v1/pipelines", &spec).await;
    assert_eq!(again.problem().code, ProblemCode::Conflict);
    let put = bench.ask("PUT", "/v1/pipelines/watch", &spec).await;
    assert_eq!(put.status, 200);
    let paused = bench.ask("POST", "/v1/pipelines/watch/pause", "").await;
    assert_eq!(paused.json()["state"]["state"], "paused");
    let until = r#"{"until": "2126-03-29T08:00:00+02:00"}"#;
    let paused = bench.ask("POST", "/v1/pipelines/watch/pause", until).await;
    assert_eq!(paused.json()["paused_until"], "2126-03-29T06:00:00Z");
    for wrong in [r#"{"until": "at eight"}"#, r#"{"unti": 1}"#, "until eight"] {
        let refused = bench.ask("POST", "/v1/pipelines/watch/pause", wrong).await;
        assert!((400..500).contains(&refused.status), "{wrong}");
    }
    let resumed = bench.ask("POST", "/v1/pipelines/watch/resume", "").await;
    assert_ne!(resumed.json()["state"]["state"], "paused");
    assert_eq!(resumed.json()["paused_until"], Value::Null);
    let results = bench.get("/v1/pipelines/watch/results").await;
    assert!(results.json()["frames"].is_u64());
    let nonsense = bench.get("/v1/pipelines/watch/recording?part=two").await;
    assert_eq!(nonsense.status, 400);
    assert_eq!(
        bench.ask("DELETE", "/v1/pipelines/watch", "").await.status,
        204
    );
    assert_eq!(bench.get("/v1/pipelines").await.json(), json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_refusal_is_a_problem_that_says_where() {
    let bench = Bench::start();
    let large = format!(r#"{{"uri": "{}"}}"#, "x".repeat(MAX_BODY));
    let cases = [
        ("GET", "/v1/nothing", "", 404, None),
        ("GET", "/", "", 404, None),
        ("PATCH", "/v1/sources", "", 405, None),
        ("PUT", "/v1/sources/gate", "", 400, None),
        ("PUT", "/v1/sources/gate", "{not json", 400, None),
        ("PUT", "/v1/sources/gate", "{}", 400, Some("uri")),
        (
            "PUT",
            "/v1/sources/gate",
            r#"{"uri": "demo:", "max_fps": "ten"}"#,
            400,
            Some("max_fps"),
        ),
        (
            "PUT",
            "/v1/sources/gate",
            r#"{"id": "yard", "uri": "demo:"}"#,
            400,
            Some("id"),
        ),
        ("PUT", "/v1/sources/gate", large.as_str(), 413, None),
        ("GET", "/v1/sources/Not%20A%20Name", "", 400, Some("id")),
        ("GET", "/v1/events?after=soon", "", 400, Some("after")),
        ("GET", "/v1/events?after=99", "", 409, Some("after")),
        ("GET", "/v1/events/stream?after=99", "", 409, Some("after")),
        ("GET", "/v1/media/..%2F..%2Fjournal", "", 404, None),
        ("GET", "/v1/blocks/none", "", 404, None),
    ];
    for (method, path, body, status, field) in cases {
        let answer = bench.ask(method, path, body).await;
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.head);
        let problem = answer.problem();
        assert_eq!(
            problem.field.as_deref(),
            field,
            "{method} {path}: {problem:?}"
        );
        assert!(!problem.detail.is_empty());
    }
    let wrong = bench.ask("PATCH", "/v1/sources", "").await;
    assert!(
        wrong
            .header("allow")
            .is_some_and(|allow| allow.contains("GET")),
        "{}",
        wrong.head
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn panic_refuses_one_request() {
    let bench = Bench::start();
    let refused = bench.app.call(|_| -> u8 { panic!("a bug") }).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.into_response().status(), 500);
    assert_eq!(bench.get("/v1/health").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn event_pages_are_contiguous_and_have_head_headers() {
    let bench = Bench::start();
    bench.append(5).await;
    let page = bench.get("/v1/events?after=1&limit=3").await;
    let seqs: Vec<_> = page
        .json()
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, [2, 3, 4]);
    assert_eq!(page.header("watchkeeper-first-seq"), Some("1"));
    assert_eq!(page.header("watchkeeper-last-seq"), Some("5"));
    let typed: Vec<Event> = serde_json::from_slice(&page.body).unwrap();
    assert_eq!(typed.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_stream_resumes_without_gap_or_duplicate() {
    let bench = Bench::start();
    bench.append(100).await;
    let mut seen = bench.follow("/v1/events/stream?after=0", "", 70).await;
    let resume = format!("last-event-id: {}\r\n", seen.last().unwrap());
    // More events come without a follower, and again while the client is back.
    bench.append(10).await;
    let (more, ()) = tokio::join!(
        bench.follow("/v1/events/stream?after=0", &resume, 60),
        async {
            for _ in 0..20 {
                bench.append(1).await;
            }
        }
    );
    seen.extend(more);
    assert_eq!(seen, (1..=130).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn follower_beyond_the_limit_is_refused_until_one_leaves() {
    let bench = Bench::start();
    bench.append(1).await;
    let mut held = Vec::new();
    for _ in 0..MAX_FOLLOWERS {
        let mut stream = bench.connect("GET", "/v1/events/stream", "", b"");
        let mut first = [0; 12];
        stream.read_exact(&mut first).unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        held.push(stream);
    }
    assert_eq!(
        bench.get("/v1/events/stream").await.problem().code,
        ProblemCode::Limit
    );
    drop(held.pop());
    // The server notices the closed connection at its next write or read.
    loop {
        bench.append(1).await;
        let mut stream = bench.connect("GET", "/v1/events/stream", "", b"");
        let mut first = [0; 12];
        stream.read_exact(&mut first).unwrap();
        if &first == b"HTTP/1.1 200" {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_ends_streams_and_removes_the_socket() {
    let mut bench = Bench::start();
    bench.append(1).await;
    let mut stream = bench.connect("GET", "/v1/events/stream", "", b"");
    let mut first = [0; 12];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");

    bench.stop.take().unwrap().send(()).unwrap();
    let rest = tokio::task::spawn_blocking(move || {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        rest
    })
    .await
    .unwrap();
    assert!(
        rest.ends_with(b"0\r\n\r\n"),
        "a regular end, not a broken connection"
    );
    (&mut bench.served).await.unwrap().unwrap();
    assert!(!bench.socket().exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn socket_is_private_and_kept_by_a_running_server() {
    let bench = Bench::start();
    let mode = std::fs::metadata(bench.socket())
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o660);
    assert!(matches!(
        Server::bind(&bench.socket(), 0o660),
        Err(SocketError::InUse { .. })
    ));
    assert_eq!(bench.get("/v1/health").await.status, 200);
}

#[tokio::test]
async fn stale_socket_is_replaced_but_another_file_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sock");
    // Bound and dropped without removing the file, as after a kill.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    drop(Server::bind(&path, 0o660).unwrap());

    std::fs::write(&path, "precious").unwrap();
    assert!(matches!(
        Server::bind(&path, 0o660),
        Err(SocketError::NotASocket { .. })
    ));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");

    let long = dir.path().join("x".repeat(120));
    assert!(matches!(
        Server::bind(&long, 0o660),
        Err(SocketError::TooLong { .. })
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn block_is_found_by_both_spellings_of_its_type() {
    let bench = Bench::start();
    for path in [
        "/v1/blocks/roboflow_core%2Fbyte_tracker@v3",
        "/v1/blocks/roboflow_core/byte_tracker@v3",
    ] {
        assert_eq!(
            bench.get(path).await.json()["type"],
            "roboflow_core/byte_tracker@v3"
        );
    }
    assert_eq!(bench.get("/v1/models").await.json()[0]["name"], "motion");
    let validated = bench.ask("POST", "/v1/workflows/validate", "{}").await;
    assert_eq!(validated.json()["ok"], false);
    let metrics = bench.get("/v1/metrics").await;
    assert!(String::from_utf8_lossy(&metrics.body).contains("watchkeeper_journal_last_seq 0"));
    let board = loop {
        let board = bench.get("/v1/board").await.json();
        if board["temperatures"][0].is_object() {
            break board;
        }
    };
    assert_eq!(board["temperatures"][0]["celsius"], 40.0);
    assert_eq!(board["power"]["watts"], 5.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
async fn curl_speaks_to_the_socket() {
    let bench = Bench::start();
    let socket = bench.socket();
    let curl = tokio::task::spawn_blocking(move || {
        std::process::Command::new("curl")
            .args(["--silent", "--fail", "--max-time", "20", "--unix-socket"])
            .arg(socket)
            .args([
                "-X",
                "PUT",
                "-d",
                r#"{"uri":"demo:"}"#,
                "http://localhost/v1/sources/gate",
            ])
            .output()
    })
    .await
    .unwrap();
    let Ok(curl) = curl else {
        eprintln!("SKIPPED: curl_speaks_to_the_socket (no curl here)");
        return;
    };
    assert!(curl.status.success());
    let status: Value = serde_json::from_slice(&curl.stdout).unwrap();
    assert_eq!(status["spec"]["uri"], "demo:");
}

#[test]
fn every_route_is_described_and_every_reference_leads_somewhere() {
    let document = document();
    let described: std::collections::BTreeSet<String> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, item)| {
            item.as_object()
                .unwrap()
                .keys()
                .map(move |method| format!("{method} {path}"))
        })
        .collect();
    let expected = [
        "get /v1/sources",
        "get /v1/sources/{id}",
        "put /v1/sources/{id}",
        "delete /v1/sources/{id}",
        "get /v1/sources/{id}/frame.jpg",
        "post /v1/sources/{id}/snapshot",
        "get /v1/pipelines",
        "post /v1/pipelines",
        "get /v1/pipelines/{id}",
        "put /v1/pipelines/{id}",
        "delete /v1/pipelines/{id}",
        "post /v1/pipelines/{id}/pause",
        "post /v1/pipelines/{id}/resume",
        "get /v1/pipelines/{id}/results",
        "get /v1/pipelines/{id}/recording",
        "get /v1/pipelines/{id}/frame.jpg",
        "get /v1/events",
        "get /v1/events/stream",
        "get /v1/events/verify",
        "get /v1/events/{seq}/bundle",
        "post /v1/evidence/jobs",
        "get /v1/evidence/key",
        "get /v1/coverage",
        "get /v1/coverage/statement",
        "get /v1/reviews",
        "get /v1/pipelines/{id}/answers",
        "post /v1/events/{seq}/assessments",
        "get /v1/effects",
        "get /v1/effects/{number}",
        "post /v1/effects/{number}/outcome",
        "get /v1/media/{id}",
        "post /v1/workflows/validate",
        "post /v1/workflows/run",
        "post /v1/workflows/dry-run",
        "post /v1/workflows/backtest",
        "get /v1/blocks",
        "get /v1/blocks/{type}",
        "get /v1/blocks/{type}/{name}",
        "get /v1/models",
        "get /v1/backends",
        "get /v1/health",
        "get /v1/board",
        "get /v1/metrics",
        "get /v1/openapi.json",
    ];
    let expected: std::collections::BTreeSet<String> = expected.map(str::to_owned).into();
    assert_eq!(described, expected);

    let text = document.to_string();
    for reference in text.split("\"$ref\":\"#").skip(1) {
        let pointer = reference.split('"').next().unwrap();
        assert!(
            document.pointer(pointer).is_some(),
            "{pointer} leads nowhere"
        );
    }
    // The description can be parsed by its own library.
    let _: utoipa::openapi::OpenApi = serde_json::from_value(document.clone()).unwrap();
    for operation in document["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|p| p.as_object().unwrap().values())
    {
        assert!(operation["responses"]["default"].is_object());
        assert!(
            operation["summary"].is_string() || operation["description"].is_string(),
            "{operation}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_beyond_the_limit_are_refused_after_clients_left_too() {
    let bench = Bench::start();
    // Each client asks and hangs up; the call continues until its gate opens.
    let mut gates = Vec::new();
    for _ in 0..MAX_CALLS {
        let app = bench.app.clone();
        let (began, has_begun) = std::sync::mpsc::channel();
        let (gate, closed) = std::sync::mpsc::channel::<()>();
        let client = tokio::spawn(async move {
            let call = move |_: &Api| {
                began.send(()).unwrap();
                closed.recv().ok();
            };
            app.call(call).await.is_ok()
        });
        has_begun.recv().unwrap();
        client.abort();
        gates.push(gate);
    }
    let refused = bench.get("/v1/sources").await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.problem().code, ProblemCode::Limit);
    for how_it_is in ["/v1/health", "/v1/metrics"] {
        let answer = bench.get(how_it_is).await;
        assert_eq!(answer.status, 200, "a busy runtime is not a dead one");
    }
    drop(gates);
    while bench.get("/v1/sources").await.status != 200 {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_does_not_wait_for_metrics_that_wait_for_a_disk() {
    let bench = Bench::start();
    let reading = Arc::clone(&bench.app.metrics_calls).acquire_owned().await;
    let scrapes = 0..=2 * MAX_STATUS_CALLS;
    let _waiting: Vec<_> = scrapes
        .map(|_| bench.connect("GET", "/v1/metrics", "", b""))
        .collect();
    for _ in 0..100 {
        assert_eq!(bench.get("/v1/health").await.status, 200);
    }
    drop(reading);
    assert_eq!(bench.get("/v1/metrics").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn coverage_of_an_unknown_source_is_refused() {
    let bench = Bench::start();
    for route in ["coverage", "coverage/statement"] {
        let problem = bench
            .get(&format!("/v1/{route}?source=nope"))
            .await
            .problem();
        let named = (problem.field.as_deref(), problem.value.as_deref());
        assert_eq!(
            (problem.status, named),
            (404, (Some("source"), Some("nope")))
        );
        assert_eq!(bench.get(&format!("/v1/{route}")).await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn coverage_is_reported_for_a_source_that_is_or_was_watched() {
    let bench = Bench::start();
    let statuses = async |query: &str| {
        let mut statuses = Vec::new();
        for route in ["coverage", "coverage/statement"] {
            let path = format!("/v1/{route}?source={query}");
            statuses.push(bench.get(&path).await.status);
        }
        statuses
    };
    let new = r#"{"id": "new", "uri": "rtsp://10.0.0.20/stream"}"#;
    let status = bench.ask("PUT", "/v1/sources/new", new).await.status;
    assert_eq!(status, 200);
    assert_eq!(statuses("new").await, [200, 200], "never watched");

    let span = CoverageSpan {
        from: NOW,
        to: NOW,
        frames: 1,
        end: SpanEnd::Paused,
        watch: Watched {
            source: SourceId::new("removed").unwrap(),
            pipeline: PipelineId::new("p").unwrap(),
            renames_classes: false,
            rules: Vec::new(),
        },
    };
    let stored = bench.app.api.journal().coverage();
    stored.append(std::slice::from_ref(&span)).unwrap();
    assert_eq!(statuses("removed").await, [200, 200]);
    let earlier = "removed&to_ms=1000";
    assert_eq!(statuses(earlier).await, [200, 200], "not watched yet");
    assert_eq!(statuses("nope").await, [404, 404]);

    // As many as are kept, so that the first one is deleted.
    stored.append(&vec![span; 10_000]).unwrap();
    assert_eq!(statuses("nope").await, [200, 200], "its spans are deleted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_definition_route_accepts_the_max_definition_body() {
    let bench = Bench::start();
    let definition = |bytes: usize| json!({"version": "1.0", "note": "A".repeat(bytes)});
    let all = bounded::MAX_BYTES as usize;
    let at = [
        ("POST", "/v1/workflows/validate"),
        ("POST", "/v1/workflows/dry-run"),
        ("POST", "/v1/pipelines"),
        ("PUT", "/v1/pipelines/watch"),
    ];
    for (method, path) in at {
        let send = async |bytes: usize| {
            let workflow = definition(bytes);
            let body = match path {
                "/v1/workflows/validate" => workflow,
                _ => json!({"id": "watch", "source": "gate", "workflow": workflow}),
            };
            bench.ask(method, path, &body.to_string()).await.status
        };
        assert_ne!(send(all).await, 413, "{path}");
        assert_eq!(send(2 * all).await, 413, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_pictures_are_accepted_one_request_at_a_time() {
    let bench = Bench::start();
    let picture = "A".repeat(2 * MAX_BODY);
    let body = json!({"workflow": {}, "images": [picture]}).to_string();
    let answer = bench.ask("POST", "/v1/workflows/run", &body).await;
    assert_eq!(answer.problem().field.as_deref(), Some("images[0]"));
    let beyond = "A".repeat(MAX_PICTURES_BODY);
    let body = json!({"workflow": {}, "images": [beyond]}).to_string();
    let answer = bench.ask("POST", "/v1/workflows/run", &body).await;
    assert_eq!(answer.status, 413);

    let running = bench.app.begin_run().await;
    let run = r#"{"workflow": {}}"#;
    // They wait for the run and for each other; later ones are refused.
    let mut waiting = Vec::new();
    let refused = loop {
        let mut another = bench.connect("POST", "/v1/workflows/run", "", run.as_bytes());
        let brief = Some(Duration::from_millis(200));
        another.set_read_timeout(brief).unwrap();
        let mut bytes = [0; 12];
        if another.read_exact(&mut bytes).is_ok() {
            break bytes;
        }
        waiting.push(another);
    };
    assert_eq!(&refused, b"HTTP/1.1 429");
    drop((running, waiting));
    while bench.ask("POST", "/v1/workflows/run", run).await.status == 429 {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_ends_with_its_client_and_the_next_one_begins() {
    let bench = Bench::start();
    let (began, has_begun) = std::sync::mpsc::channel();
    let app = bench.app.clone();
    let client = tokio::spawn(async move {
        let run = move |_: &Api, is_gone: &dyn Fn() -> bool| {
            began.send(()).unwrap();
            while !is_gone() {
                std::thread::yield_now();
            }
            Ok(DryRunReport::default())
        };
        run_for_client(&app, run).await.is_ok()
    });
    has_begun.recv().unwrap();
    client.abort();
    assert!(bench.app.begin_run().await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn review_is_listed_answered_once_and_refused_with_a_remedy() {
    let bench = Bench::start();
    let rule = json!({
        "kind": "rule", "rule": "door", "condition": "enters", "reason": "person 1 entered door",
        "tracks": [1], "frame": 1, "pts_s": 0.5,
    });
    let mut doubtful = event();
    doubtful.body = serde_json::from_value(rule).unwrap();
    doubtful.decision.verdict = Verdict::Review;
    let journal = bench.app.api.journal();
    journal.append(vec![doubtful, event()]).unwrap();
    let listed = bench.get("/v1/reviews").await.json();
    assert_eq!(listed["waiting"], 1);
    assert_eq!(listed["reviews"][0]["event"]["seq"], 1);

    let approve = json!({"assessment": {
        "by": {"kind": "person", "name": "Ada", "via": "api"}, "answer": "approve", "note": "the postman",
    }});
    let path = "/v1/events/1/assessments";
    let first = bench.ask("POST", path, &approve.to_string()).await;
    assert_eq!(first.status, 201);
    assert_eq!(first.json()["phase"], "assessed");
    assert_eq!(first.json()["assessment"]["note"], "the postman");
    let again = bench.ask("POST", path, &approve.to_string()).await;
    assert_eq!((again.status, again.json()), (200, first.json()));
    assert_eq!(bench.get("/v1/reviews").await.json()["waiting"], 0);

    for (path, body, status, field) in [
        ("/v1/events/99/assessments", approve.clone(), 404, "seq"),
        ("/v1/events/2/assessments", approve.clone(), 409, "seq"),
        (
            path,
            json!({"assessment": {"by": {"kind": "person", "via": "api"}, "answer": "correct"}}),
            422,
            "assessment.label",
        ),
        (
            path,
            json!({"assessment": {"by": {"kind": "person", "via": "pigeon"}, "answer": "reject"}}),
            400,
            "assessment.by",
        ),
    ] {
        let refused = bench.ask("POST", path, &body.to_string()).await.problem();
        assert_eq!(refused.status, status, "{refused:?}");
        assert!(
            refused
                .field
                .as_deref()
                .is_some_and(|f| f.starts_with(field)),
            "{refused:?}"
        );
    }
}

fn effect(text: &str) -> Effect {
    Effect::Http(HttpCall {
        url: "https://hooks.example.org/in".to_owned(),
        method: HttpMethod::Post,
        query: Vec::new(),
        headers: BTreeMap::new(),
        body: HttpBody::Json {
            document: text.into(),
        },
        timeout_s: 2.0,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn effect_is_awaited_returned_and_settled_once() {
    let bench = Bench::start();
    let gate = PipelineId::new("gate").unwrap();
    let sender = bench.app.api.effects().sender(&gate);
    let (listed, ()) = tokio::join!(bench.get("/v1/effects?wait=30"), async {
        sender.emit("hook", &effect("somebody")).unwrap();
    });
    let listed = listed.json();
    assert_eq!(listed[0]["step"], "hook");
    assert_eq!(listed[0]["what"], "an HTTP request");
    let path = format!("/v1/effects/{}", listed[0]["number"]);
    let whole = bench.get(&path).await.json();
    assert_eq!(whole["effect"]["body"]["document"], "somebody");
    assert_eq!(whole["id"], listed[0]["id"]);
    let outcome = format!("{path}/outcome");
    let failed = json!({"outcome": "failed", "why": "the server said 404"}).to_string();
    assert_eq!(bench.ask("POST", &outcome, &failed).await.status, 204);
    let again = bench.ask("POST", &outcome, &failed).await;
    assert_eq!(again.problem().code, ProblemCode::NotFound);
    assert_eq!(bench.get(&path).await.problem().code, ProblemCode::NotFound);
    assert_eq!(bench.get("/v1/effects").await.json(), json!([]));
    let health = bench.get("/v1/health").await.json();
    assert_eq!(health["effects"]["failed"], 1);
    assert_eq!(
        health["effects"]["last_failed"][0]["why"],
        "the server said 404"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_cursor_and_bad_query_are_refused_with_a_remedy() {
    let bench = Bench::start();
    let ahead = bench.get("/v1/effects?after=99999").await.problem();
    assert_eq!((ahead.status, ahead.code), (409, ProblemCode::Conflict));
    for (query, field) in [
        ("wait=31", "wait"),
        ("limit=0", "limit"),
        ("after=x", "after"),
    ] {
        let problem = bench.get(&format!("/v1/effects?{query}")).await.problem();
        assert_eq!(
            (problem.status, problem.field.as_deref()),
            (400, Some(field))
        );
    }
    for route in ["effects", "events", "coverage", "reviews"] {
        let problem = bench.get(&format!("/v1/{route}?afte=3")).await.problem();
        assert_eq!(problem.status, 400, "{route}");
        assert!(
            problem.detail.contains("unknown field `afte`"),
            "{problem:?}"
        );
    }
}
