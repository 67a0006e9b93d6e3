//! Prefixes of a prompt, for the prompt cache, and the seals of thoughts.
//!
//! Invariant: a prefix is the sequence of pieces from the first one on, for one model. A changed
//! piece changes every prefix that contains it, and no other.

use sha2::{Digest as _, Sha256};

/// Bytes of text per token, an estimate.
const BYTES_A_TOKEN: u64 = 4;
/// Stand-in for the provider's signing key.
const SECRET: &[u8] = b"scripted";

/// SHA-256 of a prefix.
pub(crate) type Hash = [u8; 32];

/// A piece of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) content: Vec<u8>,
    pub(crate) tokens: u64,
}

/// Estimates the tokens of text by its bytes.
pub(crate) const fn tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(BYTES_A_TOKEN)
}

/// Returns every prefix with its tokens.
pub(crate) fn prefixes(model: &str, pieces: &[Piece]) -> Vec<(Hash, u64)> {
    let mut hash = Sha256::new();
    hash.update(model);
    let mut upto = 0;
    let pieces = pieces.iter().map(|piece| {
        hash.update((piece.content.len() as u64).to_le_bytes());
        hash.update(&piece.content);
        upto += piece.tokens;
        (hash.clone().finalize().into(), upto)
    });
    pieces.collect()
}

/// Seals a sequence as only the provider can: stands for its signature or encryption.
pub(crate) fn seal<'p>(row: impl IntoIterator<Item = &'p str>) -> String {
    let mut hash = Sha256::new();
    hash.update(SECRET);
    for part in row {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let bytes: Vec<String> = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
    bytes.concat()
}
