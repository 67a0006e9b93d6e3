//! A fake runtime: a scripted journal and some routes on a Unix socket.
//!
//! It can be halted and resumed with the same journal, like the real one.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Path as UrlPath, Query, State};
use axum::http::StatusCode;
use axum::response::sse::{Event as Sse, KeepAlive};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::stream::{self, StreamExt};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::UnixListener;
use tokio::sync::watch;
use watchkeeper_contract::event::{
    Decision, EVENT_SCHEMA, Event, EventBody, Phase, RuleEvent, Verdict,
};
use watchkeeper_contract::id::{EventId, EventSeq, PipelineId, SourceId};
use watchkeeper_contract::problem::{Problem, ProblemCode};
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::source::LossCause;
use watchkeeper_contract::time::{TimeQuality, Wall};

/// Scripted answers and recorded calls.
#[derive(Debug, Default)]
struct Script {
    journal: Vec<Value>,
    /// `METHOD path` of every request that changes something.
    calls: Vec<String>,
    /// Delay of answers to `PUT /v1/pipelines/{id}`.
    deploy_takes: Duration,
    /// Delay of a pipeline change and its answer; continues if the client disconnects.
    works_for: Duration,
    refuse_deploy: Option<Problem>,
    /// Reported state of every pipeline.
    pipeline_state: Option<Value>,
    /// Deployed specs by id.
    pipelines: BTreeMap<String, Value>,
    /// Sources besides `gate`.
    more_sources: Vec<String>,
    refuses_storage: bool,
    /// Number of the event and body of every assessment.
    assessments: Vec<(usize, Value)>,
    /// Picture under every media id.
    picture: Option<Vec<u8>>,
}

#[derive(Clone)]
struct Shared {
    script: Arc<Mutex<Script>>,
    grown: watch::Sender<usize>,
    stop: watch::Receiver<bool>,
}

/// Fake runtime; stops when dropped.
pub(crate) struct FakeRuntime {
    socket: PathBuf,
    script: Arc<Mutex<Script>>,
    grown: watch::Sender<usize>,
    stop: watch::Sender<bool>,
}

impl FakeRuntime {
    /// Listens on `runtime.sock` in `dir` with an empty journal.
    pub(crate) fn start(dir: &Path) -> Self {
        let mut fake = Self {
            socket: dir.join("runtime.sock"),
            script: Arc::default(),
            grown: watch::channel(0).0,
            stop: watch::channel(false).0,
        };
        fake.resume();
        fake
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Closes all connections and stops listening. Keeps the journal.
    pub(crate) fn halt(&mut self) {
        self.stop.send_replace(true);
        std::fs::remove_file(&self.socket).ok();
    }

    /// Listens again after [`Self::halt`].
    pub(crate) fn resume(&mut self) {
        let (stop, stopped) = watch::channel(false);
        self.stop = stop;
        let shared = Shared {
            script: Arc::clone(&self.script),
            grown: self.grown.clone(),
            stop: stopped.clone(),
        };
        let listener = UnixListener::bind(&self.socket).expect("bind the fake runtime");
        let router = router(shared);
        tokio::spawn(async move {
            axum::serve(listener, router)
                .with_graceful_shutdown(wait_for_stop(stopped))
                .await
        });
    }

    /// Appends a record and sets its number.
    pub(crate) fn append(&self, mut event: Event) -> EventSeq {
        let mut script = self.script.lock().expect("script");
        let seq = EventSeq(script.journal.len() as u64 + 1);
        event.seq = seq;
        script
            .journal
            .push(serde_json::to_value(event).expect("event"));
        self.grown.send_replace(script.journal.len());
        seq
    }

    /// Appends any JSON, for instance a record of a newer version.
    pub(crate) fn append_raw(&self, value: Value) {
        let mut script = self.script.lock().expect("script");
        script.journal.push(value);
        self.grown.send_replace(script.journal.len());
    }

    /// Deletes all records, like a loss of the files.
    pub(crate) fn lose_journal(&self) {
        self.script.lock().expect("script").journal.clear();
        self.grown.send_replace(0);
    }

    /// Replaces the sources besides `gate`.
    pub(crate) fn more_sources(&self, names: &[&str]) {
        let names = names.iter().map(ToString::to_string).collect();
        self.script.lock().expect("script").more_sources = names;
    }

    /// Reports that the disk refuses, or does no longer.
    pub(crate) fn refuse_storage(&self, refuses: bool) {
        self.script.lock().expect("script").refuses_storage = refuses;
    }

    /// Serves `file` under every media id, and as the frame of every camera.
    pub(crate) fn keeps_picture(&self, file: Vec<u8>) {
        self.script.lock().expect("script").picture = Some(file);
    }

    /// Delays the answer to deployments.
    pub(crate) fn deploy_takes(&self, time: Duration) {
        self.script.lock().expect("script").deploy_takes = time;
    }

    /// Delays pipeline changes and their answers, even if the client disconnects.
    pub(crate) fn works_for(&self, time: Duration) {
        self.script.lock().expect("script").works_for = time;
    }

    /// Refuses deployments with this problem.
    pub(crate) fn refuse_deploy(&self, problem: Option<Problem>) {
        self.script.lock().expect("script").refuse_deploy = problem;
    }

    /// Sets the reported state of every pipeline; the default is `starting`.
    pub(crate) fn pipelines_are(&self, state: Value) {
        self.script.lock().expect("script").pipeline_state = Some(state);
    }

    /// Number of streams that follow the journal.
    pub(crate) fn followers(&self) -> usize {
        self.grown.receiver_count()
    }

    /// Number of the event and body of every assessment, in order.
    pub(crate) fn assessments(&self) -> Vec<(usize, Value)> {
        self.script.lock().expect("script").assessments.clone()
    }

    /// `METHOD path` of all other requests that change something, in order.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.script.lock().expect("script").calls.clone()
    }
}

