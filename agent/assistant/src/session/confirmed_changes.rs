//! What was done to pipelines: the changes that the audit log has as confirmed.
//!
//! Invariant: a change by another command is not in the log, so an empty list is never "no".

use std::iter::once;
use std::path::PathBuf;

use jiff::Timestamp;
use serde_json::Value;
use watchkeeper_config::AuditConfig;
use watchkeeper_contract::id::{PipelineId, SourceId};

use super::user_session::Session;
use crate::audit::AuditLog;
use crate::failure::Error;
use crate::trace::{at, may_see};
use crate::wording::format_local;

/// Records of each log that are searched, the newest.
const MAX_READ: usize = 2000;
/// Changes that are named, the newest.
const MAX_SHOWN: usize = 20;

const NONE: &str = "No change of that was confirmed in plain words then.";

/// Range of times; an absent end is open.
type Span = (Option<Timestamp>, Option<Timestamp>);

impl Session {
    /// Describes the confirmed changes of these pipelines and of those deployed on `camera` in a
    /// span, one a line; of all pipelines if neither is named.
    ///
    /// # Errors
    /// If an audit log cannot be read.
    pub(super) async fn confirmed_changes(
        &self,
        mut pipelines: Vec<PipelineId>,
        camera: Option<&SourceId>,
        span: Span,
    ) -> Result<String, Error> {
        let homes = once(self.home()?).chain(self.deps.other_trace.as_deref());
        let homes: Vec<PathBuf> = homes.map(PathBuf::from).collect();
        let limits = self.deps.audit;
        // Whole parts of the logs are read.
        let read = tokio::task::spawn_blocking(move || read(&homes, limits)).await;
        let mut records = read.unwrap_or_else(|died| Err(Error::failed(died.to_string())))?;
        records.retain(|record| may_see(self.deps.entrypoint, record));
        if let Some(camera) = camera {
            pipelines.extend(
                records
                    .iter()
                    .flat_map(|record| deployed_on(record, camera)),
            );
            if pipelines.is_empty() {
                return Ok(NONE.to_owned());
            }
        }
        Ok(describe(&records, &pipelines, span))
    }
}

/// Reads the latest decisions of each home, the oldest first.
fn read(homes: &[PathBuf], limits: AuditConfig) -> Result<Vec<Value>, Error> {
    let mut records = Vec::new();
    for home in homes {
        let log = AuditLog::of_decisions(home, limits);
        let latest = log.latest(MAX_READ).map_err(|error| {
            let folder = log.folder().display();
            Error::failed(format!("cannot read the audit log in {folder}: {error}"))
        })?;
        records.extend(latest);
    }
    records.sort_by_key(at);
    Ok(records)
}

/// Describes the confirmations among `records` that are of a span and of these pipelines.
fn describe(records: &[Value], pipelines: &[PipelineId], (from, to): Span) -> String {
    let is_asked = |record: &&Value| {
        let at = at(record);
        record["what"] == "confirmed"
            && from.is_none_or(|from| at >= Some(from))
            && to.is_none_or(|to| at < Some(to))
            && (pipelines.is_empty() || pipelines.iter().any(|id| changes(record, id)))
    };
    let line = |record: &Value| {
        let when =
            at(record).map_or_else(String::new, |at| format_local(at.as_millisecond(), "%F %R"));
        // Actions on archive and jobs have a sentence.
        let what = record["of"]["understood"].as_str();
        let what = what.or(record["of"]["sentence"].as_str());
        let what = what.unwrap_or("a change");
        format!("{when}  {what}")
    };
    let lines: Vec<String> = records.iter().filter(is_asked).map(line).collect();
    if lines.is_empty() {
        return NONE.to_owned();
    }
    let earlier = lines.len().saturating_sub(MAX_SHOWN);
    let shown: Vec<&str> = lines.iter().skip(earlier).map(String::as_str).collect();
    let and = match earlier {
        0 => String::new(),
        earlier => format!(", and {earlier} earlier"),
    };
    format!("Confirmed in plain words{and}:\n{}", shown.join("\n"))
}

/// The pipelines that a confirmation deploys on a camera.
fn deployed_on(record: &Value, camera: &SourceId) -> Vec<PipelineId> {
    let changes = record["of"]["changes"].as_array();
    let specs = changes.into_iter().flatten().map(|change| &change["spec"]);
    specs
        .filter(|spec| spec["source"] == camera.as_str())
        .filter_map(|spec| spec["id"].as_str()?.parse().ok())
        .collect()
}

/// Whether a confirmation changes this pipeline.
fn changes(record: &Value, pipeline: &PipelineId) -> bool {
    let changes = record["of"]["changes"].as_array();
    let mut changes = changes.into_iter().flatten();
    changes.any(|change| {
        let id = change.get("pipeline").unwrap_or(&change["spec"]["id"]);
        *id == pipeline.as_str()
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn confirmed_changes_are_those_of_the_pipeline_and_the_span() {
        let record = |at: &str, what: &str, understood: &str, change: Value| json!({"at": at, "what": what, "of": {"understood": understood, "changes": [change]}});
        let pause = json!({"change": "pause", "pipeline": "gate"});
        let deploy = json!({"change": "deploy", "spec": {"id": "gate", "source": "front"}});
        let other = json!({"change": "pause", "pipeline": "dock"});
        let records = [
            record("2026-11-20T08:00:00Z", "confirmed", "Old.", pause.clone()),
            record("2026-11-27T08:00:00Z", "confirmed", "Watch.", deploy),
            record("2026-11-27T09:00:00Z", "done", "Nothing.", pause.clone()),
            record("2026-11-27T10:00:00Z", "confirmed", "Pause dock.", other),
            record("2026-11-27T11:00:00Z", "confirmed", "Pause gate.", pause),
        ];
        let from: Timestamp = "2026-11-27T00:00:00Z".parse().unwrap();
        let on = |camera: &str| {
            let camera = SourceId::new(camera).unwrap();
            let all = records.iter();
            all.flat_map(|record| deployed_on(record, &camera))
                .collect::<Vec<_>>()
        };
        let gate = on("front");
        assert_eq!(on("back"), []);
        let said = describe(&records, &gate, (Some(from), None));
        assert!(
            said.contains("Watch.") && said.contains("Pause gate."),
            "{said}"
        );
        for other in ["Old.", "Nothing.", "Pause dock."] {
            assert!(!said.contains(other), "{said}");
        }
        let none = describe(
            &records,
            &[],
            (None, Some("2026-01-01T00:00:00Z".parse().unwrap())),
        );
        assert_eq!(none, NONE);
    }
}
