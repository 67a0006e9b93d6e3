//! A box that has little besides our programs, and programs started in any order.

use std::process::{Command, Stdio};

use anyhow::ensure;
use serde_json::Value;
use watchkeeper_tests::broker::Mosquitto;
use watchkeeper_tests::daemons::{Bench, Process, program, wait_up_to};
use watchkeeper_tests::scene::{LONG, STREET, deploy};

#[test]
fn box_without_certificate_authorities_runs_and_publishes() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let broker = Mosquitto::start(folder.path())?;
    let out = Command::new(program("watchkeeper")?)
        .args([
            "run",
            "demo:?seconds=6",
            "--model",
            "motion",
            "--json",
            "--mqtt",
            &format!("127.0.0.1:{}", broker.port),
        ])
        .env("SSL_CERT_FILE", "/nonexistent")
        .env("SSL_CERT_DIR", "/nonexistent")
        .stdin(Stdio::null())
        .output()?;
    let (text, errors) = (
        String::from_utf8(out.stdout)?,
        String::from_utf8_lossy(&out.stderr),
    );
    ensure!(out.status.success(), "{}: {errors}", out.status);
    let notes: Vec<Value> = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    ensure!(
        notes.last().is_some_and(|last| last["type"] == "summary"),
        "{text}"
    );
    // Messages that the broker did not acknowledge would be failures; so would an unreachable
    // broker.
    ensure!(
        notes
            .last()
            .is_some_and(|last| last["events"].as_u64() > Some(0)),
        "{text}"
    );
    Ok(())
}

#[test]
fn follower_of_events_waits_for_the_runtime() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    bench.configure(&format!("[sources.street]\nuri = {STREET:?}\n"))?;
    let mut follow = Command::new(program("watchkeeper")?);
    follow
        .args(["events", "--follow", "--socket"])
        .arg(bench.socket());
    let mut follower = Process::start(follow, &bench.path("follower.log"))?;
    wait_up_to(LONG, "a note", || {
        follower.log_text().contains("waiting for it").then_some(())
    })?;
    let _runtime = bench.runtime()?;
    deploy(&bench)?;
    wait_up_to(LONG, "an event", || {
        follower.log_text().contains("street").then_some(())
    })?;
    ensure!(follower.is_running(), "{}", follower.log_text());
    Ok(())
}
