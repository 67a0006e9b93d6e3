//! Model files that ask for more memory or time than a machine has. The daemon refuses each with
//! one sentence, lives on and keeps watching.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use rustix::process::{Pid, Resource, Rlimit};
use serde_json::{Value, json};
use watchkeeper_config::LoadRequest;
use watchkeeper_models::model_check::{MAX_CPU_SECONDS, MAX_WALL_SECONDS};
use watchkeeper_runtime::pipeline::inference::child::ChildProgram;
use watchkeeper_runtime::pipeline::inference::models::Models;
use watchkeeper_tests::daemons::{Bench, Process, data, program, soak, wait_for};
use watchkeeper_tests::onnx::Hostile;

/// Time in which a result that was kept is answered, on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(20);

/// Seed of the mutations.
const SEED: u64 = 36;

fn workflow(model: &str) -> Value {
    json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [{"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "detect",
            "images": "$inputs.image", "model_id": model}],
        "outputs": [{"type": "JsonField", "name": "found", "selector": "$steps.detect.predictions"}],
    })
}

/// Creates a box whose pipeline `watch` sees the demo scene for ten minutes, with a folder of
/// models.
fn bench(extra: &str) -> anyhow::Result<Bench> {
    let bench = Bench::new("")?;
    let folder = bench.path("models");
    fs::create_dir_all(&folder)?;
    fs::write(bench.path("watch.json"), workflow("motion").to_string())?;
    bench.configure(&format!(
        "[runtime.inference]\nbackend = \"rten\"\n\n[models]\ndir = {folder:?}\n\n\
         [sources.street]\nuri = \"demo:?seconds=600\"\npace = \"native\"\n\n\
         [pipelines.watch]\nsource = \"street\"\nworkflow = \"watch.json\"\n\n{extra}"
    ))?;
    Ok(bench)
}

/// Time over which the rate of frames is measured without a check.
const RATE_SPAN: Duration = Duration::from_secs(4);

/// Returns the frames that the pipeline `watch` has processed.
fn frames(bench: &Bench) -> Option<u64> {
    let status = bench.get("/v1/pipelines/watch").ok()?;
    status["results"]["frames"].as_u64()
}

/// Deploys a pipeline with a model of the folder; returns status and answer.
fn deploy(bench: &Bench, model: &str) -> anyhow::Result<(u16, Value)> {
    let spec = json!({"id": "tried", "source": "street", "workflow": workflow(model)});
    let timeout = Duration::from_secs(2 * MAX_WALL_SECONDS);
    let (status, body) = bench.request_within(timeout, "POST", "/v1/pipelines", Some(&spec))?;
    Ok((status, serde_json::from_slice(&body)?))
}

/// Deploys like [`deploy`], again where a busy machine cut the check short; returns the number of
/// tries too.
fn deploy_until_judged(bench: &Bench, model: &str) -> anyhow::Result<(u16, Value, usize)> {
    for tries in 1..=3 {
        let (status, answer) = deploy(bench, model)?;
        let is_cut_short = answer["detail"].as_str().unwrap_or_default();
        if !is_cut_short.contains("when the box has less to do") {
            return Ok((status, answer, tries));
        }
    }
    anyhow::bail!("this machine is too busy: no check used its processor time")
}

/// Checks that the sentence of a refusal says what, where and the remedy.
fn check_sentence(answer: &Value, parts: &[&str]) -> anyhow::Result<String> {
    let sentence = answer["detail"].as_str().context("a sentence")?.to_owned();
    for part in parts {
        ensure!(sentence.contains(part), "no {part:?} in {sentence}");
    }
    for words in ["RUST_BACKTRACE", "omitted", "panicked", "\n"] {
        ensure!(!sentence.contains(words), "{words:?} in {sentence}");
    }
    Ok(sentence)
}

/// Waits until the pipeline `watch` has processed ten more frames.
fn watches_on(bench: &Bench) -> anyhow::Result<()> {
    let before = wait_for("frames", || frames(bench))?;
    wait_for("more frames", || {
        frames(bench).filter(|n| *n >= before + 10)
    })?;
    Ok(())
}

/// How often a model was checked in its own process.
fn checks(runtime: &Process) -> usize {
    let log = runtime.log_text();
    log.matches("model checked in a child process").count()
}

/// Returns the frames a second that the pipeline `watch` processes during `act`.
fn frame_rate(bench: &Bench, act: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let before = wait_for("frames", || frames(bench))?;
    let began = Instant::now();
    act()?;
    let after = wait_for("frames", || frames(bench))?;
    let count = u32::try_from(after.saturating_sub(before))?;
    Ok(f64::from(count) / began.elapsed().as_secs_f64())
}

