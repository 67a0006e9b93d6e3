//! Asks one source of a chain.
//!
//! - Each question has a time limit and ends in an answer; nothing is left open.
//! - A model sees a picture only where second opinions are turned on (`llm.second_opinion`).
//! - Tables and services need no picture.

use std::sync::Arc;
use std::time::{Duration, Instant};

use watchkeeper_client::clock::wall_now;
use watchkeeper_contract::event::Event;
use watchkeeper_contract::rule::reference_sets;
use watchkeeper_evidence::chain::{Chain, Source, SourceKind};
use watchkeeper_evidence::lookup::{Lookup, Lookups};
use watchkeeper_evidence::source::{SourceAnswer, SourceResult};
use watchkeeper_llm::money::Money;

use super::fields;
use crate::references::ReferenceService;
use crate::second_opinion::{Answer, Asker, NoAnswer};

/// Longest question: four tries of a minute with their pauses.
const TIME_LIMIT: Duration = Duration::from_secs(300);
/// Why a model is not asked.
const NO_MODEL: &str = "no language model may see pictures; set llm.second_opinion = true";

/// Dependencies of questions to sources.
#[derive(Debug, Clone)]
pub(crate) struct Sources {
    pub lookups: Arc<Lookups>,
    /// Absent if no model may see pictures.
    pub asker: Option<Arc<Asker>>,
    pub references: ReferenceService,
}

impl Sources {
    /// Asks `source` about an event.
    pub(crate) async fn ask(&self, source: &Source, event: &Event, chain: &Chain) -> SourceResult {
        let started = Instant::now();
        let question = self.find(source, event, chain);
        let found = tokio::time::timeout(TIME_LIMIT, question).await;
        let (answer, cost_usd) = found.unwrap_or_else(|_| {
            let limit = TIME_LIMIT.as_secs();
            (
                SourceAnswer::failed(format!("no answer within {limit} s")),
                None,
            )
        });
        SourceResult {
            answer,
            at: wall_now(),
            took_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            cost_usd,
        }
    }

    async fn find(
        &self,
        source: &Source,
        event: &Event,
        chain: &Chain,
    ) -> (SourceAnswer, Option<f64>) {
        let name = &source.name;
        match (source.kind, self.lookups.get(name)) {
            (SourceKind::Model, _) => self.ask_model(event).await,
            (SourceKind::Reference, _) => {
                let sets = reference_sets(name).unwrap_or_default();
                (self.references.answer(event, &sets).await, None)
            }
            (_, Some(Lookup::Fields(schema, question))) => match &self.asker {
                Some(asker) => fields::read(asker, event, schema, question.as_deref()).await,
                None => (SourceAnswer::failed(NO_MODEL), None),
            },
            (_, Some(lookup)) => (lookup.ask(chain).await, None),
            (_, None) => (
                SourceAnswer::failed(format!("there is no look-up {name}")),
                None,
            ),
        }
    }

    async fn ask_model(&self, event: &Event) -> (SourceAnswer, Option<f64>) {
        match self.opinion(event).await {
            Ok(answer) => (answer.to_source(), Some(answer.cost.dollars())),
            Err(no) => (SourceAnswer::failed(no.why), no.cost.map(Money::dollars)),
        }
    }

    /// Asks a model for its opinion on an event.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn opinion(&self, event: &Event) -> Result<Answer, NoAnswer> {
        match &self.asker {
            Some(asker) => asker.ask(event).await,
            None => Err(NO_MODEL.into()),
        }
    }
}
