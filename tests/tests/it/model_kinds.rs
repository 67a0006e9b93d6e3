//! Kinds of models besides detection, from a file to the output of a workflow:
//! - masks, points, classification, text similarity, text recognition, semantic segmentation,
//!   depth, gaze;
//! - detection by text, masks of prompted objects, class activation maps, anomalies, actions in a
//!   run of frames.
//!
//! The networks of `tests/models` are tiny, and judge by the picture like any other;
//! `tests/tools/tiny-models` makes them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use image::{Rgb, RgbImage};
use serde_json::{Value, json};
use watchkeeper_tests::daemons::{Bench, program, wait_for};

fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("models")
}

/// Makes a workflow of one step that runs a model on the picture.
fn model_workflow(block: &str, model: &str) -> Value {
    json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [{"type": format!("roboflow_core/{block}"), "name": "model", "images": "$inputs.image", "model_id": model}],
        "outputs": [{"type": "JsonField", "name": "said", "selector": "$steps.model.predictions"}],
    })
}

/// Makes a workflow of one step, with all of its outputs.
fn one_step(mut step: Value) -> Value {
    step["name"] = json!("model");
    json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [step],
        "outputs": [{"type": "JsonField", "name": "said", "selector": "$steps.model.*"}],
    })
}

/// Runs `watchkeeper workflow run` on a black picture of 128x64 whose `bright` pixels are white.
fn run(workflow: &Value, bright: impl Fn(u32, u32) -> bool) -> anyhow::Result<Value> {
    run_on(workflow, |x, y| if bright(x, y) { 255 } else { 0 })
}

/// Runs `watchkeeper workflow run` on a picture of these grey levels.
fn run_on(workflow: &Value, grey: impl Fn(u32, u32) -> u8) -> anyhow::Result<Value> {
    let (said, errors) = tried(workflow, grey)?;
    said.with_context(|| errors)
}

/// Runs the workflow; returns the output if it succeeded, and the errors.
fn tried(
    workflow: &Value,
    grey: impl Fn(u32, u32) -> u8,
) -> anyhow::Result<(Option<Value>, String)> {
    let folder = tempfile::tempdir()?;
    let (file, picture) = (folder.path().join("w.json"), folder.path().join("p.png"));
    std::fs::write(&file, workflow.to_string())?;
    let pixels = RgbImage::from_fn(128, 64, |x, y| Rgb([grey(x, y); 3]));
    pixels.save(&picture)?;
    let out = Command::new(program("watchkeeper")?)
        .args(["workflow", "run", "--json", "--models-dir"])
        .arg(models())
        .arg(file)
        .arg("--image")
        .arg(picture)
        .stdin(Stdio::null())
        .output()?;
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    if !out.status.success() {
        return Ok((None, format!("{}: {errors}", out.status)));
    }
    let rows: Value = serde_json::from_slice(&out.stdout)?;
    let said = rows.pointer("/0/said").cloned().context("an output")?;
    Ok((Some(said), errors))
}

fn numbers(found: &Value, name: &str) -> Vec<f64> {
    let points = found["points"].as_array().into_iter().flatten();
    points.filter_map(|p| p[name].as_f64()).collect()
}

