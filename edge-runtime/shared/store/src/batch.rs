//! Keyspaces, keys and batches: what is written, before anybody knows where.
//!
//! Invariant: the numeric order of a log equals the byte order of its keys.

use crate::error::StoreError;

/// Longest key within a keyspace, in bytes.
pub const MAX_KEY_BYTES: usize = 256;

/// Largest payload of a record, in bytes. Records are meant to be a few kilobytes, and pictures are files; but a definition of a workflow, which is
/// stored with what stands around it, may have 4 MiB.
pub const MAX_VALUE_BYTES: usize = 6 << 20;

/// A named, ordered map inside a store. The set of keyspaces is fixed in the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Keyspace(&'static str);

impl Keyspace {
    /// Names a keyspace.
    ///
    /// # Panics
    /// At compile time, when used in a constant: `name` must be 1 to 32 of `a-z`, `0-9` and `_`.
    #[must_use]
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

    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0
    }
}

/// Key of position `seq` in a log: big-endian, so that the order of bytes is the order of numbers.
#[must_use]
pub const fn log_key(seq: u64) -> [u8; 8] {
    seq.to_be_bytes()
}

/// Position that `key` stands for, when it is the key of a log.
#[must_use]
pub fn log_seq(key: &[u8]) -> Option<u64> {
    key.try_into().ok().map(u64::from_be_bytes)
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Sets a record.
    Put {
        /// Where.
        keyspace: Keyspace,
        /// Key within the keyspace.
        key: Vec<u8>,
        /// Payload.
        value: Vec<u8>,
    },
    /// Removes a record; none being there is fine.
    Delete {
        /// Where.
        keyspace: Keyspace,
        /// Key within the keyspace.
        key: Vec<u8>,
    },
}

/// Changes that are applied together, over keyspaces too. Of two changes to one key the later one holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Batch {
    ops: Vec<Op>,
}

impl Batch {
    /// No changes yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds: set `key` to `value`.
    #[must_use]
    pub fn put(mut self, keyspace: Keyspace, key: &[u8], value: &[u8]) -> Self {
        self.push(Op::Put {
            keyspace,
            key: key.to_vec(),
            value: value.to_vec(),
        });
        self
    }

    /// Adds: remove `key`.
    #[must_use]
    pub fn delete(mut self, keyspace: Keyspace, key: &[u8]) -> Self {
        self.push(Op::Delete {
            keyspace,
            key: key.to_vec(),
        });
        self
    }

    /// Adds `op`.
    pub fn push(&mut self, op: Op) {
        self.ops.push(op);
    }

    /// The changes, in order.
    #[must_use]
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Bytes of all payloads and keys.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.ops
            .iter()
            .map(|op| match op {
                Op::Put { key, value, .. } => (key.len() + value.len()) as u64,
                Op::Delete { key, .. } => key.len() as u64,
            })
            .sum()
    }

    /// Refuses what no store takes.
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
        Ok(())
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
