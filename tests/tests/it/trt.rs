//! The TensorRT back end in the whole runtime, on a TensorRT without a device: each way in which it
//! can fail, on a clip.
//!
//! - With `trt` the run is refused with one sentence; with `auto` another back end serves.
//! - Networks, decoding, tracking and counting are real; only NVIDIA's libraries are not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use watchkeeper_tests::daemons::{Bench, data, json_lines, program, wait_up_to};
use watchkeeper_tests::onnx::write_bright_cells;
use watchkeeper_tests::trt::{FakeTrt, Headers};

/// Longest time of a change on a busy machine: 20 frames take 40 s.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(150);

/// Output of `watchkeeper run`.
struct Ran {
    code: i32,
    summary: Value,
    /// Standard error with the logs of the daemons.
    log: String,
}

/// A box with a folder of engines and a fake TensorRT.
struct Box {
    folder: TempDir,
    trt: FakeTrt,
    precision: &'static str,
}

impl Box {
    fn new(headers: Headers, what: &str) -> anyhow::Result<Option<Self>> {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let Some(trt) = FakeTrt::get(target, headers, what)? else {
            return Ok(None);
        };
        let folder = tempfile::Builder::new().prefix("wk").tempdir()?;
        Ok(Some(Self {
            folder,
            trt,
            precision: "fp16",
        }))
    }

    /// Runs with another value of `runtime.inference.precision`.
    const fn with_precision(mut self, precision: &'static str) -> Self {
        self.precision = precision;
        self
    }

    /// Runs `watchkeeper run SOURCE --model MODEL …` on a back end, in a mode of the fake.
    fn run(&self, backend: &str, mode: &str, arguments: &[&str]) -> anyhow::Result<Ran> {
        let mut command = self.command(backend, mode)?;
        let out = command.arg("run").args(arguments).output()?;
        let log = String::from_utf8_lossy(&out.stderr).into_owned();
        let lines = json_lines(&out.stdout).with_context(|| log.clone())?;
        let summary = lines.into_iter().find(|line| line["type"] == "summary");
        Ok(Ran {
            code: out.status.code().unwrap_or(-1),
            summary: summary.unwrap_or_default(),
            log,
        })
    }

    /// Calibrates a model on pictures whose bright cells change places; the summary is the report.
    fn calibrate(&self, model: &Path, mode: &str) -> anyhow::Result<Ran> {
        let pictures = self.folder.path().join("pictures");
        fs::create_dir_all(&pictures)?;
        for n in 0..40 {
            let bright = |x, y| (x / 16 + y / 16 + n) % 2 == 0;
            let level = |x, y| image::Luma([if bright(x, y) { 255_u8 } else { 0 }]);
            let picture = image::GrayImage::from_fn(64, 64, level);
            picture.save(pictures.join(format!("{n:02}.png")))?;
        }
        let mut command = self.command("trt", mode)?;
        command.args(["models", "calibrate", "--frames", "40", "--source"]);
        let out = command.arg(pictures).arg(model).output()?;
        let log = String::from_utf8_lossy(&out.stderr).into_owned();
        let report = json_lines(&out.stdout).with_context(|| log.clone())?;
        Ok(Ran {
            code: out.status.code().unwrap_or(-1),
            summary: report.into_iter().next().unwrap_or_default(),
            log,
        })
    }

    /// `watchkeeper` with a configuration for this back end, in a mode of the fake.
    fn command(&self, backend: &str, mode: &str) -> anyhow::Result<Command> {
        let config = self.folder.path().join("box.toml");
        let (shim, engines) = (self.trt.shim(), self.engines());
        fs::write(
            &config,
            format!(
                "[runtime.inference]\nbackend = {backend:?}\ntrt_library = {shim:?}\n\
                 engine_dir = {engines:?}\nprecision = {:?}\n",
                self.precision
            ),
        )?;
        let mut command = self.unconfigured(mode)?;
        command
            .args(["--json", "--verbose", "--config"])
            .arg(config);
        Ok(command)
    }

    /// `watchkeeper` without a configuration, in a mode of the fake.
    fn unconfigured(&self, mode: &str) -> anyhow::Result<Command> {
        let (name, folders) = self.trt.environment(mode, self.folder.path())?;
        let mut command = Command::new(program("watchkeeper")?);
        command.env(name, folders).stdin(Stdio::null());
        Ok(command)
    }

