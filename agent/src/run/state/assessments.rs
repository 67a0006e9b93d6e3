//! Sends second opinions to the runtime, which records them; one at a time, until it has them.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use watchkeeper_client::RuntimeClient;
use watchkeeper_contract::id::EventId;
use watchkeeper_store::Op;

use crate::future_slot::take_output;
use crate::record_assessment::{SendEnd, record_assessment};
use crate::second_opinion::pending::{PendingAssessment, PendingAssessments};

/// The assessments with the request in progress.
pub(crate) struct Assessments {
    pub(crate) pending: PendingAssessments,
    sending: Option<BoxFuture<'static, (EventId, SendEnd)>>,
}

impl Assessments {
    pub(crate) fn new(pending: PendingAssessments) -> Self {
        Self {
            pending,
            sending: None,
        }
    }

    /// Starts to send the oldest stored assessment, unless one is being sent.
    pub(crate) fn send_next(&mut self, runtime: &RuntimeClient) {
        if self.sending.is_none()
            && let Some((id, pending)) = self.pending.oldest()
        {
            let PendingAssessment { seq, new } = pending;
            let sending = record_assessment(runtime.clone(), seq, new).map(move |end| (id, end));
            self.sending = Some(sending.boxed());
        }
    }

    /// Waits for the end of the request in progress. Dropping this future loses nothing.
    pub(crate) async fn sent(&mut self) -> (EventId, SendEnd) {
        take_output(&mut self.sending).await
    }

    /// Ends an assessment that was sent; returns the operation that deletes it. A refused one stays
    /// stored, and is sent again after the next start.
    pub(crate) fn end(&mut self, id: EventId, end: SendEnd) -> Option<Op> {
        match end {
            SendEnd::Recorded | SendEnd::EventGone => Some(self.pending.remove(id)),
            SendEnd::Refused => {
                self.pending.refuse(id);
                None
            }
        }
    }
}