/// Returns the process with which `runtime` checks a model, once it has limited itself.
fn limited_check(runtime: u32) -> Option<Pid> {
    let threads = fs::read_dir(format!("/proc/{runtime}/task"))
        .ok()?
        .flatten();
    let children = threads.filter_map(|t| fs::read_to_string(t.path().join("children")).ok());
    let children: Vec<String> = children.collect();
    let mut children = children.iter().flat_map(|line| line.split_whitespace());
    children.find_map(|child| {
        let limits = fs::read_to_string(format!("/proc/{child}/limits")).ok()?;
        let time = limits
            .lines()
            .find(|line| line.starts_with("Max cpu time"))?;
        let is_limited =
            time.split_whitespace().nth(3) == Some(MAX_CPU_SECONDS.to_string().as_str());
        is_limited
            .then(|| Pid::from_raw(child.parse().ok()?))
            .flatten()
    })
}

/// Lets the next check of `runtime` end after a second of processor time instead of all that it
/// allows itself.
fn shorten_check(runtime: u32) -> anyhow::Result<()> {
    let check = wait_for("a check with its limit", || limited_check(runtime))?;
    let second = Rlimit {
        current: Some(1),
        maximum: Some(MAX_CPU_SECONDS),
    };
    rustix::process::prlimit(Some(check), Resource::Cpu, second)?;
    Ok(())
}

fn refused_at_deployment(hostile: Hostile, why: &str) -> anyhow::Result<()> {
    let bench = bench("")?;
    hostile.write(&bench.path("models"), "bomb")?;
    let mut runtime = bench.runtime()?;
    wait_for("the first frames", || frames(&bench).filter(|n| *n > 5))?;

    // The camera is watched while the check runs, and for a moment after a very short one.
    let usual = frame_rate(&bench, || {
        std::thread::sleep(RATE_SPAN);
        Ok(())
    })?;
    let mut answered = None;
    let meanwhile = frame_rate(&bench, || {
        let began = Instant::now();
        let id = runtime.id();
        let is_endless = matches!(hostile, Hostile::Loop);
        let shortened = is_endless.then(|| std::thread::spawn(move || shorten_check(id)));
        answered = Some(deploy_until_judged(&bench, "bomb")?);
        if let Some(shortened) = shortened {
            shortened.join().expect("the thread")?;
        }
        std::thread::sleep(Duration::from_secs(1).saturating_sub(began.elapsed()));
        Ok(())
    })?;
    let (status, answer, tries) = answered.context("an answer")?;
    ensure!(status == 422, "{status}: {answer}");
    let parts = [
        "bomb.onnx is not loaded: ",
        why,
        "; use a smaller model",
        "delete ",
    ];
    let sentence = check_sentence(&answer, &parts)?;
    print_rates(usual, meanwhile);
    ensure!(
        meanwhile * 3.0 >= usual,
        "{meanwhile:.1} frames a second during the check, {usual:.1} before"
    );
    ensure!(runtime.is_running(), "{}", runtime.log_text());
    watches_on(&bench)?;

    // The result is kept, over a restart too.
    ensure!(checks(&runtime) == tries, "{}", runtime.log_text());
    let again = Instant::now();
    let (status, answer) = deploy(&bench, "bomb")?;
    ensure!(
        status == 422 && answer["detail"] == sentence.as_str(),
        "{answer}"
    );
    ensure!(again.elapsed() < AT_ONCE, "{:?}", again.elapsed());
    runtime.stop()?;
    let mut runtime = bench.runtime()?;
    let again = Instant::now();
    let (status, answer) = deploy(&bench, "bomb")?;
    ensure!(
        status == 422 && answer["detail"] == sentence.as_str(),
        "{answer}"
    );
    ensure!(again.elapsed() < AT_ONCE, "{:?}", again.elapsed());
    // The log of both runs.
    ensure!(checks(&runtime) == tries, "{}", runtime.log_text());
    watches_on(&bench)?;
    ensure!(runtime.is_running(), "{}", runtime.log_text());
    Ok(())
}

const MEMORY: &str = "takes more than half of the memory of this box";

#[test]
fn network_with_a_huge_constant_is_refused_while_others_watch() -> anyhow::Result<()> {
    refused_at_deployment(Hostile::ConstantOfShape, MEMORY)
}

#[test]
fn unbounded_network_is_refused_while_others_watch() -> anyhow::Result<()> {
    refused_at_deployment(Hostile::Expand, MEMORY)
}

#[test]
fn network_that_loops_without_end_is_refused_while_others_watch() -> anyhow::Result<()> {
    refused_at_deployment(Hostile::Loop, "takes more than 60 s of processor time")
}

