//! `watchkeeper audit`: the audit logs of the user and of the agent.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::{Value, json};
use watchkeeper_assistant::audit::{AuditLog, AuditReport, Damage, verify};
use watchkeeper_assistant::trace::{TRACE_FOLDER, Trace};
use watchkeeper_config::AuditConfig;

use super::args::{AuditAction, AuditArgs, Global};
use super::configuration;
use super::exit::Failure;
use super::output::Output;
use super::state_folder::state_folder;
use super::trace;

const DEFAULT_LIMIT: usize = 50;
/// Kind and channel of the entry about a command that changes something without a proposal.
const COMMAND: &str = "command";

pub(super) fn run(args: AuditArgs, global: &Global, out: &Output) -> Result<(), Failure> {
    let mut homes: Vec<PathBuf> = vec![state_folder()?];
    // A broken configuration does not hide the user's own log.
    let unlocated = match configuration::read_without_broker(global) {
        Ok(config) => {
            homes.push(config.state_dir.join(TRACE_FOLDER));
            None
        }
        Err(failure) => Some(failure),
    };
    let logs = homes.iter().flat_map(|home| {
        let of = [AuditLog::of_decisions, AuditLog::of_activity];
        of.map(|log| log(home, AuditConfig::default()))
    });
    let action = args.action.unwrap_or(AuditAction::List {
        limit: DEFAULT_LIMIT,
    });
    match action {
        AuditAction::List { limit } => {
            if let Some(failure) = unlocated {
                out.note(format!("records of the agent are missing: {failure}"));
            }
            list(logs, limit, out)
        }
        AuditAction::Verify => {
            let mut failures = verify_all(logs, out);
            failures.extend(unlocated);
            first_with_others(failures)
        }
    }
}

/// Awaits a command and, if it `changes` something, records its outcome in the user's audit log.
/// A user without a state folder has no log.
pub(super) async fn recorded(
    changes: Option<String>,
    limits: AuditConfig,
    command: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    let ended = command.await;
    if let (Some(change), Ok(home)) = (changes, state_folder()) {
        record(&home, limits, &change, ended.as_ref().err());
    }
    ended
}

fn record(home: &Path, limits: AuditConfig, change: &str, failure: Option<&Failure>) {
    let why = failure.map(|failure| &failure.sentence);
    let how = if why.is_some() { "failed" } else { "done" };
    let details = json!({"sentence": format!("{change}: {how}"), "how": how, "why": why});
    let trace = Trace::new(home, COMMAND).with_audit_limits(limits);
    trace.note_or_log(Timestamp::now(), COMMAND, details);
}

fn list(logs: impl Iterator<Item = AuditLog>, limit: usize, out: &Output) -> Result<(), Failure> {
    let mut records: Vec<Value> = Vec::new();
    for (nth, log) in logs.enumerate() {
        match log.latest(limit) {
            Ok(found) => records.extend(found),
            Err(error) if nth == 0 => return Err(unreadable(&log, &error)),
            Err(error) => out.note(unreadable(&log, &error).sentence),
        }
    }
    trace::print_latest(records, limit, "no records yet", out);
    Ok(())
}

/// Verifies every log, and returns a failure for each that is damaged or can't be read.
fn verify_all(logs: impl Iterator<Item = AuditLog>, out: &Output) -> Vec<Failure> {
    let mut failures = Vec::new();
    for log in logs {
        let report = match verify(&log) {
            Ok(report) => report,
            Err(error) => {
                failures.push(unreadable(&log, &error));
                continue;
            }
        };
        let object = json!({
            "type": "audit", "folder": log.folder(), "sound": report.damage.is_none(),
            "report": report,
        });
        out.both(&object, || describe(&log, &report));
        failures.extend(report.damage.as_ref().map(damaged));
    }
    failures
}

/// Fails with the first sentence; the others are its details.
fn first_with_others(failures: Vec<Failure>) -> Result<(), Failure> {
    let mut failures = failures.into_iter();
    let first = failures.next();
    let others = failures.flat_map(|other| [vec![other.sentence], other.details].concat());
    first.map_or(Ok(()), |first| Err(first.with(others)))
}

