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
use watchkeeper_jobs::{Toolbox, planner};

use super::request::{JobServiceError, require_allowed};
use super::trigger::TriggerEvent;

/// Reads a file, or plans a request at the local time `now`; it may name what `tools` know.
///
/// # Errors
/// Sentences: all that is wrong with it.
pub fn load(work: &ScheduledWork, now: DateTime, tools: &Toolbox) -> Result<Plan, Vec<String>> {
    match work {
        ScheduledWork::Request(text) => {
            planner::plan(text, now, &tools.names()).map_err(|error| vec![error.to_string()])
        }
        ScheduledWork::Plan(file) => {
            let text = read_file(file)
                .map_err(|error| vec![format!("{} can't be read: {error}", file.display())])?;
            read_text(&text).map_err(|faults| faults.iter().map(ToString::to_string).collect())
        }
    }
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
    let plan = load(&schedule.work, jiff::Zoned::now().datetime(), tools)?;
    let repaired = repair(plan, tools);
    let repaired = repaired
        .map_err(|left| -> Vec<String> { left.faults.iter().map(ToString::to_string).collect() })?;
    require_allowed(&repaired.plan, tools, None, false)
        .map_err(|error: JobServiceError| vec![error.to_string()])
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
