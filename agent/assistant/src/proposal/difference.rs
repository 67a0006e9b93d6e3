//! Difference between a change and what runs, field by field.
//!
//! Invariants:
//! - The difference is computed from the two specifications, never from the request.
//! - Secrets are hidden, and two different secrets still show as different.

use jiff::Zoned;
use serde::Serialize;
use serde_json::Value;
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::pipeline::{PipelineSpec, PipelineState, PipelineStatus};
use watchkeeper_engine::templates::annotate::STEP_PREFIX;
use watchkeeper_plain::Change;

use super::snapshot::SystemSnapshot;
use crate::json_difference::{Difference, differences};
use crate::redact::redact_pair;
use crate::wording::cut;

/// Most characters of a displayed value.
const MAX_VALUE_CHARS: usize = 240;
/// Most fields listed for one pipeline.
const MAX_FIELDS: usize = 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProposalDiff {
    pub pipeline: PipelineId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceId>,
    #[serde(flatten)]
    pub becomes: DiffKind,
}

/// How a pipeline would change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "becomes", rename_all = "snake_case")]
pub enum DiffKind {
    New,
    /// The new pipeline has the name of one that was deployed meanwhile.
    Taken,
    /// Some fields differ; the pipeline restarts.
    Other {
        fields: Vec<FieldDiff>,
        /// Number of fields that are not listed.
        more: usize,
        /// New end of a pipeline with `stop_after_s`: its time restarts.
        #[serde(skip_serializing_if = "Option::is_none")]
        time: Option<String>,
    },
    /// It is stopped and deleted.
    Gone,
    Paused,
    Resumed,
    /// It was deleted and is in the configuration file, whose settings it gets.
    Restored,
    /// The pipeline already is as requested.
    Same,
    /// The pipeline no longer exists.
    Missing,
}

/// One changed field. A missing value is `null`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldDiff {
    /// Path in the specification, such as `workflow.steps.detect.confidence`.
    pub path: String,
    pub from: String,
    pub to: String,
}

/// Compares `change` with the current state.
pub fn difference(change: &Change, situation: &SystemSnapshot) -> ProposalDiff {
    let id = change.pipeline();
    let status = situation.pipeline(id.as_str());
    let runs = status.map(|p| &p.spec);
    let becomes = match (change, status) {
        (Change::Deploy(_), None) => DiffKind::New,
        (Change::Deploy(_), Some(_)) => DiffKind::Taken,
        (_, None) => DiffKind::Missing,
        (Change::Replace(spec), Some(runs)) => diff_specs(runs, spec),
        (Change::Delete(_), Some(_)) => DiffKind::Gone,
        (Change::Pause { until, .. }, Some(runs)) if is_paused(runs, until.as_ref()) => {
            DiffKind::Same
        }
        (Change::Pause { .. }, Some(_)) => DiffKind::Paused,
        (Change::Resume(_), Some(runs)) if is_running(runs) => DiffKind::Same,
        (Change::Resume(_), Some(runs)) if runs.state == PipelineState::Stopped => {
            DiffKind::Restored
        }
        (Change::Resume(_), Some(_)) => DiffKind::Resumed,
    };
    let source = match change {
        Change::Deploy(spec) | Change::Replace(spec) => Some(spec.source.clone()),
        _ => runs.map(|spec| spec.source.clone()),
    };
    ProposalDiff {
        pipeline: id.clone(),
        source,
        becomes,
    }
}

/// Whether it is already paused until the same time.
fn is_paused(status: &PipelineStatus, until: Option<&Zoned>) -> bool {
    status.spec.paused && status.paused_until == until.map(Zoned::timestamp)
}

/// Whether the pipeline runs. A resume also restarts a failed or suspended pipeline.
fn is_running(status: &PipelineStatus) -> bool {
    !status.spec.paused && status.state.takes_frames()
}

