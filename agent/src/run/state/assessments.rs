//! Sends second opinions to the runtime, which records them; one at a time, until it has them.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use watchkeeper_client::RuntimeClient;
use watchkeeper_client::backoff::Backoff;
use watchkeeper_contract::id::EventId;
use watchkeeper_contract::problem::{Problem, ProblemCode};
use watchkeeper_store::Op;

use super::future_slot::take_output;
use crate::second_opinion::pending::{PendingAssessment, PendingAssessments};

/// First pause after a failed request.
const RETRY_FIRST: Duration = Duration::from_secs(1);
/// Longest pause between two requests.
const RETRY_CEILING: Duration = Duration::from_secs(60);

/// The assessments with the request in progress.
pub(crate) struct Assessments {
    pending: PendingAssessments,
    sending: Option<BoxFuture<'static, EventId>>,
}

impl Assessments {
    pub(crate) fn new(pending: PendingAssessments) -> Self {
        Self {
            pending,
            sending: None,
        }
    }

    /// Adds an assessment; returns the operations that store it.
    pub(crate) fn add(&mut self, id: EventId, pending: PendingAssessment) -> Vec<Op> {
        self.pending.add(id, pending)
    }

    /// The assessment of event `id` is on stable storage, so it may be sent.
    pub(crate) fn stored(&mut self, id: EventId) {
        self.pending.stored(id);
    }

    /// Starts to send the oldest stored assessment, unless one is being sent.
    pub(crate) fn send_next(&mut self, runtime: &RuntimeClient) {
        if self.sending.is_none()
            && let Some((id, pending)) = self.pending.oldest()
        {
            let sending = send(runtime.clone(), pending).map(move |()| id);
            self.sending = Some(sending.boxed());
        }
    }

    /// Waits for the end of the request in progress. Dropping this future loses nothing.
    pub(crate) async fn sent(&mut self) -> EventId {
        take_output(&mut self.sending).await
    }

    /// Removes an assessment that was sent; returns the operation that deletes it.
    pub(crate) fn remove(&mut self, id: EventId) -> Op {
        self.pending.remove(id)
    }
}

/// Whether a repeated request would be refused again.
fn is_final(problem: &Problem) -> bool {
    (400..500).contains(&problem.status) && problem.code != ProblemCode::Limit
}

/// Sends until the runtime has recorded the assessment, or refuses it for good.
async fn send(runtime: RuntimeClient, PendingAssessment { seq, new }: PendingAssessment) {
    let mut backoff = Backoff::new(RETRY_FIRST, RETRY_CEILING, fastrand::u64(..));
    loop {
        match runtime.record_assessment(seq, &new).await {
            Ok(()) => return,
            Err(error) if error.problem().is_some_and(is_final) => {
                tracing::warn!(event = seq.0, %error, "second opinion not recorded");
                return;
            }
            Err(error) => {
                tracing::debug!(event = seq.0, %error, "second opinion not recorded; retrying");
                tokio::time::sleep(backoff.next_delay()).await;
            }
        }
    }
}