    /// Runs a tiny network on some seconds of the demo scene.
    fn run_demo(&self, backend: &str, mode: &str) -> anyhow::Result<Ran> {
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/bright-seg.onnx");
        self.run_demo_with(&model, backend, mode)
    }

    fn run_demo_with(&self, model: &Path, backend: &str, mode: &str) -> anyhow::Result<Ran> {
        let model = model.display().to_string();
        let zone = "all:0,0,640,0,640,360,0,360";
        let arguments = ["demo:", "--model", &model, "--zone", zone, "--for", "3"];
        self.run(backend, mode, &arguments)
    }

    fn engines(&self) -> PathBuf {
        self.folder.path().join("engines")
    }

    /// The files of the folder of engines with this ending.
    fn files(&self, ending: &str) -> anyhow::Result<Vec<PathBuf>> {
        let Ok(entries) = fs::read_dir(self.engines()) else {
            return Ok(Vec::new());
        };
        let files = entries.map(|entry| Ok(entry?.path()));
        let files = files.collect::<anyhow::Result<Vec<_>>>()?;
        let has_ending = |path: &PathBuf| path.extension().is_some_and(|kind| kind == ending);
        Ok(files.into_iter().filter(has_ending).collect())
    }

    /// Result of the pure Rust back end on the demo scene.
    fn demo_by_rten(&self) -> anyhow::Result<Value> {
        let ran = self.run_demo("rten", "right")?;
        ensure!(ran.code == 0, "{}", ran.log);
        Ok(counted(&ran.summary))
    }
}

/// Counts of a run.
fn counted(summary: &Value) -> Value {
    json!({
        "events": summary["events"],
        "lines": summary["lines"],
        "zones": summary["zones"],
    })
}

/// Checks a mode in which TensorRT can't serve: `trt` is refused with one line that has `parts`,
/// and `auto` counts what rten counts.
fn falls_back(mode: &str, parts: &[&str]) -> anyhow::Result<()> {
    let Some(bench) = Box::new(Headers::V10, mode)? else {
        return Ok(());
    };
    let refused = bench.run_demo("trt", mode)?;
    ensure!(refused.code != 0, "{}", refused.log);
    let has_parts = |line: &&str| parts.iter().all(|part| line.contains(part));
    let sentence = refused.log.lines().find(has_parts);
    ensure!(
        sentence.is_some(),
        "no line with {parts:?}: {}",
        refused.log
    );
    ensure!(!refused.log.contains("panicked"), "{}", refused.log);

    let ran = bench.run_demo("auto", mode)?;
    ensure!(ran.code == 0, "{}", ran.log);
    ensure!(
        ran.log.lines().any(|line| has_parts(&line)),
        "no line with {parts:?}: {}",
        ran.log
    );
    ensure!(
        counted(&ran.summary) == bench.demo_by_rten()?,
        "{}",
        ran.summary
    );
    Ok(())
}

/// Checks that `trt` counts what rten counts; returns the log of the run.
fn counts_alike(bench: &Box, mode: &str) -> anyhow::Result<String> {
    let ran = bench.run_demo("trt", mode)?;
    ensure!(ran.code == 0, "{}", ran.log);
    ensure!(ran.log.contains("backend=\"trt\""), "{}", ran.log);
    ensure!(
        counted(&ran.summary) == bench.demo_by_rten()?,
        "{}",
        ran.summary
    );
    Ok(ran.log)
}

const BUILT: &str = "engine of TensorRT built";

#[test]
fn engine_is_built_once_and_counts_like_rten() -> anyhow::Result<()> {
    let Some(bench) = Box::new(Headers::V10, "an engine of TensorRT 10")? else {
        return Ok(());
    };
    let log = counts_alike(&bench, "right")?;
    ensure!(log.contains(BUILT), "{log}");
    ensure!(bench.files("engine")?.len() == 1);
    let log = counts_alike(&bench, "right")?;
    ensure!(!log.contains(BUILT), "{log}");
    Ok(())
}

