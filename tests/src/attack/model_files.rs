//! Deploys pipelines with damaged model files while another pipeline watches.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::Report;
use super::arena::Arena;
use super::silence::SilenceWatch;
use crate::daemons::get;
use crate::fuzz::mutate::mutate;
use crate::scene::deploy;

/// A tiny network that the mutations begin with, with its manifest.
const MODEL: &str = "bright-class";

/// Deploys `count` pipelines, each with another mutation of a model file. Each has to be deployed
/// or refused in one sentence, and the pipeline beside it has to see frames all the time.
///
/// # Errors
/// If a process can't be started, or a file can't be written.
pub fn model_files(count: u64, random: &mut fastrand::Rng) -> anyhow::Result<Report> {
    let mut report = Report::new("model files");
    let arena = Arena::start("[models]\ndir = \"models\"\n")?;
    deploy(&arena.bench)?;
    let folder = arena.bench.path("models");
    fs::create_dir_all(&folder)?;
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("models");
    let seed = fs::read(sources.join(format!("{MODEL}.onnx")))?;
    let manifest = sources.join(format!("{MODEL}.toml"));
    fs::copy(manifest, folder.join(format!("{MODEL}.toml")))?;
    let socket = arena.bench.socket();
    let watch = SilenceWatch::start(frames_rise(&socket));
    let (mut deployed, mut refused) = (0, 0);
    for n in 0..count {
        let mut model = seed.clone();
        for _ in 0..random.usize(1..=3) {
            damage(&mut model, &seed, random);
        }
        // Renamed into place, as an installation does.
        let file = folder.join("new");
        fs::write(&file, &model)?;
        fs::rename(&file, folder.join(format!("{MODEL}.onnx")))?;
        match deploy_model(&arena)? {
            Ok(()) => deployed += 1,
            Err(sentence) if is_one_sentence(&sentence) => refused += 1,
            Err(text) => report.silent(1, || format!("model {n}: not a sentence: {text:?}")),
        }
    }
    watch.end(&mut report);
    report.attempted("model files", count);
    report.attempted("of them deployed", deployed);
    report.attempted("of them refused", refused);
    arena.finish(&mut report)?;
    Ok(report)
}

/// Changes the bytes of a model file. Half of the changes write a large number, because a dimension
/// of a tensor is what asks for memory.
fn damage(model: &mut Vec<u8>, seed: &[u8], random: &mut fastrand::Rng) {
    if random.bool() {
        let others = [(String::new(), seed.to_vec())];
        return mutate(model, &others, random);
    }
    let number = (1_u64 << random.u32(16..63)).to_le_bytes();
    let at = random.usize(..=model.len());
    let end = (at + number.len()).min(model.len());
    model.splice(at..end, number).for_each(drop);
}

/// Deploys a pipeline with the model, and deletes it again; the inner error is the refusal.
fn deploy_model(arena: &Arena) -> anyhow::Result<Result<(), String>> {
    let workflow = json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [{"type": "roboflow_core/roboflow_classification_model@v2", "name": "model", "images": "$inputs.image", "model_id": MODEL}],
        "outputs": [{"type": "JsonField", "name": "said", "selector": "$steps.model.predictions"}],
    });
    let spec = json!({"id": "attacked", "source": "street", "workflow": workflow, "rules": []});
    let (status, body) = arena.bench.request("POST", "/v1/pipelines", Some(&spec))?;
    if (200..300).contains(&status) {
        arena.bench.json("DELETE", "/v1/pipelines/attacked", None)?;
        return Ok(Ok(()));
    }
    let problem: Value = serde_json::from_slice(&body)?;
    let message = problem["detail"].as_str().context("a sentence")?;
    Ok(Err(message.to_owned()))
}

fn is_one_sentence(text: &str) -> bool {
    !text.trim().is_empty() && !text.contains('\n') && !text.contains("RUST_BACKTRACE")
}

/// Asks whether the pipeline `watch` has seen more frames than at the last question.
fn frames_rise(socket: &Path) -> impl FnMut() -> bool + Send + 'static {
    let socket = socket.to_owned();
    let mut before = 0;
    move || {
        let frames = frames(&socket).unwrap_or(0);
        let rises = frames > before;
        before = frames;
        rises
    }
}

fn frames(socket: &Path) -> Option<u64> {
    let watch = get(socket, "/v1/pipelines/watch").ok()?;
    watch["results"]["frames"].as_u64()
}
