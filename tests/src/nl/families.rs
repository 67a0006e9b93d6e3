//! Maps deployed pipelines to the words of the checks: families of steps with settings that do not
//! depend on the product's format.
//!
//! - A pipeline is a graph. Its nodes are the steps of the workflow and its rules, written or
//!   derived.
//! - Its edges are selectors, the steps that a flow control continues, and the selector of a rule.
//! - A node may be of several families: a detection step with a class filter is a detector and a
//!   filter. `tests/nl/README.md` has the table.
//!
//! - Places are in shares of the picture.
//! - A setting that the specification leaves to a parameter has that parameter's value.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::{
    Condition, CountBound, CrossDirection, RuleSpec, Schedule, Severity, ValueTest,
};
use watchkeeper_engine::deploy;

use super::task::alternatives;

/// Rules of a pipeline that notify people: those that name a channel; without any, the warnings;
/// without those, all of them, over MQTT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notifying {
    /// Rules that name a channel.
    Named,
    /// Rules with severity `warning` or higher.
    Warnings,
    All,
}

impl Notifying {
    /// Finds which of `rules` notify people.
    pub fn of(rules: &[RuleSpec]) -> Self {
        if rules.iter().any(|r| !r.notify.is_empty()) {
            Self::Named
        } else if rules.iter().any(|r| r.severity >= Severity::Warning) {
            Self::Warnings
        } else {
            Self::All
        }
    }

    /// Whether `rule` notifies people.
    #[must_use]
    pub fn notifies(self, rule: &RuleSpec) -> bool {
        match self {
            Self::Named => !rule.notify.is_empty(),
            Self::Warnings => rule.severity >= Severity::Warning,
            Self::All => true,
        }
    }
}

/// Settings of a step under the names of the checks.
pub type Settings = Map<String, Value>;

/// A family of a node, with its settings.
#[derive(Debug, Clone, PartialEq)]
struct Role {
    family: &'static str,
    settings: Settings,
}

#[derive(Debug, Clone, Default)]
struct Node {
    roles: Vec<Role>,
    /// Names of the nodes that it gets data from.
    from: BTreeSet<String>,
}

impl Node {
    fn add(&mut self, family: &'static str, settings: Value) {
        let settings = match settings {
            Value::Object(settings) => settings.into_iter().filter(|(_, v)| !v.is_null()).collect(),
            _ => Settings::new(),
        };
        self.roles.push(Role { family, settings });
    }

    fn has(&self, families: &[&str]) -> bool {
        self.roles
            .iter()
            .any(|role| families.contains(&role.family))
    }
}

/// A pipeline as the checks see it.
#[derive(Debug, Clone)]
pub struct Graph {
    nodes: BTreeMap<String, Node>,
}

impl Graph {
    /// Builds the graph of `spec` on a camera whose picture has this size in pixels.
    pub fn of(spec: &PipelineSpec, size: [u32; 2]) -> Self {
        let rules = match deploy::plan(spec) {
            Ok(plan) => plan.rule_specs,
            Err(_) => spec.rules.clone().unwrap_or_default(),
        };
        let reader = Reader::new(spec, size, &rules);
        let mut graph = Self {
            nodes: BTreeMap::new(),
        };
        for step in reader.steps() {
            let node = reader.step(step);
            graph.nodes.insert(name_of(step), node);
        }
        // A step that a flow control continues is behind that flow control.
        for step in reader.steps() {
            for next in next_steps(step) {
                if let Some(node) = graph.nodes.get_mut(&next) {
                    node.from.insert(name_of(step));
                }
            }
        }
        let notifying = Notifying::of(&rules);
        for (nth, rule) in rules.iter().enumerate() {
            let node = reader.rule(rule, notifying);
            graph
                .nodes
                .insert(format!("rule {nth} {}", rule.name), node);
        }
        graph
    }

    /// Returns the settings of every step of these families, which are separated by `|`.
    pub fn steps(&self, families: &str) -> Vec<&Settings> {
        let families = alternatives(families);
        let roles = self.nodes.values().flat_map(|node| &node.roles);
        roles
            .filter(|role| families.contains(&role.family))
            .map(|role| &role.settings)
            .collect()
    }

