//! Describes a change in plain English by its specification: every field that decides what is seen,
//! reported and kept.
//!
//! Invariants:
//! - The text comes from the specification only, so it does not depend on the words of an LLM.
//! - Defaults are described where a user would want to know them.
//! - Every step is described; a step that sends data is described in full, without secrets.

mod schedule;

use serde_json::{Map, Value};
use watchkeeper_contract::pipeline::{DetectMode, PipelineSpec, Priority};
use watchkeeper_contract::rule::{
    Band, BelowGates, Condition, CountBound, CrossDirection, Gates, RuleSpec, Severity, ValueTest,
};
use watchkeeper_engine::templates::watch::TRACKED;
use watchkeeper_engine::workflow::{INPUT, Overlay, compile, flattened, is_sink};

use self::schedule::describe_schedule;
use super::llm_proposal::ProposedChange;
use crate::redact;
use crate::wording::{cut, format_local, printable};

/// Most characters of a setting. Steps that send data are never shortened.
const MAX_VALUE_CHARS: usize = 160;

/// Describes a change in one sentence, and in one more for each step that sends data.
pub fn describe_change(change: &ProposedChange) -> Vec<String> {
    let sentence = match change {
        ProposedChange::Deploy { spec } | ProposedChange::Replace { spec } => {
            let shown = redact::spec(spec);
            let steps = resolve_steps(&shown["workflow"], shown["parameters"].as_object());
            let (sending, others): (Vec<&Value>, Vec<&Value>) =
                steps.iter().partition(|step| is_sink(field(step, "type")));
            let sinks = sending.into_iter();
            let sinks = sinks.map(|step| describe_sink(spec.id.as_str(), step));
            return std::iter::once(describe_pipeline(spec, &others))
                .chain(sinks)
                .collect();
        }
        ProposedChange::Stop { pipeline } => format!("{pipeline} is stopped and deleted"),
        ProposedChange::Pause { pipeline, until } => match until {
            Some(until) => format!(
                "{pipeline} is paused until {}",
                format_local(until.as_millisecond(), "%F %R %:z")
            ),
            None => format!("{pipeline} is paused until a user resumes it"),
        },
        ProposedChange::Resume { pipeline } => format!("{pipeline} is resumed"),
    };
    vec![sentence]
}

/// Returns every step of a definition; the steps of an inner workflow follow the step that holds
/// it.
pub fn all_steps(definition: &Value) -> Vec<&Value> {
    let mut found = Vec::new();
    let steps = definition.get("steps").and_then(Value::as_array);
    for step in steps.into_iter().flatten() {
        found.push(step);
        for field in step.as_object().into_iter().flat_map(Map::values) {
            found.extend(all_steps(field));
        }
    }
    found
}

/// Returns every step, also of inner workflows, with inputs replaced by the values `given` or their
/// defaults.
fn resolve_steps(definition: &Value, given: Option<&Map<String, Value>>) -> Vec<Value> {
    let flat = flattened(definition).unwrap_or_else(|_| definition.clone());
    let inputs = flat.get("inputs").and_then(Value::as_array);
    let mut values: Map<String, Value> = inputs
        .into_iter()
        .flatten()
        .filter_map(|input| {
            let name = input.get("name")?.as_str()?;
            Some((name.to_owned(), input.get("default_value")?.clone()))
        })
        .collect();
    let given = given.into_iter().flatten();
    values.extend(given.map(|(name, value)| (name.clone(), value.clone())));
    let steps = all_steps(&flat).into_iter();
    steps.map(|step| resolve_inputs(step, &values)).collect()
}

