//! Coverage of a real runtime: a pause, a kill and a restart, what is answered, what is signed.

use std::fs;
use std::process::Output;

use anyhow::Context as _;
use serde_json::Value;
use watchkeeper_tests::daemons::{Bench, wait_for};
use watchkeeper_tests::person::{ask, command};

const WORKFLOW: &str = r#"{"version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}], "steps": [
    {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "detect", "images": "$inputs.image", "model_id": "motion"},
    {"type": "roboflow_core/byte_tracker@v3", "name": "tracker", "image": "$inputs.image", "detections": "$steps.detect.predictions"}],
    "outputs": [{"type": "JsonField", "name": "t", "selector": "$steps.tracker.tracked_detections"}]}"#;

fn bench() -> anyhow::Result<Bench> {
    let bench = Bench::new(
        "[sources.street]\nuri = \"demo:?seconds=600\"\npace = \"native\"\nmax_fps = 5\n\n\
         [sources.dock]\nuri = \"demo:?seconds=600\"\npace = \"native\"\n\n\
         [pipelines.watch]\nsource = \"street\"\nworkflow = \"watch.json\"\n",
    )?;
    fs::write(bench.path("watch.json"), WORKFLOW)?;
    Ok(bench)
}

fn run(bench: &Bench, arguments: &[&str]) -> anyhow::Result<Output> {
    Ok(command(bench)?.args(arguments).output()?)
}

fn answer(bench: &Bench, question: &str) -> anyhow::Result<String> {
    let out = ask(bench, &[question])?;
    let errors = String::from_utf8_lossy(&out.stderr);
    anyhow::ensure!(out.status.success(), "{question}: {errors}");
    Ok(String::from_utf8(out.stdout)?)
}

/// Reasons for which the spans ended, in order; `open` for the last one.
fn ends(bench: &Bench) -> anyhow::Result<Vec<String>> {
    let report = bench.get("/v1/coverage")?;
    let spans = report["spans"].as_array().cloned().unwrap_or_default();
    let reason = |span: &Value| {
        span["end"]["reason"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    Ok(spans.iter().map(reason).collect())
}

#[test]
fn coverage_outlasts_pause_and_kill_and_supports_answers() -> anyhow::Result<()> {
    let bench = bench()?;
    let runtime = bench.runtime()?;
    wait_for("the first span", || {
        (ends(&bench).ok()? == ["open"]).then_some(())
    })?;
    bench.json("POST", "/v1/pipelines/watch/pause", None)?;
    assert_eq!(ends(&bench)?, ["paused"]);
    bench.json("POST", "/v1/pipelines/watch/resume", None)?;
    wait_for("the open span to be saved", || {
        let saved = fs::read_to_string(bench.path("state/coverage.json")).ok()?;
        (ends(&bench).ok()? == ["paused", "open"] && saved.contains("\"watch\"")).then_some(())
    })?;
    runtime.kill()?;

    let _runtime = bench.runtime()?;
    wait_for("the span after the kill", || {
        (ends(&bench).ok()? == ["paused", "killed", "open"]).then_some(())
    })?;
    let motion = answer(&bench, "was a person on the street camera today")?;
    assert!(motion.contains("motion tells no classes apart"), "{motion}");
    let dock = answer(&bench, "did anything happen on the dock camera today")?;
    assert!(
        dock.contains("I could not have known: dock, because nothing watched"),
        "{dock}"
    );
    let street = answer(&bench, "did anything happen on the street camera today")?;
    assert!(!street.contains("No event:"), "{street}");
    let watched = answer(&bench, "was the street camera watched today")?;
    assert!(
        watched.contains("Watched part of that time: street. Not watched, or not known: street")
            && watched.contains("because nothing watched"),
        "{watched}"
    );

    let lines = run(&bench, &["coverage", "street", "--since", "1h"])?;
    let lines = String::from_utf8(lines.stdout)?;
    assert!(
        lines.contains("not known: the runtime stopped unexpectedly and had not resumed watching"),
        "{lines}"
    );
    assert!(
        lines.contains("not known: the pipeline was paused"),
        "{lines}"
    );
    Ok(())
}

#[test]
fn statement_is_verified_and_a_changed_one_is_not() -> anyhow::Result<()> {
    let bench = bench()?;
    let _runtime = bench.runtime()?;
    wait_for("an event", || {
        (!bench.events().ok()?.is_empty()).then_some(())
    })?;
    let shown = answer(&bench, "show me the picture")?;
    let picture = shown.lines().find_map(|line| line.strip_prefix("Saved "));
    let picture = picture.with_context(|| format!("no picture: {shown}"))?;
    assert!(fs::read(picture)?.starts_with(&[0xff, 0xd8]), "{picture}");

    let file = bench.path("statement.json");
    let path = file.to_string_lossy().into_owned();
    let saved = run(&bench, &["coverage", "--statement", &path])?;
    anyhow::ensure!(
        saved.status.success(),
        "{}",
        String::from_utf8_lossy(&saved.stderr)
    );
    let verify = || run(&bench, &["events", "verify", "--statement", &path]);
    let sound = verify()?;
    let text = String::from_utf8(sound.stdout)?;
    assert_eq!(sound.status.code(), Some(0), "{text}");
    assert!(
        text.contains("signature ok")
            && text.contains("is in the journal")
            && text.contains("watched by watch"),
        "{text}"
    );
    assert!(text.contains("hashes verified"), "{text}");

    let honest = fs::read_to_string(&file)?;
    let other = honest.replacen("\"pipeline\": \"watch\"", "\"pipeline\": \"watch2\"", 1);
    assert_ne!(honest, other);
    fs::write(&file, other)?;
    let changed = verify()?;
    let errors = String::from_utf8(changed.stderr)?;
    assert_eq!(changed.status.code(), Some(1), "{errors}");
    assert!(errors.contains("the statement was changed"), "{errors}");

    // A second report, and a member that is not signed.
    for added in ["\"report\": {},", "\"note\": \"all was quiet\","] {
        fs::write(&file, honest.replacen('{', &format!("{{{added}"), 1))?;
        let padded = verify()?;
        assert_eq!(padded.status.code(), Some(2), "{added}");
    }

    // Signed by another box.
    fs::write(&file, honest)?;
    let key = "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=";
    let foreign = run(
        &bench,
        &["events", "verify", "--statement", &path, "--key", key],
    )?;
    assert_eq!(foreign.status.code(), Some(1));
    Ok(())
}
