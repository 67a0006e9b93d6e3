//! Mutants of an outcome that passes; each has one defect. A good check rejects them.
//!
//! No mutant equals the outcome, and none differs only in what no task could ask for (drawings,
//! names of steps).

use serde_json::{Value, json};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::{Condition, CountBound, CrossDirection, Gates, Severity};

use super::check::{Check, Reply, Tools};
use super::outcome::{Call, Deployed, Outcome, RunState};
use super::play::Models;
use super::scene::Scene;
use super::stand_in::USUAL;
use super::task::Task;

/// An outcome with one defect.
#[derive(Debug, Clone)]
pub struct Mutant {
    /// Kind of the defect, such as `other class`.
    pub kind: &'static str,
    /// Location of the defect.
    pub place: String,
    /// The outcome with the defect.
    pub outcome: Outcome,
}

/// Makes every mutant of an outcome of a task, on a box with these models. Reply, tools, notes and
/// cost are mutated if the task has checks on them.
#[must_use]
pub fn mutants(outcome: &Outcome, task: &Task, models: &Models) -> Vec<Mutant> {
    let mut mutants = Mutants {
        outcome,
        task,
        scene: &task.scene,
        models,
        found: Vec::new(),
    };
    let changed: Vec<Deployed> = outcome.changed().cloned().collect();
    for deployed in &changed {
        mutants.of_deployment(deployed);
        mutants.of_steps(&deployed.spec);
        mutants.of_rules(&deployed.spec);
    }
    mutants.of_acts();
    mutants.of_words();
    mutants.found
}

struct Mutants<'m> {
    outcome: &'m Outcome,
    task: &'m Task,
    scene: &'m Scene,
    models: &'m Models,
    found: Vec<Mutant>,
}

