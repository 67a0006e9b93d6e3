//! Sends one assessment to the runtime, until its journal has it.

use std::time::Duration;

use watchkeeper_client::RuntimeClient;
use watchkeeper_client::backoff::Backoff;
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::problem::{Problem, ProblemCode};
use watchkeeper_contract::review::NewAssessment;

/// First pause after a failed request.
const RETRY_FIRST: Duration = Duration::from_secs(1);
/// Longest pause between two requests.
const RETRY_CEILING: Duration = Duration::from_secs(60);

/// Whether a repeated request would be refused again.
fn is_final(problem: &Problem) -> bool {
    (400..500).contains(&problem.status) && problem.code != ProblemCode::Limit
}

/// Sends until the runtime has recorded the assessment, or refuses it for good.
pub(crate) async fn record_assessment(runtime: RuntimeClient, seq: EventSeq, new: NewAssessment) {
    let mut backoff = Backoff::new(RETRY_FIRST, RETRY_CEILING, fastrand::u64(..));
    loop {
        match runtime.record_assessment(seq, &new).await {
            Ok(()) => return,
            Err(error) if error.problem().is_some_and(is_final) => {
                tracing::warn!(event = seq.0, %error, "assessment not recorded");
                return;
            }
            Err(error) => {
                tracing::debug!(event = seq.0, %error, "assessment not recorded; retrying");
                tokio::time::sleep(backoff.next_delay()).await;
            }
        }
    }
}
