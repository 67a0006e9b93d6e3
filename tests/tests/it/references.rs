//! Reference pictures from end to end: the real runtime runs a tiny network, whose embedding is the
//! mean of each colour.

use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context as _, ensure};
use image::{Rgb, RgbImage};
use serde_json::{Value, json};
use watchkeeper_tests::daemons::{Bench, json_lines, program, wait_up_to};
use watchkeeper_tests::scene::{LONG, STREET};

fn bench() -> anyhow::Result<Bench> {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("models");
    let bench = Bench::new(&format!(
        "[models]\ndir = {:?}\n[agent.references]\nmodel = \"bright-look\"\nmin_likeness = 0.9\n",
        models.display().to_string()
    ))?;
    let blue = RgbImage::from_pixel(64, 48, Rgb([10, 20, 250]));
    blue.save(bench.path("blue.png"))?;
    let source = json!({"id": "street", "uri": STREET, "pace": "native"});
    std::fs::write(bench.path("source.json"), source.to_string())?;
    Ok(bench)
}

/// Runs `watchkeeper` with the configuration of the box.
fn command(bench: &Bench, arguments: &[&str]) -> anyhow::Result<Output> {
    let mut command = Command::new(program("watchkeeper")?);
    let command = command.arg("--config").arg(bench.config()).arg("--json");
    Ok(command
        .args(arguments)
        .current_dir(bench.path("."))
        .output()?)
}

fn reference(bench: &Bench, arguments: &[&str]) -> anyhow::Result<Vec<Value>> {
    let all: Vec<&str> = [&["reference"], arguments].concat();
    let out = command(bench, &all)?;
    let errors = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "{arguments:?}: {errors}");
    json_lines(&out.stdout)
}

/// Deploys a pipeline with a rule for each chain; an empty chain is a rule without.
fn deploy(bench: &Bench, id: &str, chains: &[(&str, &[&str])]) -> anyhow::Result<()> {
    let source = json!({"id": "street", "uri": STREET, "pace": "native"});
    bench.json("PUT", "/v1/sources/street", Some(&source))?;
    let workflow = json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [{"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "model",
            "images": "$inputs.image", "model_id": "motion"}],
        "outputs": [],
    });
    let rules = chains.iter().map(|(name, chain)| {
        let mut rule = json!({
            "name": name, "cooldown_s": 3600,
            "when": {"kind": "count", "detections": "$steps.model.predictions",
                "bound": {"over": 0}, "for_s": 2},
        });
        if !chain.is_empty() {
            rule["decide"] = json!({ "chain": chain });
        }
        rule
    });
    let rules: Vec<Value> = rules.collect();
    let spec = json!({"id": id, "source": "street", "workflow": workflow, "rules": rules});
    bench.json("POST", "/v1/pipelines", Some(&spec))?;
    Ok(())
}

/// Waits for a record of this rule in this phase.
fn record(bench: &Bench, rule: &str, phase: &str) -> anyhow::Result<Value> {
    wait_up_to(LONG, &format!("the record {phase} of {rule}"), || {
        let events = bench.events().ok()?;
        let mut found = events.into_iter();
        found.find(|e| e["body"]["rule"] == rule && e["phase"] == phase)
    })
}

fn wait_until_ready(bench: &Bench, set: &str) -> anyhow::Result<Vec<Value>> {
    wait_up_to(LONG, &format!("the embeddings of {set}"), || {
        let pictures = reference(bench, &["show", set]).ok()?;
        pictures
            .iter()
            .all(|picture| picture["ready"] == true)
            .then_some(pictures)
    })
}

