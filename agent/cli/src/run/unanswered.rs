//! How long a run asks a runtime that does not answer.

use std::time::{Duration, Instant};

use watchkeeper_client::ClientError;

use crate::output::Output;

/// How long polls may stay without an answer.
const UNANSWERED_TIMEOUT: Duration = Duration::from_secs(60);

/// Failed polls in a row.
#[derive(Debug, Default)]
pub(super) struct UnansweredPolls {
    began: Option<Instant>,
}

impl UnansweredPolls {
    /// Returns whether the last poll had no answer.
    pub(super) fn is_waiting(&self) -> bool {
        self.began.is_some()
    }

    /// Does [`check`](Self::check) now, and notes the first poll without an answer.
    pub(super) fn check_and_note<T>(
        &mut self,
        answer: Result<T, ClientError>,
        out: &Output,
    ) -> Result<Option<T>, ClientError> {
        let was_waiting = self.is_waiting();
        let checked = self.check(answer, Instant::now());
        if self.is_waiting() && !was_waiting {
            let limit = UNANSWERED_TIMEOUT.as_secs();
            out.note(format!(
                "the runtime does not answer; the run waits up to {limit} s for it"
            ));
        }
        checked
    }

    /// Returns the answer to a poll; `None` for a failed one that the next may make up for.
    fn check<T>(
        &mut self,
        answer: Result<T, ClientError>,
        now: Instant,
    ) -> Result<Option<T>, ClientError> {
        match answer {
            Ok(answer) => {
                self.began = None;
                Ok(Some(answer))
            }
            Err(error) if error.is_transient() => {
                let began = *self.began.get_or_insert(now);
                let may_pass = now - began < UNANSWERED_TIMEOUT;
                if may_pass { Ok(None) } else { Err(error) }
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use watchkeeper_contract::problem::{Problem, ProblemCode};

    use super::*;

    fn refused(status: u16) -> Result<(), ClientError> {
        let problem = Problem::new(status, ProblemCode::NotFound, "refused");
        Err(ClientError::Refused(Box::new(problem)))
    }

    #[test]
    fn run_outlasts_failed_polls_for_a_while() {
        let failed = || -> Result<(), ClientError> {
            Err(ClientError::Timeout {
                request: "GET /v1/pipelines/watch".to_owned(),
                after: Duration::from_secs(10),
            })
        };
        let (mut unanswered, start) = (UnansweredPolls::default(), Instant::now());
        assert!(matches!(unanswered.check(failed(), start), Ok(None)));
        assert!(unanswered.is_waiting());
        let late = start + UNANSWERED_TIMEOUT;
        assert!(matches!(unanswered.check(Ok(()), late), Ok(Some(()))));
        assert!(!unanswered.is_waiting());
        assert!(matches!(unanswered.check(failed(), late), Ok(None)));
        assert!(
            unanswered
                .check(failed(), late + UNANSWERED_TIMEOUT)
                .is_err()
        );
    }

    #[test]
    fn refused_poll_ends_the_run_and_busy_runtime_does_not() {
        let now = Instant::now();
        let mut unanswered = UnansweredPolls::default();
        assert!(matches!(unanswered.check(refused(429), now), Ok(None)));
        let mut unanswered = UnansweredPolls::default();
        assert!(unanswered.check(refused(404), now).is_err());
        assert!(!unanswered.is_waiting(), "it answered");
    }
}