#[test]
fn mask_covers_the_object_of_the_picture() -> anyhow::Result<()> {
    let workflow = model_workflow("roboflow_instance_segmentation_model@v2", "bright-seg");
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
fn keypoint_lies_on_the_object_of_the_picture() -> anyhow::Result<()> {
    let workflow = model_workflow("roboflow_keypoint_detection_model@v2", "bright-pose");
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
fn classifier_crops_a_wide_picture_to_its_middle() -> anyhow::Result<()> {
    let one = model_workflow("roboflow_classification_model@v2", "bright-class");
    // The parts that are cropped on both sides do not count.
    let said = run(&one, |x, _| (32..96).contains(&x))?;
    ensure!(
        said["top"] == "bright" && said["confidence"].as_f64() > Some(0.95),
        "{said:#}"
    );
    let said = run(&one, |x, _| !(32..96).contains(&x))?;
    ensure!(said["top"] == "dark", "{said:#}");
    let several = model_workflow(
        "roboflow_multi_label_classification_model@v2",
        "bright-class",
    );
    let said = run(&several, |_, _| true)?;
    ensure!(said["predicted_classes"] == json!(["bright"]), "{said:#}");
    ensure!(said["predictions"]["dark"]["class_id"] == 0, "{said:#}");
    Ok(())
}

#[test]
fn clip_ranks_the_matching_text_first() -> anyhow::Result<()> {
    let workflow = one_step(
        json!({"type": "roboflow_core/clip_comparison@v2", "images": "$inputs.image",
        "classes": ["a dark one", "Bright!"]}),
    );
    let said = run(&workflow, |_, _| true)?;
    ensure!(said["most_similar_class"] == "Bright!", "{said:#}");
    ensure!(said["max_similarity"].as_f64() > Some(0.95), "{said:#}");
    let said = run(&workflow, |_, _| false)?;
    ensure!(said["most_similar_class"] == "a dark one", "{said:#}");
    let numbers = one_step(json!({"type": "roboflow_core/clip@v1", "data": "$inputs.image"}));
    let said = run(&numbers, |x, _| x < 64)?;
    let half = |n: &Value| n.as_f64().is_some_and(|n| (n - 0.5).abs() < 0.05);
    let both = said["embedding"].as_array().context("numbers")?;
    ensure!(both.len() == 2 && both.iter().all(half), "{said:#}");
    Ok(())
}

/// A black picture with a line from 16 to 112 and from 16 to 48, whose left half is grey and right
/// half white.
fn line(x: u32, y: u32) -> u8 {
    match (x, y) {
        (16..64, 16..48) => 128,
        (64..112, 16..48) => 255,
        _ => 0,
    }
}

#[test]
fn ocr_returns_text_with_its_place() -> anyhow::Result<()> {
    let page = one_step(json!({"type": "roboflow_core/ocr_model@v1", "images": "$inputs.image"}));
    let said = run_on(&page, line)?;
    ensure!(said["result"] == "ab", "{said:#}");
    let part = &said["predictions"]["predictions"][0];
    for (name, wanted) in [("x", 64.0), ("y", 32.0), ("width", 96.0), ("height", 32.0)] {
        let at = part[name].as_f64().context("a box")?;
        ensure!((at - wanted).abs() <= 4.0, "{name}: {at}, {said:#}");
    }
    let two = run_on(&page, |x, y| match (x, y) {
        (8..40, 4..24) => 255,
        (80..120, 6..26) => 128,
        (16..96, 40..60) => 255,
        _ => 0,
    })?;
    ensure!(two["result"] == "b a b", "in the order of reading: {two:#}");
    let nothing = run_on(&page, |_, _| 0)?;
    ensure!(
        nothing["result"] == "" && nothing["predictions"]["predictions"] == json!([]),
        "{nothing:#}"
    );
    Ok(())
}

#[test]
fn ocr_without_line_detector_reads_one_line() -> anyhow::Result<()> {
    let alone = one_step(
        json!({"type": "roboflow_core/pp_ocr@v1", "images": "$inputs.image", "text_detection": "none"}),
    );
    let said = run_on(&alone, |x, _| if x < 64 { 255 } else { 128 })?;
    ensure!(said["result"] == "ba", "{said:#}");
    let part = &said["predictions"]["predictions"][0];
    ensure!(part["width"] == 128.0 && part["height"] == 64.0, "{said:#}");
    Ok(())
}

#[test]
fn segmentation_labels_every_pixel_but_the_padding() -> anyhow::Result<()> {
    let workflow = one_step(
        json!({"type": "roboflow_core/roboflow_semantic_segmentation_model@v2",
        "images": "$inputs.image", "model_id": "bright-map"}),
    );
    let said = run(&workflow, |x, _| x >= 64)?;
    let found = said["predictions"]["predictions"]
        .as_array()
        .context("a list")?;
    ensure!(
        found.len() == 1 && found[0]["class"] == "bright",
        "{said:#}"
    );
    ensure!(found[0]["rle_mask"]["size"] == json!([64, 128]), "{said:#}");
    for (name, wanted) in [("x", 95.5), ("width", 63.0), ("height", 63.0)] {
        let at = found[0][name].as_f64().context("a box")?;
        ensure!((at - wanted).abs() <= 4.0, "{name}: {at}, {said:#}");
    }
    let dark = run(&workflow, |_, _| false)?;
    ensure!(dark["predictions"]["predictions"] == json!([]), "{dark:#}");
    Ok(())
}

#[test]
fn depth_model_returns_values_and_a_picture() -> anyhow::Result<()> {
    let workflow =
        one_step(json!({"type": "roboflow_core/depth_estimation@v1", "images": "$inputs.image"}));
    let said = run(&workflow, |x, _| x >= 64)?;
    let rows = said["normalized_depth"].as_array().context("rows")?;
    ensure!(rows.len() == 64, "{} rows", rows.len());
    let row = rows[30].as_array().context("a row")?;
    ensure!(
        row.len() == 128 && row[8] == 0.0 && row[120] == 1.0,
        "{row:?}"
    );
    ensure!(said["image"]["type"] == "base64", "a picture of it");
    let (none, errors) = tried(&workflow, |_, _| 128)?;
    ensure!(
        none.is_none() && errors.contains("one depth for the whole picture"),
        "{errors}"
    );
    Ok(())
}

#[test]
fn gaze_model_works_on_faces_of_a_detector() -> anyhow::Result<()> {
    for finds in [true, false] {
        let workflow = one_step(
            json!({"type": "roboflow_core/gaze@v1", "images": "$inputs.image",
            "do_run_face_detection": finds}),
        );
        // The angles of the four columns are -40, -20, 0 and 20 degrees; those of the rows are the
        // same from below.
        let said = run(&workflow, |x, y| x >= 96 && y < 16)?;
        let angle = |name: &str| said[name][0].as_f64();
        for name in ["yaw_degrees", "pitch_degrees"] {
            let is_twenty = angle(name).is_some_and(|a| (a - 20.0).abs() < 1.0);
            ensure!(is_twenty, "{name}, {finds}: {said:#}");
        }
        let face = &said["face_predictions"]["predictions"][0];
        ensure!(face["width"] == 128.0, "{said:#}");
    }
    Ok(())
}

#[test]
fn text_prompted_detector_labels_boxes_with_the_prompt() -> anyhow::Result<()> {
    let workflow = one_step(
        json!({"type": "roboflow_core/yolo_world_model@v1", "images": "$inputs.image",
        "class_names": ["a dark thing", "bright"], "confidence": 0.5}),
    );
    for (is_bright, wanted) in [(true, "bright"), (false, "a dark thing")] {
        let said = run(&workflow, |_, _| is_bright)?;
        let found = said["predictions"]["predictions"]
            .as_array()
            .context("a list")?;
        ensure!(found.len() == 1 && found[0]["class"] == wanted, "{said:#}");
        let size = [&found[0]["width"], &found[0]["height"]];
        ensure!(size == [&json!(128.0), &json!(64.0)], "{said:#}");
    }
    Ok(())
}

#[test]
fn activation_map_needs_a_classifier_that_returns_it() -> anyhow::Result<()> {
    let asking = |model: &str, output_type: &str| {
        one_step(
            json!({"type": "roboflow_core/embedding_model@v1", "data": "$inputs.image", "model_id": model,
            "output_type": output_type}),
        )
    };
    let said = run_on(&asking("bright-look", "feature_vector"), |_, _| 51)?;
    let each = said["embedding"].as_array().context("numbers")?;
    let is_fifth = |n: &Value| n.as_f64().is_some_and(|n| (n - 0.2).abs() < 0.01);
    ensure!(each.len() == 3 && each.iter().all(is_fifth), "{said:#}");
    let logits = run_on(&asking("bright-look", "logits"), |_, _| 51)?;
    let bright = logits["embedding"][1].as_f64().context("a number")?;
    ensure!((bright + 2.4).abs() < 0.05, "{logits:#}");
    let space = |said: &Value| said["embedding_info"]["space_id"].clone();
    ensure!(space(&said) != space(&logits), "{said:#} {logits:#}");
    let (none, errors) = tried(&asking("bright-class", "feature_vector"), |_, _| 0)?;
    ensure!(
        none.is_none() && errors.contains("has_features = true"),
        "{errors}"
    );
    Ok(())
}

#[test]
fn anomaly_score_comes_with_its_place() -> anyhow::Result<()> {
    let workflow = one_step(
        json!({"type": "roboflow_core/anomaly_detection_model@v1", "images": "$inputs.image",
        "model_id": "bright-odd"}),
    );
    let said = run_on(&workflow, |_, _| 128)?;
    ensure!(
        said["is_anomalous"] == false && said["predictions"]["top"] == "normal",
        "{said:#}"
    );
    let said = run_on(&workflow, |x, y| if x >= 96 && y < 16 { 255 } else { 128 })?;
    ensure!(
        said["is_anomalous"] == true && said["predictions"]["top"] == "anomalous",
        "{said:#}"
    );
    let at = |x: usize, y: usize| said["anomaly_map"][y][x].as_f64();
    ensure!(
        at(112, 8) > Some(0.45) && at(16, 48) < Some(0.05),
        "{:?} {:?}",
        at(112, 8),
        at(16, 48)
    );
    let (none, errors) = tried(
        &model_workflow("roboflow_classification_model@v2", "bright-odd"),
        |_, _| 0,
    )?;
    ensure!(
        none.is_none() && errors.contains("anomaly-detection"),
        "{errors}"
    );
    Ok(())
}

#[test]
fn action_model_needs_several_frames() -> anyhow::Result<()> {
    let asking = |model: &str| {
        one_step(
            json!({"type": "roboflow_core/roboflow_action_recognition_model@v1", "images": "$inputs.image", "model_id": model}),
        )
    };
    let said = run(&asking("bright-move"), |_, _| true)?;
    ensure!(
        said["timeline"] == json!([]) && said["error_status"] == "",
        "{said:#}"
    );
    let (none, errors) = tried(&asking("bright-class"), |_, _| 255)?;
    ensure!(
        none.is_none() && errors.contains("does not analyse runs of frames"),
        "{errors}"
    );
    Ok(())
}

/// Makes a workflow that finds the whole picture and segments it, or what the picture shows.
fn prompt_workflow(version: &str, with_boxes: bool, several: bool) -> Value {
    let mut masks = json!({"type": "roboflow_core/segment_anything@v1", "name": "masks", "images": "$inputs.image",
        "version": version, "multimask_output": several});
    if with_boxes {
        masks["boxes"] = json!("$steps.boxes.predictions");
    }
    json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [
            {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "boxes", "images": "$inputs.image",
                "model_id": "bright-seg"},
            masks,
        ],
        "outputs": [{"type": "JsonField", "name": "said", "selector": "$steps.masks.predictions"}],
    })
}

