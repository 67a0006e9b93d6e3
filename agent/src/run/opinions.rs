//! The second opinion within the loop: hands records to the queue, has a task ask, tells what came of it.
//!
//! Invariant: the loop never waits for a model. A broker hears each word, a channel those that change what it was told. What is kept of an event is stored with whatever tells of it, in one change: its record with the mark that it waits, its word
//! with the mark that it has it.

use std::time::Instant;

use futures_util::FutureExt as _;
use serde_json::json;
use watchkeeper_contract::event::{Event as Record, Verdict};
use watchkeeper_contract::id::EventId;

use super::{Agent, AgentError, Rider};
use crate::fleet::mqtt::payload::{MAX_PAYLOAD, opinion_draft};
use crate::fleet::outbox;
use crate::notify::message::Own;
use crate::second_opinion::weigh::weigh;
use crate::second_opinion::{Answer, Case, Outcome, on_disk, queue};
use watchkeeper_client::clock::{age, wall_now};

/// What came of asking about one event.
#[derive(Debug)]
pub(super) struct Answered {
    id: EventId,
    answer: Result<Answer, String>,
}

impl Agent {
    /// A record of the journal came. What is to be kept of it rides along with it.
    pub(super) fn consider(&mut self, record: &Record) -> Result<(), AgentError> {
        if !self.opinions.wants(record) {
            return Ok(());
        }
        let asks = record.decision.verdict == Verdict::Escalate;
        if asks && serde_json::to_vec(record).map_or(0, |json| json.len()) > MAX_PAYLOAD {
            tracing::warn!(id = %record.id, "the event is too large for a second opinion");
            return Ok(());
        }
        let input = queue::Input::Record {
            event: Box::new(record.clone()),
            age: age(record.at, wall_now()),
        };
        self.opinions.handle(Instant::now(), input);
        self.drain_opinions()
    }

    pub(super) fn on_answer(&mut self, Answered { id, answer }: Answered) {
        let answer = Box::new(answer);
        let input = queue::Input::Answered { id, answer };
        self.opinions.handle(Instant::now(), input);
    }

    /// What is due, and what has become possible.
    pub(super) fn settle_opinions(&mut self, now: Instant) -> Result<(), AgentError> {
        if self.opinions.deadline().is_some_and(|due| due <= now) {
            self.opinions.handle(now, queue::Input::Tick);
        }
        self.drain_opinions()?;
        match self.riders.is_empty() {
            true => Ok(()),
            false => self.tell_outbox(outbox::Input::Carry),
        }
    }

    /// Does what the queue wants done.
    fn drain_opinions(&mut self) -> Result<(), AgentError> {
        while let Some(output) = self.opinions.poll() {
            match output {
                queue::Output::Keep { id, version, kept } => {
                    self.riders.push(on_disk::rider(id, kept));
                    self.riding.push(Rider::Opinion(id, version));
                }
                queue::Output::Ask(case) => self.ask_about(*case),
                queue::Output::Tell(case, answer) => self.tell_opinion(&case, &answer)?,
            }
        }
        Ok(())
    }

    fn ask_about(&mut self, case: Case) {
        // What is marked as asked has its word after the next start: it may have been asked about.
        let (Some(asker), false) = (&self.asker, self.is_stopping) else {
            return;
        };
        tracing::debug!(event = %case.event.id, "asking for a second opinion");
        let id = case.event.id;
        let task = tokio::spawn(asker.clone().ask(case));
        let outcome = task.map(move |done| Answered {
            id,
            answer: done.unwrap_or_else(|died| Err(format!("the task that asks died: {died}"))),
        });
        self.opining = Some(outcome.boxed());
    }

    fn tell_opinion(
        &mut self,
        case: &Case,
        answer: &Result<Answer, String>,
    ) -> Result<(), AgentError> {
        let weighed = weigh(case, answer);
        let event = case.event.id;
        self.opined.count(weighed.outcome, answer.is_ok());
        match weighed.outcome {
            Outcome::Stands => {
                tracing::debug!(%event, reason = weighed.decision.reason, "second opinion");
            }
            outcome => {
                tracing::info!(%event, ?outcome, reason = weighed.decision.reason, "second opinion");
            }
        }
        if let (Some(asker), Ok(answer)) = (&self.asker, answer) {
            let particulars = json!({
                "sentence": weighed.decision.reason, "event": event, "outcome": weighed.outcome,
                "opinion": answer.opinion, "model": answer.model, "usd": answer.cost.dollars(),
            });
            asker.note("opinion", particulars);
        }
        let at = wall_now();
        let draft = opinion_draft(case, answer, &weighed, at);
        // Who was told that the box is not sure is told what became of it, not that nothing did.
        if let (Some(telling), Outcome::Raised | Outcome::Lowered) =
            (&self.telling, weighed.outcome)
        {
            let own = Own::of_opinion(case, &weighed, at, draft.payload.clone());
            let (ops, owing) = telling.owe(own);
            self.riders.extend(ops);
            self.riding.push(Rider::Own(owing));
        }
        match self.broker {
            Some(_) => self.tell_outbox(outbox::Input::Own(draft)),
            None => Ok(()),
        }
    }
}
