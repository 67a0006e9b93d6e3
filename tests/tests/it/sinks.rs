//! Effects of workflows from end to end: the real runtime spools them, the real agent executes
//! them, a real server receives them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use watchkeeper_tests::broker::{BrokerOptions, Mosquitto};
use watchkeeper_tests::daemons::{Bench, wait_for, wait_up_to};
use watchkeeper_tests::hooks::{Answer, Hooks};
use watchkeeper_tests::scene::LONG;

/// Secret that only the server may see.
const SECRET: &str = "tok-5f1c2a9e-hush";

/// Deploys a pipeline on the street; `step` is the sink, which gets the tracked detections.
fn deploy(bench: &Bench, step: Value) -> anyhow::Result<()> {
    let mut steps = vec![
        json!({"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "model", "images": "$inputs.image", "model_id": "motion"}),
        json!({"type": "roboflow_core/byte_tracker@v3", "name": "tracker", "image": "$inputs.image", "detections": "$steps.model.predictions"}),
        json!({"type": "roboflow_core/environment_secrets_store@v1", "name": "secrets", "variables_storing_secrets": ["HOOK"]}),
        json!({"type": "roboflow_core/property_definition@v1", "name": "count", "data": "$steps.tracker.tracked_detections", "operations": [{"type": "SequenceLength"}]}),
        json!({"type": "roboflow_core/property_definition@v1", "name": "text", "data": "$steps.count.output", "operations": [{"type": "ToString"}]}),
    ];
    steps.push(step);
    let workflow = json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": steps,
        "outputs": [{"type": "JsonField", "name": "error", "selector": "$steps.sink.error_status"}]
    });
    let source =
        json!({"id": "street", "uri": "demo:?seconds=600&width=320&height=180", "pace": "native"});
    bench.json("PUT", "/v1/sources/street", Some(&source))?;
    let pipeline = json!({"id": "watch", "source": "street", "workflow": workflow, "rules": []});
    bench.json("POST", "/v1/pipelines", Some(&pipeline))?;
    Ok(())
}

/// Makes one request per second, with a secret in a header.
fn webhook(url: &str) -> Value {
    json!({
        "type": "roboflow_core/webhook_sink@v1", "name": "sink", "url": url, "method": "POST",
        "json_payload": {"seen": "$steps.count.output"}, "headers": {"authorization": "$steps.secrets.hook"},
        "cooldown_seconds": 1, "request_timeout": 2
    })
}

fn section(bench: &Bench, host: &str) -> anyhow::Result<String> {
    fs::write(bench.path("hook.secret"), format!("{SECRET}\n"))?;
    let file = bench.path("hook.secret");
    Ok(format!(
        "[sinks]\nhosts = [{host:?}]\nsecrets.HOOK = {{ file = {file:?} }}\n"
    ))
}

fn waiting(bench: &Bench) -> anyhow::Result<Vec<Value>> {
    let page = bench.get("/v1/effects")?;
    Ok(page.as_array().cloned().unwrap_or_default())
}

/// Returns the ids of the spooled effects.
fn ids(bench: &Bench) -> anyhow::Result<BTreeSet<String>> {
    let waiting = waiting(bench)?;
    let ids = waiting.iter().filter_map(|e| e["id"].as_str());
    Ok(ids.map(str::to_owned).collect())
}

fn at_least(bench: &Bench, count: usize) -> anyhow::Result<BTreeSet<String>> {
    wait_up_to(LONG, "effects that wait", || {
        ids(bench).ok().filter(|ids| ids.len() >= count)
    })
}

fn counts(bench: &Bench) -> anyhow::Result<Value> {
    Ok(bench.get("/v1/health")?["effects"].clone())
}

/// Deletes the pipeline and waits until the spool is empty.
fn drained(bench: &Bench) -> anyhow::Result<()> {
    bench.json("DELETE", "/v1/pipelines/watch", None)?;
    wait_up_to(LONG, "everything to be done", || {
        let counts = counts(bench).ok()?;
        (counts["waiting"] == 0).then_some(())
    })
}