impl Drop for FakeRuntime {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

async fn wait_for_stop(mut stop: watch::Receiver<bool>) {
    stop.wait_for(|stopped| *stopped).await.ok();
}

fn router(shared: Shared) -> Router {
    Router::new()
        .route("/v1/health", get(health))
        .route("/v1/sources", get(sources))
        .route("/v1/sources/{id}/snapshot", post(snapshot))
        .route("/v1/sources/{id}/frame.jpg", get(media))
        .route("/v1/pipelines", get(|| async { Json(json!([])) }))
        .route("/v1/models", get(|| async { Json(json!([])) }))
        .route("/v1/coverage", get(no_coverage))
        .route("/v1/coverage/statement", get(no_coverage))
        .route(
            "/v1/pipelines/{id}",
            get(deployed).put(deploy).delete(delete),
        )
        .route("/v1/blocks/{type}", get(block))
        .route("/v1/media/{id}", get(media))
        .route("/v1/events", get(page))
        .route("/v1/events/{seq}/assessments", post(assess))
        .route("/v1/events/stream", get(events))
        .route("/v1/events/verify", get(verify))
        .with_state(shared)
}

#[derive(Deserialize)]
struct Cursor {
    #[serde(default)]
    after: u64,
    limit: Option<usize>,
}

async fn health(State(shared): State<Shared>) -> Json<Value> {
    let script = shared.script.lock().expect("script");
    let since = json!({"unix_ms": 1_700_000_000_000_i64, "quality": "synced"});
    let fault = json!({"message": "the disk is full", "since": since});
    Json(json!({
        "state": "up", "reasons": [], "version": "0.0.0", "boot_id": "fake", "uptime_s": 1.0, "pid": 1,
        "last_seq": script.journal.len(), "storage": script.refuses_storage.then_some(fault),
    }))
}

async fn sources(State(shared): State<Shared>) -> Json<Value> {
    let more = shared.script.lock().expect("script").more_sources.clone();
    let names = std::iter::once("gate".to_owned()).chain(more);
    let status = |name| {
        json!({
            "spec": {"id": name, "uri": "rtsp://***@camera/stream"},
            "state": {"state": "live"},
            "since": {"unix_ms": 1_700_000_000_000_i64, "quality": "synced"},
            "counters": {"frames": 100, "dropped": 2, "connects": 1, "losses": 0, "fps": 24.5},
        })
    };
    Json(names.map(status).collect())
}

async fn snapshot(State(shared): State<Shared>, UrlPath(id): UrlPath<String>) -> Response {
    let mut script = shared.script.lock().expect("script");
    script.calls.push(format!("POST sources/{id}/snapshot"));
    if id == "gate" {
        Json(json!({
            "id": "snap-1.jpg", "kind": "clean", "content_type": "image/jpeg", "bytes": 3,
            "sha256": "00",
        }))
        .into_response()
    } else {
        problem(Problem::new(
            404,
            ProblemCode::NotFound,
            format!("there is no source {id:?}"),
        ))
    }
}

async fn deploy(
    State(shared): State<Shared>,
    UrlPath(id): UrlPath<String>,
    Json(spec): Json<Value>,
) -> Response {
    detached(async move {
        begin(&shared, format!("PUT pipelines/{id}")).await;
        let (pause, refusal, answer) = {
            let mut script = shared.script.lock().expect("script");
            if script.refuse_deploy.is_none() {
                script.pipelines.insert(id, spec.clone());
            }
            let answer = pipeline(&script, &spec);
            (script.deploy_takes, script.refuse_deploy.clone(), answer)
        };
        tokio::time::sleep(pause).await;
        if let Some(refusal) = refusal {
            return problem(refusal);
        }
        Json(answer).into_response()
    })
    .await
}

/// Records the call and waits for the scripted delay.
async fn begin(shared: &Shared, call: String) {
    let works_for = {
        let mut script = shared.script.lock().expect("script");
        script.calls.push(call);
        script.works_for
    };
    tokio::time::sleep(works_for).await;
}

/// Continues the work when the client disconnects, like the real runtime.
async fn detached(work: impl Future<Output = Response> + Send + 'static) -> Response {
    tokio::spawn(work).await.expect("the work ends")
}

async fn deployed(State(shared): State<Shared>, UrlPath(id): UrlPath<String>) -> Response {
    let script = shared.script.lock().expect("script");
    match script.pipelines.get(&id) {
        Some(spec) => Json(pipeline(&script, spec)).into_response(),
        None => problem(Problem::new(
            404,
            ProblemCode::NotFound,
            format!("there is no pipeline {id:?}"),
        )),
    }
}

fn pipeline(script: &Script, spec: &Value) -> Value {
    let starting = json!({"state": "starting"});
    json!({
        "spec": spec, "state": script.pipeline_state.as_ref().unwrap_or(&starting),
        "since": {"unix_ms": 0, "quality": "unsynced"},
        "results": {
            "frames": 0, "source_s": 0.0, "elapsed_s": 0.0, "tracks": 0, "lines": {}, "zones": {},
            "events": 0, "discarded": 0, "stages_ms": {}, "outputs": null,
        },
    })
}

async fn delete(State(shared): State<Shared>, UrlPath(id): UrlPath<String>) -> Response {
    detached(async move {
        begin(&shared, format!("DELETE pipelines/{id}")).await;
        let mut script = shared.script.lock().expect("script");
        script.pipelines.remove(&id);
        StatusCode::NO_CONTENT.into_response()
    })
    .await
}

async fn block(UrlPath(name): UrlPath<String>) -> Json<Value> {
    Json(json!({
        "type": name, "aliases": [], "category": "x", "summary": "y", "schema": {}, "outputs": {},
    }))
}

async fn page(State(shared): State<Shared>, Query(cursor): Query<Cursor>) -> Json<Vec<Value>> {
    let script = shared.script.lock().expect("script");
    let from = usize::try_from(cursor.after).expect("small");
    Json(
        script
            .journal
            .iter()
            .skip(from)
            .take(cursor.limit.unwrap_or(100))
            .cloned()
            .collect(),
    )
}

/// Records an assessment, as a record of the journal too; a second one of the same event is a
/// repeated request.
async fn assess(
    State(shared): State<Shared>,
    UrlPath(seq): UrlPath<usize>,
    Json(new): Json<Value>,
) -> Response {
    let mut script = shared.script.lock().expect("script");
    let Some(mut event) = script.journal.get(seq - 1).cloned() else {
        return problem(Problem::new(404, ProblemCode::NotFound, "no such event"));
    };
    if script.assessments.iter().any(|(of, _)| *of == seq) {
        return (StatusCode::OK, Json(event)).into_response();
    }
    event["phase"] = json!("assessed");
    event["seq"] = json!(script.journal.len() + 1);
    if new["decision"].is_object() {
        event["decision"] = new["decision"].clone();
    }
    event["assessment"] = new["assessment"].clone();
    let links = new["links"].as_array().cloned().unwrap_or_default();
    if let Some(evidence) = event["evidence"].as_array_mut() {
        evidence.extend(links);
    }
    script.assessments.push((seq, new));
    script.journal.push(event.clone());
    let len = script.journal.len();
    drop(script);
    shared.grown.send_replace(len);
    (StatusCode::CREATED, Json(event)).into_response()
}

/// Answers that the hash chain is intact.
async fn verify(State(shared): State<Shared>) -> Json<Value> {
    let last = shared.script.lock().expect("script").journal.len();
    Json(json!({"first": 1, "last": last, "checked": last, "next_after": last}))
}

async fn media(State(shared): State<Shared>) -> Response {
    let picture = shared.script.lock().expect("script").picture.clone();
    match picture {
        Some(file) => file.into_response(),
        None => problem(Problem::new(
            404,
            ProblemCode::NotFound,
            "there is no such picture",
        )),
    }
}

async fn events(State(shared): State<Shared>, Query(cursor): Query<Cursor>) -> Response {
    let next = usize::try_from(cursor.after).expect("small");
    let script = shared.script.lock().expect("script");
    if next > script.journal.len() {
        return problem(Problem {
            field: Some("after".to_owned()),
            ..Problem::new(409, ProblemCode::Conflict, "ahead of this journal")
        });
    }
    drop(script);
    let grown = shared.grown.subscribe();
    let stop = shared.stop.clone();
    let records = stream::unfold(
        (shared, grown, next),
        |(shared, mut grown, next)| async move {
            grown.wait_for(|len| *len > next).await.ok()?;
            let record = shared.script.lock().expect("script").journal[next].clone();
            let sse = Sse::default()
                .event("event")
                .id((next + 1).to_string())
                .data(record.to_string());
            Some((Ok::<_, Infallible>(sse), (shared, grown, next + 1)))
        },
    );
    axum::response::Sse::new(records.take_until(wait_for_stop(stop)))
        .keep_alive(KeepAlive::default())
        .into_response()
}

/// No source was ever watched.
async fn no_coverage(Query(query): Query<BTreeMap<String, String>>) -> Response {
    let source = query.get("source").cloned().unwrap_or_default();
    let mut unknown = Problem::not_found(format!("there is no camera {source:?}"));
    unknown.allowed = vec!["gate".to_owned()];
    problem(unknown.at("source", source))
}

fn problem(problem: Problem) -> Response {
    let status = StatusCode::from_u16(problem.status).expect("status");
    (status, Json(problem)).into_response()
}

/// Event of a rule with the condition `crosses`.
pub(crate) fn crossing(severity: Severity) -> Event {
    Event {
        schema: EVENT_SCHEMA,
        id: EventId(ulid::Ulid::new()),
        seq: EventSeq(0),
        boot_id: "boot".to_owned(),
        mono_ms: 1,
        at: Wall {
            unix_ms: 1_700_000_000_000,
            quality: TimeQuality::Synced,
        },
        phase: Phase::New,
        source: Some(SourceId::new("gate").expect("name")),
        pipeline: Some(PipelineId::new("door").expect("name")),
        severity,
        body: EventBody::Rule(Box::new(RuleEvent {
            rule: "in".to_owned(),
            condition: "crosses".to_owned(),
            reason: "a person crossed the line door".to_owned(),
            label: Some("person".to_owned()),
            tracks: vec![],
            zone: None,
            line: Some("door".to_owned()),
            direction: Some("in".to_owned()),
            number: None,
            dwell_s: None,
            score: Some(0.9),
            bbox: Some([0.1, 0.1, 0.2, 0.3]),
            shown_frame: None,
            frame: 12,
            pts_s: 0.5,
            held_back: 0,
            readings: Vec::new(),
            decide: None,
            on_act: Vec::new(),
            notify: Vec::new(),
        })),
        decision: Decision {
            verdict: Verdict::Record,
            confidence: 0.9,
            raw_confidence: None,
            reason: "above the gate of 0.85".to_owned(),
            asks: None,
        },
        evidence: vec![],
        media: vec![],
        definition: None,
        assessment: None,
        clip: None,
        hash: "00".to_owned(),
    }
}

/// Record `seq` of a newer runtime.
pub(crate) fn newer(seq: u64) -> Value {
    json!({
        "schema": 2, "id": "01MB78QN00000000000000001A", "seq": seq,
        "body": {"kind": "door_forced", "door": 3}, "hash": "ab12",
    })
}

/// Start or end of an outage of the source `gate`.
pub(crate) fn outage(phase: Phase) -> Event {
    Event {
        phase,
        pipeline: None,
        body: EventBody::SourceOutage {
            cause: Some(LossCause::Refused),
            blind: None,
            message: "the camera refused the connection".to_owned(),
            lasted_s: (phase == Phase::End).then_some(12.0),
        },
        ..crossing(Severity::Warning)
    }
}
