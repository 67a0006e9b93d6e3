//! Failed attempts: the reason, and whether a retry makes sense.
//!
//! - A reason is one line of at most [`MAX_CHARS`] characters, without the secrets of its effect.

use std::fmt;
use std::time::Duration;

use watchkeeper_assistant::wording::single_line;
use watchkeeper_config::redact::Redactor;

/// Longest reason in characters; part of it may come from a server.
const MAX_CHARS: usize = 400;

/// Whether and when to retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Transient: retry, not earlier than the receiver's `Retry-After`.
    After(Option<Duration>),
    /// Transient, but a receiver that can't recognize a retry may have acted already: a few more
    /// tries at most.
    Unanswered,
    /// Permanent: a retry can't succeed.
    Never,
}

/// A failed attempt to execute an effect or to send a notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub retry: Retry,
    /// Reason as one sentence; safe to show after [`Self::redacted`].
    pub why: String,
}

impl Fault {
    /// Transient fault, to be retried.
    pub fn transient(why: impl Into<String>) -> Self {
        Self {
            retry: Retry::After(None),
            why: why.into(),
        }
    }

    /// Fault of a request that was sent and not answered.
    pub(super) fn unanswered(why: impl fmt::Display) -> Self {
        Self {
            retry: Retry::Unanswered,
            why: format!("{why}; it may have been sent"),
        }
    }

    /// Permanent fault, not to be retried.
    pub fn permanent(why: impl Into<String>) -> Self {
        Self {
            retry: Retry::Never,
            why: why.into(),
        }
    }

    /// Hides the secrets of `redactor`, joins lines and cuts the reason to [`MAX_CHARS`].
    #[must_use]
    pub fn redacted(self, redactor: &Redactor) -> Self {
        // Before the cut, which could split a secret.
        let why = single_line(&redactor.text(&self.why));
        Self {
            retry: self.retry,
            why: why.chars().take(MAX_CHARS).collect(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_is_redacted_joined_and_cut() {
        let said = format!("no:\r\nhunter2 is wrong, {}", "x".repeat(1000));
        let fault = Fault::transient(said).redacted(&Redactor::new(["hunter2".to_owned()]));
        assert!(fault.why.starts_with("no:  *** is wrong"), "{fault}");
        assert_eq!(fault.why.chars().count(), MAX_CHARS);
    }
}