impl Mutants<'_> {
    fn add(
        &mut self,
        kind: &'static str,
        place: impl Into<String>,
        change: impl FnOnce(&mut Outcome),
    ) {
        let mut outcome = self.outcome.clone();
        change(&mut outcome);
        if outcome != *self.outcome {
            let place = place.into();
            self.found.push(Mutant {
                kind,
                place,
                outcome,
            });
        }
    }

    /// Adds a mutant with another specification of a pipeline.
    fn add_spec(
        &mut self,
        kind: &'static str,
        spec: &PipelineSpec,
        place: &str,
        change: impl FnOnce(&mut PipelineSpec),
    ) {
        let mut other = spec.clone();
        change(&mut other);
        let id = spec.id.to_string();
        self.add(kind, format!("{id} {place}").trim(), |outcome| {
            if let Some(deployed) = outcome.after.get_mut(&id) {
                deployed.spec = other;
            }
        });
    }

    fn of_deployment(&mut self, deployed: &Deployed) {
        let spec = &deployed.spec;
        let id = spec.id.to_string();
        let was = self.outcome.before.get(&id).cloned();
        self.add("not deployed", id.clone(), |outcome| match was {
            Some(was) => drop(outcome.after.insert(id.clone(), was)),
            None => drop(outcome.after.remove(&id)),
        });
        self.add("paused", id.clone(), |outcome| {
            if let Some(deployed) = outcome.after.get_mut(&id) {
                deployed.doing = RunState::Paused;
            }
        });
        let mut twin = deployed.clone();
        if let Ok(other) = format!("{id}-2").parse() {
            twin.spec.id = other;
            self.add("deployed twice", id.clone(), |outcome| {
                outcome.after.insert(twin.spec.id.to_string(), twin);
            });
        }
        let other = self
            .scene
            .cameras
            .iter()
            .find(|c| c.id != spec.source.as_str());
        if let Some(camera) = other.and_then(|c| c.id.parse().ok()) {
            self.add_spec("other camera", spec, "", |spec| spec.source = camera);
        }
        self.add_spec("other model", spec, "", |spec| {
            spec.model = Some(watchkeeper_models::MOTION.to_owned());
        });
    }

    fn of_steps(&mut self, spec: &PipelineSpec) {
        let steps = spec.workflow["steps"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let size = self
            .scene
            .camera(spec.source.as_str())
            .map_or([1, 1], |c| c.size());
        for (nth, step) in steps.iter().enumerate() {
            let name = step["name"].as_str().unwrap_or_default();
            let kind = step["type"].as_str().unwrap_or_default();
            if kind.contains("visualization") {
                continue;
            }
            self.add_spec("without a step", spec, name, |spec| remove_step(spec, step));
            self.of_place(spec, nth, step, size);
            self.of_detection(spec, nth, step);
        }
    }

    /// Adds mutants of a step's zone or line.
    fn of_place(&mut self, spec: &PipelineSpec, nth: usize, step: &Value, size: [u32; 2]) {
        let name = step["name"].as_str().unwrap_or_default();
        for (key, mutant) in [("zone", "shifted zone"), ("line_segment", "shifted line")] {
            if let Ok(points) = serde_json::from_value::<Vec<[f64; 2]>>(step[key].clone()) {
                let width = f64::from(size[0]);
                // A mirrored line in the middle would not move.
                let moved = |x: f64| match key {
                    "zone" => width - x,
                    _ => x + width / 5.0,
                };
                let mirrored: Vec<[f64; 2]> = points.iter().map(|[x, y]| [moved(*x), *y]).collect();
                self.add_spec(mutant, spec, name, |spec| {
                    set(spec, nth, key, json!(mirrored))
                });
            }
        }
        if step["zone"].is_array() {
            let [w, h] = size;
            let whole = json!([[0, 0], [w, 0], [w, h], [0, h]]);
            self.add_spec("whole picture", spec, name, |spec| {
                set(spec, nth, "zone", whole)
            });
        }
    }

    /// Adds mutants of a detector's classes and confidence.
    fn of_detection(&mut self, spec: &PipelineSpec, nth: usize, step: &Value) {
        let name = step["name"].as_str().unwrap_or_default();
        if let Some(classes) = step["class_filter"].as_array() {
            let model = step["model_id"].as_str().unwrap_or(USUAL);
            let known = self.models.get(model).into_iter().flatten();
            let other = known.map(|l| json!(l)).find(|l| !classes.contains(l));
            if let Some(other) = other {
                self.add_spec("other class", spec, name, |spec| {
                    set(spec, nth, "class_filter", json!([other]))
                });
            }
            self.add_spec("every class", spec, name, |spec| {
                set(spec, nth, "class_filter", Value::Null);
            });
            if classes.len() > 1 {
                let fewer = json!([classes[0]]);
                self.add_spec("a class left out", spec, name, |spec| {
                    set(spec, nth, "class_filter", fewer)
                });
            }
        }
        if let Some(confidence) = step["confidence"].as_f64() {
            self.add_spec("confidence of nothing", spec, name, |spec| {
                set(spec, nth, "confidence", json!(0.97));
            });
            if self.asks_about_confidence() {
                self.add_spec("lower confidence", spec, name, |spec| {
                    set(spec, nth, "confidence", json!(confidence / 2.0));
                });
            }
        }
    }

    fn of_rules(&mut self, spec: &PipelineSpec) {
        let rules = spec.rules.clone().unwrap_or_default();
        let (must_ask, may_not_ask) = self.asks_about_doubt();
        if !rules.is_empty() {
            self.add_spec("without rules", spec, "", |spec| {
                spec.rules = Some(Vec::new())
            });
        }
        for (nth, rule) in rules.iter().enumerate() {
            let name = &rule.name;
            let mut other = |kind: &'static str, change: RuleChange<'_>| {
                self.add_spec(kind, spec, name, |spec| {
                    if let Some(rule) = spec.rules.as_mut().and_then(|r| r.get_mut(nth)) {
                        change(rule);
                    }
                });
            };
            other("without cool-down", &|rule| rule.cooldown_s = 0.0);
            other("tells nobody by name", &|rule| rule.notify.clear());
            other("always awake", &|rule| rule.schedule = None);
            other("asleep", &|rule| {
                if let Some(schedule) = &mut rule.schedule {
                    std::mem::swap(&mut schedule.from, &mut schedule.to);
                }
            });
            if must_ask {
                other("never asks", &|rule| {
                    rule.gates.escalate = rule.gates.review;
                });
            }
            if may_not_ask {
                other("always asks", &|rule| {
                    rule.gates = Gates {
                        act: 1.0,
                        record: 1.0,
                        review: 1.0,
                        escalate: 0.0,
                    };
                });
            }
            other("only a record", &|rule| {
                if rules.iter().any(|r| r.severity != rule.severity) {
                    rule.severity = Severity::Info;
                }
            });
            mutate_condition(spec, &mut other);
            if rules.len() > 1 {
                self.add_spec("without a rule", spec, name, |spec| {
                    if let Some(rules) = &mut spec.rules {
                        rules.remove(nth);
                    }
                });
            }
        }
    }

    /// Adds mutants of changes to existing pipelines.
    fn of_acts(&mut self) {
        let before = self.outcome.before.clone();
        for (id, was) in &before {
            let touched = self.outcome.after.get(id) != Some(was);
            if touched {
                self.add("left as it was", id.clone(), |outcome| {
                    outcome.after.insert(id.clone(), was.clone());
                });
            } else {
                self.add("stopped too", id.clone(), |outcome| {
                    drop(outcome.after.remove(id))
                });
                self.add("paused too", id.clone(), |outcome| {
                    if let Some(deployed) = outcome.after.get_mut(id) {
                        deployed.doing = RunState::Paused;
                    }
                });
                self.add("changed too", id.clone(), |outcome| {
                    if let Some(deployed) = outcome.after.get_mut(id) {
                        deployed.spec.stop_after_s = Some(1.0);
                    }
                });
            }
            let paused = self
                .outcome
                .after
                .get(id)
                .is_some_and(|d| d.doing == RunState::Paused);
            if paused && was.doing == RunState::Running {
                self.add("stopped instead", id.clone(), |outcome| {
                    drop(outcome.after.remove(id))
                });
            }
        }
        if self.outcome.changed().next().is_none()
            && let Some(camera) = self.scene.cameras.first()
        {
            let spec = json!({
                "id": "uncalled-for", "source": camera.id, "rules": [],
                "workflow": {"version": "1.0", "inputs": [], "steps": [], "outputs": []},
            });
            if let Ok(spec) = serde_json::from_value::<PipelineSpec>(spec) {
                self.add("deployed unasked", camera.id.clone(), |outcome| {
                    let doing = RunState::Running;
                    outcome
                        .after
                        .insert(spec.id.to_string(), Deployed { spec, doing });
                });
            }
        }
    }

    /// Adds mutants of reply, tools, notes and cost.
    fn of_words(&mut self) {
        for check in &self.task.checks {
            match check {
                Check::Reply(reply) => self.of_reply(reply),
                Check::Tools(tools) => self.of_tools(tools),
                Check::Memory(_) => self.add("notes nothing", "", |o| o.notes.clear()),
                Check::Budget(_) => self.add("costs a fortune", "", |o| {
                    o.spent.model_calls = o.spent.model_calls.saturating_mul(100).max(1_000);
                    o.spent.usd = o.spent.usd.max(0.01) * 1_000.0;
                    o.spent.wall_s = o.spent.wall_s.max(1.0) * 1_000.0;
                }),
                _ => {}
            }
        }
        self.add("refused three times", "", |o| o.refused += 3);
    }

    fn of_reply(&mut self, reply: &Reply) {
        if !reply.mentions.is_empty() || !reply.numbers.is_empty() || reply.language.is_some() {
            self.add("says nothing", "", |o| o.said.text.clear());
            self.add("says something else", "", |o| {
                o.said.text = "Done, and so on.".to_owned();
            });
        }
        if let Some(word) = reply.must_not.first() {
            self.add("says too much", "", |o| o.said.text.push_str(word));
        }
        if reply.asks_question.is_some() {
            self.add("asks or doesn't", "", |o| o.said.asks = !o.said.asks);
        }
    }

    fn of_tools(&mut self, tools: &Tools) {
        if !tools.must.is_empty() || !tools.order.is_empty() || !tools.args.is_empty() {
            self.add("uses nothing", "", |o| o.calls.clear());
            self.add("fails to use it", "", |o| {
                o.calls.iter_mut().for_each(|c| c.failed = true);
            });
        }
        if tools.order.len() > 1 {
            self.add("in another order", "", |o| o.calls.reverse());
        }
        for tool in &tools.must_not {
            self.add("uses what it must not", tool, |o| {
                o.calls.push(Call::new(&[tool.as_str()], json!({})));
            });
        }
        if tools.max_calls.is_some() {
            self.add("goes on and on", "", |o| {
                o.calls
                    .extend((0..40).map(|_| Call::new(&["get_snapshot"], json!({}))));
            });
        }
        if !tools.args.is_empty() {
            self.add("with other arguments", "", |o| {
                for call in &mut o.calls {
                    let arguments = call.arguments.as_object_mut();
                    for value in arguments.into_iter().flat_map(|m| m.values_mut()) {
                        *value = json!("something else");
                    }
                }
            });
        }
    }

    /// Whether doubtful events must ask for a second opinion, and whether others must not.
    fn asks_about_doubt(&self) -> (bool, bool) {
        let checks = self.task.checks.iter();
        let bounds = checks.clone().filter_map(|check| match check {
            Check::Behaviour(behaviour) => behaviour.escalations,
            _ => None,
        });
        let named = checks.clone().any(|check| match check {
            Check::Has(has) => has.family.contains("escalate"),
            Check::Param(param) => param.family.contains("escalate"),
            _ => false,
        });
        let must = bounds.clone().any(|b| b.min.is_some_and(|min| min > 0.0));
        (named || must, bounds.clone().any(|b| b.max.is_some()))
    }

    /// Whether the task has a check on a confidence.
    fn asks_about_confidence(&self) -> bool {
        self.task.checks.iter().any(|check| match check {
            Check::Param(param) => param.key == "confidence",
            Check::Has(has) => has.and.iter().any(|p| p.key == "confidence"),
            _ => false,
        })
    }
}

