//! Prefixes of a prompt: for automatic prompt caches, and for the seals of thoughts.
//!
//! Invariant: a prefix is the sequence of pieces from the first one on, for one model. A changed
//! piece changes every prefix that contains it, and no other.

use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};

/// Bytes of text per token, an estimate.
const BYTES_A_TOKEN: u64 = 4;
/// Length of a text piece in tokens, the step of OpenAI's cache.
const STEP: usize = 128;
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

/// Cuts a text into pieces of 128 tokens, so that texts with one beginning share pieces.
pub(crate) fn text(text: &str) -> impl Iterator<Item = Piece> + '_ {
    let bytes = STEP * BYTES_A_TOKEN as usize;
    text.as_bytes().chunks(bytes).map(|content| Piece {
        content: content.to_vec(),
        tokens: tokens(content.len()),
    })
}

/// Makes a picture one piece.
pub(crate) fn picture(data: &str, tokens: u64) -> Piece {
    Piece {
        content: Sha256::digest(data).to_vec(),
        tokens,
    }
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

/// Tokens of a prompt.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prompt {
    /// All tokens, including cached ones.
    pub(crate) all: u64,
    /// Tokens read from the cache.
    pub(crate) cached: u64,
}

/// Rule of an automatic prompt cache.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    /// Shortest cached prefix in tokens.
    pub(crate) minimum: u64,
    /// Granularity of a cached prefix in tokens.
    pub(crate) step: u64,
}

/// A prompt cache without breakpoints: hashes of the prefixes seen so far.
#[derive(Debug, Default)]
pub(crate) struct Automatic(BTreeSet<Hash>);

impl Automatic {
    /// Counts the tokens of a prompt and stores its prefixes.
    pub(crate) fn account(&mut self, model: &str, pieces: &[Piece], rule: Rule) -> Prompt {
        let prefixes = prefixes(model, pieces);
        let all = prefixes.last().map_or(0, |(_, upto)| *upto);
        let hits = prefixes.iter().filter(|(hash, _)| self.0.contains(hash));
        let seen = hits.map(|(_, upto)| *upto).max().unwrap_or(0);
        let whole = seen - seen % rule.step.max(1);
        self.0.extend(prefixes.into_iter().map(|(hash, _)| hash));
        Prompt {
            all,
            cached: if whole >= rule.minimum { whole } else { 0 },
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule {
        minimum: 1_024,
        step: 128,
    };

    fn pieces(said: &str) -> Vec<Piece> {
        text(said).collect()
    }

    #[test]
    fn a_common_prefix_is_cached_in_steps_above_the_minimum() {
        let mut cache = Automatic::default();
        let long = "a".repeat(5_000);
        let first = cache.account("m", &pieces(&long), RULE);
        assert_eq!((first.all, first.cached), (1_250, 0));
        let more = cache.account("m", &pieces(&format!("{long}b")), RULE);
        assert_eq!(more.cached, 1_152);
        let changed = cache.account("m", &pieces(&format!("b{long}")), RULE);
        assert_eq!(changed.cached, 0, "nothing behind a change is read");
        assert_eq!(cache.account("other", &pieces(&long), RULE).cached, 0);
        let short = pieces(&"c".repeat(4_000));
        cache.account("m", &short, RULE);
        assert_eq!(cache.account("m", &short, RULE).cached, 0, "too short");
    }
}
