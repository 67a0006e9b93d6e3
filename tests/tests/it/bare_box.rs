//! A box that has little besides our programs.

use std::process::{Command, Stdio};

use anyhow::ensure;
use serde_json::Value;
use watchkeeper_tests::broker::Mosquitto;
use watchkeeper_tests::daemons::program;

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
