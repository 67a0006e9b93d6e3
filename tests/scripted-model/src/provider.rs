//! What every provider's protocol here can do.

use std::fmt::Debug;

use crate::exchange::NeutralRequest;
use crate::http::{Answer, Request};
use crate::script::Step;

/// A refusal, before it is put into the provider's words.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    /// The provider's word for the kind of fault.
    pub(crate) kind: &'static str,
    pub(crate) message: String,
    /// The provider's word for the very fault, where it has two.
    pub(crate) code: Option<&'static str>,
    /// The member that it is about, where the provider names it.
    pub(crate) param: Option<String>,
    /// Whether the request broke the contract; a wrong key does not.
    pub(crate) is_violation: bool,
}

impl Refusal {
    pub(crate) fn new(status: u16, kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            message: message.into(),
            code: None,
            param: None,
            is_violation: true,
        }
    }

    /// With this code.
    pub(crate) fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// About this member.
    pub(crate) fn about(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// No violation: the caller could not know better.
    pub(crate) fn without_violation(mut self) -> Self {
        self.is_violation = false;
        self
    }

    /// 400 with this message, in the words of Claude and of OpenAI.
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(400, "invalid_request_error", message)
    }
}

/// How an answer comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// As one JSON document.
    Whole,
    /// As server-sent events.
    Events,
    /// As lines of JSON.
    Lines,
}

impl Form {
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Whole => "application/json",
            Self::Events => "text/event-stream; charset=utf-8",
            Self::Lines => "application/x-ndjson",
        }
    }

    /// What may come before an answer and means nothing in it: while somebody thinks, a connection is not to look dead.
    pub(crate) const fn idle(self) -> &'static [u8] {
        match self {
            Self::Whole | Self::Lines => b"\n",
            Self::Events => b": thinking\n\n",
        }
    }
}

/// One provider's protocol: what it refuses, and how it words what a step says.
pub(crate) trait Provider: Debug + Send {
    /// Refuses what the provider would refuse; `key` is the one that it accepts, where one is asked for.
    fn check(&self, request: &Request, key: Option<&str>) -> Result<(), Refusal>;

    /// A refusal in the provider's words.
    fn refusal(&self, refused: &Refusal) -> Answer;

    /// How the answer to a request that is in order comes.
    fn form(&self, request: &Request) -> Form;

    /// What a request that is in order asks, in words that belong to no provider.
    fn asked(&self, request: &Request) -> NeutralRequest;

    /// The answer to a request that is in order, the `number`-th that is answered.
    fn play(&mut self, request: &Request, step: &Step, number: u64) -> Answer;
}

/// An answer without a stream.
pub(crate) fn plain(status: u16, content_type: &str, body: String) -> Answer {
    Answer {
        status,
        headers: vec![
            ("content-type", content_type.to_owned()),
            ("request-id", "req_scripted".to_owned()),
        ],
        body: body.into_bytes(),
        chunk: 1 << 16,
        ..Answer::default()
    }
}
