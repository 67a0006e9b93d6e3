//! Decodes a streamed answer.
//!
//! - Order: `message_start`; for each block `content_block_start`, deltas and `content_block_stop`;
//!   then `message_delta` and `message_stop`.
//! - Events and deltas of unknown kinds are skipped. Without `message_stop` there is no answer.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::block::OpenBlock;
use super::error_body;
use super::read::{StopBody, UsageBody, turn};
use crate::attempt_error::{AttemptError, AttemptErrorKind};
use crate::raw_json::RawJson;
use crate::reply::{Reply, StopReason};
use crate::usage::Usage;

/// Maximum blocks of one answer.
const MAX_BLOCKS: u32 = 1_000;

#[derive(Debug, Default)]
pub(in crate::wire) struct Stream {
    id: String,
    model: String,
    usage: Usage,
    open: BTreeMap<u32, OpenBlock>,
    /// Blocks that ended: complete, or with arguments that are not JSON.
    closed: BTreeMap<u32, Result<RawJson, String>>,
    stop: Option<StopReason>,
    is_complete: bool,
}

#[derive(Deserialize)]
struct MessageStart {
    message: StartedMessage,
}

#[derive(Deserialize)]
struct StartedMessage {
    id: String,
    model: String,
    #[serde(default)]
    usage: UsageBody,
}

#[derive(Deserialize)]
struct BlockStart<'e> {
    index: u32,
    #[serde(borrow)]
    content_block: &'e RawValue,
}

#[derive(Deserialize)]
struct BlockDelta<'e> {
    index: u32,
    #[serde(borrow)]
    delta: &'e RawValue,
}

#[derive(Deserialize)]
struct BlockStop {
    index: u32,
}

#[derive(Deserialize)]
struct MessageDelta {
    delta: StopBody,
    #[serde(default)]
    usage: UsageBody,
}

impl Stream {
    pub(in crate::wire) fn take_event(
        &mut self,
        name: &str,
        data: &str,
    ) -> Result<(), AttemptError> {
        let wrong = |e: serde_json::Error| AttemptError::malformed(name, &e);
        match name {
            "message_start" => {
                let MessageStart { message } = serde_json::from_str(data).map_err(wrong)?;
                message.usage.update(&mut self.usage);
                self.id = message.id;
                self.model = message.model;
            }
            "content_block_start" => {
                let start: BlockStart<'_> = serde_json::from_str(data).map_err(wrong)?;
                if start.index >= MAX_BLOCKS {
                    return Err(AttemptError::new(
                        AttemptErrorKind::AnswerTooLarge,
                        "over 1000 blocks",
                    ));
                }
                let block = OpenBlock::new(start.content_block.get()).map_err(wrong)?;
                self.open.insert(start.index, block);
            }
            "content_block_delta" => {
                let delta: BlockDelta<'_> = serde_json::from_str(data).map_err(wrong)?;
                let block = self.open.get_mut(&delta.index);
                let block = block.ok_or_else(|| no_block(delta.index))?;
                block.add(delta.delta.get()).map_err(wrong)?;
            }
            "content_block_stop" => {
                let BlockStop { index } = serde_json::from_str(data).map_err(wrong)?;
                let block = self.open.remove(&index).ok_or_else(|| no_block(index))?;
                let block = block.close().map_err(|e| e.to_string());
                self.closed.insert(index, block);
            }
            "message_delta" => {
                let MessageDelta { delta, usage } = serde_json::from_str(data).map_err(wrong)?;
                usage.update(&mut self.usage);
                self.stop = delta.stop().or_else(|| self.stop.take());
            }
            "message_stop" => self.is_complete = true,
            "error" => return Err(error_body::read(None, data.as_bytes())),
            // `ping` and future events.
            _ => {}
        }
        Ok(())
    }

    pub(in crate::wire) fn usage(&self) -> Usage {
        self.usage
    }

    /// Returns the answer. Arguments that are not JSON are a truncated call where the output was
    /// cut off, and malformed elsewhere.
    pub(in crate::wire) fn finish(self) -> Result<Reply, AttemptError> {
        let (Some(stop), true) = (self.stop, self.is_complete) else {
            return Err(AttemptError::new(
                AttemptErrorKind::Broken,
                "no message_stop",
            ));
        };
        if !self.open.is_empty() {
            return Err(AttemptError::new(
                AttemptErrorKind::Malformed,
                "a block without an end",
            ));
        }
        let mut items = Vec::new();
        for block in self.closed.into_values() {
            match (block, &stop) {
                (Ok(block), _) => items.push(block),
                // A refused answer is not used.
                (Err(_), StopReason::Refusal { .. }) => {}
                (Err(_), StopReason::ContextFull) => {
                    return Err(AttemptError::new(AttemptErrorKind::ContextFull, ""));
                }
                (Err(why), StopReason::MaxOutput | StopReason::Other(_)) => {
                    return Err(AttemptError::new(AttemptErrorKind::TruncatedCall, why));
                }
                (
                    Err(why),
                    StopReason::End
                    | StopReason::ToolUse
                    | StopReason::StopSequence(_)
                    | StopReason::Pause,
                ) => {
                    let why = format!("arguments of a call: {why}");
                    return Err(AttemptError::new(AttemptErrorKind::Malformed, why));
                }
            }
        }
        Ok(Reply {
            id: self.id,
            model: self.model,
            turn: turn(items)?,
            stop,
            usage: self.usage,
        })
    }
}

fn no_block(index: u32) -> AttemptError {
    AttemptError::new(
        AttemptErrorKind::Malformed,
        format!("block {index} was never started"),
    )
}
