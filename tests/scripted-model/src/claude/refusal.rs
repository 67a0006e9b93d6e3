//! Answers that are not replies of the model, and the transfer formats of answers.

use crate::http::Answer;

/// A refusal; [`answer_to`](super::answer_to) is its answer.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    /// Type of the error.
    pub(crate) kind: &'static str,
    pub(crate) message: String,
    /// Whether the request broke the contract; a wrong key does not break it.
    pub(crate) is_violation: bool,
}

impl Refusal {
    pub(crate) fn new(status: u16, kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            message: message.into(),
            is_violation: true,
        }
    }

    /// Marks a refusal that the client could not have avoided.
    pub(crate) fn without_violation(mut self) -> Self {
        self.is_violation = false;
        self
    }

    /// A refusal with status 400 and the usual kind.
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
}

impl Form {
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Whole => "application/json",
            Self::Events => "text/event-stream; charset=utf-8",
        }
    }

    /// Bytes without meaning in the protocol, which keep a connection alive before the answer.
    pub(crate) const fn idle(self) -> &'static [u8] {
        match self {
            Self::Whole => b"\n",
            Self::Events => b": thinking\n\n",
        }
    }
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