fn set(spec: &mut PipelineSpec, step: usize, key: &str, value: Value) {
    if let Some(fields) = spec.workflow["steps"][step].as_object_mut() {
        match value {
            Value::Null => drop(fields.remove(key)),
            value => drop(fields.insert(key.to_owned(), value)),
        }
    }
}

/// One defect of a rule.
type RuleChange<'c> = &'c dyn Fn(&mut watchkeeper_contract::rule::RuleSpec);

/// Makes the defects of a rule's condition.
fn mutate_condition(spec: &PipelineSpec, other: &mut impl FnMut(&'static str, RuleChange<'_>)) {
    other("longer wait", &|rule| match &mut rule.when {
        Condition::Stays { for_s, .. }
        | Condition::Count { for_s, .. }
        | Condition::Value { for_s, .. } => {
            *for_s *= 4.0;
        }
        _ => {}
    });
    other("no wait", &|rule| match &mut rule.when {
        Condition::Stays { for_s, .. } => *for_s = 0.1,
        Condition::Count { for_s, .. } | Condition::Value { for_s, .. } => *for_s = 0.0,
        _ => {}
    });
    other("other bound", &|rule| {
        if let Condition::Count { bound, .. } = &mut rule.when {
            *bound = match *bound {
                CountBound::Over(n) => CountBound::Over(n + 2),
                CountBound::Under(n) => CountBound::Under(n + 2),
            };
        }
    });
    other("other way", &|rule| {
        if let Condition::Crosses { direction, .. } = &mut rule.when {
            *direction = match *direction {
                CrossDirection::In => CrossDirection::Out,
                CrossDirection::Out | CrossDirection::Any => CrossDirection::In,
            };
        }
    });
    other("any appearance", &|rule| {
        let track = spec.workflow["steps"].as_array().into_iter().flatten();
        let mut track = track.filter(|s| s["type"].as_str().is_some_and(|t| t.contains("track")));
        if let Some(name) = track.find_map(|s| s["name"].as_str()) {
            rule.when = Condition::Appears {
                detections: format!("$steps.{name}.tracked_detections"),
            };
        }
    });
}

