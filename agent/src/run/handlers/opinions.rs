//! Second opinions: feeds their queue, asks, and reports the verdicts.
//!
//! Invariants:
//! - The loop never waits for a model.
//! - The broker receives every verdict, a channel only one that changes what it received before.
//! - What is stored of an event is in one batch with what is published of it.

use std::time::Instant;

use watchkeeper_client::clock::{age, wall_now};
use watchkeeper_contract::event::{Event as Record, Verdict};

use crate::fleet::mqtt::payload::{MAX_PAYLOAD, opinion_draft};
use crate::fleet::outbox;
use crate::notify::message::Notice;
use crate::run::state::opinions::Answered;
use crate::run::state::outbox::BatchOwner;
use crate::run::{Agent, AgentError};
use crate::second_opinion::assessment::new_assessment;
use crate::second_opinion::pending::PendingAssessment;
use crate::second_opinion::weigh::weigh;
use crate::second_opinion::{Answer, Case, NoAnswer, Outcome, on_disk, queue};

impl Agent {
    /// Offers `record` to the queue; what it stores joins the batch of the record.
    pub(super) fn consider(&mut self, record: &Record) -> Result<(), AgentError> {
        if !self.opinions.queue().wants(record) {
            return Ok(());
        }
        let asks = record.decision.verdict == Verdict::Escalate;
        if asks && serde_json::to_vec(record).map_or(0, |json| json.len()) > MAX_PAYLOAD {
            tracing::warn!(id = %record.id, "event too large for a second opinion");
            return Ok(());
        }
        let input = queue::Input::Record {
            event: Box::new(record.clone()),
            age: age(record.at, wall_now()),
        };
        self.opinions.handle(Instant::now(), input);
        self.drain_opinions()
    }

    pub(in crate::run) fn on_answer(&mut self, Answered { id, answer }: Answered) {
        let answer = Box::new(answer);
        let input = queue::Input::Answered { id, answer };
        self.opinions.handle(Instant::now(), input);
    }

    /// Does what is due, and stores what is staged.
    pub(in crate::run) fn settle_opinions(&mut self, now: Instant) -> Result<(), AgentError> {
        if self.opinions.deadline().is_some_and(|due| due <= now) {
            self.opinions.handle(now, queue::Input::Tick);
        }
        self.drain_opinions()?;
        match self.outbox.has_staged() {
            true => self.feed_outbox(outbox::Input::RequestChange),
            false => Ok(()),
        }
    }

    /// Does what the queue asks for.
    fn drain_opinions(&mut self) -> Result<(), AgentError> {
        while let Some(output) = self.opinions.poll() {
            match output {
                queue::Output::Save {
                    id,
                    version,
                    progress,
                } => {
                    let op = on_disk::save_op(id, progress);
                    self.outbox
                        .stage_for(BatchOwner::Opinion(id, version), [op]);
                }
                // A case stored as asked gets its verdict after the next start.
                queue::Output::Ask(_) if self.is_stopping => {}
                queue::Output::Ask(case) => self.opinions.start_asking(*case),
                queue::Output::Publish(case, answer) => self.report_opinion(&case, &answer)?,
            }
        }
        Ok(())
    }

    fn report_opinion(
        &mut self,
        case: &Case,
        answer: &Result<Answer, NoAnswer>,
    ) -> Result<(), AgentError> {
        let at = wall_now();
        let weighed = weigh(case, answer, at);
        self.opinions.record(case, answer, &weighed);
        let pending = PendingAssessment {
            seq: case.event.seq,
            new: new_assessment(case, answer, &weighed),
        };
        let id = case.event.id;
        let ops = self.assessments.pending.add(id, pending);
        self.outbox.stage_for(BatchOwner::Assessment(id), ops);
        let draft = opinion_draft(case, answer, &weighed, at);
        // Channels received the event as uncertain, so they get a verdict only if it changed.
        if matches!(weighed.outcome, Outcome::Raised | Outcome::Lowered) {
            let message = Notice {
                // What the model saw, in its words.
                by_model: answer
                    .as_ref()
                    .ok()
                    .map(|answer| answer.opinion.seen.clone()),
                ..Notice::of_opinion(case, &weighed, at, draft.payload.clone())
            };
            self.channels.stage(message, &mut self.outbox);
        }
        match self.mqtt.broker {
            Some(_) => self.feed_outbox(outbox::Input::Own(draft)),
            None => Ok(()),
        }
    }
}