/// Finds every file below a folder that holds a text.
fn files_with(folder: &Path, text: &str, found: &mut Vec<String>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files_with(&path, text, found)?;
        } else if path.is_file() {
            let bytes = fs::read(&path)?;
            if bytes.windows(text.len()).any(|w| w == text.as_bytes()) {
                found.push(path.display().to_string());
            }
        }
    }
    Ok(())
}

#[test]
fn spooled_effects_arrive_after_server_and_daemon_kills() -> anyhow::Result<()> {
    let nobody = Hooks::closed_address()?;
    let bench = Bench::new("")?;
    bench.configure(&section(&bench, &nobody.to_string())?)?;
    let runtime = bench.runtime()?;
    let agent = bench.agent()?;
    deploy(&bench, webhook(&format!("http://{nobody}/in")))?;
    let first = at_least(&bench, 3)?;
    wait_for("the agent to find nobody", || {
        agent.log_text().contains("can't be reached").then_some(())
    })?;
    agent.kill()?;
    runtime.kill()?;

    let runtime = bench.runtime()?;
    ensure!(ids(&bench)?.is_superset(&first), "the runtime forgot some");
    // The server receives one and does not answer; the agent is killed during the request.
    let server = Hooks::start_at(nobody)?;
    server.script([Answer::Hang, Answer::Status(503, String::new())]);
    let agent = bench.agent()?;
    wait_for("the first request", || {
        (!server.requests().is_empty()).then_some(())
    })?;
    agent.kill()?;
    let second = ids(&bench)?;
    ensure!(
        second.is_superset(&first),
        "one was forgotten before it was done"
    );
    runtime.kill()?;

    let _runtime = bench.runtime()?;
    let agent = bench.agent()?;
    let wanted: BTreeSet<String> = second.union(&at_least(&bench, 1)?).cloned().collect();
    drained(&bench)?;
    let came = server.keys();
    let missing: Vec<_> = wanted.difference(&came).collect();
    ensure!(missing.is_empty(), "never came: {missing:?}");
    let counts = counts(&bench)?;
    ensure!(counts["failed"] == 0, "{counts}");
    for request in server.requests() {
        assert_eq!(request.header("authorization"), SECRET);
        assert!(request.json()["seen"].is_u64(), "{}", request.text());
    }
    agent.stop()?;
    let mut found = Vec::new();
    files_with(&bench.path(""), SECRET, &mut found)?;
    let own = bench.path("hook.secret").display().to_string();
    assert_eq!(found, [own], "the secret is kept nowhere else");
    Ok(())
}

#[test]
fn mqtt_effects_wait_for_their_broker_and_all_arrive() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let options = BrokerOptions {
        logins: vec![("gate".to_owned(), SECRET.to_owned())],
        ..BrokerOptions::default()
    };
    let mut broker = Mosquitto::start_with(&bench.path("broker"), options)?;
    let subscriber = broker.subscribe("yard/#")?;
    bench.configure(&section(&bench, &format!("localhost:{}", broker.port))?)?;
    let _runtime = bench.runtime()?;
    let agent = bench.agent()?;
    deploy(
        &bench,
        json!({
            "type": "mqtt_writer_sink@v1", "name": "sink", "host": "localhost", "port": broker.port, "qos": 1,
            "username": "gate", "password": "$steps.secrets.hook", "topic": "yard/count",
            "message": "$steps.text.output"
        }),
    )?;
    let sent = |least: u64| {
        wait_up_to(LONG, "messages that were taken", || {
            counts(&bench).ok()?["done"]
                .as_u64()
                .filter(|done| *done >= least)
        })
    };
    let before = sent(2)?;
    broker.down()?;
    wait_for("the agent to find nobody", || {
        agent
            .log_text()
            .contains("check that the broker runs")
            .then_some(())
    })?;
    at_least(&bench, 3)?;
    broker.up()?;
    sent(before + 3)?;
    drained(&bench)?;
    let counts = counts(&bench)?;
    ensure!(counts["failed"] == 0, "{counts}");
    let done = usize::try_from(counts["done"].as_u64().unwrap_or_default())?;
    // A message may come twice, none is lost.
    let came = wait_up_to(LONG, "all messages at the subscriber", || {
        let came = subscriber.messages();
        (came.len() >= done).then_some(came)
    })
    .with_context(|| format!("{done} are done, {:?} came", subscriber.messages()))?;
    for (topic, text) in &came {
        ensure!(
            topic == "yard/count" && text.parse::<u32>().is_ok(),
            "{topic}: {text}"
        );
    }
    agent.stop()?;
    let mut found = Vec::new();
    files_with(&bench.path(""), SECRET, &mut found)?;
    let own = bench.path("hook.secret").display().to_string();
    assert_eq!(found, [own], "the password is kept nowhere else");
    Ok(())
}

