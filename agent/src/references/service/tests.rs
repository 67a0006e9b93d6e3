//! The sets with a scripted runtime: what is embedded, what waits, what is left out.

use std::collections::BTreeSet;
use std::io::Cursor;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use image::{DynamicImage, ImageFormat, Rgb, RgbImage};
use serde_json::{Value, json};
use watchkeeper_contract::event::EventBody;

use super::*;
use crate::embedding::MAX_STEP_FAILURES;
use crate::example::example_event;

const RED: [u8; 3] = [250, 0, 0];
const GREEN: [u8; 3] = [0, 250, 0];
const BLUE: [u8; 3] = [0, 0, 250];

/// Scripted runtime; a picture's embedding is the colour of its first pixel.
#[derive(Debug, Default)]
struct Script {
    /// Absent: there is no model.
    digest: Option<String>,
    /// Colours for which a run fails as one of a runtime that has no time.
    fails: BTreeSet<[u8; 3]>,
    /// Colours on which the network fails.
    overflows: BTreeSet<[u8; 3]>,
    /// Colour of the event's picture.
    event: [u8; 3],
    /// Pictures that were embedded.
    runs: usize,
}

type Shared = Arc<Mutex<Script>>;

fn png(colour: [u8; 3]) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    DynamicImage::ImageRgb8(RgbImage::from_pixel(8, 8, Rgb(colour)))
        .write_to(&mut bytes, ImageFormat::Png)
        .unwrap();
    bytes.into_inner()
}

async fn models(State(script): State<Shared>) -> Json<Value> {
    let digest = script.lock().digest.clone();
    let model = digest.map(|digest| {
        json!({"name": "look", "task": "image-embedding", "labels": [], "digest": digest,
            "makes_embeddings": true, "state": {"state": "present", "path": "/m"}})
    });
    Json(json!(Vec::from_iter(model)))
}

async fn run(State(script): State<Shared>, Json(run): Json<Value>) -> Response {
    let file = BASE64.decode(run["images"][0].as_str().unwrap()).unwrap();
    let colour = image::load_from_memory(&file).unwrap().to_rgb8()[(0, 0)].0;
    let mut script = script.lock();
    if script.fails.contains(&colour) {
        let problem = json!({"status": 503, "code": "not_ready", "detail": "no time for it"});
        return (StatusCode::SERVICE_UNAVAILABLE, Json(problem)).into_response();
    }
    script.runs += 1;
    if script.overflows.contains(&colour) {
        let failed = json!([{"step": "embed", "message": "not finite"}]);
        return Json(json!({"results": [{"embedding": null}], "failed": failed})).into_response();
    }
    Json(json!({"results": [{"embedding": colour}], "failed": []})).into_response()
}

async fn media(State(script): State<Shared>) -> Vec<u8> {
    png(script.lock().event)
}

/// A service with its scripted runtime.
struct Bench {
    dir: tempfile::TempDir,
    script: Shared,
    service: ReferenceService,
}

impl Bench {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let script = Shared::default();
        script.lock().digest = Some("first".to_owned());
        script.lock().event = RED;
        let socket = dir.path().join("runtime.sock");
        let listener = tokio::net::UnixListener::bind(&socket).unwrap();
        let router = Router::new()
            .route("/v1/models", get(models))
            .route("/v1/workflows/run", post(run))
            .route("/v1/media/{id}", get(media))
            .with_state(Arc::clone(&script));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let service = Self::open(dir.path());
        Self {
            dir,
            script,
            service,
        }
    }

    fn open(dir: &Path) -> ReferenceService {
        let config = ReferencesConfig {
            model: "look".to_owned(),
            min_likeness: Some(0.9),
        };
        let runtime = RuntimeClient::new(dir.join("runtime.sock")).unwrap();
        ReferenceService::open(dir, &config, runtime)
    }

    fn add(&self, set: &str, file: &str, colour: [u8; 3]) -> ShownPicture {
        let added = self.service.add(set, &png(colour), file, None, |_| Ok(()));
        added.unwrap()
    }

    /// Replaces the stored picture, which its SHA-256 then contradicts.
    fn damage(&self, set: &str, picture: &ShownPicture) {
        let folder = self.dir.path().join(FOLDER).join(set);
        let path = folder.join(format!("{}.img", picture.sha256));
        std::fs::write(path, b"x").unwrap();
    }

    /// The set's picture `file` with its state: ready, left out, and why.
    fn state(&self, set: &str, file: &str) -> (bool, bool, String) {
        let shown = self.service.show(set).unwrap();
        let shown = shown.into_iter().find(|one| one.file == file).unwrap();
        let why = shown.problem.unwrap_or_default();
        (shown.ready, shown.left_out, why)
    }

    /// The answer about an event whose picture is cut to the whole of it.
    async fn answer(&self, sets: &[&str]) -> SourceAnswer {
        let mut event = example_event();
        if let EventBody::Rule(rule) = &mut event.body {
            rule.bbox = None;
        }
        self.service.answer(&event, sets).await
    }
}

