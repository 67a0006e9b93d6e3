//! Signatures of thoughts.
//!
//! A signature covers the thought and everything before it: system, tools, earlier messages and earlier blocks of its own turn. Breakpoints of the cache are not
//! part of that. So an edited history is refused here as it is by the provider.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{list, text};
use crate::provider::Refused;

/// Stands for the provider's secret.
const SECRET: &[u8] = b"scripted";

/// The signature of `thought`, after `before` in a turn that answers `asked` from its `messages`-th message on.
pub(super) fn signature(asked: &Value, messages: usize, before: &[Value], thought: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(SECRET);
    for part in [asked.get("system"), asked.get("tools")] {
        hash.update(bare(part.unwrap_or(&Value::Null)).to_string());
    }
    for message in list(asked, "messages").iter().take(messages) {
        hash.update(bare(message).to_string());
    }
    for block in before {
        hash.update(bare(block).to_string());
    }
    hash.update(thought);
    let bytes: Vec<String> = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
    bytes.concat()
}

/// Refuses thoughts that are not what was said, where it was said.
pub(super) fn check(asked: &Value) -> Result<(), Refused> {
    for (at, message) in list(asked, "messages").iter().enumerate() {
        if text(message, "role") != "assistant" {
            continue;
        }
        let content = list(message, "content");
        for (n, block) in content.iter().enumerate() {
            let before = content.get(..n).unwrap_or_default();
            if text(block, "type") == "thinking"
                && text(block, "signature") != signature(asked, at, before, text(block, "thinking"))
            {
                let message = format!(
                    "messages.{at}.content.{n}: Invalid `signature` in `thinking` block. The block is bound to a different conversation"
                );
                return Err(Refused::bad(message));
            }
        }
    }
    Ok(())
}

/// Without breakpoints.
pub(super) fn bare(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .filter(|(name, _)| *name != "cache_control")
            .map(|(name, value)| (name.clone(), bare(value)))
            .collect(),
        Value::Array(items) => items.iter().map(bare).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}
