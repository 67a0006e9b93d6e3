//! The hash chain: a record that was changed, removed or put in afterwards shows.
//!
//! `hash(n) = SHA-256( hex(hash(n-1)) ++ canonical(n) )`, where `canonical` is the event as JSON without its field
//! `hash`, keys sorted by their bytes, no white space; before the first record stands a hash of 64 zeros.
//! It shows tampering by somebody who can't recompute the chain from there on, and accidents; it is not a signature.
//! `watchkeeper events verify` checks it, through [`Journal::verify_after`](super::Journal::verify_after).

use std::{fmt, io};

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::StoredEvent;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// What stands before the first record.
    pub const ZERO: Self = Self([0; 32]);

    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Of all that `from` still has.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn of_all(from: &mut impl io::Read) -> io::Result<Self> {
        let mut digest = Sha256::new();
        let mut piece = vec![0; 1 << 16];
        loop {
            match from.read(&mut piece)? {
                0 => return Ok(Self(digest.finalize().into())),
                read => digest.update(&piece[..read]),
            }
        }
    }

    /// Reads 64 hex digits.
    #[must_use]
    pub fn parse(hex: &str) -> Option<Self> {
        let digits = hex.as_bytes();
        // `from_str_radix` would take a sign for a digit.
        if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let mut out = [0; 32];
        for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(out))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// Hash of the record whose canonical form is `canonical`, after the one with hash `previous`.
pub(super) fn link(previous: &Hash, canonical: &str) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update(previous.to_string());
    hasher.update(canonical);
    Hash(hasher.finalize().into())
}

/// JSON with sorted keys and no white space.
pub(crate) fn canonical(value: &Value) -> String {
    let mut out = String::with_capacity(1024);
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            // Sorted here and not by the map: which map serde_json uses is a feature of the whole build.
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| key.as_bytes());
            for (n, (key, value)) in entries.into_iter().enumerate() {
                out.push(if n == 0 { '{' } else { ',' });
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write(value, out);
            }
            out.push_str(if map.is_empty() { "{}" } else { "}" });
        }
        Value::Array(items) => {
            out.push('[');
            for (n, item) in items.iter().enumerate() {
                if n > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.push_str(&value.to_string());
        }
    }
}

/// A link that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "event {seq} does not follow from its predecessor: expected hash {expected}, found {found}"
)]
pub struct ChainError {
    /// Number of the record.
    pub seq: u64,
    /// Hash that follows from its content and predecessor.
    pub expected: Hash,
    /// Hash it carries.
    pub found: Hash,
}

/// Checks a run of consecutive records. `before` is the hash of the record before the first one; without it the first
/// record's own hash is taken on trust.
///
/// # Errors
/// [`ChainError`] at the first record whose hash does not follow, be it changed, out of order or after a gap.
pub fn verify(before: Option<Hash>, events: &[StoredEvent]) -> Result<(), ChainError> {
    let mut previous = before;
    for event in events {
        if let Some(previous) = previous {
            let expected = link(&previous, event.canonical());
            if expected != event.hash() {
                return Err(ChainError {
                    seq: event.seq.0,
                    expected,
                    found: event.hash(),
                });
            }
        }
        previous = Some(event.hash());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn canonical_json_sorts_keys_and_has_no_white_space() {
        let value = json!({"b": [1, {"z": null, "a": "x\"y"}], "a": 0.1, "c": {}, "d": []});
        assert_eq!(
            canonical(&value),
            r#"{"a":0.1,"b":[1,{"a":"x\"y","z":null}],"c":{},"d":[]}"#
        );
    }

    #[test]
    fn a_hash_is_read_from_what_it_prints() {
        let hash = Hash::of(b"x");
        assert_eq!(Hash::parse(&hash.to_string()), Some(hash));
        assert_eq!(Hash::parse("zz"), None);
        assert_eq!(Hash::parse(&"+f".repeat(32)), None);
        assert_eq!(Hash::parse(&"é".repeat(32)), None);
    }
}
