//! Fingerprints of steps: hashes of everything that their results depend on.
//!
//! A tracker with other settings numbers other objects, so a saved "track 7" of a line after it
//! would be another object. The fingerprint of a step covers its block, properties and parameters,
//! but not its name or position. It also covers those of every step whose data or decision reaches
//! it.
//!
//! - Equal on every machine and in every run.
//! - Equal only if both steps do the same with the same pictures. Models count by name only.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use crate::workflow::language::definition::InputType;
use crate::workflow::plan::compiled::{PlanStep, Source, WorkflowPlan};

/// The first half of a SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fingerprint([u8; 16]);

/// Returns the fingerprints of the steps of a plan, in their order.
pub(crate) fn of_steps(plan: &WorkflowPlan) -> Vec<Fingerprint> {
    let mut done = Vec::with_capacity(plan.steps.len());
    for step in &plan.steps {
        let mut print = Print(Sha256::new());
        print.part(step.manifest.name.as_bytes());
        for (name, json) in &step.literals {
            print.part(name.as_bytes());
            print.json(json);
        }
        for source in &step.args {
            print.source(source, plan, &done);
        }
        for (branch, _) in &step.conditions {
            let place = |s: &PlanStep| {
                branch
                    .checked_sub(s.first_branch)
                    .filter(|b| *b < s.branch_count)
            };
            print.output(plan.steps.iter().map(place), &done);
        }
        done.push(print.done());
    }
    done
}

struct Print(Sha256);