/// Replaces the selectors of known inputs by their values.
fn resolve_inputs(value: &Value, values: &Map<String, Value>) -> Value {
    let resolve = |value: &Value| resolve_inputs(value, values);
    match value {
        Value::String(text) => {
            let input = text.strip_prefix(INPUT);
            let known = input.and_then(|name| values.get(name));
            let known = known.filter(|known| !known.is_null());
            known.unwrap_or(value).clone()
        }
        Value::Array(items) => items.iter().map(resolve).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(name, value)| (name.clone(), resolve(value)));
            fields.collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Describes a step that sends data, with all its fields.
fn describe_sink(pipeline: &str, step: &Value) -> String {
    let fields = step.as_object().into_iter().flatten();
    let fields = fields.filter(|(name, _)| !["type", "name"].contains(&name.as_str()));
    let settings: Vec<String> = fields
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    let what = format!(
        "{pipeline} sends: {} ({}): {}",
        field(step, "name"),
        short_type(step),
        settings.join(", ")
    );
    printable(&what).into_owned()
}

/// Describes a pipeline in one sentence, without the steps that send data.
fn describe_pipeline(spec: &PipelineSpec, steps: &[&Value]) -> String {
    let mut parts = vec![format!("{} on camera {}", spec.id, spec.source)];
    let names: Vec<String> = steps.iter().map(|s| describe_step(s)).collect();
    parts.push(format!("steps {}", names.join(", ")));
    if let Ok(compiled) = compile(&spec.workflow, &spec.parameters) {
        parts.extend(compiled.overlays().iter().map(describe_overlay));
    }
    parts.push(match &spec.rules {
        None => "the default rules of the workflow".to_owned(),
        Some(rules) if rules.is_empty() => "no rules, so no events".to_owned(),
        Some(rules) => {
            let rules: Vec<String> = rules.iter().map(describe_rule).collect();
            format!("events: {}", rules.join(" / "))
        }
    });
    if let Some(model) = &spec.model {
        parts.push(format!("model {model} instead of the models of its steps"));
    }
    match spec.detect {
        DetectMode::Always => {}
        DetectMode::OnMotion { refresh_s } => parts.push(format!(
            "detects only during motion, and every {refresh_s} s"
        )),
        DetectMode::Periodic { every_s } => parts.push(format!("detects every {every_s} s only")),
    }
    if let Some(fps) = spec.target_fps {
        parts.push(format!("looks at {fps} frames a second at most"));
    }
    match spec.priority {
        Priority::Low => parts.push("low priority: pauses while the box is hot".to_owned()),
        Priority::Normal => {}
        Priority::High => parts.push("high priority".to_owned()),
    }
    if spec.record {
        parts.push("records video".to_owned());
    }
    if spec.show {
        parts.push("shows a preview window on the screen of the box".to_owned());
    }
    if spec.paused {
        parts.push("is paused until its end of pause or until a user resumes it".to_owned());
    }
    if let Some(seconds) = spec.stop_after_s {
        parts.push(format!("ends after {seconds} s"));
    }
    printable(&parts.join("; ")).replace('\n', " ")
}

fn field<'a>(step: &'a Value, name: &str) -> &'a str {
    step.get(name).and_then(Value::as_str).unwrap_or("?")
}

/// Returns the type of a step without namespace and version.
fn short_type(step: &Value) -> &str {
    let kind = field(step, "type");
    let kind = kind.rsplit('/').next().unwrap_or(kind);
    kind.split('@').next().unwrap_or(kind)
}

/// The classes that a step keeps.
pub fn class_filter(step: &Value) -> impl Iterator<Item = &str> {
    let classes = step.get("class_filter").and_then(Value::as_array);
    classes.into_iter().flatten().filter_map(Value::as_str)
}

/// Describes a step by its name and settings, without its data sources.
fn describe_step(step: &Value) -> String {
    let mut text = format!("{} ({}", field(step, "name"), short_type(step));
    if let Some(model) = step.get("model_id").and_then(|m| m.as_str()) {
        text.push_str(&format!(", model {model}"));
    }
    let classes: Vec<&str> = class_filter(step).collect();
    if !classes.is_empty() {
        text.push_str(&format!(", only {}", classes.join(" and ")));
    }
    // A number, or the selector of an input.
    let confidence = step.get("confidence");
    if let Some(min) = confidence.and_then(serde_json::Value::as_f64) {
        text.push_str(&format!(", confidence {min} or more"));
    } else if let Some(from) = confidence.and_then(|c| c.as_str()) {
        text.push_str(&format!(", confidence {from} or more"));
    }
    let settings = step.as_object().into_iter().flatten();
    for (name, value) in settings {
        if !DESCRIBED_ELSEWHERE.contains(&name.as_str()) && is_set(value) {
            text.push_str(&format!(
                ", {name} {}",
                cut(value.to_string(), MAX_VALUE_CHARS)
            ));
        }
    }
    text.push(')');
    text
}

