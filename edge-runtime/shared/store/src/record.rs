//! One stored record: a header that proves the payload, then the payload.
//!
//! | bytes, big-endian | what |
//! |---|---|
//! | 0..2 | magic `WK` |
//! | 2..4 | format version, [`FORMAT`] |
//! | 4..8 | length of the payload |
//! | 8..12 | CRC-32 (IEEE) over bytes 2..8, the full key and the payload |
//! | 12.. | payload |
//!
//! - [`decode`] returns what [`encode`] was given for that very key. The key is part of the
//!   checksum, so a record under another key is damage too.
//! - A newer format keeps magic, version, length and checksum where they are, and the checksum
//!   covers the version. A record is newer only where that holds, else damaged.

const MAGIC: [u8; 2] = *b"WK";

/// Version of the layout that this build writes. A payload carries its own version.
pub(crate) const FORMAT: u16 = 1;

/// Length of the header in bytes.
pub(crate) const HEADER: usize = 12;

/// Why a stored record can't be read: one of the store, or what a caller keeps in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRecord {
    /// Sound, and of a newer format than this build knows.
    #[error("format {0} was written by a newer version")]
    Newer(u16),
    /// The damage, as a phrase.
    #[error("{0}")]
    Damaged(String),
}

fn damaged<T>(why: impl Into<String>) -> Result<T, BadRecord> {
    Err(BadRecord::Damaged(why.into()))
}

fn crc(head: &[u8], key: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(key);
    hasher.update(payload);
    hasher.finalize()
}

/// Returns header and payload of a record stored at `key`.
pub fn encode(key: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + payload.len());
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&FORMAT.to_be_bytes());
    // Payloads are bounded by MAX_VALUE_BYTES; a longer one would fail its own length check when
    // read.
    out.extend_from_slice(
        &u32::try_from(payload.len())
            .unwrap_or(u32::MAX)
            .to_be_bytes(),
    );
    let crc = crc(&out[2..8], key, payload);
    out.extend_from_slice(&crc.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

/// Returns the payload of `bytes`, found at `key`.
///
/// # Errors
/// What is wrong with them.
pub fn decode<'a>(key: &[u8], bytes: &'a [u8]) -> Result<&'a [u8], BadRecord> {
    let Some((head, payload)) = bytes.split_at_checked(HEADER) else {
        return damaged(format!("{} bytes are too short for a record", bytes.len()));
    };
    let (Some(magic), Some(format), Some(len), Some(stored)) = (
        head.first_chunk::<2>(),
        head[2..].first_chunk::<2>(),
        head[4..].first_chunk::<4>(),
        head[8..].first_chunk::<4>(),
    ) else {
        return damaged("the header is too short");
    };
    if *magic != MAGIC {
        return damaged("it does not begin like a record");
    }
    let computed = crc(&head[2..8], key, payload);
    let stored = u32::from_be_bytes(*stored);
    if u32::from_be_bytes(*len) as usize != payload.len() || computed != stored {
        return damaged(format!("checksum {computed:08x} instead of {stored:08x}"));
    }
    match u16::from_be_bytes(*format) {
        FORMAT => Ok(payload),
        0 => damaged("format 0 was never written"),
        newer => Err(BadRecord::Newer(newer)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_payload_comes_back(key: Vec<u8>, payload: Vec<u8>) {
            let stored = encode(&key, &payload);
            prop_assert_eq!(decode(&key, &stored), Ok(&payload[..]));
        }

        #[test]
        fn any_flipped_bit_is_noticed(
            key in proptest::collection::vec(any::<u8>(), 1..20),
            payload in proptest::collection::vec(any::<u8>(), 0..200),
            at: prop::sample::Index,
            bit in 0..8u8,
        ) {
            let mut stored = encode(&key, &payload);
            let at = at.index(stored.len());
            stored[at] ^= 1 << bit;
            let read = decode(&key, &stored);
            prop_assert!(matches!(read, Err(BadRecord::Damaged(_))), "{:?}", read);
        }

        #[test]
        fn any_bytes_at_all_are_read_without_a_panic(key: Vec<u8>, bytes: Vec<u8>) {
            let _judged = decode(&key, &bytes);
        }
    }

    #[test]
    fn a_record_under_another_key_is_damage() {
        let stored = encode(b"a", b"payload");
        assert!(decode(b"b", &stored).is_err());
    }
}
