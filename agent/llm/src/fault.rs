//! What can go wrong with one call, what is done about it, and what a person can do.
//!
//! Invariant: every kind has one sentence that says what to do, and stands in one row here: whether it is tried again, whether it
//! counts against the provider. What a server said is kept short and never holds the key (see [`crate::key::Key::scrub`]).

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Longest text of a server that is kept, in bytes.
const MAX_SAID: usize = 500;

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The key is not accepted.
    WrongKey,
    /// Nothing is paid, or the account's own limit of spending is reached.
    Billing,
    /// The key may not do this.
    Forbidden,
    /// No such model or path.
    NotFound,
    /// The request is not in order.
    BadRequest,
    /// The request is too large.
    TooLarge,
    /// Too many requests or tokens a minute.
    RateLimited,
    /// The provider has too much to do.
    Overloaded,
    /// The provider failed.
    Server,
    /// No connection.
    Unreachable,
    /// Connected, and then nothing came.
    Silent,
    /// The connection or the stream ended before the answer did.
    Broken,
    /// The answer is not in the protocol's words, or a call's arguments are no JSON.
    Malformed,
    /// The answer is larger than any that is of use.
    AnswerTooLarge,
    /// The model refused.
    Refused,
    /// The answer was cut off within a call, which was not run.
    TruncatedCall,
    /// The conversation no longer fits into the model.
    ContextFull,
}

/// Whether the same request is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// It would fail again.
    Never,
    /// After a while, as long as attempts and time last.
    Later,
    /// Once more: chance may help.
    Once,
    /// Once more, with room for more output.
    Larger,
}

/// What a fault says about the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// Nothing: it works.
    None,
    /// It fails at the moment.
    Fails,
    /// It will refuse everything until a person does something.
    RefusesAll,
    /// It will refuse this model until a person does something.
    RefusesModel,
}

struct Row {
    what: &'static str,
    remedy: &'static str,
    again: Again,
    blame: Blame,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [Self; 17] = [
        Self::WrongKey,
        Self::Billing,
        Self::Forbidden,
        Self::NotFound,
        Self::BadRequest,
        Self::TooLarge,
        Self::RateLimited,
        Self::Overloaded,
        Self::Server,
        Self::Unreachable,
        Self::Silent,
        Self::Broken,
        Self::Malformed,
        Self::AnswerTooLarge,
        Self::Refused,
        Self::TruncatedCall,
        Self::ContextFull,
    ];

    const fn row(self) -> Row {
        let (what, remedy, again, blame) = match self {
            Self::WrongKey => (
                "the model provider does not accept the key",
                "put a valid key into the credential or the configuration",
                Again::Never,
                Blame::RefusesAll,
            ),
            Self::Billing => (
                "the account with the model provider has no money or has reached its own limit",
                "top it up or raise the limit on the provider's site",
                Again::Never,
                Blame::RefusesAll,
            ),
            Self::Forbidden => (
                "the key may not use this model",
                "give it the permission on the provider's site, or configure another key or model",
                Again::Never,
                Blame::RefusesAll,
            ),
            Self::NotFound => (
                "the model or the address does not exist",
                "check the model's id and the base URL in the configuration",
                Again::Never,
                Blame::RefusesModel,
            ),
            Self::BadRequest => (
                "the provider does not take the request",
                "check that the model's capabilities in the model file are right, and report it if they are",
                Again::Never,
                Blame::None,
            ),
            Self::TooLarge => (
                "the request is too large for the provider",
                "send fewer or smaller pictures, or begin a new conversation",
                Again::Never,
                Blame::None,
            ),
            Self::RateLimited => (
                "the provider limits the rate of requests",
                "wait a few minutes, lower `calls an hour`, or raise the account's limits on the provider's site",
                Again::Later,
                Blame::Fails,
            ),
            Self::Overloaded => (
                "the provider is overloaded",
                "wait a few minutes; nothing is wrong here",
                Again::Later,
                Blame::Fails,
            ),
            Self::Server => (
                "the provider failed",
                "try again in a few minutes; if it stays so, check that `llm.base_url` is the provider's, and its status page",
                Again::Later,
                Blame::Fails,
            ),
            Self::Unreachable => (
                "the model provider can't be reached",
                "check the network, the proxy and the base URL in the configuration",
                Again::Later,
                Blame::Fails,
            ),
            Self::Silent => (
                "the provider stopped answering",
                "try again in a few minutes; if it stays so, check the network between here and the provider",
                Again::Later,
                Blame::Fails,
            ),
            Self::Broken => (
                "the connection broke before the answer was complete",
                "try again; if it stays so, check the network and any proxy between here and the provider",
                Again::Later,
                Blame::Fails,
            ),
            Self::Malformed => (
                "the model's answer could not be read",
                "try again, or configure another model",
                Again::Once,
                Blame::None,
            ),
            Self::AnswerTooLarge => (
                "the answer is larger than what is accepted",
                "check that the base URL is that of a model provider",
                Again::Never,
                Blame::None,
            ),
            Self::Refused => (
                "the model refused to answer",
                "word the request differently, or decide by hand",
                Again::Never,
                Blame::None,
            ),
            Self::TruncatedCall => (
                "the answer was cut off before its first word or in the middle of a tool call, which was not run",
                "ask for less at once, or allow more output tokens",
                Again::Larger,
                Blame::None,
            ),
            Self::ContextFull => (
                "the conversation is too long for the model",
                "begin a new one",
                Again::Never,
                Blame::None,
            ),
        };
        Row {
            what,
            remedy,
            again,
            blame,
        }
    }