/// Properties of a step that are described elsewhere: as words, overlays or separate steps.
const DESCRIBED_ELSEWHERE: [&str; 8] = [
    "type",
    "name",
    "model_id",
    "class_filter",
    "confidence",
    "zone",
    "line_segment",
    "workflow_definition",
];

/// Whether a value is a setting. A selector only names a data source.
fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.starts_with('$'),
        Value::Array(items) => items.iter().any(is_set),
        Value::Object(fields) => fields.values().any(is_set),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

fn describe_overlay(overlay: &Overlay) -> String {
    match overlay {
        Overlay::Line { name, start, end } => {
            format!(
                "line {name} from {},{} to {},{}",
                start.x, start.y, end.x, end.y
            )
        }
        Overlay::Zone { name, polygon } => {
            let corners: Vec<String> = polygon.iter().map(|p| format!("{},{}", p.x, p.y)).collect();
            format!("zone {name} {}", corners.join(" "))
        }
    }
}

/// Describes a rule: its condition, its schedule and its consequences.
fn describe_rule(rule: &RuleSpec) -> String {
    let mut text = format!("{}: {}", rule.name, describe_condition(rule));
    let mut add = |part: String| {
        text.push_str(", ");
        text.push_str(&part);
    };
    if let Some(band) = &rule.confidence {
        add(describe_band(band));
    }
    if !rule.ignore.is_empty() {
        add(describe_ignored_areas(&rule.ignore));
    }
    if let Some(hours) = &rule.schedule {
        add(describe_schedule(hours));
    }
    let severity = match rule.severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Critical => "critical",
    };
    add(format!("severity {severity}"));
    add(match rule.clip {
        None => "keeps a snapshot and no clip".to_owned(),
        Some(clip) => format!(
            "keeps a snapshot and a clip from {} s before to {} s after",
            clip.before_s, clip.after_s
        ),
    });
    add(match rule.notify.as_slice() {
        [] => "notifies no channel".to_owned(),
        channels => {
            let channels: Vec<String> = channels.iter().map(|c| format!("#{c}")).collect();
            format!("notifies {}", channels.join(" and "))
        }
    });
    if !rule.on_act.is_empty() {
        let channels: Vec<String> = rule.on_act.iter().map(|c| format!("#{c}")).collect();
        add(format!(
            "notifies {} of certain or approved events only",
            channels.join(" and ")
        ));
    }
    let for_each = match (is_about_tracks(&rule.when), rule.shared_cooldown) {
        (true, true) => " shared by all objects",
        (true, false) => " for each object",
        (false, _) => "",
    };
    add(match rule.cooldown_s {
        seconds if seconds > 0.0 => format!("cool-down {seconds} s{for_each}"),
        _ => "no cool-down".to_owned(),
    });
    // A critical event is never suppressed.
    if let Some(most) = rule.max_per_hour
        && rule.severity != Severity::Critical
    {
        add(format!("at most {most} events an hour"));
    }
    describe_doubt(rule).into_iter().for_each(add);
    text
}

/// Describes how a rule decides about uncertain events, if that is not the default.
fn describe_doubt(rule: &RuleSpec) -> Vec<String> {
    let mut parts = Vec::new();
    if rule.gates != Gates::default() {
        parts.push(describe_gates(&rule.gates));
    }
    if let Some(decide) = &rule.decide {
        parts.push(format!("decided by {}", decide.chain.join(", then ")));
    }
    if rule.below_gates == BelowGates::Review {
        parts.push("a person decides below the last gate".to_owned());
    }
    if !rule.calibrate {
        parts.push("answers of people do not calibrate it".to_owned());
    }
    // A critical event is never lowered, whatever the rule allows.
    if rule.second_opinion_may_lower && rule.severity != Severity::Critical {
        parts.push("a second opinion may lower it".to_owned());
    }
    parts
}