fn diff_specs(status: &PipelineStatus, wanted: &PipelineSpec) -> DiffKind {
    let runs = &status.spec;
    let time = runs.stop_after_s.and(wanted.stop_after_s);
    let time = time.map(|seconds| match status.state {
        PipelineState::Ended => format!("it has ended and restarts for {seconds} s"),
        _ => format!("its time restarts: it ends {seconds} s after the change"),
    });
    let value = |spec: &PipelineSpec| serde_json::to_value(spec).unwrap_or_default();
    let (runs, wanted) = redact_pair(&value(runs), &value(wanted));
    let field = |found: Difference| FieldDiff {
        path: found.path.join("."),
        from: display_value(found.from),
        to: display_value(found.to),
    };
    let found = differences(&runs, &wanted);
    let all = found.len();
    if all == 0 {
        return DiffKind::Same;
    }
    // They are added to what was asked for, so they are only counted.
    let asked = found.into_iter().filter(|found| !is_added_drawing(found));
    let fields: Vec<FieldDiff> = asked.take(MAX_FIELDS).map(field).collect();
    let more = all - fields.len();
    DiffKind::Other { fields, more, time }
}

/// Whether it is about a step that draws, which a proposal adds.
fn is_added_drawing(found: &Difference) -> bool {
    let names: Vec<&str> = found.path.iter().map(String::as_str).collect();
    matches!(names.as_slice(), ["workflow", "steps", step, ..] if step.starts_with(STEP_PREFIX))
}

/// Returns the value on one line, shortened.
fn display_value(value: Option<Value>) -> String {
    cut(value.unwrap_or_default().to_string(), MAX_VALUE_CHARS)
}

impl ProposalDiff {
    /// Whether the change can be made and has an effect.
    pub fn has_effect(&self) -> bool {
        !matches!(
            self.becomes,
            DiffKind::Same | DiffKind::Missing | DiffKind::Taken
        )
    }