    /// What happened, one clause.
    #[must_use]
    pub const fn what(self) -> &'static str {
        self.row().what
    }

    /// What a person can do, one clause.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        self.row().remedy
    }

    /// Whether the request is sent again.
    #[must_use]
    pub const fn again(self) -> Again {
        self.row().again
    }

    /// What it says about the provider.
    #[must_use]
    pub const fn blame(self) -> Blame {
        self.row().blame
    }

    /// The kind of an HTTP status that comes without a word of the provider's own.
    #[must_use]
    pub const fn of_status(status: u16) -> Self {
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

/// One failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What went wrong.
    pub kind: FaultKind,
    /// What the server or the system said about it; may be empty.
    pub said: String,
    /// How long the server wants to be left alone.
    pub retry_after: Option<Duration>,
    /// The server's own word on whether the request should be sent again; it goes before ours.
    pub server_says_again: Option<bool>,
    /// The provider's id of the request, for its support.
    pub request_id: Option<String>,
}

impl Fault {
    /// A fault with what was said about it.
    #[must_use]
    pub fn new(kind: FaultKind, said: impl Into<String>) -> Self {
        Self {
            kind,
            said: shortened(said.into()),
            retry_after: None,
            server_says_again: None,
            request_id: None,
        }
    }

    /// Whether the same request is worth sending again.
    #[must_use]
    pub fn again(&self) -> Again {
        match (self.kind.again(), self.server_says_again) {
            (Again::Later, Some(false)) => Again::Never,
            (again, _) => again,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.what())?;
        if !self.said.is_empty() {
            write!(f, " ({})", self.said)?;
        }
        if let Some(id) = &self.request_id {
            write!(f, " [request {id}]")?;
        }
        write!(f, "; {}", self.kind.remedy())
    }
}

impl std::error::Error for Fault {}

/// One line of at most [`MAX_SAID`] bytes without control characters: it goes to logs and terminals.
fn shortened(said: String) -> String {
    let clean = said.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut out = String::new();
    for c in clean {
        if out.len() + c.len_utf8() > MAX_SAID {
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
    fn every_kind_says_what_to_do_in_one_sentence() {
        for kind in FaultKind::ALL {
            let sentence = Fault::new(kind, "x").to_string();
            assert!(
                !kind.remedy().is_empty() && !sentence.contains(". "),
                "{sentence}"
            );
        }
    }

    #[test]
    fn what_a_server_says_is_one_short_line() {
        let said = Fault::new(
            FaultKind::Server,
            format!("a\nb\u{1b}[31m{}", "ü".repeat(900)),
        )
        .said;
        assert!(
            said.starts_with("a b [31m") && said.len() <= MAX_SAID + 3,
            "{}",
            said.len()
        );
    }
}
