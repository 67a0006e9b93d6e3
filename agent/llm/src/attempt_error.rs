//! What goes wrong with one attempt, what the client does about it, and what the user can do.
//!
//! - Every kind has one clause that says what happened and one that says the remedy.
//! - A server's message is kept short and never holds the key ([`crate::key::Key::scrub`]).

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Maximum bytes of a server's message that are kept.
const MAX_MESSAGE: usize = 500;

/// Kind of a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptErrorKind {
    WrongKey,
    /// Nothing is paid, or the account's own spending limit is reached.
    Billing,
    Forbidden,
    /// No such model or path.
    NotFound,
    BadRequest,
    TooLarge,
    /// Too many requests or tokens a minute.
    RateLimited,
    Overloaded,
    Server,
    /// No connection was established.
    Unreachable,
    /// Connected, but no byte came within the idle timeout.
    Silent,
    /// The connection or the stream ended before the answer did.
    Broken,
    /// The answer does not follow the protocol, or a call's arguments are not JSON.
    Malformed,
    AnswerTooLarge,
    Refused,
    /// The answer was cut off within a call, which was not run.
    TruncatedCall,
    /// The conversation exceeds the model's context.
    ContextFull,
}

/// Whether the request is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryAdvice {
    /// The request would fail again.
    Never,
    /// After a back-off, while attempts and time last.
    Later,
    /// Once more, at once.
    Once,
    /// Once more, with a higher limit of output.
    Larger,
}

/// Consequence of an error for the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blame {
    /// The provider works.
    None,
    /// The provider fails at the moment.
    Fails,
    /// The provider refuses every request until the operator acts.
    RefusesAll,
    /// The provider refuses this model until the operator acts.
    RefusesModel,
}

impl AttemptErrorKind {
    /// Returns what happened, one clause.
    pub const fn what(self) -> &'static str {
        match self {
            Self::WrongKey => "the model provider does not accept the key",
            Self::Billing => {
                "the account with the model provider has no credit or reached its spending limit"
            }
            Self::Forbidden => "the key may not use this model",
            Self::NotFound => "the model or the address does not exist",
            Self::BadRequest => "the provider rejects the request as invalid",
            Self::TooLarge => "the request is too large for the provider",
            Self::RateLimited => "the provider limits the rate of requests",
            Self::Overloaded => "the provider is overloaded",
            Self::Server => "the provider failed",
            Self::Unreachable => "the model provider can't be reached",
            Self::Silent => "the provider stopped answering",
            Self::Broken => "the connection broke before the answer was complete",
            Self::Malformed => "the model's answer could not be read",
            Self::AnswerTooLarge => "the answer is larger than any that is accepted",
            Self::Refused => "the model refused to answer",
            Self::TruncatedCall => {
                "the answer was cut off before its first word or within a tool call, which was not run"
            }
            Self::ContextFull => "the conversation is too long for the model",
        }
    }

    /// Returns what the user can do, one clause.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::WrongKey => "put a valid key into the credential or the configuration",
            Self::Billing => "add credit or raise the limit on the provider's site",
            Self::Forbidden => {
                "grant it the permission on the provider's site, or configure another key or model"
            }
            Self::NotFound => "check the model's id and the base URL in the configuration",
            Self::BadRequest => {
                "check the model's capabilities in the model file, and report it if they are right"
            }
            Self::TooLarge => "send fewer or smaller pictures, or start a new conversation",
            Self::RateLimited => {
                "wait a few minutes, lower `llm.calls_per_hour`, or raise the account's limits on the provider's site"
            }
            Self::Overloaded => "wait a few minutes",
            Self::Server => {
                "try again in a few minutes; if it persists, check `llm.base_url` and the provider's status page"
            }
            Self::Unreachable => {
                "check the network, the proxy and the base URL in the configuration"
            }
            Self::Silent => {
                "try again in a few minutes; if it persists, check the network between here and the provider"
            }
            Self::Broken => {
                "try again; if it persists, check the network and any proxy between here and the provider"
            }
            Self::Malformed => "try again, or configure another model",
            Self::AnswerTooLarge => "check that the base URL is that of a model provider",
            Self::Refused => "word the request differently, or decide by hand",
            Self::TruncatedCall => "ask for less at once, or allow more output tokens",
            Self::ContextFull => "start a new one",
        }
    }

    /// Returns whether the request is sent again.
    pub(crate) const fn retry_advice(self) -> RetryAdvice {
        match self {
            Self::RateLimited
            | Self::Overloaded
            | Self::Server
            | Self::Unreachable
            | Self::Silent
            | Self::Broken => RetryAdvice::Later,
            Self::Malformed => RetryAdvice::Once,
            Self::TruncatedCall => RetryAdvice::Larger,
            Self::WrongKey
            | Self::Billing
            | Self::Forbidden
            | Self::NotFound
            | Self::BadRequest
            | Self::TooLarge
            | Self::AnswerTooLarge
            | Self::Refused
            | Self::ContextFull => RetryAdvice::Never,
        }
    }

    /// Returns what it says about the provider.
    pub(crate) const fn blame(self) -> Blame {
        match self {
            Self::WrongKey | Self::Billing | Self::Forbidden => Blame::RefusesAll,
            Self::NotFound => Blame::RefusesModel,
            Self::RateLimited
            | Self::Overloaded
            | Self::Server
            | Self::Unreachable
            | Self::Silent
            | Self::Broken => Blame::Fails,
            Self::BadRequest
            | Self::TooLarge
            | Self::Malformed
            | Self::AnswerTooLarge
            | Self::Refused
            | Self::TruncatedCall
            | Self::ContextFull => Blame::None,
        }
    }

    /// Returns the kind of an HTTP status whose body says nothing that the protocol defines.
    pub(crate) const fn of_status(status: u16) -> Self {
        match status {
            401 => Self::WrongKey,
            402 => Self::Billing,
            403 => Self::Forbidden,
            300..=399 | 404 | 405 | 410 => Self::NotFound,
            413 => Self::TooLarge,
            429 => Self::RateLimited,
            408 | 504 => Self::Silent,
            529 => Self::Overloaded,
            409 | 500..=599 => Self::Server,
            _ => Self::BadRequest,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptError {
    pub kind: AttemptErrorKind,
    /// Message of the server or the system; may be empty.
    pub message: String,
    /// Whether the message is the body of a refusal, which only the log and the trace show.
    pub is_body: bool,
    /// Shortest pause before the next request, as the server asks for it.
    pub retry_after: Option<Duration>,
    /// The server's own advice on sending the request again; overrides [`AttemptErrorKind`]'s.
    pub should_retry: Option<bool>,
    /// The provider's id of the request, for its support.
    pub request_id: Option<String>,
}

impl AttemptError {
    /// Returns the error for an event, answer or part that does not follow the protocol.
    pub(crate) fn malformed(what: &str, error: &serde_json::Error) -> Self {
        Self::new(AttemptErrorKind::Malformed, format!("{what}: {error}"))
    }

    pub fn new(kind: AttemptErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: shortened(message.into()),
            is_body: false,
            retry_after: None,
            should_retry: None,
            request_id: None,
        }
    }

    /// An error whose message is the body of a refusal.
    pub(crate) fn of_body(kind: AttemptErrorKind, message: impl Into<String>) -> Self {
        Self {
            is_body: true,
            ..Self::new(kind, message)
        }
    }

    /// Returns the error with all that the server said, for the log and the trace.
    pub fn in_full(&self) -> String {
        let id = self.request_id.as_ref();
        let id = id.map_or_else(String::new, |id| format!(" [request {id}]"));
        match self.is_body && !self.message.is_empty() {
            true => format!("{self}: {}{id}", self.message),
            false => format!("{self}{id}"),
        }
    }

    /// Returns whether the request is sent again.
    pub(crate) fn retry_advice(&self) -> RetryAdvice {
        match (self.kind.retry_advice(), self.should_retry) {
            (RetryAdvice::Later, Some(false)) => RetryAdvice::Never,
            (advice, _) => advice,
        }
    }
}

impl fmt::Display for AttemptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.what())?;
        if !self.message.is_empty() && !self.is_body {
            write!(f, " ({})", self.message)?;
        }
        write!(f, "; {}", self.kind.remedy())
    }
}