#[test]
fn prompted_masks_follow_boxes_or_picture_in_both_layouts() -> anyhow::Result<()> {
    let bright = |x: u32, y: u32| (32..96).contains(&x) && (16..48).contains(&y);
    for (version, class, score) in [
        ("hiera_tiny", "thing", 0.9),
        ("hiera_tiny", "foreground", 0.9),
        ("hiera_small", "thing", 0.8),
    ] {
        let said = run(&prompt_workflow(version, class == "thing", true), bright)?;
        let found = said["predictions"].as_array().context("a list")?;
        ensure!(found.len() == 1 && found[0]["class"] == class, "{said:#}");
        let sure = found[0]["confidence"].as_f64().context("a score")?;
        ensure!((sure - score).abs() < 1e-3, "{said:#}");
        for (name, wanted) in [("x", 63.5), ("y", 31.5), ("width", 63.0), ("height", 31.0)] {
            let at = found[0][name].as_f64().context("a box")?;
            ensure!(
                (at - wanted).abs() <= 4.0,
                "{version} {name}: {at}, {said:#}"
            );
        }
    }
    // A box around everything that the picture shows: the whole picture.
    let said = run(&prompt_workflow("hiera_tiny", true, false), bright)?;
    let width = said["predictions"][0]["width"].as_f64();
    ensure!(width > Some(120.0), "{said:#}");
    Ok(())
}

