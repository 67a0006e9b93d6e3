//! Default rules of a pipeline that has none, derived from its lines, zones and trackers.
//!
//! - Rules are derived only here, so a workflow makes the same events however it was deployed.

use watchkeeper_contract::rule::{Condition, CrossDirection, RuleSpec};

/// Seconds in a zone after which a visit makes an event.
pub const STAY_S: f64 = 5.0;

/// Derives a crossing rule for each line counter and enter and stay rules for each zone. If there
/// is no line or zone, derives an appear rule for each tracker.
///
/// The arguments are names of steps. Rules are named after their step: `door`, `desk-enters`,
/// `desk-stays`; `appears` is the first tracker's, `appears-NAME` that of any other.
pub fn derive(lines: &[String], zones: &[String], trackers: &[String]) -> Vec<RuleSpec> {
    let mut rules: Vec<RuleSpec> = lines
        .iter()
        .map(|line| {
            let when = Condition::Crosses {
                line: line.clone(),
                direction: CrossDirection::Any,
            };
            rule(line, "", when)
        })
        .collect();
    for zone in zones {
        let enters = Condition::Enters { zone: zone.clone() };
        let stays = Condition::Stays {
            zone: zone.clone(),
            for_s: STAY_S,
        };
        rules.push(rule(zone, "-enters", enters));
        rules.push(rule(zone, "-stays", stays));
    }
    if rules.is_empty() {
        let appears = trackers.iter().enumerate().map(|(nth, tracker)| {
            let detections = format!("$steps.{tracker}.tracked_detections");
            let when = Condition::Appears { detections };
            match nth {
                0 => rule("appears", "", when),
                _ => rule(&format!("appears-{tracker}"), "", when),
            }
        });
        rules.extend(appears);
    }
    rules
}

/// A rule named after its step. A rule's name has at most 80 characters; a step's may have more,
/// and loses them before the suffix.
fn rule(step: &str, suffix: &str, when: Condition) -> RuleSpec {
    let head: String = step.chars().take(80 - suffix.len()).collect();
    RuleSpec::new(head + suffix, when)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(lines: &[&str], zones: &[&str], trackers: &[&str]) -> Vec<String> {
        let owned = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        derive(&owned(lines), &owned(zones), &owned(trackers))
            .into_iter()
            .map(|r| r.name)
            .collect()
    }

    #[test]
    fn line_and_zone_derive_their_rules() {
        assert_eq!(names(&["l"], &["z"], &["t"]), ["l", "z-enters", "z-stays"]);
    }

    #[test]
    fn rules_of_a_step_with_a_long_name_keep_their_suffixes() {
        let long = "z".repeat(90);
        let names = names(&[], &[&long], &[]);
        let wanted = [
            format!("{}-enters", "z".repeat(73)),
            format!("{}-stays", "z".repeat(74)),
        ];
        assert_eq!(names, wanted);
    }

    #[test]
    fn without_line_or_zone_each_tracker_derives_appears() {
        assert_eq!(names(&[], &[], &["t", "u"]), ["appears", "appears-u"]);
        let rules = derive(&[], &[], &["t".to_owned()]);
        let detections = "$steps.t.tracked_detections".to_owned();
        let wanted = Condition::Appears { detections };
        assert_eq!(rules.first().map(|r| &r.when), Some(&wanted));
    }

    #[test]
    fn workflow_without_measures_derives_no_rules() {
        assert_eq!(names(&[], &[], &[]), [""; 0]);
    }
}