#[test]
fn engines_of_float16_and_float32_are_kept_side_by_side() -> anyhow::Result<()> {
    let Some(bench) = Box::new(Headers::V10, "an engine of float16")? else {
        return Ok(());
    };
    let model = write_bright_cells(bench.folder.path(), "cells")?;
    let by_rten = bench.run_demo_with(&model, "rten", "right")?;
    let single = bench.with_precision("fp32");
    let by_single = single.run_demo_with(&model, "trt", "right")?;
    let bench = single.with_precision("fp16");
    let by_half = bench.run_demo_with(&model, "trt", "right")?;
    for ran in [&by_single, &by_half] {
        ensure!(ran.code == 0 && ran.log.contains(BUILT), "{}", ran.log);
        let (counts, right) = (counted(&ran.summary), counted(&by_rten.summary));
        ensure!(counts == right, "{counts} and {right}");
    }
    let engines = bench.files("engine")?;
    ensure!(engines.len() == 2, "{engines:?}");
    let engines = engines
        .iter()
        .map(fs::read)
        .collect::<Result<Vec<_>, _>>()?;
    // The fake keeps the network in its engine.
    let is_half = |engine: &&Vec<u8>| engine.windows(4).any(|part| part == b"_f16");
    ensure!(engines.iter().filter(is_half).count() == 1);
    Ok(())
}

/// Whether an engine of int8 is kept; the fake keeps the network in its engine.
fn has_int8(bench: &Box) -> anyhow::Result<bool> {
    const OPERATOR: &[u8] = b"DequantizeLinear";
    for path in bench.files("engine")? {
        let engine = fs::read(path)?;
        if engine.windows(OPERATOR.len()).any(|part| part == OPERATOR) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[test]
fn int8_network_that_proves_itself_is_kept_and_serves() -> anyhow::Result<()> {
    let Some(bench) = Box::new(Headers::V10, "a calibration that succeeds")? else {
        return Ok(());
    };
    let model = write_bright_cells(bench.folder.path(), "cells")?;
    let done = bench.calibrate(&model, "slow-float")?;
    ensure!(done.code == 0, "{} {}", done.summary, done.log);
    let kept = model.with_extension("int8.onnx");
    ensure!(
        done.summary["file"].as_str() == kept.to_str(),
        "{}",
        done.summary
    );
    ensure!(done.summary["changed_boxes"] == 0, "{}", done.summary);
    // Eight cells of each picture, none of them where one of the picture before was.
    ensure!(done.summary["golden_frames"] == 20, "{}", done.summary);
    ensure!(done.summary["boxes"] == 160, "{}", done.summary);
    ensure!(kept.is_file() && has_int8(&bench)?);
    fs::remove_dir_all(bench.engines())?;
    // Only this precision uses it.
    let ran = bench.run_demo_with(&model, "trt", "right")?;
    ensure!(ran.code == 0 && !has_int8(&bench)?, "{}", ran.log);
    let bench = bench.with_precision("int8");
    let ran = bench.run_demo_with(&model, "trt", "right")?;
    ensure!(ran.code == 0 && has_int8(&bench)?, "{}", ran.log);
    // A changed model needs a new calibration: this field of the file means nothing.
    fs::write(
        &model,
        [fs::read(&model)?, b"\xca\x3e\x01x".to_vec()].concat(),
    )?;
    fs::remove_dir_all(bench.engines())?;
    let ran = bench.run_demo_with(&model, "trt", "right")?;
    ensure!(ran.code == 0 && !has_int8(&bench)?, "{}", ran.log);
    ensure!(
        ran.log.contains("was calibrated for another file"),
        "{}",
        ran.log
    );
    Ok(())
}

/// Watches pictures whose bright cells change places every two seconds, in the daemon: a golden
/// frame shows no box of the one before.
fn watching_cells(bench: &Box) -> anyhow::Result<Bench> {
    let pictures = bench.folder.path().join("film");
    fs::create_dir_all(&pictures)?;
    let number = |n: u32| pictures.join(format!("{n:04}.png"));
    for n in 0..2_000 {
        let phase = n / 20 % 2;
        if n % 20 != 0 || n >= 40 {
            fs::hard_link(number(phase * 20), number(n))?;
            continue;
        }
        let bright = |x, y| (x / 16 + y / 16 + phase) % 2 == 0;
        let level = |x, y| image::Luma([if bright(x, y) { 255_u8 } else { 0 }]);
        image::GrayImage::from_fn(64, 64, level).save(number(n))?;
    }
    let daemon = Bench::new("")?;
    daemon.configure(&format!(
        "[runtime.inference]\nbackend = \"auto\"\ntrt_library = {:?}\nengine_dir = {:?}\n\
         precision = \"int8\"\n[models]\ndir = {:?}\n[sources.film]\nuri = {pictures:?}\n\
         pace = \"native\"\n[pipelines.watch]\nsource = \"film\"\nworkflow = \"watch.json\"\n\
         rules = []\n",
        bench.trt.shim(),
        bench.engines(),
        bench.folder.path(),
    ))?;
    let workflow = json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [{"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "detect",
            "images": "$inputs.image", "model_id": "cells"}],
        "outputs": [{"type": "JsonField", "name": "t", "selector": "$steps.detect.predictions"}],
    });
    fs::write(daemon.path("watch.json"), workflow.to_string())?;
    Ok(daemon)
}