#[test]
fn hostile_model_is_refused_at_every_entrance() -> anyhow::Result<()> {
    let file = "[pipelines.bomb]\nsource = \"street\"\nworkflow = \"bomb.json\"\n";
    let bench = bench(file)?;
    fs::write(bench.path("bomb.json"), workflow("bomb").to_string())?;
    let network = Hostile::Expand.write(&bench.path("models"), "bomb")?;

    // At the start, from the configuration file: after the others, which do not wait for it.
    let mut runtime = bench.runtime()?;
    let status = wait_for("the refusal", || {
        let status = bench.get("/v1/pipelines/bomb").ok()?;
        (status["state"]["state"] != "starting").then_some(status)
    })?;
    ensure!(status["state"]["state"] == "failed", "{status}");
    let failed = json!({"detail": status["state"]["message"]});
    check_sentence(&failed, &["bomb.onnx is not loaded: ", MEMORY])?;
    watches_on(&bench)?;

    // A dry run, and a run on pictures.
    let pipeline = json!({"id": "tried", "source": "street", "workflow": workflow("bomb")});
    let trial = json!({"pipeline": pipeline, "seconds": 1.0});
    let picture = base64::engine::general_purpose::STANDARD.encode(small_png()?);
    let run = json!({"workflow": workflow("bomb"), "images": [picture]});
    for (path, body) in [("dry-run", trial), ("run", run)] {
        let path = format!("/v1/workflows/{path}");
        let (status, answer) = bench.request("POST", &path, Some(&body))?;
        let answer: Value = serde_json::from_slice(&answer)?;
        ensure!(status == 422, "{path}: {status}: {answer}");
        check_sentence(&answer, &["bomb.onnx is not loaded: ", MEMORY])?;
    }
    ensure!(runtime.is_running(), "{}", runtime.log_text());
    ensure!(checks(&runtime) == 1, "{}", runtime.log_text());

    // The command that adds a file, in an environment that asks for back-traces.
    let added = Command::new(program("watchkeeper")?)
        .args(["models", "add", "--name", "other"])
        .arg(&network)
        .arg("--models-dir")
        .arg(bench.path("elsewhere"))
        .env("RUST_BACKTRACE", "1")
        .stdin(Stdio::null())
        .output()?;
    let said = json!({"detail": String::from_utf8_lossy(&added.stderr).trim()});
    ensure!(added.status.code() == Some(2), "{said}");
    check_sentence(&said, &["bomb.onnx was not added: ", MEMORY])?;
    ensure!(!bench.path("elsewhere").exists());
    Ok(())
}

fn wait_until_running(bench: &Bench, pipeline: &str) -> anyhow::Result<()> {
    wait_for("the pipeline to run", || {
        let status = bench.get(&format!("/v1/pipelines/{pipeline}")).ok()?;
        (status["state"]["state"] == "running").then_some(())
    })
}

/// A small black picture.
fn small_png() -> anyhow::Result<Vec<u8>> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    image::RgbImage::new(8, 8).write_to(&mut bytes, image::ImageFormat::Png)?;
    Ok(bytes.into_inner())
}

#[test]
fn unchecked_model_delays_neither_the_api_nor_other_pipelines() -> anyhow::Result<()> {
    // Its name is before that of the pipeline that watches.
    let file = "[pipelines.bomb]\nsource = \"street\"\nworkflow = \"bomb.json\"\n";
    let bench = bench(file)?;
    fs::write(bench.path("bomb.json"), workflow("bomb").to_string())?;
    Hostile::Loop.write(&bench.path("models"), "bomb")?;
    let runtime = bench.runtime()?;
    watches_on(&bench)?;
    let status = bench.get("/v1/pipelines/bomb")?;
    ensure!(status["state"]["state"] == "starting", "{status}");
    let note = status["note"].as_str().unwrap_or_default();
    ensure!(note.contains("in a child process first"), "{status}");
    ensure!(checks(&runtime) == 0, "{}", runtime.log_text());
    // A stop ends the check.
    let began = Instant::now();
    runtime.stop()?;
    ensure!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    Ok(())
}

#[test]
fn unchecked_model_of_the_file_runs_after_its_check() -> anyhow::Result<()> {
    let file = "[pipelines.sound]\nsource = \"street\"\nworkflow = \"sound.json\"\n";
    let bench = bench(file)?;
    fs::write(bench.path("sound.json"), workflow("sound").to_string())?;
    Hostile::Harmless.write(&bench.path("models"), "sound")?;
    let runtime = bench.runtime()?;
    wait_until_running(&bench, "sound")?;
    ensure!(checks(&runtime) == 1, "{}", runtime.log_text());
    Ok(())
}

