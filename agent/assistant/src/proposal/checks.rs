//! Static checks of a pipeline before it is deployed: the runtime's checks, made without the
//! runtime.
//!
//! Invariant: a proposal that the engine refuses, or in which a rule can never make an event, can't
//! be confirmed.

use std::collections::BTreeMap;

use jiff::{ToSpan as _, Zoned};
use serde::Serialize;
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::model::ModelInfo;
use watchkeeper_contract::pipeline::{PipelineSpec, WarningKind};
use watchkeeper_contract::rule::{Condition, Schedule};
use watchkeeper_engine::deploy::{self, ModelFacts, SpecError};
use watchkeeper_engine::rules::check::unknown_channels;
use watchkeeper_engine::rules::decide::confidence;
use watchkeeper_engine::rules::evidence::of_value;
use watchkeeper_engine::rules::is_awake;
use watchkeeper_engine::templates::watch::MOTION;
use watchkeeper_models::{Zoo, ZooError};

use super::snapshot::SystemSnapshot;
use crate::moment::schedule_time;
use crate::wording::duration;

/// Result of the checks of one pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    pub pipeline: PipelineId,
    /// Number of steps; 0 if the workflow does not compile.
    pub steps: usize,
    pub rules: Vec<String>,
    /// Errors with their remedies. Empty if the pipeline can be deployed.
    pub errors: Vec<String>,
    /// Parts that may work differently than intended.
    pub warnings: Vec<String>,
}

/// Compiles the workflow of `spec`, checks its rules, and compares both with the known models.
pub fn check_spec(spec: &PipelineSpec, here: &SystemSnapshot) -> Check {
    let mut check = check_draft(spec, here);
    if check.errors.is_empty() && check.rules.is_empty() {
        check
            .warnings
            .push("it has no rules: it counts, but makes no events".to_owned());
    }
    check
}

/// Checks a specification whose rules may still be missing.
pub fn check_draft(spec: &PipelineSpec, here: &SystemSnapshot) -> Check {
    let mut check = Check {
        pipeline: spec.id.clone(),
        steps: 0,
        rules: Vec::new(),
        errors: Vec::new(),
        warnings: Vec::new(),
    };
    let plan = match deploy::plan(spec) {
        Ok(plan) => plan,
        Err(errors) => {
            check.errors = errors.iter().map(SpecError::in_full).collect();
            return check;
        }
    };
    let models: Vec<&ModelInfo> = here.present_models().collect();
    let facts: BTreeMap<String, ModelFacts> = models
        .iter()
        .flat_map(|&model| {
            let names = std::iter::once(&model.name).chain(&model.stands_for);
            names.map(|name| (name.clone(), model_facts(model)))
        })
        .collect();
    let fit = deploy::fit(spec, &plan, &facts);
    check.errors = fit.errors.iter().map(SpecError::in_full).collect();
    let wanted = match &spec.model {
        Some(model) => vec![model.clone()],
        None => plan.compiled.model_ids(),
    };
    let asked = plan.compiled.asked_ids();
    let absent = wanted
        .iter()
        .chain(&asked)
        .filter(|id| !facts.contains_key(*id));
    let absent = absent.map(|id| absent_model(id, here));
    check.errors.extend(absent);
    let unknown = unknown_channels(
        spec.rules.as_deref().unwrap_or_default(),
        &here.health.channels,
    );
    let unknown = unknown.into_iter().map(|e| SpecError::Rule(Box::new(e)));
    check.errors.extend(unknown.map(|e| e.in_full()));
    for warning in fit.warnings {
        match warning.kind {
            WarningKind::WithoutEffect => check.errors.push(warning.message),
            _ => check.warnings.push(warning.message),
        }
    }
    check
        .warnings
        .extend(bands_without_tracks(spec, &plan.compiled.activations()));
    check.warnings.extend(classes_without_effect(spec));
    check.warnings.extend(values_for_review(spec));
    check.errors.extend(never_active(spec, &here.now));
    let steps = spec.workflow.get("steps").and_then(|s| s.as_array());
    check.steps = steps.map_or(0, Vec::len);
    check.rules = plan.rule_names;
    check
}

