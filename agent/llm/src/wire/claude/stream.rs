//! An answer that comes as events.
//!
//! Order: `message_start`, for each block `content_block_start`, pieces and `content_block_stop`, then `message_delta` and `message_stop`.
//! Events and pieces of unknown kinds are passed over. Without `message_stop` there is no answer.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::block::{Added, Open};
use super::fault::said;
use super::read::{StopWords, UsageWords, turn};
use crate::fault::{Fault, FaultKind};
use crate::raw_json::RawJson;
use crate::reply::{Reply, Stop};
use crate::usage::Usage;
use crate::wire::decode::{Piece, not_understood};

/// Most blocks in one answer.
const MAX_BLOCKS: u32 = 1_000;

/// Reads the events of one answer.
#[derive(Debug, Default)]
pub(in crate::wire) struct Stream {
    id: String,
    model: String,
    usage: Usage,
    open: BTreeMap<u32, Open>,
    /// Blocks that came to their end: whole, or with arguments that are no JSON.
    closed: BTreeMap<u32, Result<RawJson, String>>,
    stop: Option<Stop>,
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
    usage: UsageWords,
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
    delta: StopWords,
    #[serde(default)]
    usage: UsageWords,
}

#[derive(Deserialize)]
struct Named {
    r#type: String,
    #[serde(default)]
    name: Option<String>,
}

impl Stream {
    /// Takes one event.
    pub(in crate::wire) fn event(
        &mut self,
        name: &str,
        data: &str,
    ) -> Result<Option<Piece>, Fault> {
        let wrong = |e: serde_json::Error| not_understood(name, &e);
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
                    return Err(Fault::new(FaultKind::AnswerTooLarge, "over 1000 blocks"));
                }
                let block = Open::new(start.content_block.get()).map_err(wrong)?;
                self.open.insert(start.index, block);
                let named: Named =
                    serde_json::from_str(start.content_block.get()).map_err(wrong)?;
                let call = named.name.filter(|_| named.r#type == "tool_use");
                return Ok(call.map(|name| Piece::Call { name }));
            }
            "content_block_delta" => {
                let delta: BlockDelta<'_> = serde_json::from_str(data).map_err(wrong)?;
                let block = self.open.get_mut(&delta.index);
                let block = block.ok_or_else(|| no_block(delta.index))?;
                return Ok(match block.add(delta.delta.get()).map_err(wrong)? {
                    Added::Text(text) => Some(Piece::Text(text)),
                    Added::Thinking(text) => Some(Piece::Thinking(text)),
                    Added::Nothing => None,
                });
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
            "error" => return Err(said(None, data.as_bytes())),
            // `ping`, and whatever comes to be.
            _ => {}
        }
        Ok(None)
    }

    pub(in crate::wire) fn usage(&self) -> Usage {
        self.usage
    }

    /// The answer. Arguments that are no JSON are a call cut off where the output was cut off, and nonsense elsewhere.
    pub(in crate::wire) fn finish(self) -> Result<Reply, Fault> {
        let (Some(stop), true) = (self.stop, self.is_complete) else {
            return Err(Fault::new(FaultKind::Broken, "no message_stop"));
        };
        if !self.open.is_empty() {
            return Err(Fault::new(FaultKind::Malformed, "a block without an end"));
        }
        let mut items = Vec::new();
        for block in self.closed.into_values() {
            match (block, &stop) {
                (Ok(block), _) => items.push(block),
                // Nothing of a refused answer is used.
                (Err(_), Stop::Refusal { .. }) => {}
                (Err(_), Stop::ContextFull) => return Err(Fault::new(FaultKind::ContextFull, "")),
                (Err(why), Stop::MaxOutput | Stop::Other(_)) => {
                    return Err(Fault::new(FaultKind::TruncatedCall, why));
                }
                (Err(why), Stop::End | Stop::ToolUse | Stop::StopSequence(_) | Stop::Pause) => {
                    let why = format!("arguments of a call: {why}");
                    return Err(Fault::new(FaultKind::Malformed, why));
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

fn no_block(index: u32) -> Fault {
    Fault::new(
        FaultKind::Malformed,
        format!("block {index} was never begun"),
    )
}