#[test]
fn daemon_changes_to_int8_and_back_when_the_device_fails() -> anyhow::Result<()> {
    let Some(bench) = Box::new(Headers::V10, "a change to int8 in the daemon")? else {
        return Ok(());
    };
    let model = write_bright_cells(bench.folder.path(), "cells")?;
    let done = bench.calibrate(&model, "slow-float")?;
    ensure!(done.code == 0, "{} {}", done.summary, done.log);
    fs::remove_dir_all(bench.engines())?;
    let (name, folders) = bench.trt.environment("breaks-later", bench.folder.path())?;
    let daemon = watching_cells(&bench)?;
    let runtime = daemon.runtime_with(&[(name, folders.into())])?;
    let status = || daemon.get("/v1/pipelines/watch").unwrap_or_default();
    let detector = |wanted: &str| {
        let is_there = || (status()["detector"] == wanted).then_some(());
        let waited = wait_up_to(CHANGE_TIMEOUT, wanted, is_there);
        waited.with_context(|| format!("{} {}", status(), runtime.log_text()))
    };
    detector("cells on rten")?;
    detector("cells on trt")?;
    ensure!(has_int8(&bench)?, "another network was built");
    let records = |result: &str| -> anyhow::Result<Vec<Value>> {
        let mut events = daemon.events()?;
        events.retain(|event| event["body"]["result"] == result);
        Ok(events)
    };
    // The network serves before its event is on the disk.
    let one = |result: &'static str| {
        wait_up_to(CHANGE_TIMEOUT, result, || {
            records(result).ok().filter(|found| found.len() == 1)
        })
    };
    one("swapped")?;
    fs::write(bench.folder.path().join("wk-fake-trt.broken"), "")?;
    detector("cells on rten")?;
    let reverted = one("reverted")?;
    let message = reverted
        .first()
        .map(|event| event["body"]["message"].to_string());
    let message = message.unwrap_or_default();
    ensure!(
        message.contains("cells is back on rten") && message.contains("the device is gone"),
        "{reverted:?}"
    );
    // The frame that failed was run again, and those after it.
    ensure!(status()["results"]["step_errors"].is_null(), "{}", status());
    let frames = || status()["results"]["frames"].as_u64();
    let before = frames();
    wait_up_to(CHANGE_TIMEOUT, "more frames", || {
        (frames() > before).then_some(())
    })?;
    runtime.stop()?;
    Ok(())
}

#[test]
fn int8_network_that_is_not_faster_is_refused_with_figures() -> anyhow::Result<()> {
    let Some(bench) = Box::new(Headers::V10, "a calibration that is refused")? else {
        return Ok(());
    };
    let model = write_bright_cells(bench.folder.path(), "cells")?;
    let done = bench.calibrate(&model, "slow-int8")?;
    ensure!(done.code != 0, "{}", done.summary);
    let why = done.summary["why_not"].as_str().unwrap_or_default();
    for part in ["int8 takes", "ms instead of", "1.3 times as fast is needed"] {
        ensure!(why.contains(part), "{why}");
    }
    ensure!(!model.with_extension("int8.onnx").exists());
    // Its engine is gone, and that of float16 stays.
    ensure!(bench.files("engine")?.len() == 1 && !has_int8(&bench)?);
    Ok(())
}