    /// Returns lines of text for the user.
    pub fn lines(&self) -> Vec<String> {
        let on = self
            .source
            .as_ref()
            .map(|s| format!(" on {s}"))
            .unwrap_or_default();
        let id = &self.pipeline;
        let head = match &self.becomes {
            DiffKind::New => format!("+ {id}{on} is new"),
            DiffKind::Taken => format!("! {id}: a deployed pipeline already has this name"),
            DiffKind::Other { .. } => format!("~ {id}{on} restarts with"),
            DiffKind::Gone => format!("- {id}{on} is stopped and deleted; its events stay"),
            DiffKind::Paused => format!("~ {id}{on} is paused"),
            DiffKind::Resumed => format!("~ {id}{on} is resumed"),
            DiffKind::Restored => format!(
                "~ {id}{on} was deleted and starts again with the settings of the configuration file"
            ),
            DiffKind::Same => format!("= {id}{on} is unchanged"),
            DiffKind::Missing => format!("! {id} does not exist"),
        };
        let mut lines = vec![head];
        if let DiffKind::Other { fields, more, time } = &self.becomes {
            let line = |f: &FieldDiff| format!("    {}: {} → {}", f.path, f.from, f.to);
            lines.extend(fields.iter().map(line));
            if *more > 0 {
                lines.push(format!("    and {more} more"));
            }
            lines.extend(time.iter().map(|time| format!("    {time}")));
        }
        lines
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use serde_json::json;

    use super::super::snapshot::testing::{situation, status};
    use super::*;

    fn spec(confidence: f64, rules: &Value) -> PipelineSpec {
        let steps = json!([{"type": "d", "name": "detect", "confidence": confidence}]);
        serde_json::from_value(
            json!({"id": "p", "source": "gate", "workflow": {"steps": steps}, "rules": rules}),
        )
        .unwrap()
    }

    fn lines(change: &Change, runs: Option<&PipelineSpec>) -> Vec<String> {
        let mut here = situation();
        here.pipelines = runs.map(status).into_iter().collect();
        difference(change, &here).lines()
    }

    #[test]
    fn only_changed_fields_are_listed_with_both_values() {
        let rule =
            json!([{"name": "a", "when": {"kind": "enters", "zone": "z"}, "cooldown_s": 5.0}]);
        let (runs, wanted) = (spec(0.1, &rule), spec(0.6, &rule));
        let said = lines(&Change::Replace(Box::new(wanted.clone())), Some(&runs));
        assert_eq!(
            said,
            [
                "~ p on gate restarts with",
                "    workflow.steps.detect.confidence: 0.1 → 0.6"
            ]
        );
        let said = lines(&Change::Replace(Box::new(wanted.clone())), Some(&wanted));
        assert_eq!(said, ["= p on gate is unchanged"]);
    }

    #[test]
    fn drawing_steps_that_a_proposal_adds_are_only_counted() {
        let runs = spec(0.1, &Value::Null);
        let mut wanted = spec(0.6, &Value::Null);
        let drawn = json!({"type": "b", "name": "watchkeeper-draw-1", "image": "$inputs.image"});
        wanted.workflow["steps"].as_array_mut().unwrap().push(drawn);
        let said = lines(&Change::Replace(Box::new(wanted)), Some(&runs));
        assert_eq!(
            said[1..],
            [
                "    workflow.steps.detect.confidence: 0.1 → 0.6",
                "    and 1 more"
            ]
        );
    }

    #[test]
    fn changed_pipeline_with_an_end_restarts_its_time() {
        let mut runs = spec(0.1, &Value::Null);
        runs.stop_after_s = Some(3600.0);
        let mut wanted = spec(0.6, &Value::Null);
        wanted.stop_after_s = runs.stop_after_s;
        let change = Change::Replace(Box::new(wanted.clone()));
        let said = lines(&change, Some(&runs));
        assert_eq!(said.len(), 3, "{said:?}");
        assert_eq!(
            said[2],
            "    its time restarts: it ends 3600 s after the change"
        );
        let mut here = situation();
        here.pipelines = vec![status(&runs)];
        here.pipelines[0].state = PipelineState::Ended;
        let said = difference(&change, &here).lines();
        assert_eq!(said[2], "    it has ended and restarts for 3600 s");
        // A changed end is among the fields.
        wanted.stop_after_s = None;
        let said = lines(&Change::Replace(Box::new(wanted)), Some(&runs));
        let lost = "    stop_after_s: 3600.0 → null".to_owned();
        assert!(said.contains(&lost) && said.len() == 3, "{said:?}");
    }

    #[test]
    fn pause_of_a_paused_pipeline_changes_nothing() {
        let mut runs = spec(0.1, &Value::Null);
        let id = runs.id.clone();
        let pause = Change::Pause {
            pipeline: id.clone(),
            until: None,
        };
        let resume = Change::Resume(id.clone());
        assert_eq!(lines(&pause, Some(&runs)), ["~ p on gate is paused"]);
        assert_eq!(lines(&resume, Some(&runs)), ["= p on gate is unchanged"]);
        runs.paused = true;
        assert_eq!(lines(&pause, Some(&runs)), ["= p on gate is unchanged"]);
        let until_eight = Change::Pause {
            pipeline: id.clone(),
            until: "2026-03-29T06:00:00Z"
                .parse::<jiff::Timestamp>()
                .ok()
                .map(|until| until.to_zoned(jiff::tz::TimeZone::UTC)),
        };
        assert_eq!(lines(&until_eight, Some(&runs)), ["~ p on gate is paused"]);
        assert_eq!(lines(&resume, Some(&runs)), ["~ p on gate is resumed"]);
        assert_eq!(lines(&Change::Delete(id), None), ["! p does not exist"]);
    }

    #[test]
    fn resume_of_deleted_pipeline_names_source_of_settings() {
        let runs = spec(0.1, &Value::Null);
        let mut here = situation();
        here.pipelines = vec![status(&runs)];
        here.pipelines[0].state = PipelineState::Stopped;
        let said = difference(&Change::Resume(runs.id.clone()), &here).lines();
        assert_eq!(
            said,
            [
                "~ p on gate was deleted and starts again with the settings of the configuration file"
            ]
        );
    }

    #[test]
    fn long_list_of_fields_is_cut_with_a_count() {
        let wide = |to: i64| -> PipelineSpec {
            let parameters: serde_json::Map<String, Value> =
                (0..30).map(|n| (format!("p{n}"), json!(to))).collect();
            serde_json::from_value(
                json!({"id": "p", "source": "gate", "workflow": {}, "parameters": parameters}),
            )
            .unwrap()
        };
        let said = lines(&Change::Replace(Box::new(wide(2))), Some(&wide(1)));
        assert_eq!(said.len(), 22);
        assert_eq!(said[21], "    and 10 more");
    }
}
