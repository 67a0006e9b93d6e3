//! Output of the command with a newer runtime.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::Command;
use watchkeeper_contract::rule::Severity;

use crate::support::fake_runtime::{FakeRuntime, crossing, newer};

/// Runs the command; returns exit code, lines of standard output, and standard error.
async fn watchkeeper(runtime: &FakeRuntime, arguments: &[&str]) -> (i32, Vec<String>, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_watchkeeper"))
        .arg("--socket")
        .arg(runtime.socket())
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .await
        .expect("start the command");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    let lines = text(out.stdout).lines().map(str::to_owned).collect();
    (out.status.code().unwrap_or(-1), lines, text(out.stderr))
}

#[tokio::test]
async fn newer_record_is_printed_raw_between_known_ones() {
    let dir = tempfile::tempdir().expect("dir");
    let runtime = FakeRuntime::start(dir.path());
    runtime.append(crossing(Severity::Info));
    runtime.append_raw(newer(2));
    runtime.append(crossing(Severity::Info));

    let (code, lines, errors) = watchkeeper(&runtime, &["--json", "events"]).await;
    assert_eq!(code, 0, "{errors}");
    let objects: Vec<Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line).expect("an object"))
        .collect();
    let seqs: Vec<_> = objects.iter().map(|object| &object["seq"]).collect();
    assert_eq!(seqs, [1, 2, 3]);
    let mut expected = newer(2);
    expected["type"] = json!("event");
    assert_eq!(objects[1], expected);

    let (code, lines, notes) = watchkeeper(&runtime, &["events"]).await;
    assert_eq!((code, lines.len()), (0, 2), "{lines:?}");
    assert!(notes.contains("event 2 (door_forced)"), "{notes}");
}

#[tokio::test]
async fn verify_prints_the_hash_of_a_newer_last_record() {
    let dir = tempfile::tempdir().expect("dir");
    let runtime = FakeRuntime::start(dir.path());
    runtime.append(crossing(Severity::Info));
    runtime.append_raw(newer(2));
    let (code, lines, errors) = watchkeeper(&runtime, &["events", "verify"]).await;
    assert_eq!(code, 0, "{errors}");
    assert_eq!(
        lines.last().map(String::as_str),
        Some("hash of event 2: ab12")
    );
}
