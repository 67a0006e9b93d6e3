//! How long a run asks a runtime that does not answer.

use std::time::{Duration, Instant};

use watchkeeper_client::ClientError;

use crate::output::Output;

/// How long polls may stay without an answer.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);

/// Failed polls in a row.
#[derive(Debug, Default)]
pub(super) struct Silence {
    began: Option<Instant>,
}

impl Silence {
    /// Returns whether the last poll had no answer.
    pub(super) fn is_on(&self) -> bool {
        self.began.is_some()
    }

    /// Does [`check`](Self::check) now, and notes the begin of a silence.
    pub(super) fn noted<T>(
        &mut self,
        answer: Result<T, ClientError>,
        out: &Output,
    ) -> Result<Option<T>, ClientError> {
        let was_on = self.is_on();
        let checked = self.check(answer, Instant::now());
        if self.is_on() && !was_on {
            let limit = SILENCE_TIMEOUT.as_secs();
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
                let may_pass = now - began < SILENCE_TIMEOUT;
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
    fn run_outlasts_failed_polls_until_the_silence_is_too_long() {
        let failed = || -> Result<(), ClientError> {
            Err(ClientError::Timeout {
                request: "GET /v1/pipelines/watch".to_owned(),
                after: Duration::from_secs(10),
            })
        };
        let (mut silence, start) = (Silence::default(), Instant::now());
        assert!(matches!(silence.check(failed(), start), Ok(None)));
        assert!(silence.is_on());
        let late = start + SILENCE_TIMEOUT;
        assert!(matches!(silence.check(Ok(()), late), Ok(Some(()))));
        assert!(!silence.is_on());
        assert!(matches!(silence.check(failed(), late), Ok(None)));
        assert!(silence.check(failed(), late + SILENCE_TIMEOUT).is_err());
    }

    #[test]
    fn refused_poll_ends_the_run_at_once_and_a_busy_runtime_does_not() {
        let now = Instant::now();
        let mut silence = Silence::default();
        assert!(matches!(silence.check(refused(429), now), Ok(None)));
        let mut silence = Silence::default();
        assert!(silence.check(refused(404), now).is_err());
        assert!(!silence.is_on(), "it answered");
    }
}
