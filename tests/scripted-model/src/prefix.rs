//! Prefixes of a prompt: what a cache that works by itself reads again, and what a seal on a thought covers.
//!
//! Invariant: a prefix is the row of pieces from the first one on, under one model; a piece that changes changes every prefix that it is in, and no other.

use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};

/// Bytes of text that make one token here.
const BYTES_A_TOKEN: u64 = 4;
/// Tokens of the longest piece of text: in steps of these a cache reads.
const STEP: usize = 128;
/// Stands for the provider's secret.
const SECRET: &[u8] = b"scripted";

/// A hash over a prefix.
pub(crate) type Hash = [u8; 32];

/// A piece of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    /// What it is.
    pub(crate) content: Vec<u8>,
    /// What it counts.
    pub(crate) tokens: u64,
}

/// Text in pieces of 128 tokens, so that two texts with one beginning share what they share of it.
pub(crate) fn text(text: &str) -> impl Iterator<Item = Piece> + '_ {
    let bytes = STEP * BYTES_A_TOKEN as usize;
    text.as_bytes().chunks(bytes).map(|content| Piece {
        content: content.to_vec(),
        tokens: tokens(content.len()),
    })
}

/// A picture, which is a piece of its own.
pub(crate) fn picture(data: &str, tokens: u64) -> Piece {
    Piece {
        content: Sha256::digest(data).to_vec(),
        tokens,
    }
}

/// Tokens of so many bytes of text.
pub(crate) const fn tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(BYTES_A_TOKEN)
}

/// Every prefix with its tokens.
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
    /// All of them, those from the cache with them.
    pub(crate) all: u64,
    /// Those that came from the cache.
    pub(crate) cached: u64,
}

/// What a cache that needs no breakpoints does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    /// The shortest prefix that is read again, in tokens.
    pub(crate) minimum: u64,
    /// Tokens by which it grows.
    pub(crate) step: u64,
}

/// A cache that needs no breakpoints: the prefixes that were seen.
#[derive(Debug, Default)]
pub(crate) struct Automatic(BTreeSet<Hash>);

impl Automatic {
    /// Accounts a prompt and remembers it.
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

/// What only the provider can make of this row: it stands for a thought that only it can read.
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
    fn what_two_prompts_begin_with_is_cached_in_whole_steps_from_the_minimum_on() {
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