/// Warns about rules for scores below those that the trackers need to report a track.
fn bands_without_tracks(spec: &PipelineSpec, activations: &[(String, f64)]) -> Vec<String> {
    let Some((tracker, least)) = activations.iter().min_by(|a, b| a.1.total_cmp(&b.1)) else {
        return Vec::new();
    };
    let rules = spec.rules.iter().flatten();
    let low = rules.filter_map(|rule| Some((&rule.name, rule.confidence?.min)));
    let low = low.filter(|(_, min)| *min > 0.0 && min < least);
    let said = low.map(|(name, min)| {
        format!(
            "rule {name:?} is about scores from {min}, but step {tracker:?} reports no track \
             without a box of {least}: set its track_activation_threshold to {min}"
        )
    });
    said.collect()
}

/// Warns about classes of rules on a value, which belongs to no class.
fn classes_without_effect(spec: &PipelineSpec) -> Vec<String> {
    let rules = spec.rules.iter().flatten();
    let on_value = rules.filter(|rule| matches!(rule.when, Condition::Value { .. }));
    let said = on_value
        .filter(|rule| !rule.classes.is_empty())
        .map(|rule| {
            format!(
                "rule {:?} is on a value, so its classes have no effect: filter the detections \
                 from which the value is computed",
                rule.name
            )
        });
    said.collect()
}

/// Warns about rules on a value whose events can reach no higher verdict than `review`.
fn values_for_review(spec: &PipelineSpec) -> Vec<String> {
    let rules = spec.rules.iter().flatten();
    let said = rules.filter_map(|rule| {
        let Condition::Value { for_s, .. } = rule.when else {
            return None;
        };
        // A number far from its bound.
        let highest = confidence(&of_value(Some([1.0, 0.0]), for_s));
        let gates = rule.gates;
        (highest < gates.record && highest >= gates.review).then(|| {
            format!(
                "rule {:?} is on a value, and with \"for_s\":{for_s} its events reach a confidence \
                 of {highest:.2} at most, so a person has to review each: give it gates with act \
                 0.6, or a longer for_s if the value stays that long",
                rule.name
            )
        })
    });
    said.collect()
}

/// Errors of rules whose hours do not come before the pipeline, started now, ends.
fn never_active(spec: &PipelineSpec, now: &Zoned) -> Vec<String> {
    let Some(seconds) = spec.stop_after_s else {
        return Vec::new();
    };
    // Schedules repeat each week.
    let minutes = (seconds / 60.0).ceil().clamp(0.0, 7.0 * 1440.0) as i64;
    let is_asleep = |schedule: &Schedule, minute: i64| {
        let at = now.checked_add(minute.minutes());
        at.is_ok_and(|at| is_awake(schedule, schedule_time(at.datetime())) == Some(false))
    };
    let rules = spec.rules.iter().flatten();
    let never = rules.filter(|rule| {
        let schedule = rule.schedule.as_ref();
        schedule.is_some_and(|hours| (0..=minutes).all(|minute| is_asleep(hours, minute)))
    });
    let said = never.map(|rule| {
        format!(
            "rule {:?} is never active before the pipeline ends, {} after its start: choose other \
             hours or a later end",
            rule.name,
            duration(seconds)
        )
    });
    said.collect()
}

/// What workflows depend on of a model.
pub fn model_facts(model: &ModelInfo) -> ModelFacts {
    match model.name.as_str() {
        MOTION => ModelFacts::motion(),
        _ => ModelFacts::network(&model.task, model.labels.iter().cloned()),
    }
}