#[test]
fn unconfigured_effect_is_not_spooled_and_step_says_so() -> anyhow::Result<()> {
    let server = Hooks::start()?;
    let bench = Bench::new("")?;
    let _runtime = bench.runtime()?;
    let _agent = bench.agent()?;
    deploy(&bench, webhook(&server.url("/in")))?;
    let counts = wait_up_to(LONG, "refusals", || {
        let counts = counts(&bench).ok()?;
        (counts["refused"].as_u64()? >= 2).then_some(counts)
    })?;
    assert_eq!(
        (&counts["taken"], &counts["waiting"]),
        (&json!(0), &json!(0))
    );
    let (_, metrics) = bench.request("GET", "/v1/metrics", None)?;
    let metrics = String::from_utf8(metrics)?;
    assert!(
        metrics.contains("watchkeeper_effects_refused_total"),
        "{metrics}"
    );
    assert!(server.requests().is_empty());
    Ok(())
}

#[test]
fn permanent_effect_failure_is_reported_and_blocks_nothing() -> anyhow::Result<()> {
    let server = Hooks::start()?;
    let forbidden = Hooks::start()?;
    let bench = Bench::new("")?;
    bench.configure(&section(&bench, &server.address().to_string())?)?;
    let _runtime = bench.runtime()?;
    let agent = bench.agent()?;
    server.script([
        Answer::Redirect(307, forbidden.url("/in")),
        Answer::Status(404, String::new()),
        Answer::Status(500, String::new()),
    ]);
    deploy(&bench, webhook(&server.url("/in?token=abc")))?;
    // Three messages of a scene that a busy machine plays slowly.
    let counts = wait_up_to(3 * LONG, "two failures and a message that came", || {
        let counts = counts(&bench).ok()?;
        let (failed, done) = (counts["failed"].as_u64()?, counts["done"].as_u64()?);
        (failed >= 2 && done >= 1).then_some(counts)
    })?;
    assert_eq!(counts["failed"], 2, "{counts}");
    let why = |n: usize| {
        counts["last_failed"][n]["why"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let named = format!("\"{}\"", forbidden.address());
    assert!(
        why(0).contains(&named) && why(0).contains("sinks.hosts"),
        "{}",
        why(0)
    );
    assert!(why(1).contains("404"), "{}", why(1));
    assert!(
        forbidden.requests().is_empty(),
        "nothing goes where nothing may go"
    );
    let said = agent.log_text();
    assert!(
        said.contains("given up") && !said.contains(SECRET) && !said.contains("token=abc"),
        "{said}"
    );
    let (_, status) = bench.request("GET", "/v1/health", None)?;
    assert!(!String::from_utf8(status)?.contains("token=abc"));
    Ok(())
}

#[test]
fn event_file_holds_the_event_and_its_picture() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let out = bench.path("out");
    fs::create_dir(&out)?;
    bench.configure(&format!("[sinks]\nfolders = [{out:?}]\n"))?;
    let _runtime = bench.runtime()?;
    let _agent = bench.agent()?;
    let workflow = json!({
        "version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [{
            "type": "roboflow_core/vision_event_bundle@v1", "name": "sink", "target_directory": "events",
            "event_type": "custom", "custom_value": "still here", "input_image": "$inputs.image", "cooldown_seconds": 0.5
        }],
        "outputs": [{"type": "JsonField", "name": "path", "selector": "$steps.sink.bundle_path"}]
    });
    let source = json!({"id": "street", "uri": "demo:?seconds=600&width=320&height=180", "pace": "native", "max_fps": 5});
    bench.json("PUT", "/v1/sources/street", Some(&source))?;
    let pipeline = json!({"source": "street", "workflow": workflow, "rules": []});
    bench.json("PUT", "/v1/pipelines/watch", Some(&pipeline))?;
    let archive = wait_up_to(LONG, "a packed file", || {
        let entries = fs::read_dir(out.join("events")).ok()?.flatten();
        let mut paths = entries.map(|entry| entry.path());
        paths.find(|path| path.extension().is_some_and(|end| end == "gz"))
    })?;
    let unpacked = bench.path("unpacked");
    fs::create_dir(&unpacked)?;
    let mut tar = std::process::Command::new("tar");
    let done = tar
        .arg("xzf")
        .arg(&archive)
        .arg("-C")
        .arg(&unpacked)
        .status()?;
    assert!(done.success());
    let payload = fs::read(unpacked.join("payload.json"))?;
    let payload: serde_json::Value = serde_json::from_slice(&payload)?;
    assert_eq!(payload["eventData"]["value"], "still here");
    let id = payload["eventId"].as_str().unwrap_or_default();
    let name = archive.file_name().unwrap_or_default().to_string_lossy();
    assert!(name.starts_with("event_20") && name.contains(id), "{name}");
    let picture = payload["images"][0]["inputFile"]
        .as_str()
        .unwrap_or_default();
    assert!(fs::read(unpacked.join(picture))?.starts_with(&[0xff, 0xd8]));
    Ok(())
}

