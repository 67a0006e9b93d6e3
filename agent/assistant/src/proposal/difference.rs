//! What a proposal would make different, compared with what runs.
//!
//! Invariants: what is listed is computed from the two specifications, never from the words of the request; secrets in them are hidden, and two that differ
//! still show as different.

use std::collections::BTreeSet;

use jiff::Zoned;
use serde::Serialize;
use serde_json::{Value, json};
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::pipeline::{PipelineSpec, PipelineState, PipelineStatus};
use watchkeeper_plain::Change;

use super::snapshot::SystemSnapshot;
use crate::redact::told_apart;
use crate::wording::cut;

/// Longest value that is shown, in characters.
const SHOWN: usize = 240;
/// Most fields of one pipeline that are listed.
const MAX_FIELDS: usize = 20;

/// What becomes of one pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProposalDiff {
    /// Which.
    pub pipeline: PipelineId,
    /// The source it watches, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceId>,
    /// What becomes of it.
    #[serde(flatten)]
    pub becomes: DiffKind,
}

/// What becomes of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "becomes", rename_all = "snake_case")]
pub enum DiffKind {
    /// It is new.
    New,
    /// It takes the place of one of that name, which has come meanwhile.
    Taken,
    /// Fields of it are others.
    Other {
        /// Each field that differs.
        fields: Vec<FieldDiff>,
        /// How many more there are.
        more: usize,
        /// What becomes of the time after which it ends by itself, where it had one: it is counted anew.
        #[serde(skip_serializing_if = "Option::is_none")]
        time: Option<String>,
    },
    /// It ends and is gone.
    Gone,
    /// It pauses.
    Paused,
    /// It goes on.
    Resumed,
    /// Nothing: it is so already.
    Same,
    /// It is not there any more.
    Missing,
}

/// One field that differs. A side that has none is `null`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldDiff {
    /// Path in the specification, such as `workflow.steps.detect.confidence`.
    pub path: String,
    /// What stands there.
    pub from: String,
    /// What would.
    pub to: String,
}

