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
//! - Each source is asked once at most, and only below its `only_below`. A paid one is not asked
//!   again after a restart.
//! - Every order of answers, failures and restarts ends in one final state.
//! - The confidence is the weighted mean of the links: a failure counts with 0, and a source
//!   without an answer does not count.
//! - The box does not decide, nor does what was read where the chain has a look-up. A model alone
//!   makes nothing `act`.
//! - A chain discards nothing.

mod sources;
mod weigh;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use watchkeeper_config::{LookupConfig, LookupValue};
use watchkeeper_contract::event::Evidence;
use watchkeeper_contract::rule::{DecideSpec, Gates, StopAt};
use watchkeeper_contract::time::Wall;

use crate::source::{SourceAnswer, SourceResult, in_unit};
use crate::value::{EventFacts, ReadValue};
pub use sources::{Source, SourceKind};
use weigh::AskedSource;
pub use weigh::Final;

/// Next action of a chain.
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
    /// Fields that its sources read from the picture.
    #[serde(default)]
    field_names: Vec<String>,
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
    pub fn new(
        spec: &DecideSpec,
        gates: Gates,
        lookups: &BTreeMap<String, LookupConfig>,
        facts: EventFacts,
    ) -> Self {
        Self {
            sources: sources::sources(spec, lookups),
            field_names: sources::field_names(spec, lookups),
            stop_at: spec.stop_at.of(&gates),
            gates,
            facts,
            links: Vec::new(),
            is_asking: false,
            given_up: None,
        }
    }

    /// The chain of the language model alone.
    pub fn of_model(gates: Gates, facts: EventFacts) -> Self {
        let spec = DecideSpec {
            chain: vec![sources::MODEL.to_owned()],
            stop_at: StopAt::default(),
            code: None,
            text: None,
            weights: BTreeMap::new(),
        };
        Self::new(&spec, gates, &BTreeMap::new(), facts)
    }

    /// Returns the next action. Sources that need no I/O are answered here, at the time `now`.
    pub fn next(&mut self, now: Wall) -> Step {
        loop {
            if let Some(done) = self.done() {
                return Step::Done(done);
            }
            let Some(source) = self.sources.get(self.position()).cloned() else {
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
        if std::mem::take(&mut self.is_asking) && self.position() < self.sources.len() {
            self.push(result);
        }
    }

    /// The agent started again. A paid source that was being asked counts as failed.
    pub fn resume(&mut self, now: Wall) {
        let asked = self.sources.get(self.position()).filter(|_| self.is_asking);
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

    /// Why no more sources are asked.
    pub fn given_up(&self) -> Option<&str> {
        self.given_up.as_deref()
    }

    /// The cause and the result of the last source, if that failed.
    pub fn failure(&self) -> Option<(&str, &SourceResult)> {
        let result = &self.links.last()?.result;
        match &result.answer {
            SourceAnswer::Failed { cause } => Some((cause, result)),
            _ => None,
        }
    }

    /// The text of a value of the event, or of what its sources answered so far.
    ///
    /// # Errors
    /// A sentence if there is none.
    pub fn value(&self, value: &LookupValue) -> Result<String, String> {
        let found = match value {
            LookupValue::Read => return self.facts.read(),
            LookupValue::Code => return Ok(self.facts.code()?.text),
            LookupValue::Text => return Ok(self.facts.text()?.text),
            LookupValue::Label => {
                let label = self.facts.label.clone();
                return label.ok_or_else(|| "the event has no class".to_owned());
            }
            LookupValue::Field(name) => {
                let fields = self.data_of(|source| source.kind == SourceKind::Fields);
                fields.and_then(|fields| fields.get(name))
            }
            LookupValue::Column { lookup, column } => {
                let row = self.data_of(|source| source.name == *lookup);
                row.and_then(|data| data.get("row")?.get(column))
            }
        };
        found
            .and_then(plain_text)
            .ok_or_else(|| format!("no value of {value}"))
    }

    /// Data of the last answer of such a source.
    fn data_of(&self, is_it: impl Fn(&Source) -> bool) -> Option<&Value> {
        let links = self.links.iter().rev();
        let mut answers = links.filter(|link| self.sources.get(link.source).is_some_and(&is_it));
        answers.find_map(|link| match &link.result.answer {
            SourceAnswer::Answered { data, .. } => Some(data),
            _ => None,
        })
    }

    /// Index of the next source: without those whose `only_below` is reached.
    fn position(&self) -> usize {
        let after = self.links.last().map_or(0, |link| link.source + 1);
        let best = self.best();
        let mut rest = self.sources.iter().enumerate().skip(after);
        let next = rest.find(|(_, source)| source.only_below.is_none_or(|bound| best < bound));
        next.map_or(self.sources.len(), |(at, _)| at)
    }

    /// Highest confidence of the answers that can decide; 0 without one.
    fn best(&self) -> f64 {
        let deciding = self.asked_links().filter(|asked| asked.source.can_decide);
        deciding.fold(0.0, |best: f64, asked| match &asked.result.answer {
            SourceAnswer::Answered { confidence, .. } => best.max(*confidence),
            _ => best,
        })
    }

    /// Links so far, in the order of the chain.
    pub fn links(&self) -> Vec<Evidence> {
        let links = self.asked_links();
        links
            .map(|asked| asked.result.link(&asked.source.name, asked.source.weight))
            .collect()
    }

    /// Names of the sources that were asked.
    pub fn asked(&self) -> Vec<String> {
        self.asked_links()
            .map(|asked| asked.source.name.clone())
            .collect()
    }

    /// Names of the fields that its sources read from the picture; a person may enter them.
    pub fn field_names(&self) -> &[String] {
        &self.field_names
    }

    /// Cost in US dollars, and milliseconds, of all sources so far.
    pub fn spent(&self) -> (f64, u64) {
        self.links.iter().fold((0.0, 0), |(usd, ms), link| {
            let result = &link.result;
            (
                usd + result.cost_usd.unwrap_or(0.0),
                ms.saturating_add(result.took_ms),
            )
        })
    }

    fn asked_links(&self) -> impl Iterator<Item = AskedSource<'_>> {
        let links = self.links.iter();
        links.filter_map(|link| {
            let source = self.sources.get(link.source)?;
            let result = &link.result;
            Some(AskedSource { source, result })
        })
    }

    fn push(&mut self, mut result: SourceResult) {
        // What is not a number can't be stored.
        if let SourceAnswer::Answered { confidence, .. } = &mut result.answer {
            *confidence = in_unit(*confidence);
        }
        let source = self.position();
        self.links.push(Link { source, result });
    }

    /// The final state, if no further source is asked.
    fn done(&self) -> Option<Final> {
        let asked: Vec<AskedSource<'_>> = self.asked_links().collect();
        let is_over = self.given_up.is_some()
            || weigh::suspicion(&asked).is_some()
            || self.next_kind() == Some(SourceKind::Person);
        (is_over || weigh::is_enough(&asked, self.stop_at)).then(|| self.weigh())
    }

    fn weigh(&self) -> Final {
        let asked: Vec<AskedSource<'_>> = self.asked_links().collect();
        let is_person =
            self.next_kind() == Some(SourceKind::Person) && !weigh::is_enough(&asked, self.stop_at);
        let person = is_person.then(|| "the chain came to a person".to_owned());
        let left = weigh::suspicion(&asked)
            .or_else(|| self.given_up.clone())
            .or(person);
        weigh::weigh(&asked, &self.gates, left)
    }

    fn next_kind(&self) -> Option<SourceKind> {
        Some(self.sources.get(self.position())?.kind)
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
                data: Value::Null,
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

/// The text of a field or cell; `None` for a blank one and for a value that is not plain.
fn plain_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => (!text.trim().is_empty()).then(|| text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests;
