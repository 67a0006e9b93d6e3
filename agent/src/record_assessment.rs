//! Sends one assessment to the runtime, until its journal has it.
//!
//! - A request is repeated while the runtime is away, busy or out of disk. Only its refusal of the
//!   event or of the assessment ends that.
//! - The journal takes a repeated assessment once.
//! - Not here: what waits to be sent (`evidence`).

use std::time::Duration;

use watchkeeper_client::backoff::Backoff;
use watchkeeper_client::{ClientError, RuntimeClient};
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::problem::ProblemCode;
use watchkeeper_contract::review::NewAssessment;

/// First pause after a failed request.
const RETRY_FIRST: Duration = Duration::from_secs(1);
/// Longest pause between two requests.
const RETRY_CEILING: Duration = Duration::from_secs(60);

/// How sending ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendEnd {
    /// The journal has the assessment, by this request or an earlier one.
    Recorded,
    /// The journal no longer has the event, or it can't be assessed.
    EventGone,
    /// The request would be refused again. Another version of the runtime may take it.
    Refused,
}

/// How sending ends with this error; `None` if a repeated request may succeed.
fn end_of(error: &ClientError) -> Option<SendEnd> {
    let problem = error.problem().filter(|_| error.is_final())?;
    let is_of_record = problem.field.as_deref() == Some("seq");
    Some(match problem.code {
        // Not a path that an older runtime does not have.
        ProblemCode::NotFound if is_of_record => SendEnd::EventGone,
        ProblemCode::Conflict => SendEnd::EventGone,
        _ => SendEnd::Refused,
    })
}

/// Sends until the runtime has recorded the assessment, or refuses it for good.
pub(crate) async fn record_assessment(
    runtime: RuntimeClient,
    seq: EventSeq,
    new: NewAssessment,
) -> SendEnd {
    let mut backoff = Backoff::new(RETRY_FIRST, RETRY_CEILING, fastrand::u64(..));
    loop {
        let error = match runtime.record_assessment(seq, &new).await {
            Ok(()) => return SendEnd::Recorded,
            Err(error) => error,
        };
        if let Some(end) = end_of(&error) {
            tracing::warn!(event = seq.0, %error, "assessment not recorded");
            return end;
        }
        tracing::debug!(event = seq.0, %error, "assessment not recorded; retrying");
        tokio::time::sleep(backoff.next_delay()).await;
    }
}

#[cfg(test)]
mod tests {
    use watchkeeper_contract::problem::Problem;

    use super::*;

    #[test]
    fn only_a_missing_or_unfit_event_ends_an_assessment() {
        use ProblemCode::{Conflict, InvalidRequest, NotFound, Storage};
        for (status, code, field, expected) in [
            (404, NotFound, Some("seq"), Some(SendEnd::EventGone)),
            (409, Conflict, Some("seq"), Some(SendEnd::EventGone)),
            (404, NotFound, None, Some(SendEnd::Refused)),
            (400, InvalidRequest, None, Some(SendEnd::Refused)),
            (422, InvalidRequest, Some("links"), Some(SendEnd::Refused)),
            (408, InvalidRequest, None, None),
            (507, Storage, None, None),
        ] {
            let mut problem = Problem::new(status, code, "why");
            problem.field = field.map(str::to_owned);
            let error = ClientError::Refused(Box::new(problem));
            assert_eq!(end_of(&error), expected, "{status} {code:?}");
        }
    }
}