#[test]
fn file_effect_cannot_leave_its_folder() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let out = bench.path("out");
    fs::create_dir(&out)?;
    bench.configure(&format!("[sinks]\nfolders = [{out:?}]\n"))?;
    let _runtime = bench.runtime()?;
    let _agent = bench.agent()?;
    let step = |directory: &str| {
        json!({
            "type": "roboflow_core/local_file_sink@v1", "name": "sink", "content": "$steps.lines.csv_content",
            "file_type": "csv", "output_mode": "append_log", "target_directory": directory, "max_entries_per_file": 10_000
        })
    };
    let csv = json!({
        "type": "roboflow_core/csv_formatter@v1", "name": "lines", "columns_data": {"seen": "$steps.count.output"}
    });
    let workflow = |directory: &str| {
        json!({
            "version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}],
            "steps": [
                {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "model", "images": "$inputs.image", "model_id": "motion"},
                {"type": "roboflow_core/property_definition@v1", "name": "count", "data": "$steps.model.predictions", "operations": [{"type": "SequenceLength"}]},
                csv, step(directory)
            ],
            "outputs": [{"type": "JsonField", "name": "error", "selector": "$steps.sink.error_status"}]
        })
    };
    let source = json!({"id": "street", "uri": "demo:?seconds=600&width=320&height=180", "pace": "native", "max_fps": 5});
    bench.json("PUT", "/v1/sources/street", Some(&source))?;
    let put = |directory: &str| {
        let pipeline = json!({"source": "street", "workflow": workflow(directory), "rules": []});
        bench.json("PUT", "/v1/pipelines/watch", Some(&pipeline))
    };
    put("../escape")?;
    wait_up_to(LONG, "refusals", || {
        (counts(&bench).ok()?["refused"].as_u64()? >= 2).then_some(())
    })?;
    put("counts")?;
    let rows = |least: usize| {
        wait_up_to(LONG, "rows in the file", || {
            let entry = fs::read_dir(out.join("counts")).ok()?.next()?.ok()?;
            let text = fs::read_to_string(entry.path()).ok()?;
            (text.lines().count() > least).then_some(text)
        })
    };
    rows(3)?;
    drained(&bench)?;
    let done = counts(&bench)?["done"].as_u64().unwrap_or_default();
    let text = rows(0)?;
    let lines = text.lines().count() as u64;
    assert_eq!(lines, done + 1, "one head and one row for each:\n{text}");
    assert!(!bench.path("escape").exists());
    Ok(())
}
