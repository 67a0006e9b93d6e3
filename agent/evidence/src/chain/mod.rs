//! The chain of a rule: which source is asked next, and the final state. Sans-IO.
//!
//! ```text
//!  Ready ─ next() ─► Ask(source) ─ begin() ─► Asking ─ answer() ─► Ready ─► … ─► Done
//!                         restart while asking: a paid source failed, another is asked again
//! ```
//!
//! | final state | when | verdict |
//! |---|---|---|
//! | decided | the mean reaches `record`, and a source that can decide answered | `act`, `record` |
//! | person | the chain came to one, a text addressed the model, or the mean is lower | `review`, `escalate` |
//! | unknown | no source that can decide answered | `review` |
//!
//! Invariants:
//! - Each source is asked once at most. A paid one is not asked again after a restart.
//! - Every order of answers, failures and restarts ends in one final state.
//! - The confidence is the weighted mean of the links: a failure counts with 0, and a source
//!   without an answer does not count.
//! - The box and readings that a look-up reads do not decide; a model alone makes nothing `act`.
//! - A chain discards nothing.

mod weigh;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;
use watchkeeper_config::{LookupConfig, LookupKind, LookupValue};
use watchkeeper_contract::event::Evidence;
use watchkeeper_contract::rule::{DecideSpec, Gates};
use watchkeeper_contract::time::Wall;

use crate::source::{SourceAnswer, SourceResult, in_unit};
use crate::value::{EventFacts, ReadValue};
pub use weigh::Final;

/// Kind of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    Box,
    /// A code or text that later look-ups read, or that they do not.
    Reading,
    /// A service or table.
    Lookup,
    /// Fields that a model reads.
    Fields,
    Model,
    Person,
    /// A name that the configuration does not have.
    Unknown,
}

impl SourceKind {
    /// Whether an answer costs money, so that it is not asked twice.
    #[must_use]
    pub fn is_paid(self) -> bool {
        matches!(self, Self::Fields | Self::Model)
    }
}

/// One source of a chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Source {
    pub name: String,
    pub kind: SourceKind,
    pub weight: f64,
    /// Whether its answer may decide; not where it is only read by a later look-up.
    pub can_decide: bool,
}

/// What has to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Ask this source: store [`Chain::begin`] first, then [`Chain::answer`].
    Ask { source: Source },
    /// The final state.
    Done(Final),
}

/// A link with the source that made it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Link {
    source: usize,
    result: SourceResult,
}

/// The chain of one event; serialised, it is its stored form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chain {
    sources: Vec<Source>,
    gates: Gates,
    /// Confidence at which later sources are not asked.
    stop_at: f64,
    facts: EventFacts,
    links: Vec<Link>,
    /// Whether the next source is being asked.
    is_asking: bool,
    /// Why no more sources are asked.
    #[serde(default)]
    given_up: Option<String>,
}

impl Chain {
    /// The chain that `spec` describes, for an event with `facts`.
    #[must_use]
    pub fn new(
        spec: &DecideSpec,
        gates: Gates,
        lookups: &BTreeMap<String, LookupConfig>,
        facts: EventFacts,
    ) -> Self {
        Self {
            sources: sources(spec, lookups),
            stop_at: spec.stop_at.of(&gates),
            gates,
            facts,
            links: Vec::new(),
            is_asking: false,
            given_up: None,
        }
    }

    /// What has to be done next. Sources that need no I/O are answered here, at the time `now`.
    pub fn next(&mut self, now: Wall) -> Step {
        loop {
            if let Some(done) = self.done() {
                return Step::Done(done);
            }
            let Some(source) = self.sources.get(self.links.len()).cloned() else {
                return Step::Done(self.weigh());
            };
            let Some(answer) = self.own_answer(&source) else {
                return Step::Ask { source };
            };
            self.push(SourceResult {
                answer,
                at: now,
                took_ms: 0,
                cost_usd: None,
            });
        }
    }

    /// The next source is about to be asked.
    pub fn begin(&mut self) {
        self.is_asking = true;
    }

    /// The source that was asked answered or failed.
    pub fn answer(&mut self, result: SourceResult) {
        if std::mem::take(&mut self.is_asking) && self.links.len() < self.sources.len() {
            self.push(result);
        }
    }

    /// The agent started again. A paid source that was being asked counts as failed.
    pub fn resume(&mut self, now: Wall) {
        let asked = self
            .sources
            .get(self.links.len())
            .filter(|_| self.is_asking);
        match asked.map(|source| source.kind.is_paid()) {
            Some(true) => self.answer(SourceResult {
                answer: SourceAnswer::failed("the agent ended before it answered; not asked again"),
                at: now,
                took_ms: 0,
                cost_usd: None,
            }),
            Some(false) | None => self.is_asking = false,
        }
    }

    /// Asks no more sources; `why` becomes part of the reason.
    pub fn give_up(&mut self, why: impl Into<String>) {
        self.is_asking = false;
        self.given_up = Some(why.into());
    }

