//! The plan that a schedule runs: read and checked when it is due, and before.
//!
//! - A request is planned by the rules alone, for the time at which it is due.
//! - A file is read at each run, up to the size of a plan.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use watchkeeper_config::{ScheduleConfig, ScheduledWork};
use watchkeeper_jobs::plan::{MAX_PLAN_BYTES, Plan, read_text, repair};
use watchkeeper_jobs::{Fault, Step, Toolbox, planner};

use super::request::{JobServiceError, require_allowed};
use super::trigger::TriggerEvent;

const NO_NAMES: &str =
    "the runtime does not answer, so its cameras, rules and classes are not known; start it";

/// Reads a file, or plans a request at the local time `now`; it may name what `tools` know.
///
/// # Errors
/// All that is wrong with it, or [`JobServiceError::Unavailable`].
pub fn load(work: &ScheduledWork, now: DateTime, tools: &Toolbox) -> Result<Plan, JobServiceError> {
    match work {
        ScheduledWork::Request(text) => {
            let known = tools.names();
            let is_known = known.is_some();
            planner::plan(text, now, &known.unwrap_or_default()).map_err(|error| match is_known {
                true => JobServiceError::Invalid(vec![error.to_string()]),
                false => JobServiceError::Unavailable(format!("{NO_NAMES}: {error}")),
            })
        }
        ScheduledWork::Plan(file) => {
            // A mount may come late.
            let text = read_file(file).map_err(|error| {
                let sentence = format!("{} can't be read: {error}", file.display());
                JobServiceError::Unavailable(sentence)
            })?;
            read_text(&text).map_err(|faults| invalid(&faults))
        }
    }
}

/// Loads a plan that is due, as [`load`] does. A request for pictures of events waits until the
/// rules are known: the planner takes a noun for a class or a rule by them.
///
/// # Errors
/// Those of [`load`].
pub(crate) fn load_due(
    work: &ScheduledWork,
    now: DateTime,
    tools: &Toolbox,
) -> Result<Plan, JobServiceError> {
    let plan = load(work, now, tools)?;
    let is_of_events = {
        let mut calls = plan.steps.iter().flat_map(Step::calls);
        calls.any(|call| call.tool == planner::EVENT_PICTURES)
    };
    match work {
        ScheduledWork::Request(_) if is_of_events && tools.names().is_none() => {
            Err(JobServiceError::Unavailable(NO_NAMES.to_owned()))
        }
        _ => Ok(plan),
    }
}

fn invalid(faults: &[Fault]) -> JobServiceError {
    JobServiceError::Invalid(faults.iter().map(ToString::to_string).collect())
}

/// Reads at most one byte more than a plan may have; the reader of plans refuses that.
fn read_file(file: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let file = File::open(file)?;
    file.take(MAX_PLAN_BYTES as u64 + 1)
        .read_to_string(&mut text)?;
    Ok(text)
}

/// Checks what a schedule runs, as if it were due now.
///
/// # Errors
/// Sentences: all that is wrong with it and can't be repaired.
pub fn check(schedule: &ScheduleConfig, tools: &Toolbox) -> Result<(), Vec<String>> {
    let checked = load(&schedule.work, jiff::Zoned::now().datetime(), tools)
        .and_then(|plan| repair(plan, tools).map_err(|left| invalid(&left.faults)))
        .and_then(|repaired| require_allowed(&repaired.plan, tools, None, false));
    checked.map_err(|error| match error {
        JobServiceError::Invalid(faults) => faults,
        other => vec![other.to_string()],
    })
}

/// Replaces the inputs of a plan that are named after a part of an event: `event` (its number),
/// `event_time`, `event_camera`, `event_class`, `event_zone` and `event_rule`. What the event has
/// not stays as the plan says.
pub(crate) fn set_event(plan: &mut Plan, event: &TriggerEvent) {
    let text = |text: &Option<String>| text.as_ref().map(|text| json!(text));
    let time = Timestamp::from_millisecond(event.at_ms).ok();
    let time = time.map(|at| at.to_zoned(TimeZone::system()).datetime());
    let values: [(&str, Option<Value>); 6] = [
        ("event", Some(json!(event.seq))),
        (
            "event_time",
            time.map(|time| json!(time.strftime("%FT%T").to_string())),
        ),
        ("event_camera", text(&event.camera)),
        ("event_class", text(&event.class)),
        ("event_zone", text(&event.zone)),
        ("event_rule", Some(json!(event.rule))),
    ];
    for (key, value) in values {
        if let (Some(input), Some(value)) = (plan.inputs.get_mut(key), value) {
            *input = value;
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use std::sync::Arc;

    use serde_json::Map;
    use watchkeeper_jobs::KnownNames;
    use watchkeeper_jobs::tool::{Context, Tool, ToolError, ToolOutput, ToolSpec};
    use watchkeeper_jobs::tools::picture_tools;

    use super::*;

    /// Knows these names of a runtime.
    struct Names(Option<KnownNames>);

    impl Tool for Names {
        fn spec(&self) -> &'static ToolSpec {
            &ToolSpec {
                name: planner::EVENT_PICTURES,
                about: "",
                params: &[],
                outputs: &[],
            }
        }
        fn names(&self) -> Option<KnownNames> {
            self.0.clone()
        }
        fn run(&self, _: Map<String, Value>, _: &Context<'_>) -> Result<ToolOutput, ToolError> {
            unreachable!("nothing is run")
        }
    }

    fn tools(names: Option<KnownNames>) -> Toolbox {
        let mut tools = picture_tools();
        tools.add(Arc::new(Names(names)));
        tools
    }

    #[test]
    fn due_request_for_events_waits_until_the_names_are_known() {
        let now = "2026-11-28T15:00:00".parse().unwrap();
        let mut names = KnownNames::default();
        names.cameras.add("gate", None);
        names.rules.push("deliveries".to_owned());
        let load = |text: &str, names: Option<KnownNames>| {
            load_due(&ScheduledWork::Request(text.to_owned()), now, &tools(names))
        };
        for text in [
            "last week's deliveries by day",
            "last week's deliveries at the gate by day",
        ] {
            let waits = load(text, None).unwrap_err();
            assert!(matches!(waits, JobServiceError::Unavailable(_)), "{waits}");
            let plan = load(text, Some(names.clone())).unwrap();
            assert_eq!(plan.steps[0].call.params["what"], "deliveries", "{text}");
        }
        // Folders need no runtime.
        load("organise /srv/a by day", None).unwrap();
        let unread = load("organise my moody photos", Some(names)).unwrap_err();
        assert!(matches!(unread, JobServiceError::Invalid(_)), "{unread}");
    }

    #[test]
    fn plan_file_that_is_not_there_may_come() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("plan.yaml");
        let work = ScheduledWork::Plan(file.clone());
        let load = || load_due(&work, DateTime::default(), &picture_tools());
        assert!(matches!(load(), Err(JobServiceError::Unavailable(_))));
        std::fs::write(file, "steps: []").unwrap();
        assert!(matches!(load(), Err(JobServiceError::Invalid(_))));
    }
}