impl Print {
    /// Adds bytes with their length, so that parts do not merge.
    fn part(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    /// Adds JSON text; this build of `serde_json` keeps keys sorted.
    fn json(&mut self, json: &Json) {
        self.part(json.to_string().as_bytes());
    }

    fn source(&mut self, source: &Source, plan: &WorkflowPlan, done: &[Fingerprint]) {
        match source {
            // Covered by the properties.
            Source::Const(_) => {}
            Source::Slot(slot) => match plan.inputs.get(*slot) {
                Some(input) => {
                    self.part(input.name.as_bytes());
                    if let InputType::Parameter { .. } = input.what {
                        self.json(&input.value.to_json());
                    }
                }
                None => {
                    let place = |s: &PlanStep| {
                        slot.checked_sub(s.first_slot)
                            .filter(|i| *i < s.outputs.len())
                    };
                    self.output(plan.steps.iter().map(place), done);
                }
            },
            Source::List(items, _) => items.iter().for_each(|s| self.source(s, plan, done)),
            Source::Dict(entries, _) => {
                entries.iter().for_each(|(_, s)| self.source(s, plan, done))
            }
        }
    }

    /// Adds the step of an output or a branch, and its position within the step.
    fn output(&mut self, mut places: impl Iterator<Item = Option<usize>>, done: &[Fingerprint]) {
        let mut steps = done.iter().zip(places.by_ref());
        if let Some((step, place)) = steps.find_map(|(step, place)| Some((step, place?))) {
            self.part(&step.0);
            self.part(&(place as u64).to_le_bytes());
        }
    }

    fn done(self) -> Fingerprint {
        let digest: [u8; 32] = self.0.finalize().into();
        let mut half = [0; 16];
        half.iter_mut()
            .zip(digest)
            .for_each(|(to, from)| *to = from);
        Fingerprint(half)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value as Json, json};

    use super::{Fingerprint, of_steps};
    use crate::workflow::compile;

    /// A model, a tracker, and a line and a zone after it.
    fn definition() -> Json {
        json!({
            "version": "1.0",
            "inputs": [
                {"type": "WorkflowImage", "name": "image"},
                {"type": "WorkflowParameter", "name": "zone", "default_value": [[0, 0], [9, 0], [9, 9]]}
            ],
            "steps": [
                {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "model",
                 "images": "$inputs.image", "model_id": "people"},
                {"type": "roboflow_core/byte_tracker@v3", "name": "tracker", "image": "$inputs.image",
                 "detections": "$steps.model.predictions"},
                {"type": "roboflow_core/line_counter@v2", "name": "line", "image": "$inputs.image",
                 "detections": "$steps.tracker.tracked_detections", "line_segment": [[0, 5], [9, 5]]},
                {"type": "roboflow_core/time_in_zone@v3", "name": "zone", "image": "$inputs.image",
                 "detections": "$steps.tracker.tracked_detections", "zone": "$inputs.zone"}
            ],
            "outputs": [{"type": "JsonField", "name": "count", "selector": "$steps.line.count_in"}]
        })
    }

    fn prints(
        definition: &Json,
        parameters: &BTreeMap<String, Json>,
    ) -> BTreeMap<String, Fingerprint> {
        let compiled = compile(definition, parameters).unwrap();
        let names = compiled.plan.steps.iter().map(|s| s.name.to_string());
        names.zip(of_steps(&compiled.plan)).collect()
    }

    /// Names of the steps whose fingerprints differ.
    fn changed(change: impl FnOnce(&mut Json), parameters: &[(&str, Json)]) -> Vec<String> {
        let before = prints(&definition(), &BTreeMap::new());
        let mut definition = definition();
        change(&mut definition);
        let parameters = parameters.iter().map(|(k, v)| ((*k).to_owned(), v.clone()));
        let after = prints(&definition, &parameters.collect());
        let differs = |(name, print): (&String, &Fingerprint)| {
            (after.get(name) != Some(print)).then(|| name.clone())
        };
        before.iter().filter_map(differs).collect()
    }

    #[test]
    fn moved_line_changes_only_its_own_fingerprint() {
        let moved = |d: &mut Json| d["steps"][2]["line_segment"] = json!([[0, 6], [9, 6]]);
        assert_eq!(changed(moved, &[]), ["line"]);
    }

    #[test]
    fn changed_tracker_changes_the_steps_behind_it() {
        let patient = |d: &mut Json| d["steps"][1]["lost_track_buffer"] = json!(90);
        assert_eq!(changed(patient, &[]), ["line", "tracker", "zone"]);
    }

    #[test]
    fn parameter_changes_the_steps_that_use_it() {
        let zone = json!([[0, 0], [5, 0], [5, 5]]);
        assert_eq!(changed(|_| {}, &[("zone", zone)]), ["zone"]);
    }

    #[test]
    fn step_order_and_explicit_defaults_change_nothing() {
        let reordered = |d: &mut Json| {
            d["steps"].as_array_mut().unwrap().swap(2, 3);
            d["steps"][1]["lost_track_buffer"] = json!(30);
        };
        assert!(changed(reordered, &[]).is_empty());
    }

    #[test]
    fn nested_differences_of_conditions_count() {
        let gated = |least: i64| {
            let mut condition = json!({"type": "BinaryStatement",
                "left_operand": {"type": "DynamicOperand", "operand_name": "count"},
                "comparator": {"type": "(Number) >="},
                "right_operand": {"type": "StaticOperand", "value": least}});
            for _ in 0..40 {
                condition = json!({"type": "StatementGroup", "statements": [condition]});
            }
            let mut definition = definition();
            let steps = definition["steps"].as_array_mut().unwrap();
            steps.push(
                json!({"type": "roboflow_core/continue_if@v1", "name": "gate",
                "condition_statement": condition, "next_steps": ["$steps.zone"],
                "evaluation_parameters": {"count": "$steps.line.count_in"}}),
            );
            prints(&definition, &BTreeMap::new())
        };
        let (one, two) = (gated(1), gated(2));
        assert_ne!(one["gate"], two["gate"]);
        assert_ne!(one["zone"], two["zone"]);
        assert_eq!(one, gated(1));
    }

    #[test]
    fn key_order_changes_nothing() {
        let with = |labels: &str| {
            let mut definition = definition();
            let labels: Json = serde_json::from_str(labels).unwrap();
            let steps = definition["steps"].as_array_mut().unwrap();
            steps.push(
                json!({"type": "roboflow_core/detections_filter@v1", "name": "renamed",
                "predictions": "$steps.model.predictions",
                "operations": [{"type": "DetectionsRename", "class_map": labels}]}),
            );
            prints(&definition, &BTreeMap::new())
        };
        assert_eq!(
            with(r#"{"a": "b", "c": "d"}"#),
            with(r#"{"c": "d", "a": "b"}"#)
        );
    }

    #[test]
    fn decision_before_a_step_counts() {
        let gated = |d: &mut Json| {
            let gate = json!({"type": "roboflow_core/rate_limiter@v1", "name": "gate", "cooldown_seconds": 2,
                "depends_on": "$inputs.image", "next_steps": ["$steps.line"]});
            d["steps"].as_array_mut().unwrap().push(gate);
        };
        assert_eq!(changed(gated, &[]), ["line"]);
    }
}
