//! `watchkeeper models calibrate` with a real network on ONNX Runtime.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::ensure;
use watchkeeper_tests::daemons::{data, json_lines, program};

/// Int8 of YOLOX-nano gains nothing on a processor and loses boxes, so nothing may remain of it.
#[test]
#[expect(clippy::print_stderr, reason = "a skip must be loud")]
fn yolox_nano_on_a_processor_is_refused_with_both_figures() -> anyhow::Result<()> {
    if std::env::var_os("ORT_DYLIB_PATH").is_none() {
        eprintln!("SKIPPED: the calibration of YOLOX-nano (set ORT_DYLIB_PATH)");
        return Ok(());
    }
    let Some(data) = data("the calibration of YOLOX-nano") else {
        return Ok(());
    };
    let folder = tempfile::tempdir()?;
    let model = folder.path().join("yolox_nano.onnx");
    fs::copy(data.join("models/yolox_nano.onnx"), &model)?;
    let out = Command::new(program("watchkeeper")?)
        .args([
            "--json",
            "--backend",
            "ort",
            "models",
            "calibrate",
            "--frames",
            "60",
        ])
        .arg("--source")
        .arg(data.join("video/ahmetozlu_road.mp4"))
        .arg(&model)
        .stdin(Stdio::null())
        .output()?;
    let log = String::from_utf8_lossy(&out.stderr);
    let report = json_lines(&out.stdout)?
        .into_iter()
        .next()
        .unwrap_or_default();
    ensure!(
        !out.status.success() && report["backend"] == "ort",
        "{report} {log}"
    );
    let why = report["why_not"].as_str().unwrap_or_default();
    for part in [
        "boxes changed, at most 1 % may",
        "int8 takes",
        "1.3 times as fast is needed",
    ] {
        ensure!(why.contains(part), "{report} {log}");
    }
    ensure!(report["boxes"].as_u64() >= Some(100), "{report}");
    ensure!(
        report["changed_boxes"].as_u64() <= report["boxes"].as_u64(),
        "{report}"
    );
    ensure!(fs::read_dir(folder.path())?.count() == 1);
    Ok(())
}
