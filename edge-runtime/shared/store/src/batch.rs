//! Keyspaces, keys and batches of changes.
//!
//! The numeric order of a log equals the byte order of its keys.

use crate::error::StoreError;
use crate::limits::{MAX_KEY_BYTES, MAX_MARK_BYTES, MAX_VALUE_BYTES};

/// A named, ordered map inside a store. The set of keyspaces is fixed in the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Keyspace(&'static str);

impl Keyspace {
    /// Names a keyspace.
    ///
    /// # Panics
    /// At compile time, when used in a constant: `name` must be 1 to 32 of `a-z`, `0-9` and `_`.
    pub const fn new(name: &'static str) -> Self {
        let bytes = name.as_bytes();
        assert!(!bytes.is_empty() && bytes.len() <= 32, "1 to 32 characters");
        let mut i = 0;
        while i < bytes.len() {
            assert!(
                bytes[i].is_ascii_lowercase() || bytes[i].is_ascii_digit() || bytes[i] == b'_',
                "only a-z, 0-9 and _"
            );
            i += 1;
        }
        Self(name)
    }

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0
    }
}

/// Returns the key of position `seq` in a log: big-endian, so that bytes sort like numbers.
pub const fn log_key(seq: u64) -> [u8; 8] {
    seq.to_be_bytes()
}

/// Returns the position of a log key, if `key` is one.
pub fn log_seq(key: &[u8]) -> Option<u64> {
    key.try_into().ok().map(u64::from_be_bytes)
}

/// One change of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Sets a record.
    Put {
        keyspace: Keyspace,
        /// Key within the keyspace.
        key: Vec<u8>,
        value: Vec<u8>,
    },
    /// Removes a record, if it is there.
    Delete {
        keyspace: Keyspace,
        /// Key within the keyspace.
        key: Vec<u8>,
    },
}

impl Op {
    /// Sets `key` to `value`.
    #[must_use]
    pub fn put(keyspace: Keyspace, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self::Put {
            keyspace,
            key: key.into(),
            value: value.into(),
        }
    }

    /// Removes the record at `key`, if it is there.
    #[must_use]
    pub fn delete(keyspace: Keyspace, key: impl Into<Vec<u8>>) -> Self {
        Self::Delete {
            keyspace,
            key: key.into(),
        }
    }
}

/// Changes that are applied together, over keyspaces too. Of two changes to one key the later one
/// holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Batch {
    ops: Vec<Op>,
    mark: Option<Vec<u8>>,
}

impl Batch {
    /// Makes a batch without changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a change that sets `key` to `value`.
    #[must_use]
    pub fn put(mut self, keyspace: Keyspace, key: &[u8], value: &[u8]) -> Self {
        self.push(Op::put(keyspace, key, value));
        self
    }

    /// Adds a change that removes `key`.
    #[must_use]
    pub fn delete(mut self, keyspace: Keyspace, key: &[u8]) -> Self {
        self.push(Op::delete(keyspace, key));
        self
    }

    /// Sets the mark of the store: a few bytes about its state after this batch, also kept outside
    /// the database's file. A batch without one leaves the mark unchanged.
    #[must_use]
    pub fn mark(mut self, mark: &[u8]) -> Self {
        self.mark = Some(mark.to_vec());
        self
    }

    /// Adds a change to the end.
    pub fn push(&mut self, op: Op) {
        self.ops.push(op);
    }

    /// Returns the changes, in order.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// Returns the mark that the batch sets.
    pub(crate) fn new_mark(&self) -> Option<&[u8]> {
        self.mark.as_deref()
    }

    /// Returns whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Returns the bytes of all payloads and keys.
    pub fn bytes(&self) -> u64 {
        self.ops
            .iter()
            .map(|op| match op {
                Op::Put { key, value, .. } => (key.len() + value.len()) as u64,
                Op::Delete { key, .. } => key.len() as u64,
            })
            .sum()
    }

    /// Refuses a batch that no store takes.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        for op in &self.ops {
            let (keyspace, key, value_len) = match op {
                Op::Put {
                    keyspace,
                    key,
                    value,
                } => (keyspace, key, value.len()),
                Op::Delete { keyspace, key } => (keyspace, key, 0),
            };
            if key.is_empty() || key.len() > MAX_KEY_BYTES {
                return Err(StoreError::BadKey {
                    keyspace: keyspace.name(),
                    len: key.len(),
                });
            }
            if value_len > MAX_VALUE_BYTES {
                return Err(StoreError::TooLarge {
                    keyspace: keyspace.name(),
                    len: value_len,
                });
            }
        }
        match self.mark.as_ref().map(Vec::len) {
            Some(len) if len > MAX_MARK_BYTES => Err(StoreError::TooLarge {
                keyspace: "mark",
                len,
            }),
            _ => Ok(()),
        }
    }
}

impl FromIterator<Op> for Batch {
    fn from_iter<I: IntoIterator<Item = Op>>(ops: I) -> Self {
        let mut batch = Self::new();
        batch.extend(ops);
        batch
    }
}

impl Extend<Op> for Batch {
    fn extend<I: IntoIterator<Item = Op>>(&mut self, ops: I) {
        self.ops.extend(ops);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_order_of_log_keys_is_number_order() {
        let mut keys: Vec<_> = [256, 1, 255, u64::MAX, 0].map(log_key).to_vec();
        keys.sort_unstable();
        let seqs: Vec<_> = keys.iter().filter_map(|k| log_seq(k)).collect();
        assert_eq!(seqs, [0, 1, 255, 256, u64::MAX]);
    }

    #[test]
    fn an_oversized_value_or_an_empty_key_is_refused() {
        const K: Keyspace = Keyspace::new("k");
        let huge = vec![0; MAX_VALUE_BYTES + 1];
        assert!(matches!(
            Batch::new().put(K, b"a", &huge).check(),
            Err(StoreError::TooLarge { .. })
        ));
        assert!(matches!(
            Batch::new().delete(K, b"").check(),
            Err(StoreError::BadKey { .. })
        ));
    }
}