/// Removes a step. Its consumers get its input instead; its rules and outputs are removed.
fn remove_step(spec: &mut PipelineSpec, step: &Value) {
    let name = step["name"].as_str().unwrap_or_default();
    let prefix = format!("$steps.{name}.");
    let inputs = ["detections", "predictions", "data", "images", "image"];
    let before = inputs
        .iter()
        .find_map(|key| step[*key].as_str())
        .unwrap_or("$inputs.image")
        .to_owned();
    if let Some(steps) = spec.workflow["steps"].as_array_mut() {
        steps.retain(|s| s["name"] != name);
        steps.iter_mut().for_each(|s| reroute(s, &prefix, &before));
    }
    if let Some(outputs) = spec.workflow["outputs"].as_array_mut() {
        outputs.retain(|o| {
            !o["selector"]
                .as_str()
                .is_some_and(|s| s.starts_with(&prefix))
        });
    }
    let about = |rule: &watchkeeper_contract::rule::RuleSpec| match &rule.when {
        Condition::Enters { zone } | Condition::Leaves { zone } | Condition::Stays { zone, .. } => {
            zone == name
        }
        Condition::Crosses { line, .. } => line == name,
        Condition::Appears { detections } | Condition::Count { detections, .. } => {
            detections.starts_with(&prefix)
        }
        Condition::Value { value, .. } => value.starts_with(&prefix),
    };
    if let Some(rules) = &mut spec.rules {
        rules.retain(|rule| !about(rule));
    }
}

fn reroute(value: &mut Value, prefix: &str, before: &str) {
    match value {
        Value::String(text) if text.starts_with(prefix) => *text = before.to_owned(),
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| reroute(item, prefix, before)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| reroute(field, prefix, before)),
        _ => {}
    }
}