/// The error of a model that is not on this box, with what brings it and what is here instead.
pub fn absent_model(id: &str, here: &SystemSnapshot) -> String {
    let names: Vec<&str> = here.present_models().map(|m| m.name.as_str()).collect();
    let zoo = Zoo::builtin();
    let mut absence = zoo.absence(id);
    if let ZooError::Unknown { nearest, .. } = &mut absence {
        // A model without an address can't be fetched either.
        let is_published = |name: &String| zoo.manifest(name)?.url();
        nearest.retain(|name| is_published(name).is_some());
    }
    format!(
        "model {id:?} is not on this box: {absence}; the models here are: {}",
        names.join(", ")
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use serde_json::json;
    use watchkeeper_engine::templates::watch::{self, Watch};

    use super::super::snapshot::testing::situation;
    use super::*;

    #[test]
    fn rule_for_scores_that_begin_no_track_warns() {
        let here = situation();
        let warned = |step: serde_json::Value, min: f64| {
            let mut spec = json!({"id": "p", "source": "gate",
                "workflow": watch::workflow(&Watch::default(), "yolox-nano"),
                "rules": [{"name": "unsure", "confidence": {"min": min, "max": 0.6},
                    "when": {"kind": "appears",
                        "detections": "$steps.tracker.tracked_detections"}}]});
            let tracker = spec["workflow"]["steps"].as_array_mut().unwrap().iter_mut();
            let mut tracker = tracker.filter(|s| s["type"] == "watchkeeper/tracker@v1");
            if !step.is_null() {
                tracker.next().unwrap()["track_activation_threshold"] = step;
            }
            check_spec(&serde_json::from_value(spec).unwrap(), &here).warnings
        };
        let warnings = warned(serde_json::Value::Null, 0.35);
        assert!(
            warnings
                .iter()
                .any(|w| w.contains("track_activation_threshold to 0.35")),
            "{warnings:?}"
        );
        let silent = [
            warned(json!(0.35), 0.35),
            warned(serde_json::Value::Null, 0.5),
        ];
        assert_eq!(silent.concat(), [""; 0]);
    }

    #[test]
    fn classes_of_a_rule_on_a_value_warn() {
        let warned = |classes: &[&str]| {
            let spec = json!({"id": "p", "source": "gate", "workflow": {}, "rules": [{
                "name": "many", "classes": classes,
                "when": {"kind": "value", "value": "$steps.n.output", "test": {"over": 3}}}]});
            classes_without_effect(&serde_json::from_value(spec).unwrap())
        };
        assert!(warned(&["car"])[0].contains("no effect"));
        assert_eq!(warned(&[]), [""; 0]);
    }

    #[test]
    fn rule_whose_hours_come_after_the_end_is_an_error() {
        let zone = jiff::tz::TimeZone::UTC;
        let now = |at: &str| {
            let at: jiff::civil::DateTime = at.parse().unwrap();
            at.to_zoned(zone.clone()).unwrap()
        };
        let errors = |schedule: serde_json::Value, stop_after_s: f64, at: &str| {
            let spec = json!({"id": "p", "source": "gate", "workflow": {}, "stop_after_s": stop_after_s,
                "rules": [{"name": "in", "schedule": schedule, "when": {"kind": "enters", "zone": "z"}}]});
            never_active(&serde_json::from_value(spec).unwrap(), &now(at))
        };
        let morning = json!({"from": "09:00", "to": "10:00"});
        let said = errors(morning.clone(), 3600.0, "2026-11-29T23:27");
        assert!(said[0].contains("1 h after its start"), "{said:?}");
        assert_eq!(errors(morning.clone(), 3600.0, "2026-11-29T08:30"), [""; 0]);
        assert_eq!(errors(morning, 1e9, "2026-11-29T23:27"), [""; 0]);
        // From Sunday evening until Friday morning no Sunday evening comes.
        let sunday = json!({"days": ["sun"], "from": "20:00", "to": "22:00"});
        assert_eq!(errors(sunday, 376_560.0, "2026-11-29T23:24").len(), 1);
    }

    #[test]
    fn value_rules_whose_events_all_wait_for_a_person_warn() {
        let warned = |for_s: f64, gates: serde_json::Value| {
            let mut rule = json!({"name": "many", "when": {"kind": "value",
                "value": "$steps.n.output", "test": {"over": 3}, "for_s": for_s}});
            if !gates.is_null() {
                rule["gates"] = gates;
            }
            let spec = json!({"id": "p", "source": "gate", "workflow": {}, "rules": [rule]});
            values_for_review(&serde_json::from_value(spec).unwrap())
        };
        let said = warned(0.0, serde_json::Value::Null);
        assert!(said[0].contains("0.74 at most"), "{said:?}");
        let gates = json!({"act": 0.6, "record": 0.6, "review": 0.6, "escalate": 0.5});
        assert_eq!(warned(0.0, gates), [""; 0]);
        assert_eq!(warned(5.0, serde_json::Value::Null), [""; 0]);
    }

    #[test]
    fn absent_model_error_names_what_brings_it() {
        let here = situation();
        let known = absent_model("yolox-tiny", &here);
        assert!(
            known.contains("`watchkeeper models pull yolox-tiny`"),
            "{known}"
        );
        let unpublished = absent_model("clip/ViT-B-32", &here);
        assert!(
            unpublished.contains("models add FILE --like clip-vit-b-32"),
            "{unpublished}"
        );
        let alike = absent_model("yolov8n-640", &here);
        assert!(!alike.contains("did you mean"), "{alike}");
        let unknown = absent_model("yolo_world/v2-s", &here);
        assert!(unknown.contains("stands_for"), "{unknown}");
    }
}
