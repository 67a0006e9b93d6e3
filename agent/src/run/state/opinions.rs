//! The queue of second opinions with the call in progress.
//!
//! - One event is asked about at a time; a panic of the task that asks is its missing answer.
//! - Not here: which event is next (`second_opinion::queue`), what is stored (`handlers`).

use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::json;
use watchkeeper_contract::id::EventId;

use crate::future_slot::take_output;
use crate::second_opinion::queue::{Input, Output};
use crate::second_opinion::weigh::Weighed;
use crate::second_opinion::{Answer, Asker, Case, Counts, NoAnswer, Outcome, Queue};

/// The answer to the question about one event, or why there is none.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) id: EventId,
    pub(crate) answer: Result<Answer, NoAnswer>,
}

/// State of second opinions.
pub(crate) struct Opinions {
    queue: Queue,
    /// Absent where no model is configured.
    asker: Option<Arc<Asker>>,
    asking: Option<BoxFuture<'static, Answered>>,
    counts: Counts,
}

impl Opinions {
    pub(crate) fn new(queue: Queue, asker: Option<Arc<Asker>>) -> Self {
        Self {
            queue,
            asker,
            asking: None,
            counts: Counts::default(),
        }
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    pub(crate) fn handle(&mut self, now: Instant, input: Input) {
        self.queue.handle(now, input);
    }

    pub(crate) fn poll(&mut self) -> Option<Output> {
        self.queue.poll()
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.queue.deadline()
    }

    /// Waits for the call in progress. Dropping this future loses nothing.
    pub(crate) async fn answered(&mut self) -> Answered {
        take_output(&mut self.asking).await
    }

    /// Starts to ask about `case`, where a model is configured.
    pub(crate) fn start_asking(&mut self, case: Case) {
        let Some(asker) = &self.asker else {
            return;
        };
        tracing::debug!(event = %case.event.id, "asking for a second opinion");
        let id = case.event.id;
        let task = tokio::spawn(Arc::clone(asker).ask(case));
        let answered = task.map(move |done| Answered {
            id,
            answer: done
                .unwrap_or_else(|died| Err(format!("the task that asks died: {died}").into())),
        });
        self.asking = Some(answered.boxed());
    }

    /// Counts, logs and traces a weighed answer.
    pub(crate) fn record(
        &mut self,
        case: &Case,
        answer: &Result<Answer, NoAnswer>,
        weighed: &Weighed,
    ) {
        let event = case.event.id;
        let reason = &weighed.decision.reason;
        self.counts.count(weighed.outcome, answer.as_ref().ok());
        match weighed.outcome {
            Outcome::Stands => tracing::debug!(%event, reason, "second opinion"),
            outcome => tracing::info!(%event, ?outcome, reason, "second opinion"),
        }
        if let (Some(asker), Ok(answer)) = (&self.asker, answer) {
            let details = json!({
                "sentence": reason, "event": event, "outcome": weighed.outcome,
                "opinion": answer.opinion, "model": answer.model, "usd": answer.cost.dollars(),
            });
            let trace = &asker.model.trace;
            drop(trace.note_or_log_in_background("opinion", details));
        }
    }

    /// Counts and logs an opinion that the runtime refused.
    pub(crate) fn count_refused(&mut self, event: EventId) {
        self.counts.refused += 1;
        tracing::error!(%event, "second opinion refused; sent again after the next start");
    }

    /// Events that never got an answer, since the agent's start.
    pub(crate) fn without_answer(&self) -> u64 {
        self.counts.without_answer
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            asks: self.asker.is_some(),
            waiting: self.queue.waiting_count(),
            ..self.counts
        }
    }
}
