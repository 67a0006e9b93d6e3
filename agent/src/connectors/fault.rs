//! Why an effect was not done, and whether to try again.

use std::fmt;
use std::time::Duration;

use watchkeeper_config::redact::Redactor;

/// Longest sentence that is kept, in characters: a part of it is what a server said.
const MAX_CHARS: usize = 400;

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Transient: retry, not earlier than the receiver's `Retry-After`.
    After(Option<Duration>),
    /// Permanent: a retry cannot succeed.
    Never,
}

/// An effect that was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What to do.
    pub retry: Retry,
    /// One sentence, without anything secret.
    pub why: String,
}

impl Fault {
    /// One that may pass.
    pub fn later(why: impl Into<String>) -> Self {
        Self {
            retry: Retry::After(None),
            why: why.into(),
        }
    }

    /// One that will not.
    pub fn never(why: impl Into<String>) -> Self {
        Self {
            retry: Retry::Never,
            why: why.into(),
        }
    }

    /// The same without the secrets that `redactor` knows, on one line and not too long.
    #[must_use]
    pub fn without(self, redactor: &Redactor) -> Self {
        // What is cut off could be half of a secret, so it is hidden first.
        let why = redactor.text(&self.why);
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        Self {
            retry: self.retry,
            why: why.chars().map(plain).take(MAX_CHARS).collect(),
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
    fn what_a_server_said_is_told_without_the_secret_on_one_line_and_not_for_ever() {
        let said = format!("no:\r\nhunter2 is wrong, {}", "x".repeat(1000));
        let fault = Fault::later(said).without(&Redactor::new(["hunter2".to_owned()]));
        assert!(fault.why.starts_with("no:  *** is wrong"), "{fault}");
        assert_eq!(fault.why.chars().count(), MAX_CHARS);
    }
}
