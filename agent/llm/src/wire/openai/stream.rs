//! Decodes a streamed answer.
//!
//! - The last event (`response.completed`, `.incomplete` or `.failed`) holds the whole answer; the
//!   deltas before it are skipped. Without a last event there is no answer.
//! - Items are collected for servers whose last event omits them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::error_body::ErrorBody;
use super::read::Response;
use crate::attempt_error::{AttemptError, AttemptErrorKind};
use crate::reply::Reply;
use crate::usage::Usage;
use crate::wire::refusal::ProviderError as _;

/// Maximum items of one answer.
const MAX_ITEMS: u32 = 1_000;

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
struct ItemEvent {
    output_index: u32,
    item: Box<RawValue>,
}

#[derive(Deserialize)]
struct Last {
    response: Response,
}

impl Stream {
    /// Takes one event; its data repeats its name.
    pub(in crate::wire) fn take_event(
        &mut self,
        name: &str,
        data: &str,
    ) -> Result<(), AttemptError> {
        if data == "[DONE]" {
            return Ok(());
        }
        let wrong = |e: serde_json::Error| AttemptError::malformed(name, &e);
        let Kind { r#type } = serde_json::from_str(data).map_err(wrong)?;
        match r#type.as_str() {
            "response.output_item.done" => {
                let ItemEvent { output_index, item } = serde_json::from_str(data).map_err(wrong)?;
                if output_index >= MAX_ITEMS {
                    return Err(AttemptError::new(
                        AttemptErrorKind::AnswerTooLarge,
                        "over 1000 items",
                    ));
                }
                self.items.insert(output_index, item);
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                let Last { response } = serde_json::from_str(data).map_err(wrong)?;
                self.last = Some(response);
            }
            "error" => {
                let error: ErrorBody = serde_json::from_str(data).map_err(wrong)?;
                return Err(error.to_attempt_error(AttemptErrorKind::Server));
            }
            _ => {}
        }
        Ok(())
    }

    pub(in crate::wire) fn usage(&self) -> Usage {
        self.last
            .as_ref()
            .map_or_else(Usage::default, Response::usage)
    }

    pub(in crate::wire) fn finish(self) -> Result<Reply, AttemptError> {
        let mut last = self
            .last
            .ok_or_else(|| AttemptError::new(AttemptErrorKind::Broken, "no response.completed"))?;
        if last.output.is_empty() {
            last.output = self.items.into_values().collect();
        }
        last.reply()
    }
}
