//! Compiles rules: checks every name, selector and number once against the workflow.
//!
//! - The result of `compile` refers only to existing needs and holds only finite numbers.

mod chain;
mod settings;

use std::collections::BTreeSet;
use std::fmt;

use watchkeeper_contract::id::ChannelId;
use watchkeeper_contract::problem::nearest;
use watchkeeper_contract::rule::{Condition, CountBound, CrossDirection, RuleSpec, ValueTest};

use super::facts::{SelectorKind, StepFacts, WorkflowFacts};
use super::moment::{Need, NeedKind};
use super::plan::{CrossWatch, LevelWatch, Question, RulePlan, TrackKind, TrackWatch, Watch};
use super::stays::StayScope;

/// Maximum number of rules of one pipeline.
pub const MAX_RULES: usize = 200;
/// Maximum number of channels in one rule.
pub const MAX_CHANNELS: usize = 8;
/// Maximum number of classes in one rule; more than any model has.
pub const MAX_CLASSES: usize = 2000;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {value:?}: {message}")]
pub struct RuleError {
    /// Path of the field, such as `rules[2].when.zone`.
    pub field: String,
    pub value: String,
    pub message: String,
    /// Accepted values, if they can be listed.
    pub allowed: Vec<String>,
    /// The accepted value most similar to the one found.
    pub nearest: Option<String>,
}

/// Compiles rules against a workflow and reports all errors at once.
pub(super) fn compile(
    specs: &[RuleSpec],
    facts: &WorkflowFacts<'_>,
) -> Result<RulePlan, Vec<RuleError>> {
    let mut c = Compiler {
        facts,
        needs: vec![],
        groups: vec![],
        scopes: vec![],
        at: String::new(),
        errors: vec![],
    };
    if specs.len() > MAX_RULES {
        let message = format!("are more than {MAX_RULES}; split them among pipelines");
        c.error("rules", specs.len(), message);
        return Err(c.errors);
    }
    c.add_zones();
    let mut names = BTreeSet::new();
    let mut rules = Vec::new();
    for (i, spec) in specs.iter().enumerate() {
        c.at = format!("rules[{i}].");
        if spec.name.is_empty() || spec.name.chars().count() > 80 {
            c.error("name", &spec.name, "must have 1 to 80 characters");
        }
        if !names.insert(&spec.name) {
            c.error("name", &spec.name, "is already the name of another rule");
        }
        let awake = c.check_settings(spec);
        let read = c.chain(spec);
        if let Some(watch) = c.watch(&spec.when) {
            rules.push((spec.clone(), awake, watch, read));
        }
    }
    if c.errors.is_empty() {
        Ok(RulePlan {
            needs: c.needs,
            groups: c.groups,
            scopes: c.scopes,
            rules,
        })
    } else {
        Err(c.errors)
    }
}

/// Returns the classes in rules that no model knows. `why` follows the class in the message.
pub(crate) fn unknown_classes(specs: &[RuleSpec], known: &[String], why: &str) -> Vec<RuleError> {
    let named = specs.iter().enumerate().flat_map(|(rule, spec)| {
        let classes = spec.classes.iter().enumerate();
        classes.map(move |(i, class)| (format!("rules[{rule}].classes[{i}]"), class))
    });
    named
        .filter(|(_, class)| !known.contains(class))
        .map(|(field, class)| RuleError {
            field,
            value: class.clone(),
            message: why.to_owned(),
            allowed: known.to_vec(),
            nearest: nearest_of(class, known),
        })
        .collect()
}