#[test]
fn engine_of_tensorrt_11_counts_like_rten() -> anyhow::Result<()> {
    let Some(bench) = Box::new(Headers::V11, "an engine of TensorRT 11")? else {
        return Ok(());
    };
    counts_alike(&bench, "right").map(drop)
}

#[test]
fn vehicles_on_a_clip_are_counted_alike_by_trt_and_rten() -> anyhow::Result<()> {
    let Some(data) = data("a clip on TensorRT") else {
        return Ok(());
    };
    let Some(bench) = Box::new(Headers::V10, "a clip on TensorRT")? else {
        return Ok(());
    };
    let clip = data.join("video/ahmetozlu_road.mp4").display().to_string();
    let model = data.join("models/yolox_nano.onnx").display().to_string();
    let line = "l:0,218,640,218";
    let arguments = [&clip, "--model", &model, "--line", line, "--for", "6"];
    let [trt, rten] = ["trt", "rten"].map(|backend| bench.run(backend, "right", &arguments));
    let (trt, rten) = (trt?, rten?);
    ensure!(trt.code == 0 && rten.code == 0, "{} {}", trt.log, rten.log);
    ensure!(trt.log.contains("backend=\"trt\""), "{}", trt.log);
    ensure!(
        counted(&trt.summary) == counted(&rten.summary),
        "{} {}",
        trt.summary,
        rten.summary
    );
    ensure!(
        trt.summary["lines"]["l"]["out"].as_u64() > Some(0),
        "{}",
        trt.summary
    );
    Ok(())
}

#[test]
fn slow_build_reports_its_phase_and_counts_like_rten() -> anyhow::Result<()> {
    let Some(bench) = Box::new(Headers::V10, "a slow build")? else {
        return Ok(());
    };
    let log = counts_alike(&bench, "slow-build")?;
    ensure!(log.contains("fake phase"), "{log}");
    Ok(())
}

#[test]
fn damaged_engine_on_disk_is_built_again() -> anyhow::Result<()> {
    let Some(bench) = Box::new(Headers::V10, "a damaged engine")? else {
        return Ok(());
    };
    counts_alike(&bench, "right")?;
    let engines = bench.files("engine")?;
    let engine = engines.first().context("an engine")?;
    let bytes = fs::read(engine)?;
    fs::write(engine, bytes.get(..bytes.len() / 2).unwrap_or_default())?;
    let log = counts_alike(&bench, "right")?;
    ensure!(
        log.contains("it is damaged") && log.contains(BUILT),
        "{log}"
    );
    Ok(())
}

#[test]
fn engine_that_trt_can_not_read_is_refused_and_remembered() -> anyhow::Result<()> {
    falls_back("truncated", &["TensorRT can't read the engine", "cut off"])?;
    let Some(bench) = Box::new(Headers::V10, "a refused engine")? else {
        return Ok(());
    };
    for part in [
        "TensorRT can't read the engine",
        "to have it built again, delete",
    ] {
        let ran = bench.run_demo("trt", "truncated")?;
        ensure!(
            ran.code != 0 && ran.log.contains(part),
            "{part}: {}",
            ran.log
        );
    }
    ensure!(bench.files("engine")?.is_empty());
    for file in bench.files("refused")? {
        fs::remove_file(file)?;
    }
    counts_alike(&bench, "right").map(drop)
}

#[test]
fn crash_of_the_driver_costs_one_sentence() -> anyhow::Result<()> {
    falls_back(
        "probe-crash",
        &["crashes when it is asked for the device (signal 6)"],
    )
}

#[test]
fn hang_of_the_driver_costs_one_sentence() -> anyhow::Result<()> {
    falls_back("probe-hang", &["the driver did not answer within 10 s"])
}

#[test]
fn library_of_another_major_version_is_refused_by_number() -> anyhow::Result<()> {
    falls_back(
        "wrong-major",
        &["TensorRT 11.16 is installed", "built for 10.16"],
    )
}

#[test]
fn tensorrt_8_is_refused_by_number() -> anyhow::Result<()> {
    falls_back("too-old", &["TensorRT 8.6 is too old", "install JetPack 6"])
}

#[test]
fn machine_without_device_is_named() -> anyhow::Result<()> {
    falls_back(
        "no-device",
        &["CUDA has no device", "no CUDA-capable device"],
    )
}