    /// Counts the nodes of these families. A node of two of them counts once.
    pub fn count(&self, families: &str, holds: impl Fn(&Settings) -> bool) -> u64 {
        let families = alternatives(families);
        let fits = |node: &&Node| {
            let mut roles = node.roles.iter();
            roles.any(|role| families.contains(&role.family) && holds(&role.settings))
        };
        self.nodes.values().filter(fits).count() as u64
    }

    /// Whether data passes through steps of these families in order, possibly with others between.
    /// One node may stand for two consecutive families.
    pub fn has_path(&self, via: &[String]) -> bool {
        let Some((first, rest)) = via.split_first() else {
            return true;
        };
        let of = |families: &str| -> BTreeSet<&str> {
            let families = alternatives(families);
            let nodes = self.nodes.iter().filter(|(_, node)| node.has(&families));
            nodes.map(|(name, _)| name.as_str()).collect()
        };
        let mut reached = of(first);
        for families in rest {
            let behind = self.reachable_from(&reached);
            reached = of(families).intersection(&behind).copied().collect();
        }
        !reached.is_empty()
    }

    /// Returns these nodes and all that get data from them, directly or not.
    fn reachable_from<'a>(&'a self, from: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
        let mut found = from.clone();
        loop {
            let more: Vec<&str> = self
                .nodes
                .iter()
                .filter(|(name, node)| {
                    !found.contains(name.as_str())
                        && node.from.iter().any(|f| found.contains(f.as_str()))
                })
                .map(|(name, _)| name.as_str())
                .collect();
            if more.is_empty() {
                return found;
            }
            found.extend(more);
        }
    }
}

fn name_of(step: &Value) -> String {
    step["name"].as_str().unwrap_or_default().to_owned()
}

/// Returns the type of a step without vendor and version: `line_counter` of
/// `roboflow_core/line_counter@v2`.
fn block(step: &Value) -> &str {
    let kind = step["type"].as_str().unwrap_or_default();
    let kind = kind.rsplit_once('/').map_or(kind, |(_, name)| name);
    kind.split_once('@').map_or(kind, |(name, _)| name)
}

/// Returns the step that a selector names.
fn step_of(selector: &str) -> Option<&str> {
    let rest = selector.strip_prefix("$steps.")?;
    Some(rest.split_once('.').map_or(rest, |(step, _)| step))
}

/// Collects every text in a value.
pub(super) fn texts<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| texts(field, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the steps that a flow control continues.
fn next_steps(step: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for key in ["next_steps", "cases", "default_next_steps"] {
        texts(&step[key], &mut found);
    }
    found
        .into_iter()
        .filter_map(step_of)
        .map(str::to_owned)
        .collect()
}

struct Reader<'s> {
    spec: &'s PipelineSpec,
    size: [f64; 2],
    rules: &'s [RuleSpec],
}

impl<'s> Reader<'s> {
    fn new(spec: &'s PipelineSpec, [w, h]: [u32; 2], rules: &'s [RuleSpec]) -> Self {
        Self {
            spec,
            size: [f64::from(w.max(1)), f64::from(h.max(1))],
            rules,
        }
    }

