//! Regions of interest, tiles and camera trials by the real command.
//!
//! Networks and real footage are needed for some; without them a test says so and passes.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::ensure;
use serde_json::Value;
use watchkeeper_tests::daemons::{data, json_lines, program, run_json};

#[test]
fn object_outside_the_region_of_interest_makes_no_event() -> anyhow::Result<()> {
    let events = |region: &str| -> anyhow::Result<u64> {
        let flags = [
            "demo:", "--model", "motion", "--for", "9", "--region", region,
        ];
        let (code, lines, errors) = run_json(&flags)?;
        ensure!(code == 0, "{errors}");
        Ok(lines.last().and_then(|s| s["events"].as_u64()).unwrap_or(0))
    };
    assert!(events("0,0,640,0,640,360,0,360")? > 0);
    assert_eq!(events("0,0,4,0,4,4")?, 0);
    Ok(())
}

#[test]
fn tiles_without_a_network_are_refused() -> anyhow::Result<()> {
    let (code, lines, errors) = run_json(&["demo:", "--model", "motion", "--tiles", "2x2"])?;
    assert_eq!((code, lines.len()), (2, 1), "{errors}");
    assert!(errors.contains("--tiles needs a network"), "{errors}");
    Ok(())
}

/// Exit code, report and standard error of `watchkeeper cameras tune --json`.
fn tune(arguments: &[&str]) -> anyhow::Result<(Option<i32>, Value, String)> {
    let out = Command::new(program("watchkeeper")?)
        .args(["cameras", "tune", "--json"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()?;
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    let report = json_lines(&out.stdout)?.pop().unwrap_or_default();
    Ok((out.status.code(), report, errors))
}

#[test]
fn camera_trial_of_an_unknown_model_or_file_is_refused() -> anyhow::Result<()> {
    for (arguments, part) in [
        (
            ["demo:", "--model", "/nonexistent.onnx"],
            "/nonexistent.onnx",
        ),
        (["demo:", "--seconds", "500"], "at most 20"),
    ] {
        let (code, report, errors) = tune(&arguments)?;
        assert_eq!(code, Some(2), "{report} {errors}");
        assert!(errors.contains(part), "{part}: {errors}");
    }
    Ok(())
}

#[test]
fn camera_trial_compares_tiles_on_real_footage() -> anyhow::Result<()> {
    let Some(data) = data("a camera trial on real footage") else {
        return Ok(());
    };
    let folder = tempfile::tempdir()?;
    let [clip, model] = [
        "video/pets09_f001-300_768x576.mp4",
        "models/yolox_nano.onnx",
    ]
    .map(|file| data.join(file).display().to_string());
    let out = folder.path().display().to_string();
    let (code, report, errors) = tune(&[
        &clip,
        "--model",
        &model,
        "--watch",
        "person",
        "--seconds",
        "3",
        "--out",
        &out,
    ])?;
    assert_eq!(code, Some(0), "{errors}");
    let candidates = report["candidates"].as_array().cloned().unwrap_or_default();
    let [whole, tiled] = &candidates[..] else {
        anyhow::bail!("{report}");
    };
    assert_eq!(
        (&whole["tiles"], &tiled["tiles"]),
        (&Value::Null, &"2x2".into())
    );
    let objects = |candidate: &Value| candidate["objects_per_frame"].as_f64().unwrap_or(0.0);
    assert!(
        objects(whole) > 1.0 && objects(tiled) > objects(whole),
        "{report}"
    );
    let overview = report["pictures"][0].as_str().unwrap_or_default();
    assert!(
        Path::new(overview).ends_with("side-by-side.jpg"),
        "{overview}"
    );
    let size = image::image_dimensions(overview)?;
    assert_eq!(size, (2 * 768, 576));

    let (code, _, errors) = tune(&[&clip, "--model", &model, "--watch", "unicorn"])?;
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("unicorn"), "{errors}");
    Ok(())
}
