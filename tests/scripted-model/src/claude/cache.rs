//! The prompt cache, simulated by hashes of prefixes.
//!
//! - A prompt is a sequence of blocks: tools, system, messages.
//! - Each breakpoint stores its prefix, unless it is shorter than the model's minimum.
//! - A request reads the longest stored prefix that ends at one of its breakpoints or at most 20
//!   blocks before one.

use std::collections::BTreeMap;

use super::images;
use super::sign::without_breakpoints;
use crate::json::{list, text};
use crate::picture;
use crate::prefix::{self, Hash, Piece};
use serde_json::Value;

/// Number of blocks before a breakpoint that may end a cached prefix.
const LOOK_BACK: usize = 20;

/// Tokens of a prompt by their price.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Prompt {
    pub(super) fresh: u64,
    pub(super) read: u64,
    pub(super) written: u64,
}

/// Tokens of the stored prefixes by hash.
#[derive(Debug, Default)]
pub(super) struct Cache(BTreeMap<Hash, u64>);

impl Cache {
    /// Counts the tokens of a prompt and stores its marked prefixes.
    pub(super) fn account(&mut self, asked: &Value) -> Prompt {
        let model = text(asked, "model");
        let minimum = if model.contains("-4-5") { 4_096 } else { 512 };
        let blocks = blocks(asked);
        let pieces = blocks.iter().map(|(role, block)| Piece {
            content: format!("{role} {}", without_breakpoints(block)).into_bytes(),
            tokens: tokens_of(block),
        });
        let prefixes = prefix::prefixes(model, &pieces.collect::<Vec<_>>());
        let tokens = prefixes.last().map_or(0, |(_, upto)| *upto);
        let marks = blocks
            .iter()
            .map(|(_, block)| block.get("cache_control").is_some());
        let prefixes: Vec<(Hash, u64, bool)> = prefixes
            .into_iter()
            .zip(marks)
            .map(|((key, upto), is_mark)| (key, upto, is_mark))
            .collect();
        let (mut read, mut stored) = (0, 0);
        for (at, (_, upto, is_mark)) in prefixes.iter().enumerate() {
            if *is_mark {
                let seen = prefixes
                    .get(at.saturating_sub(LOOK_BACK)..=at)
                    .unwrap_or_default();
                let hits = seen.iter().filter_map(|(key, ..)| self.0.get(key));
                read = hits.copied().max().unwrap_or(0).max(read);
                if *upto >= minimum {
                    stored = *upto;
                }
            }
        }
        for (key, upto, is_mark) in prefixes {
            if is_mark && upto >= minimum {
                self.0.insert(key, upto);
            }
        }
        Prompt {
            fresh: tokens - stored.max(read),
            read,
            written: stored.saturating_sub(read),
        }
    }
}

/// Returns all blocks of a prompt in order, with their roles.
fn blocks(asked: &Value) -> Vec<(&str, &Value)> {
    let tools = list(asked, "tools").iter().map(|tool| ("tool", tool));
    let system = list(asked, "system").iter().map(|block| ("system", block));
    let messages = list(asked, "messages").iter().flat_map(|message| {
        let role = text(message, "role");
        list(message, "content")
            .iter()
            .map(move |block| (role, block))
    });
    tools.chain(system).chain(messages).collect()
}

fn tokens_of(block: &Value) -> u64 {
    match text(block, "type") {
        "image" => {
            let source = block.get("source").unwrap_or(&Value::Null);
            picture::squares(images::size(source).unwrap_or_default(), 28)
        }
        "tool_result" => 4 + list(block, "content").iter().map(tokens_of).sum::<u64>(),
        _ => prefix::tokens(without_breakpoints(block).to_string().len()),
    }
}
