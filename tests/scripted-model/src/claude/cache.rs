//! The prompt cache, simulated by the hashes of prefixes.
//!
//! A prompt is a row of blocks: tools, system, messages. At each breakpoint the prefix is stored; a request reads the longest stored prefix that ends at one of its
//! breakpoints or up to 20 blocks before one. Prefixes under the model's minimum are not stored.

use std::collections::BTreeMap;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::sign::bare;
use super::{images, list, text};

/// Blocks before a breakpoint that are looked at.
const LOOK_BACK: usize = 20;

/// Tokens of a prompt.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Prompt {
    pub(super) fresh: u64,
    pub(super) read: u64,
    pub(super) written: u64,
}

/// What is stored: tokens by hash of a prefix.
#[derive(Debug, Default)]
pub(super) struct Cache(BTreeMap<[u8; 32], u64>);

impl Cache {
    /// Accounts a prompt and stores what it marks.
    pub(super) fn account(&mut self, asked: &Value) -> Prompt {
        let model = text(asked, "model");
        let minimum = if model.contains("-4-5") { 4_096 } else { 512 };
        let mut prefixes = Vec::new();
        let mut hash = Sha256::new();
        hash.update(model);
        let mut tokens = 0;
        for (role, block) in row(asked) {
            hash.update(role);
            hash.update(bare(block).to_string());
            tokens += tokens_of(block);
            let is_mark = block.get("cache_control").is_some();
            let key: [u8; 32] = hash.clone().finalize().into();
            prefixes.push((key, tokens, is_mark));
        }
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

/// All blocks of a prompt in their order, with whose they are.
fn row(asked: &Value) -> Vec<(&str, &Value)> {
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
            let (width, height) = images::size(source).unwrap_or_default();
            u64::from(width.div_ceil(28)) * u64::from(height.div_ceil(28))
        }
        "tool_result" => 4 + list(block, "content").iter().map(tokens_of).sum::<u64>(),
        _ => (bare(block).to_string().len() as u64).div_ceil(4),
    }
}