fn damaged(damage: &Damage) -> Failure {
    let sentence = format!("{}:{}: {}", damage.file.display(), damage.line, damage.why);
    Failure::failed(sentence)
}

fn describe(log: &AuditLog, report: &AuditReport) -> String {
    let folder = log.folder().display();
    let (Some(first), Some(last), Some(hash)) = (report.first, report.last, &report.hash) else {
        return format!("{folder}: no records");
    };
    let state = match report.damage {
        None => "ok",
        Some(_) => "DAMAGED",
    };
    format!(
        "{folder}: records {first} to {last} {state}, {} hashes verified\nhash of record {last}: {hash}",
        report.verified
    )
}

fn unreadable(log: &AuditLog, error: &std::io::Error) -> Failure {
    let folder = log.folder().display();
    Failure::failed(format!("cannot read the audit log in {folder}: {error}"))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use jiff::Timestamp;
    use serde_json::Map;
    use watchkeeper_contract::time::TimeQuality;

    use super::*;
    use crate::exit::Exit;

    #[test]
    fn verification_fails_for_a_changed_record() {
        let home = tempfile::tempdir().unwrap();
        let log = AuditLog::of_decisions(home.path(), AuditConfig::default());
        let out = Output::new(false);
        let verified = || first_with_others(verify_all(std::iter::once(log.clone()), &out));
        assert!(verified().is_ok(), "an empty log");
        for what in ["confirmed", "done"] {
            let mut entry = Map::new();
            entry.insert("what".to_owned(), json!(what));
            log.append(Timestamp::UNIX_EPOCH, TimeQuality::Synced, entry)
                .unwrap();
        }
        assert!(verified().is_ok());
        let report = verify(&log).unwrap();
        assert!(describe(&log, &report).contains("records 1 to 2 ok, 2 hashes verified"));
        let files = std::fs::read_dir(log.folder()).unwrap().flatten();
        let file = files
            .map(|file| file.path())
            .find(|path| path.extension().is_some());
        let file = file.unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replacen("confirmed", "declined", 1)).unwrap();
        let failure = verified().unwrap_err();
        assert_eq!(failure.exit, Exit::Failed);
        assert!(
            failure.sentence.contains("record 1: hash mismatch"),
            "{}",
            failure.sentence
        );
    }

    #[test]
    fn verification_names_every_unreadable_log() {
        let home = tempfile::tempdir().unwrap();
        let sound = AuditLog::of_decisions(&home.path().join("sound"), AuditConfig::default());
        let unreadable = ["user", "agent"].map(|name| {
            let home = home.path().join(name);
            std::fs::create_dir(&home).unwrap();
            std::fs::write(home.join("audit"), "no folder").unwrap();
            AuditLog::of_decisions(&home, AuditConfig::default())
        });
        let logs = std::iter::once(sound).chain(unreadable);
        let failures = verify_all(logs, &Output::new(false));
        let failure = first_with_others(failures).unwrap_err();
        let first = &failure.sentence;
        assert!(
            first.contains("cannot read the audit log") && first.contains("user"),
            "{first}"
        );
        assert_eq!(failure.details.len(), 1);
        assert!(failure.details[0].contains("agent"), "{failure}");
    }

    #[test]
    fn direct_change_is_a_decision_of_the_audit_log() {
        let home = tempfile::tempdir().unwrap();
        let limits = AuditConfig::default();
        let failure = Failure::failed("away");
        record(home.path(), limits, "pause pipeline gate", None);
        record(home.path(), limits, "delete pipeline gate", Some(&failure));
        let log = AuditLog::of_decisions(home.path(), limits);
        let records = log.latest(9).unwrap();
        let outcome = |record: &Value| {
            (
                record["of"]["sentence"].clone(),
                record["of"]["why"].clone(),
            )
        };
        let outcomes: Vec<_> = records.iter().map(outcome).collect();
        assert_eq!(
            outcomes,
            [
                (json!("pause pipeline gate: done"), Value::Null),
                (json!("delete pipeline gate: failed"), json!("away")),
            ]
        );
    }
}
