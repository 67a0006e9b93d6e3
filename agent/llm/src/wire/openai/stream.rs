//! An answer that comes as events.
//!
//! The last one (`response.completed`, `.incomplete` or `.failed`) holds the whole answer; those before it are to be shown. Items are collected all the
//! same, for servers whose last event leaves them out. Without a last event there is no answer.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::fault::ErrorWords;
use super::read::Response;
use crate::fault::{Fault, FaultKind};
use crate::reply::Reply;
use crate::usage::Usage;
use crate::wire::decode::{Piece, not_understood};
use crate::wire::refusal::Words as _;

/// Most items in one answer.
const MAX_ITEMS: u32 = 1_000;

/// Reads the events of one answer.
#[derive(Debug, Default)]
pub(in crate::wire) struct Stream {
    items: BTreeMap<u32, Box<RawValue>>,
    last: Option<Response>,
}

#[derive(Deserialize)]
struct Kind {
    r#type: String,
}

#[derive(Deserialize)]
struct Delta {
    delta: String,
}

#[derive(Deserialize)]
struct ItemEvent {
    output_index: u32,
    item: Box<RawValue>,
}

#[derive(Deserialize)]
struct Added {
    r#type: String,
    #[serde(default)]
    name: Option<String>,
}

#[derive(Deserialize)]
struct Last {
    response: Response,
}

impl Stream {
    /// Takes one event; its name stands in its data too.
    pub(in crate::wire) fn event(
        &mut self,
        name: &str,
        data: &str,
    ) -> Result<Option<Piece>, Fault> {
        if data == "[DONE]" {
            return Ok(None);
        }
        let wrong = |e: serde_json::Error| not_understood(name, &e);
        let Kind { r#type } = serde_json::from_str(data).map_err(wrong)?;
        match r#type.as_str() {
            "response.output_text.delta" => {
                let Delta { delta } = serde_json::from_str(data).map_err(wrong)?;
                return Ok(Some(Piece::Text(delta)));
            }
            "response.reasoning_summary_text.delta" => {
                let Delta { delta } = serde_json::from_str(data).map_err(wrong)?;
                return Ok(Some(Piece::Thinking(delta)));
            }
            "response.output_item.added" => {
                let ItemEvent { item, .. } = serde_json::from_str(data).map_err(wrong)?;
                let added: Added = serde_json::from_str(item.get()).map_err(wrong)?;
                let call = added.name.filter(|_| added.r#type == "function_call");
                return Ok(call.map(|name| Piece::Call { name }));
            }
            "response.output_item.done" => {
                let ItemEvent { output_index, item } = serde_json::from_str(data).map_err(wrong)?;
                if output_index >= MAX_ITEMS {
                    return Err(Fault::new(FaultKind::AnswerTooLarge, "over 1000 items"));
                }
                self.items.insert(output_index, item);
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                let Last { response } = serde_json::from_str(data).map_err(wrong)?;
                self.last = Some(response);
            }
            "error" => {
                let error: ErrorWords = serde_json::from_str(data).map_err(wrong)?;
                return Err(error.fault(FaultKind::Server));
            }
            _ => {}
        }
        Ok(None)
    }

    pub(in crate::wire) fn usage(&self) -> Usage {
        self.last
            .as_ref()
            .map_or_else(Usage::default, Response::usage)
    }

    /// The answer.
    pub(in crate::wire) fn finish(self) -> Result<Reply, Fault> {
        let mut last = self
            .last
            .ok_or_else(|| Fault::new(FaultKind::Broken, "no response.completed"))?;
        if last.output.is_empty() {
            last.output = self.items.into_values().collect();
        }
        last.reply()
    }
}
