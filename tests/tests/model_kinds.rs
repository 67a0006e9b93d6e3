//! What a model does besides finding boxes, from a file to the output of a workflow: masks, points, and what a whole picture shows. The networks
//! of `tests/models` are tiny, and judge by the picture like any other; `tests/tools/tiny-models` makes them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use image::{Rgb, RgbImage};
use serde_json::{Value, json};
use watchkeeper_tests::daemons::{Bench, program, wait_for};

fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("models")
}

/// A workflow of one step that asks a model about the picture.
fn asking(block: &str, model: &str) -> Value {
    json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [{"type": format!("roboflow_core/{block}"), "name": "model", "images": "$inputs.image", "model_id": model}],
        "outputs": [{"type": "JsonField", "name": "said", "selector": "$steps.model.predictions"}],
    })
}

/// What `watchkeeper workflow run` says about a picture of 128x64, black but for what is `bright`.
fn run(workflow: &Value, bright: impl Fn(u32, u32) -> bool) -> anyhow::Result<Value> {
    let folder = tempfile::tempdir()?;
    let (file, picture) = (folder.path().join("w.json"), folder.path().join("p.png"));
    std::fs::write(&file, workflow.to_string())?;
    let pixels = RgbImage::from_fn(128, 64, |x, y| {
        Rgb(if bright(x, y) { [255; 3] } else { [0; 3] })
    });
    pixels.save(&picture)?;
    let out = Command::new(program("watchkeeper")?)
        .args(["workflow", "run", "--json", "--models-dir"])
        .arg(models())
        .arg(file)
        .arg("--image")
        .arg(picture)
        .stdin(Stdio::null())
        .output()?;
    let errors = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "{}: {errors}", out.status);
    let rows: Value = serde_json::from_slice(&out.stdout)?;
    rows.pointer("/0/said").cloned().context("an output")
}

fn numbers(found: &Value, name: &str) -> Vec<f64> {
    let points = found["points"].as_array().into_iter().flatten();
    points.filter_map(|p| p[name].as_f64()).collect()
}

#[test]
fn a_mask_is_where_the_picture_has_the_object() -> anyhow::Result<()> {
    let workflow = asking("roboflow_instance_segmentation_model@v2", "bright-seg");
    let said = run(&workflow, |x, y| {
        (32..96).contains(&x) && (16..48).contains(&y)
    })?;
    let found = &said["predictions"][0];
    ensure!(found["class"] == "thing", "{said:#}");
    for (name, low, high) in [("x", 32.0, 96.0), ("y", 16.0, 48.0)] {
        let all = numbers(found, name);
        let least = all.iter().copied().fold(f64::MAX, f64::min);
        let most = all.iter().copied().fold(f64::MIN, f64::max);
        // Prototypes are cells of eight pixels of this picture.
        ensure!(
            (least - low).abs() <= 4.0 && (most - high).abs() <= 4.0,
            "{name}: {least} to {most}, {said:#}"
        );
    }
    let dark = run(&workflow, |_, _| false)?;
    ensure!(
        dark["predictions"] == json!([]),
        "nothing has the mask: {dark:#}"
    );
    Ok(())
}

#[test]
fn a_point_is_where_the_picture_has_it() -> anyhow::Result<()> {
    let workflow = asking("roboflow_keypoint_detection_model@v2", "bright-pose");
    let said = run(&workflow, |x, y| {
        (80..112).contains(&x) && (8..24).contains(&y)
    })?;
    let point = &said["predictions"][0]["keypoints"][0];
    ensure!(point["class"] == "middle", "{said:#}");
    for (name, wanted) in [("x", 96.0), ("y", 16.0)] {
        let at = point[name].as_f64().context("a place")?;
        ensure!((at - wanted).abs() < 2.0, "{name}: {at}, {said:#}");
    }
    Ok(())
}

#[test]
fn a_classifier_sees_the_middle_of_a_wide_picture_and_names_what_it_shows() -> anyhow::Result<()> {
    let one = asking("roboflow_classification_model@v2", "bright-class");
    // What is cut off on both sides does not count.
    let said = run(&one, |x, _| (32..96).contains(&x))?;
    ensure!(
        said["top"] == "bright" && said["confidence"].as_f64() > Some(0.95),
        "{said:#}"
    );
    let said = run(&one, |x, _| !(32..96).contains(&x))?;
    ensure!(said["top"] == "dark", "{said:#}");
    let several = asking(
        "roboflow_multi_label_classification_model@v2",
        "bright-class",
    );
    let said = run(&several, |_, _| true)?;
    ensure!(said["predicted_classes"] == json!(["bright"]), "{said:#}");
    ensure!(said["predictions"]["dark"]["class_id"] == 0, "{said:#}");
    Ok(())
}

#[test]
fn a_pipeline_asks_what_every_frame_shows_and_a_model_for_something_else_is_refused()
-> anyhow::Result<()> {
    let config = format!(
        "[models]\ndir = {:?}\n[sources.street]\nuri = \"demo:\"\n",
        models()
    );
    let bench = Bench::new(&config)?;
    let _runtime = bench.runtime()?;
    let deploy = |workflow: Value| {
        bench.request(
            "POST",
            "/v1/pipelines",
            Some(&json!({"id": "p", "source": "street", "workflow": workflow})),
        )
    };
    let (status, refused) = deploy(asking("roboflow_classification_model@v2", "bright-seg"))?;
    let text = String::from_utf8_lossy(&refused);
    ensure!(
        status == 422 && text.contains("it is a model for instance-segmentation"),
        "{status}: {text}"
    );
    let (status, answer) = deploy(asking("roboflow_classification_model@v2", "bright-class"))?;
    ensure!(
        status == 201,
        "{status}: {}",
        String::from_utf8_lossy(&answer)
    );
    let top = wait_for("what a frame shows", || {
        let results = bench.get("/v1/pipelines/p/results").ok()?;
        results.pointer("/outputs/said/top").cloned()
    })?;
    ensure!(top == "bright" || top == "dark", "{top}");
    Ok(())
}