#[track_caller]
fn assert_found(answer: &SourceAnswer, file: &str) {
    match answer {
        SourceAnswer::Answered { data, .. } => assert_eq!(data["picture"], file),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_failed(answer: &SourceAnswer, why: &str) {
    match answer {
        SourceAnswer::Failed { cause } => assert!(cause.contains(why), "{cause}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn damaged_picture_is_left_out_and_the_rest_is_compared() {
    let bench = Bench::start();
    bench.add("truck", "good.png", RED);
    let damaged = bench.add("truck", "bad.png", GREEN);
    bench.damage("truck", &damaged);
    assert!(
        bench.service.embed_all().await,
        "nothing is to be tried again"
    );
    let (ready, is_left_out, why) = bench.state("truck", "bad.png");
    assert!(!ready && is_left_out && why.contains("damaged"), "{why}");
    assert_eq!(
        bench.state("truck", "good.png"),
        (true, false, String::new())
    );
    assert_found(&bench.answer(&["truck"]).await, "good.png");
    // Without the good one there is nothing to compare with; added again, the other one counts.
    let remove = |file| bench.service.remove("truck", Some(file), |_| Ok(()));
    remove("good.png").unwrap();
    assert_failed(&bench.answer(&["truck"]).await, "all pictures of truck");
    remove("bad.png").unwrap();
    bench.add("truck", "again.png", GREEN);
    assert!(bench.service.embed_all().await);
    assert!(bench.state("truck", "again.png").0);
}

#[tokio::test]
async fn picture_that_waits_keeps_its_cause_and_fails_the_question() {
    let bench = Bench::start();
    bench.script.lock().fails.insert(GREEN);
    bench.add("truck", "waits.png", GREEN);
    bench.add("truck", "ready.png", RED);
    bench.add("other", "blue.png", BLUE);
    assert!(!bench.service.embed_all().await, "it is tried again");
    // The success of the pictures after it, and of an event's, does not hide its cause.
    let answer = bench.answer(&["truck"]).await;
    assert_failed(&answer, "1 of 2 pictures of truck wait");
    let (ready, is_left_out, why) = bench.state("truck", "waits.png");
    assert!(
        !ready && !is_left_out && why.contains("no time for it"),
        "{why}"
    );
    assert_eq!(
        bench.state("truck", "ready.png"),
        (true, false, String::new())
    );
    let problems: Vec<_> = bench.service.list().unwrap();
    let problems: Vec<bool> = problems.iter().map(|set| set.problem.is_some()).collect();
    assert_eq!(problems, [false, true], "other, truck");
    bench.script.lock().fails.clear();
    assert!(bench.service.embed_all().await);
    assert_found(&bench.answer(&["truck", "other"]).await, "ready.png");
}

#[tokio::test]
async fn picture_is_skipped_after_three_failures_of_network() {
    let bench = Bench::start();
    bench.script.lock().overflows.insert(GREEN);
    bench.add("truck", "bad.png", GREEN);
    bench.add("truck", "good.png", RED);
    for _ in 1..MAX_STEP_FAILURES {
        assert!(!bench.service.embed_all().await, "it is tried again");
        assert_failed(
            &bench.answer(&["truck"]).await,
            "1 of 2 pictures of truck wait",
        );
    }
    assert!(bench.service.embed_all().await);
    let (ready, is_left_out, why) = bench.state("truck", "bad.png");
    assert!(!ready && is_left_out && why.contains("not finite"), "{why}");
    assert_found(&bench.answer(&["truck"]).await, "good.png");
}

#[tokio::test]
async fn another_model_recomputes_embeddings_of_unchanged_sets() {
    let bench = Bench::start();
    bench.add("truck", "a.png", RED);
    bench.add("truck", "b.png", BLUE);
    assert!(bench.service.embed_all().await);
    assert!(bench.service.embed_all().await);
    assert_eq!(bench.script.lock().runs, 2, "each once");
    bench.script.lock().digest = Some("second".to_owned());
    let answer = bench.answer(&["truck"]).await;
    assert_failed(&answer, "2 of 2 pictures of truck wait");
    // What `serve` does once in `MODEL_CHECK`.
    assert!(bench.service.embed_all().await);
    assert_found(&bench.answer(&["truck"]).await, "a.png");
    // The next run of the agent finds them.
    let runs = bench.script.lock().runs;
    let again = Bench::open(bench.dir.path());
    assert!(again.embed_all().await);
    assert_eq!(bench.script.lock().runs, runs);
    assert_eq!(again.list().unwrap()[0].ready, 2);
}

#[tokio::test]
async fn missing_model_is_the_cause_of_all_pictures_and_passes() {
    let bench = Bench::start();
    bench.script.lock().digest = None;
    bench.add("truck", "a.png", RED);
    assert!(!bench.service.embed_all().await);
    let (ready, is_left_out, why) = bench.state("truck", "a.png");
    assert!(!ready && !is_left_out, "{why}");
    assert!(why.starts_with("agent.references.model: "), "{why}");
    bench.script.lock().digest = Some("first".to_owned());
    assert!(bench.service.embed_all().await);
    assert_eq!(bench.state("truck", "a.png"), (true, false, String::new()));
}
