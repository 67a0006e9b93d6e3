//! A chain of sources from end to end. The real runtime reads a code, and the real agent looks it
//! up in a table. The journal has one assessment with a link for each source.

use std::process::Command;

use serde_json::{Value, json};
use watchkeeper_tests::daemons::{Bench, json_lines, program, wait_up_to};
use watchkeeper_tests::scene::{LONG, STREET};

const MEMBERS: &str = "[agent.lookups.members]\nkind = \"table\"\npath = \"members.csv\"\n\
                       key = \"plate\"\n";

/// A box whose table has the plate `AB 123 CD`.
fn bench() -> anyhow::Result<Bench> {
    let bench = Bench::new(MEMBERS)?;
    std::fs::write(bench.path("members.csv"), "plate,owner\nAB 123 CD,Ada\n")?;
    Ok(bench)
}

/// Deploys a pipeline that reads a code of this text, and whose rule asks the table about it.
fn deploy(bench: &Bench, id: &str, text: &str) -> anyhow::Result<()> {
    let source = json!({"id": "street", "uri": STREET, "pace": "native"});
    bench.json("PUT", "/v1/sources/street", Some(&source))?;
    let workflow = json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [
            {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "model",
                "images": "$inputs.image", "model_id": "motion"},
            {"type": "roboflow_core/qr_code_generator@v1", "name": "made", "text": text},
            {"type": "roboflow_core/qr_code_detector@v1", "name": "codes",
                "images": "$steps.made.qr_code"},
        ],
        "outputs": [],
    });
    let rule = json!({
        "name": "arrival", "cooldown_s": 3600,
        "when": {"kind": "count", "detections": "$steps.model.predictions",
            "bound": {"over": 0}, "for_s": 2},
        "decide": {"chain": ["code", "members", "person"],
            "code": "$steps.codes.predictions"},
    });
    let spec = json!({"id": id, "source": "street", "workflow": workflow, "rules": [rule]});
    bench.json("POST", "/v1/pipelines", Some(&spec))?;
    Ok(())
}

/// Waits for the assessment of the event of this pipeline.
fn assessed(bench: &Bench, pipeline: &str) -> anyhow::Result<Value> {
    let found = wait_up_to(LONG, "the result of the chain", || {
        let events = bench.events().ok()?;
        let is_it = |e: &&Value| e["phase"] == "assessed" && e["pipeline"] == pipeline;
        let mut assessed = events.iter().filter(is_it);
        assessed.next().cloned()
    })?;
    let events = bench.events()?;
    let of_event = events
        .iter()
        .filter(|e| e["id"] == found["id"] && e["phase"] == "assessed");
    assert_eq!(of_event.count(), 1, "one assessment");
    let new = events
        .iter()
        .find(|e| e["id"] == found["id"] && e["phase"] == "new");
    let new = new.unwrap_or(&Value::Null);
    assert_eq!(new["decision"]["verdict"], "escalate", "{new:#}");
    assert_eq!(new["body"]["readings"][0]["kind"], "code", "{new:#}");
    Ok(found)
}

#[test]
fn code_in_table_is_decided_and_other_waits_for_a_person() -> anyhow::Result<()> {
    let bench = bench()?;
    let _runtime = bench.runtime()?;
    let agent = bench.agent()?;
    deploy(&bench, "member", "ab123cd")?;
    let known = assessed(&bench, "member")?;
    assert_eq!(known["decision"]["verdict"], "act", "{known:#}");
    let links = known["evidence"].as_array().cloned().unwrap_or_default();
    let link = links.iter().find(|link| link["source"] == "members");
    let link = link.unwrap_or(&Value::Null);
    assert_eq!(link["data"]["row"]["owner"], "Ada", "{known:#}");
    assert_eq!(link["confidence"], 0.95, "{known:#}");
    // Killed before the next event, the agent continues after its cursor.
    agent.kill()?;
    bench.json("DELETE", "/v1/pipelines/member", None)?;
    deploy(&bench, "stranger", "ZZ 999")?;
    wait_up_to(LONG, "the stranger", || {
        let events = bench.events().ok()?;
        events
            .iter()
            .any(|e| e["pipeline"] == "stranger")
            .then_some(())
    })?;
    let _agent = bench.agent()?;
    let unknown = assessed(&bench, "stranger")?;
    assert_eq!(unknown["decision"]["verdict"], "review", "{unknown:#}");
    assert_eq!(
        unknown["assessment"]["by"]["result"], "unknown",
        "{unknown:#}"
    );
    let reviews = bench.get("/v1/reviews")?;
    assert_eq!(reviews["waiting"], 1, "{reviews:#}");
    // What no source knows, a person enters.
    let event = reviews["reviews"][0]["event"]["seq"].to_string();
    let correct = |field| command(&bench, &["reviews", "correct", &event, "--field", field]);
    let (_, _, errors) = correct("plate=ZZ 998")?;
    assert!(errors.contains("it reads code"), "{errors}");
    let (is_done, said, errors) = correct("code=ZZ 998")?;
    assert!(is_done, "{errors}");
    let said = String::from_utf8(said)?;
    assert!(said.contains("corrected to code = \"ZZ 998\""), "{said}");
    let events = bench.events()?;
    let entered = events.last().unwrap_or(&Value::Null);
    let link = &entered["evidence"][0];
    assert_eq!(link["source"], "person", "{entered:#}");
    assert_eq!(link["data"], json!({"code": "ZZ 998"}), "{entered:#}");
    assert_eq!(entered["decision"]["verdict"], "record", "{entered:#}");
    assert_eq!(bench.get("/v1/reviews")?["waiting"], 0);
    let checked = bench.get("/v1/events/verify")?;
    assert_eq!(checked["broken"], Value::Null, "{checked:#}");
    Ok(())
}

/// Runs the command with the configuration of the box; returns its success and both outputs.
fn command(bench: &Bench, arguments: &[&str]) -> anyhow::Result<(bool, Vec<u8>, String)> {
    let out = Command::new(program("watchkeeper")?)
        .arg("--config")
        .arg(bench.config())
        .args(arguments)
        .output()?;
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    Ok((out.status.success(), out.stdout, errors))
}

#[test]
fn look_up_is_tried_and_checked_on_the_command_line() -> anyhow::Result<()> {
    let bench = bench()?;
    let (is_found, out, errors) = command(&bench, &["lookup", "members", "AB123CD", "--json"])?;
    assert!(is_found, "{errors}");
    let answer = &json_lines(&out)?[0];
    assert_eq!(answer["result"], "answered", "{answer:#}");
    assert_eq!(answer["data"]["row"]["owner"], "Ada", "{answer:#}");
    let (is_found, _, _) = command(&bench, &["lookup", "members", "QQ"])?;
    assert!(!is_found, "no row is no answer");
    let (_, _, errors) = command(&bench, &["lookup", "member", "QQ"])?;
    assert!(errors.contains("did you mean members?"), "{errors}");
    let (_, shown, errors) = command(&bench, &["config", "show"])?;
    let shown = String::from_utf8_lossy(&shown).into_owned();
    assert!(shown.contains("[agent.lookups.members]"), "{shown}{errors}");
    std::fs::write(bench.path("members.csv"), "number,owner\n")?;
    let (is_valid, _, errors) = command(&bench, &["config", "check"])?;
    let names_it = errors.contains("key = \"plate\"") && errors.contains("number, owner");
    assert!(!is_valid && names_it, "{errors}");
    Ok(())
}