#[test]
fn missing_model_of_a_step_says_how_to_install_it() -> anyhow::Result<()> {
    let unknown = one_step(
        json!({"type": "roboflow_core/clip_comparison@v2", "images": "$inputs.image",
        "classes": ["a"], "version": "RN50x64"}),
    );
    let (none, errors) = tried(&unknown, |_, _| 0)?;
    ensure!(
        none.is_none() && errors.contains("stands_for = [\"clip/RN50x64\"]"),
        "{errors}"
    );
    let of_the_zoo =
        one_step(json!({"type": "roboflow_core/perception_encoder@v1", "data": "a text"}));
    let (none, errors) = tried(&of_the_zoo, |_, _| 0)?;
    ensure!(
        none.is_none() && errors.contains("perception_encoder/PE-Core-L14-336"),
        "{errors}"
    );
    Ok(())
}

#[test]
fn pipeline_classifies_frames_and_refuses_other_model_kinds() -> anyhow::Result<()> {
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
    let (status, refused) = deploy(model_workflow(
        "roboflow_classification_model@v2",
        "bright-seg",
    ))?;
    let text = String::from_utf8_lossy(&refused);
    ensure!(
        status == 422 && text.contains("it is a model for instance-segmentation"),
        "{status}: {text}"
    );
    let compares = |version: &str| {
        one_step(
            json!({"type": "roboflow_core/clip_comparison@v2", "images": "$inputs.image",
            "classes": ["bright", "dark"], "version": version}),
        )
    };
    let (status, refused) = deploy(compares("RN101"))?;
    let text = String::from_utf8_lossy(&refused);
    ensure!(
        status == 422 && text.contains("clip/RN101"),
        "{status}: {text}"
    );
    let (status, refused) = deploy(model_workflow(
        "roboflow_semantic_segmentation_model@v1",
        "bright-depth",
    ))?;
    let text = String::from_utf8_lossy(&refused);
    ensure!(
        status == 422 && text.contains("it is a model for depth-estimation"),
        "{status}: {text}"
    );
    let (status, answer) = deploy(model_workflow(
        "roboflow_classification_model@v2",
        "bright-class",
    ))?;
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

    // Every other kind in parallel, on the same frames.
    let steps = json!([
        {"type": "roboflow_core/clip_comparison@v2", "name": "clip", "images": "$inputs.image", "classes": ["bright", "dark"]},
        {"type": "roboflow_core/ocr_model@v1", "name": "ocr", "images": "$inputs.image"},
        {"type": "roboflow_core/roboflow_semantic_segmentation_model@v2", "name": "map", "images": "$inputs.image",
            "model_id": "bright-map"},
        {"type": "roboflow_core/depth_estimation@v1", "name": "depth", "images": "$inputs.image"},
        {"type": "roboflow_core/gaze@v1", "name": "gaze", "images": "$inputs.image"},
        {"type": "roboflow_core/yolo_world_model@v1", "name": "world", "images": "$inputs.image",
            "class_names": ["bright", "dark"]},
        {"type": "roboflow_core/roboflow_action_recognition_model@v1", "name": "move", "images": "$inputs.image",
            "model_id": "bright-move", "stride_seconds": 0.5},
        {"type": "roboflow_core/embedding_model@v1", "name": "look", "data": "$inputs.image", "model_id": "bright-look"},
        {"type": "roboflow_core/anomaly_detection_model@v1", "name": "odd", "images": "$inputs.image", "model_id": "bright-odd"},
        {"type": "roboflow_core/segment_anything@v1", "name": "masks", "images": "$inputs.image",
            "boxes": "$steps.world.predictions"},
    ]);
    let outputs = json!([
        {"type": "JsonField", "name": "clip", "selector": "$steps.clip.most_similar_class"},
        {"type": "JsonField", "name": "ocr", "selector": "$steps.ocr.prediction_type"},
        {"type": "JsonField", "name": "map", "selector": "$steps.map.model_id"},
        {"type": "JsonField", "name": "gaze", "selector": "$steps.gaze.yaw_degrees"},
        {"type": "JsonField", "name": "world", "selector": "$steps.world.predictions"},
        {"type": "JsonField", "name": "move", "selector": "$steps.move.timeline"},
        {"type": "JsonField", "name": "look", "selector": "$steps.look.embedding"},
        {"type": "JsonField", "name": "odd", "selector": "$steps.odd.is_anomalous"},
        {"type": "JsonField", "name": "masks", "selector": "$steps.masks.predictions"},
    ]);
    let all = json!({"version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": steps, "outputs": outputs});
    let (status, answer) = bench.request(
        "POST",
        "/v1/pipelines",
        Some(&json!({"id": "all", "source": "street", "workflow": all})),
    )?;
    ensure!(
        status == 201,
        "{status}: {}",
        String::from_utf8_lossy(&answer)
    );
    let outputs = wait_for("what all of them say", || {
        let results = bench.get("/v1/pipelines/all/results").ok()?;
        let outputs = results.get("outputs")?;
        let is_there = outputs.get("masks").is_some_and(Value::is_object)
            && outputs.pointer("/move/0").is_some();
        is_there.then(|| outputs.clone())
    })?;
    let action = &outputs["move"][0];
    ensure!(
        action["class"] == "steady"
            && action["start_frame_idx"].as_u64() < action["end_frame_idx"].as_u64(),
        "{outputs:#}"
    );
    ensure!(
        outputs["clip"] == "bright" || outputs["clip"] == "dark",
        "{outputs:#}"
    );
    ensure!(
        outputs["look"].is_array() && outputs["odd"].is_boolean(),
        "{outputs:#}"
    );
    ensure!(
        outputs["ocr"] == "ocr" && outputs["map"] == "bright-map" && outputs["gaze"].is_array(),
        "{outputs:#}"
    );
    Ok(())
}
