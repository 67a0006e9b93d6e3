//! `watchkeeper workflow validate | replay | run` and `mot-track`, which scripts call: their JSON,
//! files and exit codes.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use watchkeeper_tests::daemons::{data, program};

fn workflow(arguments: &[&str], folder: &Path) -> anyhow::Result<Output> {
    Ok(Command::new(program("watchkeeper")?)
        .arg("workflow")
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()?)
}

/// Validates a definition in a file; returns report and exit code.
fn validate(definition: &str) -> anyhow::Result<(Value, Option<i32>)> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("w.json"), definition)?;
    let out = workflow(&["validate", "w.json", "--json"], folder.path())?;
    let errors = String::from_utf8_lossy(&out.stderr);
    ensure!(!errors.contains("panicked"), "{errors}");
    let said = serde_json::from_slice(&out.stdout).with_context(|| errors.into_owned())?;
    Ok((said, out.status.code()))
}

fn crops() -> Value {
    json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [
            {"type": "ObjectDetectionModel", "name": "model", "image": "$inputs.image", "model_id": "yolox-nano"},
            {"type": "Crop", "name": "crop", "image": "$inputs.image", "predictions": "$steps.model.predictions"},
            {"type": "roboflow_core/camera_focus@v1", "name": "focus", "image": "$steps.crop.crops"},
        ],
        "outputs": [
            {"type": "JsonField", "name": "boxes", "selector": "$steps.model.predictions"},
            {"type": "JsonField", "name": "sharp", "selector": "$steps.focus.*"},
        ],
    })
}

#[test]
fn valid_definition_is_reported_with_dimensions_and_kinds() -> anyhow::Result<()> {
    let (said, code) = validate(&crops().to_string())?;
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(
        said,
        json!({
            "ok": true,
            "errors": [],
            "steps": {
                "model": {"exec_dim": 1, "out_dim": 1},
                "crop": {"exec_dim": 1, "out_dim": 2},
                "focus": {"exec_dim": 2, "out_dim": 2},
            },
            "outputs": {
                "boxes": {"dim": 1, "kind": ["object_detection_prediction"]},
                "sharp": {"dim": 2, "kind": {"image": ["image"], "focus_measure": ["float"]}},
            },
        })
    );
    Ok(())
}

#[test]
fn invalid_definition_is_reported_with_every_error() -> anyhow::Result<()> {
    let mut wrong = crops();
    wrong["steps"][1]["predictions"] = json!("$steps.modle.predictions");
    wrong["steps"][2]["type"] = json!("roboflow_core/camera_focuss@v1");
    let (said, code) = validate(&wrong.to_string())?;
    assert_eq!(code, Some(2), "{said}");
    assert_eq!(said["ok"], false);
    let errors = said["errors"].as_array().context("errors")?;
    let about = |step: &str| errors.iter().find(|e| e["step"] == step);
    let crop = about("crop").with_context(|| said.to_string())?;
    assert_eq!(crop["property"], "predictions", "{said}");
    assert_eq!(crop["nearest"], "model", "{said}");
    let focus = about("focus").with_context(|| said.to_string())?;
    assert_eq!(focus["class"], "WorkflowSyntaxError", "{said}");
    assert!(errors.iter().all(|e| e["message"].is_string()), "{said}");
    Ok(())
}

#[test]
fn malformed_or_huge_definition_is_refused() -> anyhow::Result<()> {
    let steps: Vec<Value> = (0..2500)
        .map(|n| json!({"type": "ContinueIf", "name": format!("s{n}")}))
        .collect();
    let many = json!({"version": "1.0", "inputs": [], "steps": steps, "outputs": []});
    for definition in [
        String::new(),
        "{".to_owned(),
        "[]".to_owned(),
        "[".repeat(100_000),
        crops().to_string().replace("\"yolox-nano\"", "1e999"),
        many.to_string(),
        format!("{{\"version\": \"{}\"}}", "x".repeat(10 << 20)),
    ] {
        let (said, code) = validate(&definition)?;
        let start: String = definition.chars().take(60).collect();
        assert_eq!(code, Some(2), "{start}");
        assert_eq!(said["ok"], false, "{start}");
        let message = said["errors"][0]["message"].as_str().unwrap_or_default();
        assert!(
            !message.is_empty() && message.chars().count() < 2100,
            "{start}: {message:.200}"
        );
    }
    Ok(())
}

#[test]
fn replay_matches_the_peer_on_every_frame() -> anyhow::Result<()> {
    let Some(folder) = data("recordings with the peer's results") else {
        return Ok(());
    };
    let folder = folder.join("workflows");
    for boxes in ["10", "50"] {
        let detections = format!("detections_{boxes}.json");
        let arguments = [
            "replay",
            "workflow_core3.json",
            "--detections",
            &detections,
            "--json",
        ];
        let out = workflow(&arguments, &folder)?;
        assert_eq!(out.status.code(), Some(0));
        let ours: Value = serde_json::from_slice(&out.stdout)?;
        let theirs = std::fs::read(folder.join(format!("expected_core3_{boxes}.json")))?;
        let theirs: Value = serde_json::from_slice(&theirs)?;
        let counts = |all: &Value| -> Vec<[Value; 4]> {
            let frames = all.as_array().into_iter().flatten();
            let members = ["frame", "count_in", "count_out", "tracked"];
            frames.map(|f| members.map(|m| f[m].clone())).collect()
        };
        assert_eq!(counts(&ours), counts(&theirs), "{boxes} boxes");
    }
    Ok(())
}