    fn steps(&self) -> impl Iterator<Item = &'s Value> {
        self.spec.workflow["steps"].as_array().into_iter().flatten()
    }

    fn named(&self, name: &str) -> Option<&'s Value> {
        self.steps().find(|s| s["name"] == name)
    }

    /// Returns a property; for a selector of an input, the value of that input.
    fn value(&self, step: &'s Value, key: &str) -> Value {
        let written = &step[key];
        let Some(input) = written.as_str().and_then(|t| t.strip_prefix("$inputs.")) else {
            return written.clone();
        };
        if let Some(given) = self.spec.parameters.get(input) {
            return given.clone();
        }
        let mut inputs = self.spec.workflow["inputs"]
            .as_array()
            .into_iter()
            .flatten();
        inputs
            .find(|i| i["name"] == input)
            .map_or(Value::Null, |i| i["default_value"].clone())
    }

    /// Converts points to shares of the picture. A value may be JSON text.
    fn points(&self, value: &Value) -> Value {
        let read = match value {
            Value::String(text) => serde_json::from_str(text).unwrap_or(Value::Null),
            other => other.clone(),
        };
        let points: Vec<[f64; 2]> = serde_json::from_value(read).unwrap_or_default();
        if points.is_empty() {
            return Value::Null;
        }
        let [w, h] = self.size;
        json!(
            points
                .iter()
                .map(|[x, y]| [x / w, y / h])
                .collect::<Vec<_>>()
        )
    }

    /// Finds the zone of the step that a selector leads to, at most `steps` steps back.
    fn zone_behind(&self, selector: &str, steps: usize) -> Value {
        let Some(step) = step_of(selector).and_then(|name| self.named(name)) else {
            return Value::Null;
        };
        if block(step) == "time_in_zone" {
            return self.points(&self.value(step, "zone"));
        }
        if let Some(zone) = zone_in(&step["operations"]) {
            return self.points(zone);
        }
        let before = ["detections", "predictions", "data"]
            .iter()
            .find_map(|key| step[*key].as_str());
        match (steps, before) {
            (1.., Some(before)) => self.zone_behind(before, steps - 1),
            _ => Value::Null,
        }
    }

    fn step(&self, step: &'s Value) -> Node {
        let mut node = Node::default();
        let mut found = Vec::new();
        texts(step, &mut found);
        let next = next_steps(step);
        let before = found.into_iter().filter_map(step_of);
        node.from.extend(
            before
                .filter(|name| !next.iter().any(|n| n == name))
                .map(str::to_owned),
        );
        let kind = block(step);
        match kind {
            "roboflow_object_detection_model" | "roboflow_instance_segmentation_model" => {
                self.detector(&mut node, step, "object_detection");
            }
            "roboflow_keypoint_detection_model" => self.detector(&mut node, step, "keypoints"),
            "vlm_as_detector" => {
                let classes = self.value(step, "classes");
                node.add("open_vocab_detection", json!({"classes": classes}));
            }
            "roboflow_classification_model"
            | "roboflow_multi_label_classification_model"
            | "clip_comparison"
            | "vlm_as_classifier" => self.classifier(&mut node, step),
            "ocr_model" | "easy_ocr" | "pp_ocr" => node.add("ocr", json!({})),
            "byte_tracker" | "tracker" | "trackers_botsort" | "trackers_bytetrack"
            | "trackers_ocsort" | "trackers_sort" => node.add("tracker", json!({})),
            "detections_filter" | "per_class_confidence_filter" => self.filter(&mut node, step),
            "time_in_zone" => self.time_in_zone(&mut node, step),
            "line_counter" => self.line_counter(&mut node, step),
            "property_definition" if counts(step) => {
                let zone = step["data"].as_str().map(|s| self.zone_behind(s, 3));
                node.add("count", json!({"zone": zone}));
            }
            "overlap"
            | "overlap_analysis"
            | "detections_nearest_neighbor"
            | "detections_consensus" => {
                let mut found = Vec::new();
                texts(step, &mut found);
                let words = found.into_iter().filter(|t| !t.starts_with('$'));
                node.add("association", json!({"classes": words.collect::<Vec<_>>()}));
            }
            "data_aggregator" | "detections_combine" | "detections_list_rollup" | "buffer" => {
                let settings = json!({
                    "interval": self.value(step, "interval"), "unit": self.value(step, "interval_unit"),
                    "mode": self.value(step, "aggregation_mode"),
                });
                node.add("aggregate", settings);
            }
            _ => self.output_step(&mut node, step, kind),
        }
        node
    }

    /// Adds the families of flow controls, sinks and drawings.
    fn output_step(&self, node: &mut Node, step: &'s Value, kind: &str) {
        match kind {
            "continue_if" | "switch_case" | "delta_filter" => {
                let mut settings = Settings::new();
                compared_settings(&step["condition_statement"], &mut settings);
                node.add("condition", Value::Object(settings));
            }
            "rate_limiter" => {
                let seconds = self.value(step, "cooldown_seconds");
                node.add("cooldown", duration_settings(&seconds));
            }
            "event_sink" => node.add("event_sink", json!({})),
            "slack_notification"
            | "email_notification"
            | "twilio_sms_notification"
            | "webhook_sink" => self.message(node, step, kind),
            _ if kind.ends_with("_visualization") || kind == "text_display" => {
                node.add("visualization", json!({}));
            }
            _ => {}
        }
    }

    fn classifier(&self, node: &mut Node, step: &'s Value) {
        let classes = match self.value(step, "classes") {
            Value::Null => self.value(step, "texts"),
            classes => classes,
        };
        let confidence = self.value(step, "custom_confidence");
        let settings = json!({
            "classes": classes, "confidence": confidence, "threshold": confidence,
            "model": self.value(step, "model_id"),
        });
        node.add("classification", settings);
    }

    fn time_in_zone(&self, node: &mut Node, step: &'s Value) {
        let name = step["name"].as_str().unwrap_or_default();
        let zone = self.points(&self.value(step, "zone"));
        node.add("zone_filter", json!({"zone": zone}));
        let is_ruled = self
            .rules
            .iter()
            .any(|r| matches!(&r.when, Condition::Stays { zone, .. } if zone == name));
        if !is_ruled {
            node.add("time_in_zone", json!({"zone": zone}));
        }
    }

    fn line_counter(&self, node: &mut Node, step: &'s Value) {
        let name = step["name"].as_str().unwrap_or_default();
        let line = self.points(&self.value(step, "line_segment"));
        let direction = self.rules.iter().find_map(|r| match &r.when {
            Condition::Crosses { line, direction } if line == name => {
                Some(direction_name(*direction))
            }
            _ => None,
        });
        node.add(
            "line_counter",
            json!({"line": line, "direction": direction}),
        );
    }

    fn detector(&self, node: &mut Node, step: &'s Value, family: &'static str) {
        let classes = self.value(step, "class_filter");
        let confidence = match self.value(step, "confidence") {
            Value::Number(n) => Value::Number(n),
            _ => self.value(step, "custom_confidence"),
        };
        let model = match &self.spec.model {
            Some(model) => json!(model),
            None => self.value(step, "model_id"),
        };
        node.add(
            family,
            json!({
                "classes": classes, "confidence": confidence, "threshold": confidence,
                "model": model,
            }),
        );
        if classes.as_array().is_some_and(|c| !c.is_empty()) {
            node.add("class_filter", json!({"classes": classes}));
        }
        if !classes.is_null() || !confidence.is_null() {
            node.add(
                "detections_filter",
                json!({"classes": classes, "confidence": confidence, "threshold": confidence}),
            );
        }
    }

    fn filter(&self, node: &mut Node, step: &'s Value) {
        let mut settings = Settings::new();
        compared_settings(&step["operations"], &mut settings);
        // Pixels, and the share of the picture.
        if let Some(area) = settings.get("min_area_px").and_then(Value::as_f64) {
            settings.insert(
                "min_area".to_owned(),
                json!(area / (self.size[0] * self.size[1])),
            );
        }
        if let Some(confidence) = settings.get("confidence").cloned() {
            settings.insert("threshold".to_owned(), confidence);
        }
        let thresholds = step["per_class_confidence"].as_object();
        if let Some(thresholds) = thresholds {
            let classes: Vec<&String> = thresholds.keys().collect();
            settings.insert("classes".to_owned(), json!(classes));
        }
        if settings.contains_key("classes") {
            node.add("class_filter", json!({"classes": settings["classes"]}));
        }
        if let Some(zone) = zone_in(&step["operations"]) {
            let zone = self.points(zone);
            node.add("zone_filter", json!({"zone": zone}));
        }
        node.add("detections_filter", Value::Object(settings));
    }

    fn message(&self, node: &mut Node, step: &'s Value, kind: &str) {
        let channel = match kind {
            "slack_notification" => self.value(step, "channel"),
            "email_notification" => self.value(step, "receiver_email"),
            "twilio_sms_notification" => self.value(step, "receiver_number"),
            _ => self.value(step, "url"),
        };
        let by = kind
            .trim_end_matches("_notification")
            .trim_end_matches("_sink");
        node.add(
            "alert_sink",
            json!({"channel": channel, "kind": by, "message": self.value(step, "message")}),
        );
        let seconds = self.value(step, "cooldown_seconds");
        if seconds.as_f64().is_some_and(|s| s > 0.0) {
            node.add("cooldown", duration_settings(&seconds));
        }
        let mut attached = Vec::new();
        texts(&step["attachments"], &mut attached);
        if !attached.is_empty() {
            node.add("snapshot", json!({}));
        }
    }

    /// Maps a rule to its condition, schedule, cooldown, event, pictures and notifications.
    fn rule(&self, rule: &RuleSpec, notifying: Notifying) -> Node {
        let mut node = Node::default();
        if !rule.classes.is_empty() {
            node.add("class_filter", json!({"classes": rule.classes}));
        }
        if let Some(band) = rule.confidence {
            node.add(
                "detections_filter",
                json!({
                    "confidence": band.min, "max_confidence": band.max,
                    "confidence_band": [band.min, band.max],
                }),
            );
        }
        self.condition(&mut node, &rule.when);
        if let Some(schedule) = &rule.schedule {
            node.add("schedule", schedule_settings(schedule));
        }
        if rule.cooldown_s > 0.0 {
            let mut settings = duration_settings(&json!(rule.cooldown_s));
            let is_of_rule = matches!(rule.when, Condition::Count { .. } | Condition::Value { .. });
            if !rule.shared_cooldown && !is_of_rule {
                // Each track has a cool-down of its own.
                settings["max_per_hour"] = Value::Null;
            }
            node.add("cooldown", settings);
        }
        if let Some(most) = rule.max_per_hour {
            node.add("cooldown", json!({"max_per_hour": most}));
        }
        let severity = json!(rule.severity);
        node.add(
            "event_sink",
            json!({"severity": severity, "name": rule.name}),
        );
        node.add("snapshot", json!({}));
        if let Some(clip) = rule.clip {
            node.add(
                "clip",
                json!({"pre_roll_s": clip.before_s, "duration_s": clip.length_s()}),
            );
        }
        if rule.gates.escalate < rule.gates.review {
            node.add(
                "escalate",
                json!({
                    "from": rule.gates.escalate, "to": rule.gates.review,
                    "confidence_band": [rule.gates.escalate, rule.gates.review],
                    "may_lower": rule.second_opinion_may_lower,
                }),
            );
        }
        Self::notifications(&mut node, rule, notifying);
        node
    }

    /// Adds the families and sources of a rule's condition.
    fn condition(&self, node: &mut Node, when: &Condition) {
        let from = |node: &mut Node, name: &str| {
            node.from.insert(name.to_owned());
        };
        let of_step = |name: &str| {
            let step = self.named(name);
            step.map_or(Value::Null, |s| self.points(&self.value(s, "zone")))
        };
        match when {
            Condition::Appears { detections } => {
                if let Some(step) = step_of(detections) {
                    from(node, step);
                }
            }
            Condition::Enters { zone } | Condition::Leaves { zone } => from(node, zone),
            Condition::Stays { zone, for_s } => {
                from(node, zone);
                node.add(
                    "time_in_zone",
                    json!({"zone": of_step(zone), "duration_s": for_s, "threshold_s": for_s}),
                );
            }
            Condition::Crosses { line, .. } => from(node, line),
            Condition::Count {
                detections,
                bound,
                for_s,
            } => {
                let zone = self.zone_behind(detections, 3);
                if let Some(step) = step_of(detections) {
                    from(node, step);
                }
                let mut count = bound_settings(*bound);
                count["zone"] = zone;
                node.add("count", count);
                node.add("condition", bound_settings(*bound));
                add_hold(node, *for_s);
            }
            Condition::Value { value, test, for_s } => {
                if let Some(step) = step_of(value) {
                    from(node, step);
                }
                node.add("condition", test_settings(*test));
                add_hold(node, *for_s);
            }
        }
    }

    /// Adds the notifications of a rule.
    fn notifications(node: &mut Node, rule: &RuleSpec, notifying: Notifying) {
        let severity = json!(rule.severity);
        for channel in &rule.notify {
            node.add(
                "alert_sink",
                json!({"channel": format!("#{channel}"), "kind": "channel", "severity": severity}),
            );
        }
        // Every event goes out over MQTT. If some rules name a channel or are warnings, the others
        // only record.
        if rule.notify.is_empty() && notifying.notifies(rule) {
            node.add(
                "alert_sink",
                json!({"channel": "mqtt", "kind": "mqtt", "severity": severity}),
            );
        }
    }
}

