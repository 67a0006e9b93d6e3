//! Decoder of a streamed answer.
//!
//! - Only [`Decoder::finish`] gives an answer, and only of a stream that reached its own end.

use watchkeeper_outgoing::sse::{SseEvent, SseParser};

use super::{claude, gemini, openai};
use crate::attempt_error::{AttemptError, AttemptErrorKind};
use crate::protocol::Protocol;
use crate::reply::Reply;
use crate::usage::Usage;

/// Maximum bytes of a streamed answer: 128,000 tokens of output, each in its own event, are some 25
/// MB.
const MAX_ANSWER: usize = 32 << 20;

#[derive(Debug)]
enum ProtocolStream {
    Claude(claude::Stream),
    Openai(openai::Stream),
    Gemini(gemini::Stream),
}

/// Decodes one streamed answer.
#[derive(Debug)]
pub struct Decoder {
    sse: SseParser,
    stream: ProtocolStream,
    received: usize,
}

impl Decoder {
    pub fn new(protocol: Protocol) -> Self {
        Self {
            sse: SseParser::default(),
            stream: match protocol {
                Protocol::Claude => ProtocolStream::Claude(claude::Stream::default()),
                Protocol::Openai => ProtocolStream::Openai(openai::Stream::default()),
                Protocol::Gemini => ProtocolStream::Gemini(gemini::Stream::default()),
            },
            received: 0,
        }
    }

    /// Takes bytes of the answer.
    ///
    /// # Errors
    /// When the provider reports a failure, or an event does not follow the protocol. Afterwards
    /// only [`Decoder::usage`] is meaningful.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), AttemptError> {
        self.received = self.received.saturating_add(bytes.len());
        if self.received > MAX_ANSWER {
            return Err(AttemptError::new(
                AttemptErrorKind::AnswerTooLarge,
                "over 32 MiB",
            ));
        }
        let mut events = Vec::new();
        let fed = self.sse.feed(bytes, &mut events);
        for SseEvent { name, data, .. } in events {
            match &mut self.stream {
                ProtocolStream::Claude(stream) => stream.take_event(&name, &data),
                ProtocolStream::Openai(stream) => stream.take_event(&name, &data),
                ProtocolStream::Gemini(stream) => stream.take_event(&data),
            }?;
        }
        // After the events before it: the result must not depend on how the bytes were split.
        fed.map_err(|e| AttemptError::new(AttemptErrorKind::Malformed, e.to_string()))
    }

    /// Returns the usage that the stream has reported so far.
    pub fn usage(&self) -> Usage {
        match &self.stream {
            ProtocolStream::Claude(stream) => stream.usage(),
            ProtocolStream::Openai(stream) => stream.usage(),
            ProtocolStream::Gemini(stream) => stream.usage(),
        }
    }

    /// Returns the answer, after the last byte.
    ///
    /// # Errors
    /// When the stream ended before the answer did, or holds a call that can't be run.
    pub fn finish(self) -> Result<Reply, AttemptError> {
        match self.stream {
            ProtocolStream::Claude(stream) => stream.finish(),
            ProtocolStream::Openai(stream) => stream.finish(),
            ProtocolStream::Gemini(stream) => stream.finish(),
        }
    }
}
