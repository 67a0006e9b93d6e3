//! PP-OCRv4 with the real weights reads drawn pictures from end to end, no worse than RapidOCR with
//! the same networks.
//!
//! The weights are not in the repository. `tests/tools/ocr/run --keep FOLDER` downloads them, with
//! the pictures and the peer's results, and `WATCHKEEPER_OCR=FOLDER` enables these tests. Without
//! it, each test says that it is skipped.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use watchkeeper_tests::daemons::program;

/// Returns the folder that the tool filled.
#[expect(clippy::print_stderr, reason = "a skip must be loud")]
fn kept() -> Option<PathBuf> {
    let folder = std::env::var_os("WATCHKEEPER_OCR").map(PathBuf::from);
    let whole = folder.filter(|folder| folder.join("peer.json").is_file());
    if whole.is_none() {
        eprintln!(
            "SKIPPED: reading with real weights (tests/tools/ocr/run --keep FOLDER brings them, WATCHKEEPER_OCR names the folder)"
        );
    }
    whole
}

/// Reads a picture by a step of this type; returns the text and the box of each line.
fn read(folder: &Path, block: &str, picture: &str) -> anyhow::Result<Vec<(String, [f64; 4])>> {
    let room = tempfile::tempdir()?;
    let file = room.path().join("w.json");
    let workflow = json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [{"type": block, "name": "ocr", "images": "$inputs.image"}],
        "outputs": [{"type": "JsonField", "name": "read", "selector": "$steps.ocr.predictions"}],
    });
    std::fs::write(&file, workflow.to_string())?;
    let out = Command::new(program("watchkeeper")?)
        .args(["workflow", "run", "--json", "--models-dir"])
        .arg(folder.join("models"))
        .arg(&file)
        .arg("--image")
        .arg(folder.join(format!("{picture}.png")))
        .stdin(Stdio::null())
        .output()?;
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    ensure!(out.status.success(), "{picture}: {errors}");
    let rows: Value = serde_json::from_slice(&out.stdout)?;
    let lines = rows[0]["read"]["predictions"].as_array();
    let lines = lines.with_context(|| format!("{picture}: {rows}"))?;
    let line = |line: &Value| {
        let number = |key: &str| line[key].as_f64().unwrap_or(f64::NAN);
        let (x, y) = (number("x"), number("y"));
        let (w, h) = (number("width") / 2.0, number("height") / 2.0);
        let text = line["class"].as_str().unwrap_or_default().to_owned();
        (text, [x - w, y - h, x + w, y + h])
    };
    Ok(lines.iter().map(line).collect())
}

/// Removes blanks, of which such networks are least certain.
fn plain(text: &str) -> String {
    text.split_whitespace().collect()
}

/// Intersection over union of two boxes.
fn overlap(a: &[f64; 4], b: &[f64; 4]) -> f64 {
    let side = |from: f64, to: f64| (to - from).max(0.0);
    let area = |r: &[f64; 4]| side(r[0], r[2]) * side(r[1], r[3]);
    let both = side(a[0].max(b[0]), a[2].min(b[2])) * side(a[1].max(b[1]), a[3].min(b[3]));
    both / (area(a) + area(b) - both)
}

#[test]
fn ocr_reads_whatever_the_peer_reads_in_the_same_place() -> anyhow::Result<()> {
    let Some(folder) = kept() else {
        return Ok(());
    };
    let peer: Value = serde_json::from_slice(&std::fs::read(folder.join("peer.json"))?)?;
    let pictures = peer.as_object().context("pictures by name")?;
    ensure!(!pictures.is_empty());
    for (picture, said) in pictures {
        let ours = read(&folder, "roboflow_core/ocr_model@v1", picture)?;
        let truth: Vec<String> = said["truth"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|line| line.as_str().map(plain))
            .collect();
        for line in said["lines"].as_array().into_iter().flatten() {
            let text = plain(line["text"].as_str().unwrap_or_default());
            if !truth.contains(&text) {
                continue;
            }
            let found = ours.iter().find(|(own, _)| plain(own) == text);
            let (_, place) =
                found.with_context(|| format!("{picture}: no {text:?} in {ours:?}"))?;
            let corners: Vec<f64> = line["box"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_f64)
                .collect();
            let theirs: [f64; 4] = corners.try_into().ok().context("four numbers")?;
            ensure!(
                overlap(place, &theirs) > 0.6,
                "{picture}: {text:?} is at {place:?}, and at {theirs:?} for the peer"
            );
        }
    }
    Ok(())
}

#[test]
fn ocr_lines_are_trimmed_and_every_block_finds_the_model() -> anyhow::Result<()> {
    let Some(folder) = kept() else {
        return Ok(());
    };
    for block in [
        "roboflow_core/ocr_model@v1",
        "roboflow_core/easy_ocr@v1",
        "roboflow_core/pp_ocr@v1",
    ] {
        let lines = read(&folder, block, "signs")?;
        ensure!(lines.len() == 3, "{block}: {lines:?}");
        for (text, _) in &lines {
            ensure!(text.trim() == text && !text.is_empty(), "{block}: {text:?}");
        }
    }
    Ok(())
}