impl std::error::Error for AttemptError {}

/// Returns one line of at most [`MAX_MESSAGE`] bytes without control characters, for logs and
/// terminals.
fn shortened(message: String) -> String {
    let clean = message
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c });
    let mut out = String::new();
    for c in clean {
        if out.len() + c.len_utf8() > MAX_MESSAGE {
            out.push('…');
            break;
        }
        out.push(c);
    }
    out.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_names_a_remedy_in_one_sentence() {
        use AttemptErrorKind as Kind;
        for kind in [
            Kind::WrongKey,
            Kind::Billing,
            Kind::Forbidden,
            Kind::NotFound,
            Kind::BadRequest,
            Kind::TooLarge,
            Kind::RateLimited,
            Kind::Overloaded,
            Kind::Server,
            Kind::Unreachable,
            Kind::Silent,
            Kind::Broken,
            Kind::Malformed,
            Kind::AnswerTooLarge,
            Kind::Refused,
            Kind::TruncatedCall,
            Kind::ContextFull,
        ] {
            let sentence = AttemptError::new(kind, "x").to_string();
            assert!(
                !kind.remedy().is_empty() && !sentence.contains(". "),
                "{sentence}"
            );
        }
    }

    #[test]
    fn body_of_a_refusal_is_shown_in_full_only() {
        let error = AttemptError {
            request_id: Some("r1".to_owned()),
            ..AttemptError::of_body(AttemptErrorKind::Server, "<html>")
        };
        let said = error.to_string();
        assert!(!said.contains("<html>") && !said.contains("r1"), "{said}");
        assert_eq!(error.in_full(), format!("{said}: <html> [request r1]"));
    }

    #[test]
    fn server_message_becomes_one_short_line() {
        let message = AttemptError::new(
            AttemptErrorKind::Server,
            format!("a\nb\u{1b}[31m{}", "ü".repeat(900)),
        )
        .message;
        assert!(
            message.starts_with("a b [31m") && message.len() <= MAX_MESSAGE + 3,
            "{}",
            message.len()
        );
    }
}