/// Removes ids and times that differ between runs, and the contents of pictures.
fn comparable(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let is_picture =
                members.contains_key("__image__") || members.get("type") == Some(&json!("base64"));
            if is_picture {
                return json!("picture");
            }
            if let Some(inner) = members.get("__detections__") {
                return comparable(inner);
            }
            let kept = members.iter().filter(|(name, _)| {
                !["detection_id", "inference_id", "parent_id"].contains(&name.as_str())
            });
            Value::Object(
                kept.map(|(name, v)| (name.clone(), comparable(v)))
                    .collect(),
            )
        }
        Value::Array(items) => items.iter().map(comparable).collect(),
        Value::Number(n) => json!((n.as_f64().unwrap_or_default() * 1000.0).round()),
        other => other.clone(),
    }
}

/// Whether two comparable values are equal, numbers to a thousandth. Arrays of the peer have only
/// shape and mean.
fn is_similar(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Number(a), Value::Number(b)) => {
            (a.as_f64().unwrap_or_default() - b.as_f64().unwrap_or_default()).abs() <= 1.0
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_similar(a, b))
        }
        (Value::Array(_), Value::Object(b)) => b.contains_key("__array__"),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(name, a)| b.get(name).is_some_and(|b| is_similar(a, b)))
        }
        (a, b) => a == b,
    }
}

#[test]
fn workflow_run_matches_the_peer_on_pictures() -> anyhow::Result<()> {
    let Some(folder) = data("definitions with the peer's outputs") else {
        return Ok(());
    };
    let folder = folder.join("workflows");
    let peer: Value = serde_json::from_slice(&std::fs::read(folder.join("peer_outputs.json"))?)?;
    let mut compared = 0;
    for (name, said) in peer.as_object().context("outputs by definition")? {
        if said["ok"] != true {
            continue;
        }
        let definition = format!("definitions/{name}.json");
        let mut arguments = vec!["run".to_owned(), definition, "--json".to_owned()];
        arguments.extend(["--detector", "three-fixed-boxes"].map(str::to_owned));
        let mut has_picture = false;
        for (input, value) in said["params"].as_object().context("parameters")? {
            if value.pointer("/0/__image__").is_some() {
                if !has_picture {
                    arguments.extend(["--image", "oracle_input.png"].map(str::to_owned));
                }
                has_picture = true;
                continue;
            }
            let given = match value.pointer("/0/__detections__") {
                Some(detections) => json!([detections]),
                None => value.clone(),
            };
            arguments.extend(["--param".to_owned(), format!("{input}={given}")]);
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let out = workflow(&arguments, &folder)?;
        let errors = String::from_utf8_lossy(&out.stderr).into_owned();
        let ours: Value =
            serde_json::from_slice(&out.stdout).with_context(|| format!("{name}: {errors}"))?;
        let (ours, theirs) = (comparable(&ours), comparable(&said["output"]));
        ensure!(
            is_similar(&ours, &theirs),
            "{name}\nours   {ours}\npeer's {theirs}"
        );
        compared += 1;
    }
    ensure!(compared >= 33, "only {compared} were compared");
    Ok(())
}

#[test]
fn mot_track_writes_tracks_of_sequences() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let sequence = folder.path().join("in/walk");
    std::fs::create_dir_all(&sequence)?;
    let info = json!({"set": "own", "fps": 30.0, "frames": 30, "width": 640, "height": 480});
    std::fs::write(sequence.join("seqinfo.json"), info.to_string())?;
    let lines =
        (1..=30).map(|frame| format!("{frame},-1,{},100,40,80,0.9,-1,-1,-1\n", 100 + 4 * frame));
    std::fs::write(sequence.join("det.txt"), lines.collect::<String>())?;
    for setting in ["default", "byte-track"] {
        let out = Command::new(env!("CARGO_BIN_EXE_mot-track"))
            .args([folder.path().join("in"), folder.path().join("out")])
            .args(["--setting", setting])
            .output()?;
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        assert!(
            said.starts_with("walk ") && said.contains("ms/frame"),
            "{said}"
        );
        let text = std::fs::read_to_string(folder.path().join("out/walk.txt"))?;
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert!(rows.len() >= 28, "{setting}: {text}");
        for row in &rows {
            assert_eq!(row.len(), 10, "{setting}: {row:?}");
            assert_eq!(row[1], rows[0][1], "{setting}: one walker is one track");
            assert_eq!(row[6..], ["1", "-1", "-1", "-1"], "{setting}");
        }
    }
    let out = Command::new(env!("CARGO_BIN_EXE_mot-track"))
        .args(["in", "out", "--setting", "magic"])
        .current_dir(&folder)
        .output()?;
    assert!(!out.status.success());
    assert!(String::from_utf8_lossy(&out.stderr).contains("magic"));
    Ok(())
}