/// Describes the condition of a rule and its classes.
fn describe_condition(rule: &RuleSpec) -> String {
    let who = match rule.classes.as_slice() {
        [] => "anything".to_owned(),
        classes => classes.join(" or "),
    };
    match &rule.when {
        Condition::Appears { detections } => {
            format!("{who} appears{}", describe_source(detections))
        }
        Condition::Enters { zone } => format!("{who} enters {zone}"),
        Condition::Leaves { zone } => format!("{who} leaves {zone}"),
        Condition::Stays { zone, for_s } => format!("{who} stays in {zone} for {for_s} s"),
        Condition::Crosses { line, direction } => {
            let way = match direction {
                CrossDirection::In => "in (to the line's left hand)",
                CrossDirection::Out => "out (to the line's right hand)",
                CrossDirection::Any => "either way",
            };
            format!("{who} crosses {line} {way}")
        }
        Condition::Count {
            detections,
            bound,
            for_s,
        } => {
            let who = match rule.classes.as_slice() {
                [] => "objects".to_owned(),
                _ => format!("objects of class {who}"),
            };
            let count = match bound {
                CountBound::Over(max) => format!("more than {max} {who}"),
                CountBound::Under(0 | 1) => format!("no {who}"),
                CountBound::Under(min) => format!("fewer than {min} {who}"),
            };
            format!(
                "{count} at a time{}{}",
                describe_source(detections),
                describe_duration(*for_s)
            )
        }
        Condition::Value { value, test, for_s } => {
            let test = match test {
                ValueTest::Is(true) => "is true".to_owned(),
                ValueTest::Is(false) => "is false".to_owned(),
                ValueTest::Over(bound) => format!("is over {bound}"),
                ValueTest::Under(bound) => format!("is under {bound}"),
            };
            format!(
                "{} {test}{}",
                describe_selector(value),
                describe_duration(*for_s)
            )
        }
    }
}

/// Describes the source of the detections; empty for the tracked detections of the whole picture.
fn describe_source(detections: &str) -> String {
    if detections == TRACKED {
        return String::new();
    }
    match detections
        .strip_prefix("$steps.")
        .and_then(|rest| rest.strip_suffix(".timed_detections"))
    {
        Some(zone) => format!(" in {zone}"),
        None => format!(" among {}", describe_selector(detections)),
    }
}

/// Describes a selector: an output of a step.
fn describe_selector(selector: &str) -> String {
    let parts = selector
        .strip_prefix("$steps.")
        .and_then(|rest| rest.split_once('.'));
    match parts {
        Some((step, output)) => format!("the {output} of step {step}"),
        None => selector.to_owned(),
    }
}

fn describe_duration(for_s: f64) -> String {
    if for_s > 0.0 {
        format!(" for {for_s} s")
    } else {
        String::new()
    }
}

fn describe_band(band: &Band) -> String {
    if band.max < 1.0 {
        format!("only with a confidence of {} to {}", band.min, band.max)
    } else {
        format!("only with a confidence of {} or more", band.min)
    }
}

/// Describes areas by their corners in percent of the picture, from its upper left.
fn describe_ignored_areas(areas: &[[f64; 4]]) -> String {
    let percent = |share: f64| (share * 100.0).round();
    let area = |[x_min, y_min, x_max, y_max]: &[f64; 4]| {
        let (left, top) = (percent(*x_min), percent(*y_min));
        let (right, bottom) = (percent(*x_max), percent(*y_max));
        format!("{left}–{right} % from the left and {top}–{bottom} % from the top")
    };
    let areas: Vec<String> = areas.iter().map(area).collect();
    format!("ignores what stands in {}", areas.join("; "))
}

/// Whether the rule has a cool-down for each object.
fn is_about_tracks(when: &Condition) -> bool {
    !matches!(when, Condition::Count { .. } | Condition::Value { .. })
}

fn describe_gates(gates: &Gates) -> String {
    format!(
        "confidence gates: act from {}, record from {}, review from {}, escalate from {}",
        gates.act, gates.record, gates.review, gates.escalate
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests;
