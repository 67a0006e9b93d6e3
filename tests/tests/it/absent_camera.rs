//! A V4L2 camera that is absent: its controls, its outage, and the end of its section.

use std::process::{Command, Output, Stdio};

use anyhow::ensure;
use serde_json::{Value, json};
use watchkeeper_tests::daemons::{Bench, program, wait_for};
use watchkeeper_tests::scene::motion_workflow;

const GATE: &str = "[sources.gate]\nuri = \"/dev/video250\"\n";

fn set_gain(bench: &Bench) -> anyhow::Result<Output> {
    Ok(Command::new(program("watchkeeper")?)
        .arg("--config")
        .arg(bench.config())
        .args(["cameras", "set", "gate", "gain=1"])
        .stdin(Stdio::null())
        .output()?)
}

fn watch(bench: &Bench) -> anyhow::Result<()> {
    let pipeline = json!({"id": "p", "source": "gate", "workflow": motion_workflow()});
    bench.json("POST", "/v1/pipelines", Some(&pipeline))?;
    Ok(())
}

/// Waits for so many records of outages.
fn outages(bench: &Bench, count: usize) -> anyhow::Result<Vec<Value>> {
    wait_for("records of outages", || {
        let mut events = bench.events().unwrap_or_default();
        events.retain(|event| event["body"]["kind"] == "source_outage");
        (events.len() >= count).then_some(events)
    })
}

#[test]
fn set_on_an_absent_camera_is_no_return_of_it() -> anyhow::Result<()> {
    let bench = Bench::new(GATE)?;
    let _runtime = bench.runtime()?;
    watch(&bench)?;
    outages(&bench, 1)?;
    let out = set_gain(&bench)?;
    let notes = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "{notes}");
    ensure!(notes.contains("/dev/video250 is not there now"), "{notes}");
    let records = outages(&bench, 3)?;
    let phases: Vec<&str> = records.iter().filter_map(|r| r["phase"].as_str()).collect();
    assert_eq!(phases, ["new", "end", "new"]);
    ensure!(records[1]["body"]["lasted_s"].is_null(), "{}", records[1]);
    Ok(())
}

#[test]
fn camera_ends_with_its_section_although_controls_were_set() -> anyhow::Result<()> {
    let bench = Bench::new(GATE)?;
    let runtime = bench.runtime()?;
    let out = set_gain(&bench)?;
    ensure!(out.status.success(), "{out:?}");
    runtime.stop()?;

    // It overrides the section while that is there.
    let runtime = bench.runtime()?;
    let gate = bench.get("/v1/sources/gate")?;
    assert_eq!(gate["spec"]["controls"], json!({"gain": 1}), "{gate}");
    runtime.stop()?;

    bench.configure("")?;
    let _runtime = bench.runtime()?;
    let (status, _) = bench.request("GET", "/v1/sources/gate", None)?;
    assert_eq!(status, 404);
    Ok(())
}