#[test]
fn event_is_compared_with_sets_and_a_missing_set_is_a_failure() -> anyhow::Result<()> {
    let bench = bench()?;
    let runtime = bench.runtime()?;
    let agent = bench.agent()?;
    deploy(&bench, "first", &[("plain", &[])])?;
    let seq = record(&bench, "plain", "new")?["seq"].to_string();
    let added = reference(&bench, &["add", "scene", "--event", &seq])?;
    ensure!(added[0]["file"] == format!("event-{seq}.jpg"), "{added:#?}");
    reference(&bench, &["add", "blue", "blue.png"])?;
    for set in ["scene", "blue"] {
        let pictures = wait_until_ready(&bench, set)?;
        ensure!(
            pictures.len() == 1 && pictures[0]["model"] == "bright-look",
            "{pictures:#?}"
        );
    }
    // What was added survives a kill of the agent.
    agent.kill()?;
    let agent = bench.agent()?;
    wait_until_ready(&bench, "blue")?;
    bench.json("DELETE", "/v1/pipelines/first", None)?;
    deploy(
        &bench,
        "second",
        &[
            ("alike", &["reference scene,blue", "person"]),
            ("unlike", &["reference blue", "person"]),
            ("nowhere", &["reference nothing", "person"]),
        ],
    )?;
    let link = |rule: &str| -> anyhow::Result<(Value, Value)> {
        let assessed = record(&bench, rule, "assessed")?;
        let links = assessed["evidence"].as_array().cloned().unwrap_or_default();
        let of_reference = |link: &Value| {
            let source = link["source"].as_str().unwrap_or_default();
            source.starts_with("reference ")
        };
        let link = links.into_iter().find(of_reference);
        Ok((link.with_context(|| format!("{assessed:#}"))?, assessed))
    };
    let (found, assessed) = link("alike")?;
    ensure!(found["data"]["name"] == "scene", "{found:#}");
    ensure!(
        found["data"]["picture"] == format!("event-{seq}.jpg"),
        "{found:#}"
    );
    ensure!(found["data"]["likeness"].as_f64() >= Some(0.9), "{found:#}");
    ensure!(found["data"]["model"] == "bright-look", "{found:#}");
    // A network alone makes no event certain.
    ensure!(assessed["decision"]["verdict"] == "record", "{assessed:#}");
    let (found, assessed) = link("unlike")?;
    ensure!(
        found["weight"] == 0.0 && found["failed"] != true,
        "{found:#}"
    );
    ensure!(assessed["decision"]["verdict"] == "review", "{assessed:#}");
    let (found, _) = link("nowhere")?;
    ensure!(found["failed"] == true, "{found:#}");
    let note = found["note"].as_str().unwrap_or_default();
    ensure!(
        note.contains("there is no reference set nothing; there are blue, scene"),
        "{note}"
    );
    let removed = reference(&bench, &["remove", "blue"])?;
    ensure!(removed[0]["removed"] == 1, "{removed:#?}");
    let listed = reference(&bench, &["list"])?;
    ensure!(listed.len() == 1 && listed[0]["ready"] == 1, "{listed:#?}");
    drop((runtime, agent));
    Ok(())
}

#[test]
fn embeddings_wait_for_the_runtime_and_say_why() -> anyhow::Result<()> {
    let bench = bench()?;
    let _agent = bench.agent()?;
    wait_up_to(LONG, "the agent's API", || {
        reference(&bench, &["list"]).ok()
    })?;
    reference(&bench, &["add", "blue", "blue.png"])?;
    let problem = wait_up_to(LONG, "the cause", || {
        let listed = reference(&bench, &["list"]).ok()?;
        listed[0]["problem"].as_str().map(str::to_owned)
    })?;
    ensure!(problem.contains("runtime"), "{problem}");
    let shown = reference(&bench, &["show", "blue"])?;
    let why = shown[0]["problem"].as_str().unwrap_or_default();
    ensure!(why.contains("runtime"), "{shown:#?}");
    ensure!(shown[0]["left_out"] == false, "{shown:#?}");
    let _runtime = bench.runtime()?;
    wait_until_ready(&bench, "blue")?;
    let out = command(&bench, &["reference", "add", "blue", "source.json"])?;
    let errors = String::from_utf8_lossy(&out.stderr);
    ensure!(
        errors.contains("source.json: picture 1 is neither"),
        "{errors}"
    );
    Ok(())
}