#[test]
fn cuda_library_with_old_driver_leaves_device_to_older_one() -> anyhow::Result<()> {
    let Some(bench) = Box::new(Headers::V10, "two libraries of CUDA")? else {
        return Ok(());
    };
    counts_alike(&bench, "old-driver").map(drop)
}

#[test]
fn lack_of_device_memory_is_named() -> anyhow::Result<()> {
    falls_back(
        "out-of-memory",
        &["CUDA has no memory for a tensor", "out of memory"],
    )?;
    let Some(bench) = Box::new(Headers::V10, "lack of memory")? else {
        return Ok(());
    };
    let refused = bench.run_demo("trt", "out-of-memory")?;
    ensure!(refused.code != 0, "{}", refused.log);
    ensure!(bench.files("refused")?.is_empty());
    counts_alike(&bench, "right").map(drop)
}

#[test]
fn exception_of_the_parser_is_named_and_tried_again() -> anyhow::Result<()> {
    falls_back("parser-throws", &["fake: the parser throws"])?;
    let Some(bench) = Box::new(Headers::V10, "an exception of the parser")? else {
        return Ok(());
    };
    let refused = bench.run_demo("trt", "parser-throws")?;
    ensure!(refused.code != 0, "{}", refused.log);
    ensure!(bench.files("refused")?.is_empty());
    counts_alike(&bench, "right").map(drop)
}

#[test]
fn crash_of_the_builder_is_named_and_tried_again_after_a_day() -> anyhow::Result<()> {
    let said = "TensorRT crashes when it builds or runs it (signal 6)";
    falls_back("build-crash", &[said])?;
    let Some(bench) = Box::new(Headers::V10, "a crash of the builder")? else {
        return Ok(());
    };
    for mode in ["build-crash", "right"] {
        let refused = bench.run_demo("trt", mode)?;
        ensure!(refused.code != 0, "{}", refused.log);
        ensure!(refused.log.contains(said), "{}", refused.log);
    }
    let kept = bench.files("crashed")?;
    let [crash] = &kept[..] else {
        anyhow::bail!("{kept:?}");
    };
    let yesterday = SystemTime::now() - Duration::from_secs(24 * 60 * 60);
    let file = fs::File::options().write(true).open(crash)?;
    file.set_modified(yesterday)?;
    counts_alike(&bench, "right").map(drop)
}

#[test]
fn outputs_of_a_wrong_shape_are_refused() -> anyhow::Result<()> {
    falls_back("wrong-shape", &["does not fit manifest", "bright-seg"])
}

#[test]
fn outputs_that_are_no_numbers_are_refused() -> anyhow::Result<()> {
    falls_back("nan", &["has values that are not finite"])
}

#[test]
fn messages_of_tensorrt_have_the_model_and_a_level() -> anyhow::Result<()> {
    let Some(bench) = Box::new(Headers::V10, "messages of TensorRT")? else {
        return Ok(());
    };
    let ran = bench.run_demo("trt", "truncated")?;
    let parts = [
        "ERROR",
        "TensorRT: fake: the engine is",
        "engine=\"bright-seg\"",
    ];
    let is_message = |line: &str| parts.iter().all(|part| line.contains(part));
    ensure!(ran.log.lines().any(is_message), "{}", ran.log);
    Ok(())
}

#[test]
fn shim_in_the_state_folder_of_the_box_is_found_by_a_run() -> anyhow::Result<()> {
    let Some(bench) = Box::new(Headers::V10, "a shim in a state folder")? else {
        return Ok(());
    };
    let state = bench.folder.path().join("box-state");
    fs::create_dir_all(state.join("lib"))?;
    std::os::unix::fs::symlink(bench.trt.shim(), state.join("lib/libwk_trt.so"))?;
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/bright-seg.onnx");
    let out = bench
        .unconfigured("right")?
        .env("WATCHKEEPER_RUNTIME__STATE_DIR", &state)
        .env("XDG_DATA_HOME", bench.folder.path())
        .args([
            "run",
            "demo:",
            "--for",
            "1",
            "--backend",
            "trt",
            "--verbose",
        ])
        .arg("--model")
        .arg(model)
        .output()?;
    let log = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "{log}");
    ensure!(log.contains("backend=\"trt\""), "{log}");
    ensure!(
        state.join("lib/libwk_trt.so").exists(),
        "removed with the run"
    );
    Ok(())
}