    /// Whether no more sources are asked.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.given_up.is_some()
    }

    /// Facts of the event, with the fields that were read.
    #[must_use]
    pub fn facts(&self) -> &EventFacts {
        &self.facts
    }

    /// Links so far, in the order of the chain.
    #[must_use]
    pub fn links(&self) -> Vec<Evidence> {
        let links = self.asked_links();
        links
            .map(|(source, result)| result.link(&source.name, source.weight))
            .collect()
    }

    /// Names of the sources that were asked.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        self.asked_links()
            .map(|(source, _)| source.name.clone())
            .collect()
    }

    /// Cost in US dollars, and milliseconds, of all sources so far.
    #[must_use]
    pub fn spent(&self) -> (f64, u64) {
        self.links.iter().fold((0.0, 0), |(usd, ms), link| {
            let result = &link.result;
            (usd + result.cost_usd.unwrap_or(0.0), ms + result.took_ms)
        })
    }

    fn asked_links(&self) -> impl Iterator<Item = (&Source, &SourceResult)> {
        let links = self.links.iter();
        links.filter_map(|link| Some((self.sources.get(link.source)?, &link.result)))
    }

    fn push(&mut self, mut result: SourceResult) {
        // What is no number can't be stored.
        if let SourceAnswer::Answered { confidence, .. } = &mut result.answer {
            *confidence = in_unit(*confidence);
        }
        let source = self.links.len();
        let is_fields = self
            .sources
            .get(source)
            .is_some_and(|s| s.kind == SourceKind::Fields);
        if let (true, SourceAnswer::Answered { data, .. }) = (is_fields, &result.answer)
            && let Some(fields) = data.as_object()
        {
            self.facts.fields.clone_from(fields);
        }
        self.links.push(Link { source, result });
    }

    /// The final state, if no further source is asked.
    fn done(&self) -> Option<Final> {
        let is_suspect = |link: &Link| matches!(link.result.answer, SourceAnswer::Suspect { .. });
        let is_over = self.given_up.is_some()
            || self.links.iter().any(is_suspect)
            || self.next_kind() == Some(SourceKind::Person);
        (is_over || self.is_stopped()).then(|| self.weigh())
    }

    fn next_kind(&self) -> Option<SourceKind> {
        Some(self.sources.get(self.links.len())?.kind)
    }

    /// The answer of a source that the event itself answers; `None` for others.
    fn own_answer(&self, source: &Source) -> Option<SourceAnswer> {
        let read = |read: Result<ReadValue, String>| match read {
            Ok(value) => SourceAnswer::Answered {
                confidence: value.confidence,
                note: format!("read {:?}", value.text),
                data: json!({"read": value.text}),
            },
            Err(why) => SourceAnswer::no_answer(why),
        };
        match (source.kind, source.name.as_str()) {
            (SourceKind::Box, _) => Some(SourceAnswer::Answered {
                confidence: self.facts.confidence,
                note: "what the box observed".to_owned(),
                data: serde_json::Value::Null,
            }),
            (SourceKind::Reading, "code") => Some(read(self.facts.code())),
            (SourceKind::Reading, _) => Some(read(self.facts.text())),
            (SourceKind::Unknown, name) => Some(SourceAnswer::failed(format!(
                "there is no look-up {name}; add a section [agent.lookups.{name}]"
            ))),
            _ => None,
        }
    }
}

/// The sources of a chain with their weights.
fn sources(spec: &DecideSpec, lookups: &BTreeMap<String, LookupConfig>) -> Vec<Source> {
    let mut lookups_before = 0;
    let names = spec.chain.iter().enumerate();
    let sources = names.map(|(nth, name)| {
        let kind = kind_of(name, lookups);
        let is_read_later = || {
            let later = spec.chain.iter().skip(nth + 1);
            let mut values = later.filter_map(|later| value_of(lookups.get(later)?));
            values.any(|value| is_read_by(name, kind, value))
        };
        let can_decide = match kind {
            SourceKind::Box | SourceKind::Person | SourceKind::Unknown => false,
            SourceKind::Reading | SourceKind::Fields => !is_read_later(),
            SourceKind::Lookup | SourceKind::Model => true,
        };
        let weight = spec.weights.get(name).copied();
        let weight = weight.unwrap_or_else(|| weigh::default_weight(kind, name, lookups_before));
        lookups_before += usize::from(matches!(kind, SourceKind::Lookup | SourceKind::Unknown));
        Source {
            name: name.clone(),
            kind,
            weight,
            can_decide,
        }
    });
    sources.collect()
}

fn kind_of(name: &str, lookups: &BTreeMap<String, LookupConfig>) -> SourceKind {
    match name {
        "box" => SourceKind::Box,
        "code" | "text" => SourceKind::Reading,
        "model" => SourceKind::Model,
        "person" => SourceKind::Person,
        other => match lookups.get(other).map(|lookup| &lookup.kind) {
            Some(LookupKind::Http(_) | LookupKind::Table(_)) => SourceKind::Lookup,
            Some(LookupKind::Fields(_)) => SourceKind::Fields,
            None => SourceKind::Unknown,
        },
    }
}

fn value_of(lookup: &LookupConfig) -> Option<&LookupValue> {
    match &lookup.kind {
        LookupKind::Http(http) => Some(&http.value),
        LookupKind::Table(table) => Some(&table.value),
        LookupKind::Fields(_) => None,
    }
}

/// Whether a look-up of `value` reads what the source `name` found.
fn is_read_by(name: &str, kind: SourceKind, value: &LookupValue) -> bool {
    match value {
        LookupValue::Read => kind == SourceKind::Reading,
        LookupValue::Code => name == "code",
        LookupValue::Text => name == "text",
        LookupValue::Label => false,
        LookupValue::Field(_) => kind == SourceKind::Fields,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests;
