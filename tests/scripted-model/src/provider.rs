//! The interface of a provider's protocol.

use std::fmt::Debug;

use crate::exchange::NeutralRequest;
use crate::http::{Answer, Request};
use crate::script::Step;

/// A refusal, before the provider words it.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    /// Kind of error in the provider's words.
    pub(crate) kind: &'static str,
    pub(crate) message: String,
    /// Error code, where the provider has one beside the kind.
    pub(crate) code: Option<&'static str>,
    /// Member of the request at fault, where the provider names it.
    pub(crate) param: Option<String>,
    /// Whether the request broke the contract; a wrong key does not break it.
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

    /// Sets the error code.
    pub(crate) fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// Sets the member at fault.
    pub(crate) fn about(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// Marks a refusal that the client could not have avoided.
    pub(crate) fn without_violation(mut self) -> Self {
        self.is_violation = false;
        self
    }

    /// Status 400 in the words of Claude and of OpenAI.
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(400, "invalid_request_error", message)
    }
}

/// Transfer format of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// One JSON document.
    Whole,
    /// Server-sent events, `text/event-stream`.
    Events,
    /// Lines of JSON.
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

    /// Bytes without meaning in the protocol, which keep a connection alive before the answer.
    pub(crate) const fn idle(self) -> &'static [u8] {
        match self {
            Self::Whole | Self::Lines => b"\n",
            Self::Events => b": thinking\n\n",
        }
    }
}

/// One provider's protocol: its refusals, and its wording of a step.
pub(crate) trait Provider: Debug + Send {
    /// Refuses what the provider would refuse. `key` is the accepted one; absent: any.
    fn check(&self, request: &Request, key: Option<&str>) -> Result<(), Refusal>;

    /// Renders a refusal in the provider's words.
    fn refusal(&self, refused: &Refusal) -> Answer;

    /// Transfer format of the answer to a valid request.
    fn form(&self, request: &Request) -> Form;

    /// Translates a valid request into provider-neutral form.
    fn asked(&self, request: &Request) -> NeutralRequest;

    /// Renders the answer to a valid request; `number` counts the server's answers from 1.
    fn play(&mut self, request: &Request, step: &Step, number: u64) -> Answer;
}

/// Builds an answer that is not streamed.
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
