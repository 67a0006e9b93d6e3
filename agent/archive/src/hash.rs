//! SHA-256 of content: its key in every tier.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// SHA-256 of the content of an entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ContentHash([u8; 32]);

/// A text that is no SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a SHA-256 as 64 hexadecimal digits")]
pub struct InvalidHash;

impl ContentHash {
    /// Computes the hash of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self::finish(Sha256::new_with_prefix(bytes))
    }

    pub(crate) fn finish(hasher: Sha256) -> Self {
        Self(hasher.finalize().into())
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Returns a number that spreads hashes evenly.
    pub(crate) fn spread(&self) -> u64 {
        self.0
            .first_chunk()
            .map_or(0, |head| u64::from_be_bytes(*head))
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ContentHash {
    type Err = InvalidHash;
    fn from_str(text: &str) -> Result<Self, InvalidHash> {
        let is_hex = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
        if text.len() != 64 || !text.as_bytes().iter().all(is_hex) {
            return Err(InvalidHash);
        }
        let mut bytes = [0; 32];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = str::from_utf8(digits).map_err(|_| InvalidHash)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| InvalidHash)?;
        }
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for ContentHash {
    type Error = InvalidHash;
    fn try_from(text: String) -> Result<Self, InvalidHash> {
        text.parse()
    }
}

impl From<ContentHash> for String {
    fn from(hash: ContentHash) -> Self {
        let mut text = Self::with_capacity(64);
        // Writing to a String never fails.
        write!(text, "{hash}").ok();
        text
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    #[test]
    fn hash_is_written_and_read_as_hex() {
        let hash = ContentHash::of(b"abc");
        let text = hash.to_string();
        assert!(text.starts_with("ba7816bf") && text.len() == 64);
        assert_eq!(text.parse(), Ok(hash));
        assert_eq!(ContentHash::from_bytes(hash.bytes()), Some(hash));
        assert_eq!(text.to_uppercase().parse::<ContentHash>(), Err(InvalidHash));
        serde_json::from_str::<ContentHash>("\"../../etc/passwd\"").unwrap_err();
    }
}