/// Returns the channels in rules that the configuration lacks.
pub fn unknown_channels(specs: &[RuleSpec], known: &[ChannelId]) -> Vec<RuleError> {
    let allowed: Vec<String> = known.iter().map(ToString::to_string).collect();
    let named = specs.iter().enumerate().flat_map(|(rule, spec)| {
        [("notify", &spec.notify), ("on_act", &spec.on_act)]
            .into_iter()
            .flat_map(move |(field, channels)| {
                let channels = channels.iter().enumerate();
                channels.map(move |(i, channel)| (format!("rules[{rule}].{field}[{i}]"), channel))
            })
    });
    named
        .filter(|(_, channel)| !known.contains(channel))
        .map(|(field, channel)| RuleError {
            field,
            value: channel.to_string(),
            message: format!(
                "is not configured; add a section [channels.{channel}] or use one that exists"
            ),
            allowed: allowed.clone(),
            nearest: nearest_of(channel.as_str(), &allowed),
        })
        .collect()
}

struct Compiler<'a> {
    facts: &'a WorkflowFacts<'a>,
    needs: Vec<Need>,
    groups: Vec<Vec<usize>>,
    scopes: Vec<StayScope>,
    at: String,
    errors: Vec<RuleError>,
}

impl Compiler<'_> {
    fn error(&mut self, field: &str, value: impl fmt::Display, message: impl Into<String>) {
        self.errors.push(RuleError {
            field: format!("{}{field}", self.at),
            value: value.to_string(),
            message: message.into(),
            allowed: Vec::new(),
            nearest: None,
        });
    }

    fn unknown(&mut self, field: &str, value: &str, message: &str, allowed: &[String]) {
        self.error(field, value, message);
        if let Some(error) = self.errors.last_mut() {
            error.nearest = nearest_of(value, allowed);
            error.allowed = allowed.to_vec();
        }
    }

    fn seconds(&mut self, field: &str, value: f64) {
        if !(value.is_finite() && value >= 0.0) {
            self.error(field, value, "must be a number of seconds, 0 or more");
        }
    }

    fn watch(&mut self, when: &Condition) -> Option<Watch> {
        match when {
            Condition::Appears { detections } => self.appears(detections),
            Condition::Enters { zone } => self.zone(zone, TrackKind::Enters { zone: zone.clone() }),
            Condition::Leaves { zone } => self.zone(zone, TrackKind::Leaves { zone: zone.clone() }),
            Condition::Stays { zone, for_s } => {
                self.seconds("when.for_s", *for_s);
                let (zone_name, for_s) = (zone.clone(), *for_s);
                self.zone(
                    zone,
                    TrackKind::Stays {
                        zone: zone_name,
                        for_s,
                    },
                )
            }
            Condition::Crosses { line, direction } => self.line(line, *direction),
            Condition::Count {
                detections,
                bound,
                for_s,
            } => self.count(detections, *bound, *for_s),
            Condition::Value { value, test, for_s } => self.value(value, *test, *for_s),
        }
    }

    fn appears(&mut self, detections: &str) -> Option<Watch> {
        let need = self.detections(detections)?;
        let group = self.group(vec![need]);
        let picture = StayScope {
            zone: None,
            tracked: need,
            inside: need,
        };
        let known = self.scopes.iter().position(|scope| *scope == picture);
        let scope = known.unwrap_or_else(|| {
            self.scopes.push(picture);
            self.scopes.len() - 1
        });
        Some(Watch::Tracks(TrackWatch {
            kind: TrackKind::Appears,
            scope,
            group,
        }))
    }

    fn count(&mut self, detections: &str, bound: CountBound, for_s: f64) -> Option<Watch> {
        self.seconds("when.for_s", for_s);
        if bound == CountBound::Under(0) {
            let message = "never holds, because a count is never below 0; use under 1 or more";
            self.error("when.bound", "under 0", message);
        }
        let need = self.detections(detections)?;
        let mut zones = self.facts.zones.iter();
        let of_zone = zones.any(|z| *detections == timed(&z.name));
        Some(Watch::Level(LevelWatch {
            selector: detections.to_owned(),
            need,
            question: Question::Count { bound, of_zone },
            for_s,
        }))
    }

    fn value(&mut self, value: &str, test: ValueTest, for_s: f64) -> Option<Watch> {
        self.seconds("when.for_s", for_s);
        let (kind, word) = match test {
            ValueTest::Is(_) => (NeedKind::Boolean, "a boolean"),
            ValueTest::Over(v) | ValueTest::Under(v) => {
                if !v.is_finite() {
                    self.error("when.test", v, "must be a number");
                }
                (NeedKind::Number, "a number")
            }
        };
        let need = self.selected("when.value", value, kind, word)?;
        Some(Watch::Level(LevelWatch {
            selector: value.to_owned(),
            need,
            question: Question::Value { test },
            for_s,
        }))
    }

    fn detections(&mut self, selector: &str) -> Option<usize> {
        self.selected(
            "when.detections",
            selector,
            NeedKind::Detections,
            "detections",
        )
    }

    fn selected(
        &mut self,
        field: &str,
        selector: &str,
        kind: NeedKind,
        word: &str,
    ) -> Option<usize> {
        let fits = |found: SelectorKind| match found {
            SelectorKind::Any => true,
            SelectorKind::Detections => kind == NeedKind::Detections,
            SelectorKind::Number => kind == NeedKind::Number,
            SelectorKind::Boolean => kind == NeedKind::Boolean,
            SelectorKind::Text | SelectorKind::Other => false,
        };
        match (self.facts.kind_of)(selector) {
            None => {
                self.unknown_output(field, selector, fits);
                None
            }
            Some(found) if fits(found) => Some(self.need(field, selector, kind)),
            Some(_) => {
                self.error(field, selector, format!("is not {word}"));
                None
            }
        }
    }

    /// Reports a selector of no output; what fits its place is allowed.
    fn unknown_output(&mut self, field: &str, selector: &str, fits: impl Fn(SelectorKind) -> bool) {
        let facts = self.facts;
        let is_fit = |selector: &&String| (facts.kind_of)(selector).is_some_and(&fits);
        let allowed: Vec<String> = facts.selectors.iter().filter(is_fit).cloned().collect();
        let message = "is not an output of any step of the workflow";
        self.unknown(field, selector, message, &allowed);
    }

    /// Returns the need of a selector of texts, or of detections that hold one each.
    fn reading(&mut self, field: &str, selector: &str) -> Option<usize> {
        let kind = match (self.facts.kind_of)(selector) {
            None => {
                let is_read = |kind| {
                    matches!(
                        kind,
                        SelectorKind::Detections | SelectorKind::Text | SelectorKind::Any
                    )
                };
                self.unknown_output(field, selector, is_read);
                return None;
            }
            Some(SelectorKind::Detections) if !(self.facts.is_read)(selector) => {
                self.unread(field, selector);
                return None;
            }
            Some(SelectorKind::Detections) => NeedKind::Detections,
            Some(SelectorKind::Text | SelectorKind::Any) => NeedKind::Text,
            Some(SelectorKind::Number | SelectorKind::Boolean | SelectorKind::Other) => {
                let message = "is neither text nor detections; name an output of a step that \
                               reads codes or text";
                self.error(field, selector, message);
                return None;
            }
        };
        Some(self.need(field, selector, kind))
    }

    /// Reports boxes whose class is not text: that of a detector would be taken as what was read.
    fn unread(&mut self, field: &str, selector: &str) {
        let facts = self.facts;
        let is_fit = |selector: &&String| match (facts.kind_of)(selector) {
            Some(SelectorKind::Detections) => (facts.is_read)(selector),
            found => found == Some(SelectorKind::Text),
        };
        let fit: Vec<String> = facts.selectors.iter().filter(is_fit).cloned().collect();
        let message = "holds boxes in which no step read codes or text; name an output of a step \
                       that reads them";
        self.unknown(field, selector, message, &fit);
    }

    /// Returns the need of a selector. Reports one that is also read as another kind.
    fn need(&mut self, field: &str, selector: &str, kind: NeedKind) -> usize {
        if let Some(i) = self.needs.iter().position(|n| n.selector == selector) {
            let known = self.needs[i].kind;
            match known.merged(kind) {
                Some(merged) => self.needs[i].kind = merged,
                None => {
                    let message = format!(
                        "is read both as {} and as {}; name outputs of two steps",
                        known.word(),
                        kind.word()
                    );
                    self.error(field, selector, message);
                }
            }
            return i;
        }
        self.needs.push(Need {
            selector: selector.to_owned(),
            kind,
        });
        self.needs.len() - 1
    }

    /// Returns the group of these needs.
    fn group(&mut self, needs: Vec<usize>) -> usize {
        let known = self.groups.iter().position(|group| *group == needs);
        known.unwrap_or_else(|| {
            self.groups.push(needs);
            self.groups.len() - 1
        })
    }

    fn step(
        &mut self,
        field: &str,
        name: &str,
        steps: &[StepFacts],
        what: &str,
    ) -> Option<StepFacts> {
        let found = steps.iter().find(|s| s.name == name).cloned();
        if found.is_none() {
            let names: Vec<String> = steps.iter().map(|s| s.name.clone()).collect();
            let message = match names.is_empty() {
                true => format!("is not a {what} step of the workflow, which has none; add one"),
                false => format!("is not a {what} step of the workflow"),
            };
            self.unknown(field, name, &message, &names);
        }
        found
    }

    fn zone(&mut self, name: &str, kind: TrackKind) -> Option<Watch> {
        let facts = self.facts;
        let step = self.step("when.zone", name, &facts.zones, "time-in-zone")?;
        let need = self.need("when.zone", &timed(name), NeedKind::Detections);
        let group = self.grouped("when.zone", &step, vec![need]);
        let is_it = |scope: &StayScope| scope.zone.as_deref() == Some(name);
        let scope = self.scopes.iter().position(is_it)?;
        Some(Watch::Tracks(TrackWatch { kind, scope, group }))
    }

    /// Adds the scopes of all zones, those without a rule included: a run counts their visits.
    fn add_zones(&mut self) {
        let facts = self.facts;
        for step in &facts.zones {
            let mut need = |selector: &str| self.need("when.zone", selector, NeedKind::Detections);
            let inside = need(&timed(&step.name));
            let tracked = step.detections.as_deref().map_or(inside, need);
            self.scopes.push(StayScope {
                zone: Some(step.name.clone()),
                tracked,
                inside,
            });
        }
    }

    fn line(&mut self, name: &str, direction: CrossDirection) -> Option<Watch> {
        let facts = self.facts;
        let step = self.step("when.line", name, &facts.lines, "line-counter")?;
        let mut take = |wanted: bool, output: &str| {
            let selector = format!("$steps.{name}.{output}");
            wanted.then(|| self.need("when.line", &selector, NeedKind::Detections))
        };
        let needs = [
            take(direction != CrossDirection::Out, "detections_in"),
            take(direction != CrossDirection::In, "detections_out"),
        ];
        let both = needs.iter().flatten().copied().collect();
        let group = self.grouped("when.line", &step, both);
        Some(Watch::Crosses(CrossWatch {
            line: name.to_owned(),
            needs,
            group,
        }))
    }

    /// Returns the group of the tracker that a step reads; if unknown, the step's own outputs form
    /// one. Outputs of a known tracker's step are left out: a line counter that decides late
    /// repeats boxes of an earlier frame.
    fn grouped(&mut self, field: &str, step: &StepFacts, outputs: Vec<usize>) -> usize {
        let needs = match &step.detections {
            Some(selector) => vec![self.need(field, selector, NeedKind::Detections)],
            None => outputs,
        };
        self.group(needs)
    }
}

/// Selector of a zone's detections.
fn timed(zone: &str) -> String {
    format!("$steps.{zone}.timed_detections")
}

/// Returns the value in `allowed` that is most similar to `value`, if it is similar enough.
fn nearest_of(value: &str, allowed: &[String]) -> Option<String> {
    nearest(value, allowed.iter().map(String::as_str)).map(str::to_owned)
}