fn add_hold(node: &mut Node, for_s: f64) {
    if for_s > 0.0 {
        node.add(
            "state_hold",
            json!({"duration_s": for_s, "threshold_s": for_s}),
        );
    }
}

fn duration_settings(seconds: &Value) -> Value {
    let per_hour = seconds.as_f64().filter(|s| *s > 0.0).map(|s| 3600.0 / s);
    json!({
        "duration_s": seconds, "seconds": seconds, "cooldown_s": seconds, "period_s": seconds,
        "max_per_hour": per_hour,
    })
}

fn direction_name(direction: CrossDirection) -> &'static str {
    match direction {
        CrossDirection::In => "in",
        CrossDirection::Out => "out",
        CrossDirection::Any => "any",
    }
}

fn bound_settings(bound: CountBound) -> Value {
    match bound {
        CountBound::Over(n) => {
            let min = u64::from(n) + 1;
            json!({"op": ">", "value": n, "over": n, "min": min, "threshold": n, "at_least": min})
        }
        CountBound::Under(n) => {
            let max = n.saturating_sub(1);
            json!({"op": "<", "value": n, "under": n, "max": max, "threshold": n, "at_most": max})
        }
    }
}

fn test_settings(test: ValueTest) -> Value {
    match test {
        ValueTest::Is(value) => json!({"op": "==", "value": value}),
        ValueTest::Over(n) => json!({"op": ">", "value": n, "over": n, "threshold": n}),
        ValueTest::Under(n) => json!({"op": "<", "value": n, "under": n, "threshold": n}),
    }
}

