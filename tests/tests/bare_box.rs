//! A box that has little besides our programs.

use std::process::{Command, Stdio};

use anyhow::ensure;
use serde_json::Value;
use watchkeeper_tests::daemons::program;

#[test]
fn a_box_without_certificate_authorities_watches_and_publishes() -> anyhow::Result<()> {
    let out = Command::new(program("watchkeeper")?)
        .args([
            "run",
            "demo:?seconds=2&width=160&height=90",
            "--model",
            "motion",
            "--json",
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
    // A dead agent would be noted.
    ensure!(!text.contains("watchkeeper-agent"), "{text}");
    Ok(())
}
