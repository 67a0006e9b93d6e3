//! One record of the audit log as one line.
//!
//! The line is the canonical JSON that was hashed, with the member `hash` added at its end. So a
//! number is never printed in two ways.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use watchkeeper_contract::canonical::canonical;
use watchkeeper_store::chain::{Hash, link};

/// Longest record, in bytes. A longer entry is replaced by its length and hash.
pub const MAX_RECORD: usize = 256 * 1024;
const HASH_PREFIX: &str = ",\"hash\":\"";
const HASH_SUFFIX: &str = "\"}";
const HASH_DIGITS: usize = 64;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct AuditRecord {
    pub(super) seq: u64,
    pub(super) hash: Hash,
    /// The text that was hashed.
    pub(super) canonical: String,
    /// The record without its hash.
    pub(super) value: Value,
}

impl AuditRecord {
    /// Makes the record with number `seq` after the one with the hash `previous`.
    pub(super) fn encode(mut entry: Map<String, Value>, seq: u64, previous: &Hash) -> Self {
        entry.insert("seq".to_owned(), json!(seq));
        let mut value = Value::Object(entry);
        let mut text = canonical(&value);
        if text.len() > MAX_RECORD {
            let left_out = json!({
                "left_out_bytes": text.len(), "sha256": Hash::of(text.as_bytes()).to_string(),
            });
            value["of"] = left_out;
            text = canonical(&value);
        }
        Self {
            seq,
            hash: link(previous, &text),
            canonical: text,
            value,
        }
    }

    /// Returns the record as a line with its line feed.
    pub(super) fn line(&self) -> String {
        let body = self.canonical.strip_suffix('}').unwrap_or_default();
        format!("{body}{HASH_PREFIX}{}{HASH_SUFFIX}\n", self.hash)
    }

    /// Decodes a line without its line feed; `None` if it is not a record.
    pub(super) fn decode(line: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(line).ok()?;
        let rest = text.strip_suffix(HASH_SUFFIX)?;
        let (body, digits) = rest.split_at_checked(rest.len().checked_sub(HASH_DIGITS)?)?;
        let body = body.strip_suffix(HASH_PREFIX)?;
        let canonical = format!("{body}}}");
        let value: Value = serde_json::from_str(&canonical).ok()?;
        Some(Self {
            seq: value.get("seq")?.as_u64()?,
            // Upper case digits are not what was written.
            hash: Hash::parse(digits).filter(|hash| hash.to_string() == digits)?,
            canonical,
            value,
        })
    }

    pub(super) fn at(&self) -> Option<Timestamp> {
        self.value.get("at")?.as_str()?.parse().ok()
    }
}