fn schedule_settings(schedule: &Schedule) -> Value {
    json!({
        "days": schedule.days, "from": schedule.from, "to": schedule.to, "start": schedule.from, "end": schedule.to,
    })
}

/// Whether a step computes the length of a list.
fn counts(step: &Value) -> bool {
    let operations = step["operations"].as_array().into_iter().flatten();
    operations
        .filter_map(|o| o["type"].as_str())
        .any(|t| matches!(t, "SequenceLength" | "Count"))
}

/// Returns the zone in the operations of a filter: the right side of `in zone`.
fn zone_in(operations: &Value) -> Option<&Value> {
    match operations {
        Value::Object(fields) => {
            let is_zone = fields
                .get("comparator")
                .and_then(|c| c["type"].as_str())
                .is_some_and(|t| t.contains("in zone"));
            if is_zone {
                return fields.get("right_operand").map(|right| &right["value"]);
            }
            fields.values().find_map(zone_in)
        }
        Value::Array(items) => items.iter().find_map(zone_in),
        _ => None,
    }
}

/// Whether a comparator accepts what is larger than its right side.
fn is_lower_bound(comparator: &Value) -> bool {
    comparator["type"]
        .as_str()
        .is_some_and(|kind| kind.contains('>'))
}

/// Collects what statements compare with. A list of texts are classes, a number is a confidence if
/// the statement names it, else a value.
fn compared_settings(statement: &Value, settings: &mut Settings) {
    match statement {
        Value::Object(fields) => {
            if let (Some(left), Some(comparator), Some(right)) = (
                fields.get("left_operand"),
                fields.get("comparator"),
                fields.get("right_operand"),
            ) {
                let mut about = Vec::new();
                texts(left, &mut about);
                let about = about.join(" ");
                let value = &right["value"];
                let key = match value {
                    Value::Array(_) if about.contains("class") => "classes",
                    Value::String(_) if about.contains("class") => "classes",
                    Value::Number(_) if about.contains("confidence") => "confidence",
                    Value::Number(_) if about.contains("size") && is_lower_bound(comparator) => {
                        "min_area_px"
                    }
                    Value::Null | Value::Array(_) | Value::Object(_) => "",
                    Value::Number(_) | Value::Bool(_) | Value::String(_) => "value",
                };
                let value = match (key, value) {
                    ("classes", Value::String(one)) => json!([one]),
                    _ => value.clone(),
                };
                if !key.is_empty() {
                    settings.insert(key.to_owned(), value);
                    settings.insert("op".to_owned(), comparator["type"].clone());
                }
            }
            fields
                .values()
                .for_each(|field| compared_settings(field, settings));
        }
        Value::Array(items) => items
            .iter()
            .for_each(|item| compared_settings(item, settings)),
        _ => {}
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    fn spec(steps: &[Value], rules: Value) -> PipelineSpec {
        let mut all = vec![
            json!({"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "detect", "images": "$inputs.image",
                "model_id": "m", "confidence": "$inputs.sure", "class_filter": ["car"]}),
            json!({"type": "roboflow_core/byte_tracker@v3", "name": "tracker", "image": "$inputs.image",
                "detections": "$steps.detect.predictions"}),
        ];
        all.extend_from_slice(steps);
        serde_json::from_value(json!({
            "id": "p", "source": "c", "parameters": {"sure": 0.6}, "rules": rules,
            "workflow": {
                "version": "1.0",
                "inputs": [{"type": "WorkflowImage", "name": "image"}, {"type": "WorkflowParameter", "name": "sure"}],
                "steps": all, "outputs": [{"type": "JsonField", "name": "o", "selector": "$steps.tracker.tracked_detections"}],
            },
        }))
        .unwrap()
    }

    fn bay() -> Value {
        json!({"type": "roboflow_core/time_in_zone@v3", "name": "bay", "image": "$inputs.image",
            "detections": "$steps.tracker.tracked_detections", "zone": [[0, 0], [500, 0], [500, 250]]})
    }

    fn graph(steps: &[Value], rules: Value) -> Graph {
        Graph::of(&spec(steps, rules), [1000, 500])
    }

    #[test]
    fn detector_with_classes_is_a_filter_with_input_values() {
        let graph = graph(&[], json!([]));
        let detector = graph.steps("object_detection")[0];
        assert_eq!(detector["confidence"], 0.6);
        assert_eq!(graph.steps("class_filter")[0]["classes"], json!(["car"]));
        assert_eq!(
            graph.count("object_detection|class_filter|detections_filter", |_| true),
            1
        );
        assert!(graph.steps("event_sink").is_empty());
    }

    #[test]
    fn rule_maps_to_zone_cooldown_event_and_notification() {
        let rules = json!([{
            "name": "r", "when": {"kind": "stays", "zone": "bay", "for_s": 3.0}, "cooldown_s": 60.0,
            "schedule": {"from": "22:00", "to": "06:00"}, "severity": "warning",
        }]);
        let graph = graph(&[bay()], rules);
        let stay = graph.steps("time_in_zone");
        assert_eq!(stay.len(), 1, "the step and the rule on it are one");
        assert_eq!(stay[0]["duration_s"], 3.0);
        assert_eq!(stay[0]["zone"], json!([[0.0, 0.0], [0.5, 0.0], [0.5, 0.5]]));
        assert_eq!(graph.steps("cooldown")[0]["duration_s"], 60.0);
        assert_eq!(graph.steps("schedule")[0]["from"], "22:00");
        assert_eq!(graph.steps("alert_sink")[0]["channel"], "mqtt");
        let via = |families: &[&str]| {
            graph.has_path(&families.iter().map(|f| (*f).to_owned()).collect::<Vec<_>>())
        };
        assert!(via(&[
            "object_detection",
            "tracker",
            "zone_filter",
            "time_in_zone",
            "alert_sink"
        ]));
        assert!(via(&["class_filter", "event_sink"]));
        assert!(!via(&["event_sink", "tracker"]), "not backwards");
        assert!(!via(&["line_counter", "alert_sink"]));
    }

    #[test]
    fn info_rule_is_no_alert_beside_a_warning() {
        let rules = json!([
            {"name": "a", "when": {"kind": "appears", "detections": "$steps.tracker.tracked_detections"}},
            {"name": "b", "when": {"kind": "stays", "zone": "bay", "for_s": 3.0}, "severity": "critical"},
        ]);
        let graph = graph(&[bay()], rules);
        assert_eq!(graph.count("event_sink", |_| true), 2);
        assert_eq!(graph.count("alert_sink", |_| true), 1);
    }

    #[test]
    fn pipeline_without_rules_has_derived_ones() {
        let mut spec = spec(&[bay()], json!([]));
        spec.rules = None;
        let graph = Graph::of(&spec, [1000, 500]);
        assert!(graph.count("event_sink", |_| true) > 0);
    }

    #[test]
    fn filter_step_has_classes_confidence_and_zone() {
        let statement = |property: &str, comparator: &str, value: Value| {
            json!({"type": "BinaryStatement",
                "left_operand": {"type": "DynamicOperand", "operations": [{"type": "ExtractDetectionProperty", "property_name": property}]},
                "comparator": {"type": comparator}, "right_operand": {"type": "StaticOperand", "value": value}})
        };
        let filter = json!({"type": "roboflow_core/detections_filter@v1", "name": "only", "predictions": "$steps.detect.predictions",
        "operations": [{"type": "DetectionsFilter", "filter_operation": {"type": "StatementGroup", "operator": "and", "statements": [
            statement("class_name", "in (Sequence)", json!(["bus"])),
            statement("confidence", "(Number) >=", json!(0.7)),
            statement("center", "(Detection) in zone", json!([[0, 0], [100, 0], [100, 50]])),
        ]}}]});
        let graph = graph(&[filter], json!([]));
        let filters = graph.steps("detections_filter");
        assert!(filters.iter().any(|f| f.get("confidence") == Some(&json!(0.7)) && f["classes"] == json!(["bus"])));
        let zones = graph.steps("zone_filter");
        assert_eq!(
            zones[0]["zone"],
            json!([[0.0, 0.0], [0.1, 0.0], [0.1, 0.1]])
        );
    }

    #[test]
    fn bounds_bands_areas_and_rates_have_their_keys() {
        let rules = json!([{
            "name": "r", "when": {"kind": "count", "detections": "$steps.tracker.tracked_detections", "bound": {"over": 2}},
            "cooldown_s": 600.0, "confidence": {"min": 0.5, "max": 0.8},
            "gates": {"act": 0.9, "record": 0.8, "review": 0.7, "escalate": 0.4},
        }]);
        let filter = json!({"type": "roboflow_core/detections_filter@v1", "name": "large", "predictions": "$steps.detect.predictions",
        "operations": [{"type": "DetectionsFilter", "filter_operation": {"type": "StatementGroup", "operator": "and", "statements": [
            {"type": "BinaryStatement",
                "left_operand": {"type": "DynamicOperand", "operations": [{"type": "ExtractDetectionProperty", "property_name": "size"}]},
                "comparator": {"type": "(Number) >="}, "right_operand": {"type": "StaticOperand", "value": 5000}},
        ]}}]});
        let graph = graph(&[filter], rules);
        let has = |families: &str, key: &str, value: Value| {
            let steps = graph.steps(families);
            assert!(
                steps.iter().any(|s| s.get(key) == Some(&value)),
                "{families} {key}: {steps:?}"
            );
        };
        has("count", "threshold", json!(2));
        has("condition", "at_least", json!(3));
        has("cooldown", "max_per_hour", json!(6.0));
        has("detections_filter", "confidence_band", json!([0.5, 0.8]));
        has("escalate", "confidence_band", json!([0.4, 0.7]));
        // Of 1000 × 500 pixels.
        has("detections_filter", "min_area", json!(0.01));
        has("object_detection", "threshold", json!(0.6));
    }
}