#[test]
fn sound_model_is_checked_once_and_not_at_later_starts() -> anyhow::Result<()> {
    let bench = bench("")?;
    Hostile::Harmless.write(&bench.path("models"), "sound")?;
    let runtime = bench.runtime()?;
    let (status, answer) = deploy(&bench, "sound")?;
    ensure!(status == 201, "{status}: {answer}");
    ensure!(checks(&runtime) == 1, "{}", runtime.log_text());
    runtime.stop()?;
    let runtime = bench.runtime()?;
    wait_until_running(&bench, "tried")?;
    ensure!(checks(&runtime) == 1, "{}", runtime.log_text());
    // Other contents are another model.
    Hostile::Expand.write(&bench.path("models"), "sound")?;
    bench.request("DELETE", "/v1/pipelines/tried", None)?;
    let (status, answer) = deploy(&bench, "sound")?;
    ensure!(status == 422, "{status}: {answer}");
    ensure!(checks(&runtime) == 2, "{}", runtime.log_text());
    Ok(())
}

/// Changes some bytes of a file: one, a run of them, its end, or its length.
fn mutate(bytes: &mut Vec<u8>, random: &mut fastrand::Rng) {
    for _ in 0..random.usize(1..=4) {
        if bytes.is_empty() {
            return;
        }
        let at = random.usize(..bytes.len());
        match random.u8(..5) {
            0 => bytes[at] = random.u8(..),
            1 => bytes[at] ^= 1 << random.u8(..8),
            2 => bytes.truncate(at.max(1)),
            3 => bytes.insert(at, 0xff),
            _ => {
                let end = (at + random.usize(1..12)).min(bytes.len());
                bytes[at..end].fill_with(|| [0x00, 0x7f, 0xff, 0x80][random.usize(..4)]);
            }
        }
    }
}

#[test]
fn damaged_network_never_ends_the_process_that_has_it_checked() -> anyhow::Result<()> {
    let count = if soak("thousands of damaged networks") {
        5_000
    } else {
        200
    };
    let bench = bench("")?;
    let request = LoadRequest {
        env: std::collections::BTreeMap::new(),
        ..LoadRequest::from_process(Some(bench.config()))
    };
    let config = watchkeeper_config::load(&request).map_err(|e| anyhow::anyhow!("{e:?}"))?;
    let child = ChildProgram::new(program("watchkeeper-runtime")?, Arc::default());
    let models = Models::checked(&config, child);
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("models");
    let sound = ["bright-class", "bright-seg"].map(|name| {
        let read = |end: &str| fs::read(own.join(format!("{name}.{end}")));
        Ok::<_, std::io::Error>((name, read("onnx")?, read("toml")?))
    });
    let mut random = fastrand::Rng::with_seed(SEED);
    let (mut opened, mut refused) = (0, 0);
    for n in 0..count {
        let (name, network, manifest) =
            sound[n % 2].as_ref().map_err(|e| anyhow::anyhow!("{e}"))?;
        let path = bench.path(&format!("models/{name}.onnx"));
        let mut bytes = network.clone();
        mutate(&mut bytes, &mut random);
        fs::write(&path, &bytes)?;
        fs::write(path.with_extension("toml"), manifest)?;
        match models.open(&path.display().to_string()) {
            Ok(_) => opened += 1,
            Err(error) => {
                refused += 1;
                let sentence = error.to_string();
                let is_clean = !sentence.is_empty()
                    && !sentence.contains("RUST_BACKTRACE")
                    && sentence.lines().count() == 1;
                ensure!(is_clean, "seed {SEED}, mutation {n}: {sentence:?}");
            }
        }
    }
    // Otherwise the mutations are too harmless, or too harmful, to show anything.
    ensure!(
        opened > 0 && refused > count / 4,
        "{opened} opened, {refused} refused"
    );
    Ok(())
}

#[test]
fn real_detector_is_checked_at_its_first_deployment_only() -> anyhow::Result<()> {
    let Some(data) = data("the time of a model's check") else {
        return Ok(());
    };
    let bench = bench("")?;
    let zoo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/zoo/yolox-nano.toml");
    let model = bench.path("models/yolox-nano.onnx");
    fs::copy(data.join("models/yolox_nano.onnx"), &model)?;
    fs::copy(zoo, model.with_extension("toml"))?;
    let runtime = bench.runtime()?;
    let mut times = Vec::new();
    for _ in 0..3 {
        let began = Instant::now();
        let (status, answer) = deploy(&bench, "yolox-nano")?;
        ensure!(status == 201, "{status}: {answer}");
        times.push(began.elapsed());
        bench.request("DELETE", "/v1/pipelines/tried", None)?;
    }
    ensure!(checks(&runtime) == 1, "{}", runtime.log_text());
    print_times(&times);
    Ok(())
}

#[expect(clippy::print_stderr, reason = "a measurement is for the reader")]
fn print_rates(usual: f64, meanwhile: f64) {
    eprintln!("frames a second: {usual:.1}, during the check: {meanwhile:.1}");
}

#[expect(clippy::print_stderr, reason = "a measurement is for the reader")]
fn print_times(times: &[Duration]) {
    eprintln!("first deployment, then later ones of the same file: {times:?}");
}
