//! Chains of records by hash.
//!
//! `hash(n) = SHA-256(hex(hash(n-1)) ++ canonical(n))`, where `canonical` is the record as JSON
//! without its field `hash`, with keys sorted by their bytes and no white space. The hash before
//! the first record is 64 zeros. The chain shows accidents, and tampering by those who can't
//! recompute it; it is not a signature.

use std::{fmt, io};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};

/// A SHA-256; 64 hex digits in text and JSON.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// The hash before the first record.
    pub const ZERO: Self = Self([0; 32]);

    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Hashes all that `from` still has.
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

    /// Reads the key of a record.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Parses 64 hex digits.
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

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let hash = Self::parse(&text);
        hash.ok_or_else(|| de::Error::custom("must be a SHA-256 as 64 hexadecimal digits"))
    }
}

/// A record whose hash does not follow from its content and its predecessor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokenLink {
    /// The hash that follows.
    pub expected: Hash,
    /// The hash in the record.
    pub found: Hash,
}

/// Checks that a record with text `canonical` and hash `found` follows the one with hash
/// `previous`.
///
/// # Errors
/// [`BrokenLink`] if it does not.
pub fn check_link(previous: &Hash, canonical: &str, found: Hash) -> Result<(), BrokenLink> {
    let expected = link(previous, canonical);
    if expected == found {
        return Ok(());
    }
    Err(BrokenLink { expected, found })
}

/// Hash of the record with text `canonical` after the one with hash `previous`.
pub fn link(previous: &Hash, canonical: &str) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update(previous.to_string());
    hasher.update(canonical);
    Hash(hasher.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_parsed_from_its_display() {
        let hash = Hash::of(b"x");
        assert_eq!(Hash::parse(&hash.to_string()), Some(hash));
        let json = serde_json::to_string(&hash).unwrap_or_default();
        assert_eq!(serde_json::from_str::<Hash>(&json).ok(), Some(hash));
        assert!(serde_json::from_str::<Hash>("\"../../etc/passwd\"").is_err());
        assert_eq!(Hash::parse("zz"), None);
        assert_eq!(Hash::parse(&"+f".repeat(32)), None);
        assert_eq!(Hash::parse(&"é".repeat(32)), None);
    }
}
