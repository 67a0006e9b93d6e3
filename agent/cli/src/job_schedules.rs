//! The section `[agent.jobs.NAME]` as `config show` prints it.

use serde_json::{Value, json};
use watchkeeper_config::{ScheduleConfig, ScheduledWork, Trigger};

/// Builds the section `[agent.jobs.NAME]`.
pub(super) fn section(schedule: &ScheduleConfig) -> Value {
    let mut section = json!({"notify_failure": schedule.notify_failure});
    match &schedule.work {
        ScheduledWork::Plan(file) => section["plan"] = json!(file),
        ScheduledWork::Request(text) => section["request"] = json!(text),
    }
    match &schedule.trigger {
        Trigger::Cron { times, catch_up } => {
            section["cron"] = json!(times.text());
            section["catch_up"] = json!(catch_up);
        }
        Trigger::On(filter) => {
            section["on"] = without_null(json!({"camera": filter.camera, "class": filter.class,
                "rule": filter.rule, "verdict": filter.verdict}));
            section["min_interval_s"] = json!(filter.min_interval.as_secs());
        }
    }
    section["output"] = json!(schedule.output);
    section["keep_last"] = json!(schedule.keep_last);
    without_null(section)
}

/// Removes absent members: TOML has no null.
fn without_null(mut section: Value) -> Value {
    if let Some(members) = section.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    section
}
