//! What `status` and `doctor` report to the operator of a box that works in part only.

use std::time::SystemTime;

use anyhow::ensure;
use serde_json::{Value, json};
use watchkeeper_tests::broker::{BrokerOptions, Mosquitto, free_port};
use watchkeeper_tests::daemons::{Bench, json_lines, wait_for};
use watchkeeper_tests::person::command;
use watchkeeper_tests::scene::deploy;

const PASSWORD: &str = "right-one-4711";

/// Standard output and error of a command.
fn said(bench: &Bench, arguments: &[&str]) -> anyhow::Result<String> {
    let out = command(bench)?.args(arguments).output()?;
    Ok(String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned())
}

#[test]
fn refused_login_is_reported_and_corrected_file_is_read() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let options = BrokerOptions {
        logins: vec![("gate".to_owned(), PASSWORD.to_owned())],
        ..BrokerOptions::default()
    };
    let mut broker = Mosquitto::start_with(&bench.path("broker"), options)?;
    let password = bench.path("mqtt.password");
    std::fs::write(&password, "wrong\n")?;
    bench.configure(&format!(
        "{}username = \"gate\"\npassword_file = {password:?}\n",
        broker.section()
    ))?;
    let _runtime = bench.runtime()?;
    let agent = bench.agent()?;
    for arguments in [["status"], ["doctor"]] {
        wait_for("the refused login to be told", || {
            let said = said(&bench, &arguments).ok()?;
            said.contains("the broker refused the login").then_some(())
        })?;
    }
    std::fs::write(&password, PASSWORD)?;
    let connected = "broker connected";
    wait_for("the session", || {
        said(&bench, &["status"])
            .ok()?
            .contains(connected)
            .then_some(())
    })?;
    broker.down()?;
    wait_for("the stopped broker to be told", || {
        let said = said(&bench, &["status"]).ok()?;
        said.contains("broker not connected").then_some(())
    })?;
    agent.kill()?;
    for arguments in [["status"], ["doctor"]] {
        let said = said(&bench, &arguments)?;
        ensure!(said.contains("agent: not running"), "{said}");
    }
    let out = command(&bench)?.args(["status", "--json"]).output()?;
    let objects: Vec<Value> = json_lines(&out.stdout)?;
    ensure!(
        objects.len() == 1 && objects[0]["agent"]["state"] == "down",
        "{objects:#?}"
    );
    Ok(())
}

#[test]
fn status_without_runtime_shows_since_when_and_the_agent() -> anyhow::Result<()> {
    let bench = Bench::new("[sources.street]\nuri = \"demo:\"\n")?;
    let runtime = bench.runtime()?;
    let _agent = bench.agent()?;
    wait_for("the agent", || {
        let said = said(&bench, &["status"]).ok()?;
        said.contains("no broker configured").then_some(())
    })?;
    runtime.kill()?;
    let killed_ms = SystemTime::UNIX_EPOCH.elapsed()?.as_millis();
    let out = command(&bench)?.arg("status").output()?;
    let shown = String::from_utf8_lossy(&out.stdout);
    let errors = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.code() == Some(3), "{shown}{errors}");
    ensure!(errors.contains("start it"), "{errors}");
    ensure!(
        shown.starts_with("runtime: no answer; it wrote to "),
        "{shown}"
    );
    ensure!(shown.contains("no broker configured"), "{shown}");
    let out = command(&bench)?.args(["status", "--json"]).output()?;
    let objects: Vec<Value> = json_lines(&out.stdout)?;
    ensure!(objects[0]["health"]["state"] == "down", "{objects:#?}");
    ensure!(
        objects[0]["health"]["last_write_ms"]
            .as_u64()
            .is_some_and(|at| u128::from(at) <= killed_ms),
        "{objects:#?}"
    );
    Ok(())
}

#[test]
fn commands_that_need_only_socket_survive_typo_in_file() -> anyhow::Result<()> {
    let bench = Bench::new("[sources.street]\nuri = \"demo:\"\n")?;
    let _runtime = bench.runtime()?;
    let socket = bench.socket().display().to_string();
    for typo in [
        "[sources.street]\nuri = \"demo:\"\n[agent]\ntelemetry_s = \"often\"\n",
        "[sources\n",
    ] {
        bench.configure(typo)?;
        for arguments in [["status"], ["events"], ["sources"]] {
            let out = command(&bench)?
                .args(["--socket", &socket])
                .args(arguments)
                .output()?;
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            ensure!(out.status.success(), "{typo} {arguments:?}: {said}");
            ensure!(
                said.contains("config check"),
                "{typo} {arguments:?}: {said}"
            );
        }
    }
    Ok(())
}

#[test]
fn every_command_counts_the_same_errors_of_the_configuration() -> anyhow::Result<()> {
    let bench = Bench::new("[sources.street]\nuri = \"demo:\"\n")?;
    let _runtime = bench.runtime()?;
    bench.configure(
        "[sources.street]\nuri = \"demo:\"\n[pipelines.watch]\nsource = \"street\"\nworkflow = \"missing.json\"\n\
         [models]\ndefault = \"yolox-nine\"\n[agent]\ntelemetry_s = \"often\"\ncolour = 1\n",
    )?;
    let out = command(&bench)?
        .args(["config", "check", "--json"])
        .output()?;
    let report: Value = serde_json::from_slice(&out.stdout)?;
    let found = ["errors", "warnings"].map(|kind| report[kind].as_array().cloned());
    let found: Vec<Value> = found.into_iter().flatten().flatten().collect();
    let mut messages: Vec<&str> = found.iter().filter_map(|e| e["message"].as_str()).collect();
    messages.sort_unstable();
    ensure!(messages.len() >= 4, "{report:#}");
    let counted = format!("the configuration has {} errors", messages.len());
    for arguments in [["status"], ["events"]] {
        let told = said(&bench, &arguments)?;
        ensure!(told.contains(&counted), "{arguments:?}: {told}");
    }
    let told = said(&bench, &["models"])?;
    for message in &messages {
        ensure!(told.contains(message), "models: no {message:?} in {told}");
    }
    let out = command(&bench)?.args(["doctor", "--json"]).output()?;
    let findings = json_lines(&out.stdout)?;
    let what = findings
        .iter()
        .filter_map(|finding| finding["what"].as_str());
    let about = what.filter_map(|what| what.strip_prefix("configuration: "));
    let mut about: Vec<&str> = about.collect();
    about.sort_unstable();
    ensure!(about == messages, "{about:#?}\n{messages:#?}");
    Ok(())
}

#[test]
fn lost_camera_clock_and_disk_are_in_both_commands() -> anyhow::Result<()> {
    // Nothing listens on the port of a listener that is gone.
    let port = free_port()?;
    let bench = Bench::new("")?;
    let _runtime = bench.runtime()?;
    deploy(&bench)?;
    let lost = format!("http://127.0.0.1:{port}/live");
    let source = json!({"id": "street", "uri": lost, "pace": "native"});
    bench.json("PUT", "/v1/sources/street", Some(&source))?;
    for arguments in [["status"], ["doctor"]] {
        wait_for("the lost camera to be told", || {
            let said = said(&bench, &arguments).ok()?;
            let is_told = said.contains("street") && said.contains("refused the connection");
            (is_told && said.contains("clock: ") && said.contains("disk: ")).then_some(())
        })?;
    }
    Ok(())
}
