//! An answer that comes piece by piece: bytes in, progress out, and at the end the answer.
//!
//! Invariant: whatever was given as progress, only [`Decoder::finish`] gives an answer, and only of a stream that came to its own end.

use super::{Protocol, claude, gemini, openai};
use crate::fault::{Fault, FaultKind};
use crate::reply::Reply;
use crate::sse::{SseEvent, SseParser};
use crate::usage::Usage;

/// Largest streamed answer that is taken, in bytes. 128,000 tokens of output, in pieces with a frame each, are some 25 MB.
const MAX_ANSWER: usize = 32 << 20;

/// Something to show while an answer comes. It may yet be taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// More of what it thinks.
    Thinking(String),
    /// More text.
    Text(String),
    /// A call has begun.
    Call {
        /// The tool.
        name: String,
    },
}

#[derive(Debug)]
enum Words {
    Claude(claude::Stream),
    Openai(openai::Stream),
    Gemini(gemini::Stream),
}

/// Reads one streamed answer.
#[derive(Debug)]
pub struct Decoder {
    sse: SseParser,
    words: Words,
    received: usize,
}

impl Decoder {
    /// One for an answer in `protocol`.
    #[must_use]
    pub fn new(protocol: Protocol) -> Self {
        Self {
            sse: SseParser::default(),
            words: match protocol {
                Protocol::Claude => Words::Claude(claude::Stream::default()),
                Protocol::Openai => Words::Openai(openai::Stream::default()),
                Protocol::Gemini => Words::Gemini(gemini::Stream::default()),
            },
            received: 0,
        }
    }

    /// Adds bytes of the answer; gives what there is to show.
    ///
    /// # Errors
    /// When the provider reports a failure in the middle, or says what is no answer. The decoder is of no more use then, but for
    /// [`Decoder::usage`].
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Piece>, Fault> {
        self.received = self.received.saturating_add(bytes.len());
        if self.received > MAX_ANSWER {
            return Err(Fault::new(FaultKind::AnswerTooLarge, "over 32 MiB"));
        }
        let mut events = Vec::new();
        let fed = self.sse.feed(bytes, &mut events);
        let mut pieces = Vec::new();
        for SseEvent { name, data } in events {
            let piece = match &mut self.words {
                Words::Claude(words) => words.event(&name, &data),
                Words::Openai(words) => words.event(&name, &data),
                Words::Gemini(words) => words.event(&data),
            }?;
            pieces.extend(piece);
        }
        // After the events before it: what they say must not depend on where the bytes were cut.
        fed.map_err(|e| Fault::new(FaultKind::Malformed, e.to_string()))?;
        Ok(pieces)
    }

    /// What has been consumed as far as the stream said so.
    #[must_use]
    pub fn usage(&self) -> Usage {
        match &self.words {
            Words::Claude(words) => words.usage(),
            Words::Openai(words) => words.usage(),
            Words::Gemini(words) => words.usage(),
        }
    }

    /// The answer, after the last byte.
    ///
    /// # Errors
    /// When the stream ended before the answer did, or holds a call that can't be run.
    pub fn finish(self) -> Result<Reply, Fault> {
        match self.words {
            Words::Claude(words) => words.finish(),
            Words::Openai(words) => words.finish(),
            Words::Gemini(words) => words.finish(),
        }
    }
}

/// Data of an event that is not in the protocol's words.
pub(super) fn not_understood(what: &str, error: &serde_json::Error) -> Fault {
    Fault::new(FaultKind::Malformed, format!("{what}: {error}"))
}
