//! The examples in `docs/examples`: workflows that compile and a configuration that is accepted.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use watchkeeper_engine::workflow::validate;
use watchkeeper_tests::daemons::{program, run_json};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples")
}

#[test]
fn every_example_workflow_compiles() -> anyhow::Result<()> {
    let mut seen = 0;
    for entry in std::fs::read_dir(folder())? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "json") {
            let definition: Value = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
            let report = validate(&definition);
            assert!(report.ok, "{}: {:#?}", path.display(), report.errors);
            seen += 1;
        }
    }
    assert!(seen >= 3, "{seen} examples");
    Ok(())
}

#[test]
fn people_crossing_tracks_motion_without_classes() -> anyhow::Result<()> {
    let workflow = folder().join("people-crossing.workflow.json");
    let workflow = workflow.to_string_lossy();
    let (code, lines, errors) = run_json(&[
        "demo:",
        "--workflow",
        &workflow,
        "--model",
        "motion",
        "--for",
        "9",
    ])?;
    assert_eq!(code, 0, "{errors}");
    let summary = lines.last().context("a summary")?;
    assert!(summary["tracks"].as_u64() > Some(0), "{summary}");
    let is_told = |line: &Value| {
        let message = line["message"].as_str().unwrap_or_default();
        line["type"] == "note" && message.contains("class_filter of step \"detect\" has no effect")
    };
    assert!(lines.iter().any(is_told), "{lines:#?}");
    Ok(())
}

#[test]
fn example_configuration_is_accepted_without_a_warning() -> anyhow::Result<()> {
    let output = Command::new(program("watchkeeper")?)
        .args(["config", "check"])
        .arg(folder().join("box.toml"))
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    Ok(())
}

#[test]
fn readme_names_only_existing_examples() -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let readme = std::fs::read_to_string(root.join("README.md"))?;
    let mut seen = 0;
    for word in readme.split(|c: char| c.is_whitespace() || "()`[]".contains(c)) {
        if let Some(name) = word.strip_prefix("docs/examples/") {
            let name = name.trim_end_matches([',', '.', ';', ':']);
            ensure!(folder().join(name).exists(), "README names {word}");
            seen += 1;
        }
    }
    (seen > 0).then_some(()).context("README names no example")
}