/// What `change` makes different in this situation.
#[must_use]
pub fn difference(change: &Change, situation: &SystemSnapshot) -> ProposalDiff {
    let id = match change {
        Change::Deploy(spec) | Change::Replace(spec) => &spec.id,
        Change::Stop(id) | Change::Resume(id) | Change::Pause { pipeline: id, .. } => id,
    };
    let status = situation.pipeline(id.as_str());
    let runs = status.map(|p| &p.spec);
    let becomes = match (change, status) {
        (Change::Deploy(_), None) => DiffKind::New,
        (Change::Deploy(_), Some(_)) => DiffKind::Taken,
        (_, None) => DiffKind::Missing,
        (Change::Replace(spec), Some(runs)) => compared(runs, spec),
        (Change::Stop(_), Some(_)) => DiffKind::Gone,
        (Change::Pause { until, .. }, Some(runs)) if is_paused(runs, until.as_ref()) => {
            DiffKind::Same
        }
        (Change::Pause { .. }, Some(_)) => DiffKind::Paused,
        (Change::Resume(_), Some(runs)) if goes(runs) => DiffKind::Same,
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

/// Whether it is paused, and until the same moment.
fn is_paused(status: &PipelineStatus, until: Option<&Zoned>) -> bool {
    status.spec.paused && status.paused_until == until.map(Zoned::timestamp)
}

/// Whether nothing holds it: a pipeline can also rest because it failed or was held, and a resume lifts that.
fn goes(status: &PipelineStatus) -> bool {
    let state = &status.state;
    !status.spec.paused && matches!(state, PipelineState::Starting | PipelineState::Running)
}

fn compared(status: &PipelineStatus, wanted: &PipelineSpec) -> DiffKind {
    let runs = &status.spec;
    let time = runs.stop_after_s.and(wanted.stop_after_s);
    let time = time.map(|seconds| match status.state {
        PipelineState::Ended => format!("it is over, and watches anew for {seconds} s"),
        _ => format!("its time begins anew: it ends {seconds} s after the change"),
    });
    let value = |spec: &PipelineSpec| serde_json::to_value(spec).unwrap_or_default();
    let (runs, wanted) = told_apart(&value(runs), &value(wanted));
    let mut fields = Vec::new();
    fields_of("", &runs, &wanted, &mut fields);
    if fields.is_empty() {
        return DiffKind::Same;
    }
    let more = fields.len().saturating_sub(MAX_FIELDS);
    fields.truncate(MAX_FIELDS);
    DiffKind::Other { fields, more, time }
}

fn fields_of(path: &str, from: &Value, to: &Value, fields: &mut Vec<FieldDiff>) {
    let below = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    match (from, to) {
        (from, to) if from == to => {}
        (Value::Object(a), Value::Object(b)) => {
            let names = a
                .keys()
                .chain(b.keys().filter(|name| !a.contains_key(*name)));
            for name in names {
                let side = |side: &serde_json::Map<String, Value>| {
                    side.get(name).cloned().unwrap_or(Value::Null)
                };
                fields_of(&below(name), &side(a), &side(b), fields);
            }
        }
        // Inputs, steps, outputs and rules are known by their names.
        (Value::Array(a), Value::Array(b)) if are_named(a) && are_named(b) => {
            let of =
                |all: &[Value], name: &str| all.iter().find(|v| name_of(v) == Some(name)).cloned();
            for name in a.iter().filter_map(name_of) {
                let (from, to) = (of(a, name), of(b, name));
                fields_of(
                    &below(name),
                    &from.unwrap_or_default(),
                    &to.unwrap_or_default(),
                    fields,
                );
            }
            for (name, new) in b.iter().filter_map(|v| Some((name_of(v)?, v))) {
                if of(a, name).is_none() {
                    fields_of(&below(name), &Value::Null, new, fields);
                }
            }
            let order = |all: &[Value], other: &[Value]| -> Value {
                let names = all.iter().filter_map(name_of);
                names.filter(|name| of(other, name).is_some()).collect()
            };
            let (from, to) = (order(a, b), order(b, a));
            if from != to {
                fields_of(
                    &below("order"),
                    &json!(from.to_string()),
                    &json!(to.to_string()),
                    fields,
                );
            }
        }
        (from, to) => fields.push(FieldDiff {
            path: path.to_owned(),
            from: shown(from),
            to: shown(to),
        }),
    }
}

/// Whether each of these has a name of its own.
fn are_named(all: &[Value]) -> bool {
    let names: BTreeSet<&str> = all.iter().filter_map(name_of).collect();
    names.len() == all.len()
}

fn name_of(value: &Value) -> Option<&str> {
    value.get("name")?.as_str()
}

/// A value on one line, cut.
fn shown(value: &Value) -> String {
    cut(value.to_string(), SHOWN)
}

impl ProposalDiff {
    /// Whether it makes any difference that can be made.
    #[must_use]
    pub fn acts(&self) -> bool {
        !matches!(
            self.becomes,
            DiffKind::Same | DiffKind::Missing | DiffKind::Taken
        )
    }

    /// As lines for a person.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let on = self
            .source
            .as_ref()
            .map(|s| format!(" on {s}"))
            .unwrap_or_default();
        let id = &self.pipeline;
        let head = match &self.becomes {
            DiffKind::New => format!("+ {id}{on} is new"),
            DiffKind::Taken => format!("! {id}: the name is taken by a pipeline that runs"),
            DiffKind::Other { .. } => format!("~ {id}{on} begins anew with"),
            DiffKind::Gone => format!("- {id}{on} ends and is gone; its events stay"),
            DiffKind::Paused => format!("~ {id}{on} pauses"),
            DiffKind::Resumed => format!("~ {id}{on} goes on"),
            DiffKind::Same => format!("= {id}{on} is so already"),
            DiffKind::Missing => format!("! {id} is not there"),
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
    fn fields_that_differ_are_named_with_both_values_and_the_others_are_not() {
        let rule =
            json!([{"name": "a", "when": {"kind": "enters", "zone": "z"}, "cooldown_s": 5.0}]);
        let (runs, wanted) = (spec(0.1, &rule), spec(0.6, &rule));
        let said = lines(&Change::Replace(Box::new(wanted.clone())), Some(&runs));
        assert_eq!(
            said,
            [
                "~ p on gate begins anew with",
                "    workflow.steps.detect.confidence: 0.1 → 0.6"
            ]
        );
        let said = lines(&Change::Replace(Box::new(wanted.clone())), Some(&wanted));
        assert_eq!(said, ["= p on gate is so already"]);
    }

    #[test]
    fn the_time_of_a_watch_that_is_changed_begins_anew_and_that_is_said() {
        let mut runs = spec(0.1, &Value::Null);
        runs.stop_after_s = Some(3600.0);
        let mut wanted = spec(0.6, &Value::Null);
        wanted.stop_after_s = runs.stop_after_s;
        let change = Change::Replace(Box::new(wanted.clone()));
        let said = lines(&change, Some(&runs));
        assert_eq!(said.len(), 3, "{said:?}");
        assert_eq!(
            said[2],
            "    its time begins anew: it ends 3600 s after the change"
        );
        let mut here = situation();
        here.pipelines = vec![status(&runs)];
        here.pipelines[0].state = PipelineState::Ended;
        let said = difference(&change, &here).lines();
        assert_eq!(said[2], "    it is over, and watches anew for 3600 s");
        // One that gets a time or loses it has that among its fields.
        wanted.stop_after_s = None;
        let said = lines(&Change::Replace(Box::new(wanted)), Some(&runs));
        let lost = "    stop_after_s: 3600.0 → null".to_owned();
        assert!(said.contains(&lost) && said.len() == 3, "{said:?}");
    }

    #[test]
    fn a_pause_of_what_is_paused_is_no_change_and_a_resume_of_it_is() {
        let mut runs = spec(0.1, &Value::Null);
        let id = runs.id.clone();
        let pause = Change::Pause {
            pipeline: id.clone(),
            until: None,
        };
        let resume = Change::Resume(id.clone());
        assert_eq!(lines(&pause, Some(&runs)), ["~ p on gate pauses"]);
        assert_eq!(lines(&resume, Some(&runs)), ["= p on gate is so already"]);
        runs.paused = true;
        assert_eq!(lines(&pause, Some(&runs)), ["= p on gate is so already"]);
        let until_eight = Change::Pause {
            pipeline: id.clone(),
            until: "2026-03-29T06:00:00Z"
                .parse::<jiff::Timestamp>()
                .ok()
                .map(|until| until.to_zoned(jiff::tz::TimeZone::UTC)),
        };
        assert_eq!(lines(&until_eight, Some(&runs)), ["~ p on gate pauses"]);
        assert_eq!(lines(&resume, Some(&runs)), ["~ p on gate goes on"]);
        assert_eq!(lines(&Change::Stop(id), None), ["! p is not there"]);
    }

    #[test]
    fn a_long_list_of_fields_is_cut_and_says_so() {
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
