//! Notes about rules that are valid and hardly meant: hours that end where they begin, and times
//! longer than a day.

use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::{Condition, RuleSpec};

/// Seconds of a day; a longer time in a condition is noted.
const DAY_S: f64 = 86_400.0;

pub(super) fn notes(spec: &PipelineSpec) -> Vec<String> {
    let rules = spec.rules.iter().flatten().enumerate();
    let notes = rules.flat_map(|(nth, rule)| {
        let key = format!("pipelines.{}.rules[{nth}]", spec.id);
        let hours = equal_hours(rule).map(|note| format!("{key}.schedule: {note}"));
        let long = long_condition(rule).map(|note| format!("{key}.when.for_s: {note}"));
        hours.into_iter().chain(long)
    });
    notes.collect()
}

fn equal_hours(rule: &RuleSpec) -> Option<String> {
    let schedule = rule.schedule.as_ref()?;
    let from = &schedule.from;
    (*from == schedule.to).then(|| {
        format!("from and to are {from}, so the rule is active for the 24 hours from {from}")
    })
}

fn long_condition(rule: &RuleSpec) -> Option<String> {
    let for_s = match &rule.when {
        Condition::Stays { for_s, .. }
        | Condition::Count { for_s, .. }
        | Condition::Value { for_s, .. } => *for_s,
        Condition::Appears { .. }
        | Condition::Enters { .. }
        | Condition::Leaves { .. }
        | Condition::Crosses { .. } => 0.0,
    };
    (for_s > DAY_S).then(|| {
        let days = for_s / DAY_S;
        format!("{for_s} s are {days:.1} days; the condition must hold that long without a break")
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_hours_and_long_times_are_noted() {
        let spec: PipelineSpec = serde_json::from_value(json!({
            "id": "p", "source": "s", "workflow": {}, "rules": [
                {"name": "a", "when": {"kind": "stays", "zone": "z", "for_s": 5_000_000.0}},
                {"name": "b", "when": {"kind": "enters", "zone": "z"},
                 "schedule": {"days": ["sun"], "from": "22:00", "to": "22:00"}},
                {"name": "c", "when": {"kind": "stays", "zone": "z", "for_s": 60.0},
                 "schedule": {"from": "22:00", "to": "06:00"}},
            ],
        }))
        .unwrap();
        let notes = notes(&spec);
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].starts_with("pipelines.p.rules[0].when.for_s: 5000000 s are 57.9 days"));
        assert!(notes[1].starts_with("pipelines.p.rules[1].schedule: from and to are 22:00"));
    }
}
