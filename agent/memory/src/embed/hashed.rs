//! Vectors by feature hashing, without model, weights or state.
//!
//! - A vector depends on the text and the table of concepts alone, on every machine.
//! - Features of a word: its stem, its concepts, and the character n-grams of `<word>`, which
//!   spellings, typing errors and compound words share.
//! - The hash of a feature gives its dimension and sign, so collisions cancel out on average. See
//!   Weinberger et al., "Feature Hashing for Large Scale Multitask Learning", ICML 2009.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{Concepts, EmbedError, Embedder};
use crate::search::terms::{stem, words};

/// Dimensions of a vector. The cosine of two unrelated texts is about 1/√512 = 0.044.
const DIMENSION: usize = 512;
/// Characters of n-grams.
const GRAMS: std::ops::RangeInclusive<usize> = 3..=5;
/// Maximum characters of a word for its n-grams; more is noise.
const MAX_WORD_CHARS: usize = 24;
/// Length of all n-grams of a word together, where its stem has 1.
const GRAM_WEIGHT: f32 = 0.6;
/// Length of a concept, where a stem has 1.
const CONCEPT_WEIGHT: f32 = 1.6;

// Seeds of the hash: any different values.
const STEM: u64 = 1;
const GRAM: u64 = 2;
const CONCEPT: u64 = 3;

/// Embedder by feature hashing, which is always available.
#[derive(Debug, Clone)]
pub struct HashedEmbedder {
    concepts: Concepts,
}

impl Default for HashedEmbedder {
    fn default() -> Self {
        let concepts = Concepts::of_a_site();
        Self { concepts }
    }
}

impl Embedder for HashedEmbedder {
    fn name(&self) -> &'static str {
        "hashed"
    }

    fn dimension(&self) -> usize {
        DIMENSION
    }

    fn floor(&self) -> f32 {
        // Three times the cosine of unrelated texts.
        0.13
    }

    fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        let mut counts: BTreeMap<String, u16> = BTreeMap::new();
        for word in words(text) {
            let count = counts.entry(word).or_default();
            *count = count.saturating_add(1);
        }
        let mut vector = vec![0.0; DIMENSION];
        let mut concepts: BTreeMap<&str, u16> = BTreeMap::new();
        for (word, count) in &counts {
            let weight = damped(*count);
            let stem = stem(word);
            add_feature(&mut vector, STEM, stem.as_bytes(), weight);
            add_grams(&mut vector, word, weight * GRAM_WEIGHT);
            for concept in self.concepts.of(&stem) {
                let seen = concepts.entry(concept).or_default();
                *seen = seen.saturating_add(*count);
            }
        }
        for (concept, count) in concepts {
            let weight = damped(count);
            add_feature(
                &mut vector,
                CONCEPT,
                concept.as_bytes(),
                weight * CONCEPT_WEIGHT,
            );
        }
        let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        if length > 0.0 {
            vector.iter_mut().for_each(|x| *x /= length);
        }
        Ok(vector)
    }
}

/// Damps repetitions of a word.
fn damped(count: u16) -> f32 {
    1.0 + f32::from(count).ln()
}

fn add_feature(vector: &mut [f32], kind: u64, feature: &[u8], weight: f32) {
    let hash = xxh3_64_with_seed(feature, kind);
    let place = usize::try_from(hash % DIMENSION as u64).unwrap_or_default();
    let sign = if hash >> 63 == 0 { weight } else { -weight };
    if let Some(x) = vector.get_mut(place) {
        *x += sign;
    }
}

fn add_grams(vector: &mut [f32], word: &str, weight: f32) {
    let bounded: String = std::iter::once('<')
        .chain(word.chars().take(MAX_WORD_CHARS))
        .chain(std::iter::once('>'))
        .collect();
    let mut starts: Vec<usize> = bounded.char_indices().map(|(at, _)| at).collect();
    starts.push(bounded.len());
    let all = || {
        GRAMS.flat_map(|n| {
            starts.windows(n + 1).filter_map(|at| {
                let (from, to) = (at.first()?, at.last()?);
                bounded.as_bytes().get(*from..*to)
            })
        })
    };
    let each = weight / all().map(|_| 1.0_f32).sum::<f32>().max(1.0).sqrt();
    for gram in all() {
        add_feature(vector, GRAM, gram, each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cosine(a: &str, b: &str) -> f32 {
        let embedder = HashedEmbedder::default();
        let vector = |text| embedder.embed(text).expect("a vector");
        let (a, b) = (vector(a), vector(b));
        a.iter().zip(&b).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn same_text_has_the_same_unit_vector() {
        let same = cosine(
            "A van stood at the dock, a van.",
            "A van stood at the dock, a van.",
        );
        assert!((same - 1.0).abs() < 1e-5, "{same}");
        assert!(cosine("the of and", "the of and") == 0.0);
    }

    #[test]
    fn typing_errors_compounds_and_synonyms_are_near() {
        let floor = HashedEmbedder::default().floor();
        for (a, b) in [
            ("delivery", "delivry"),
            ("Lieferwagen", "Lieferwagentor"),
            ("a lorry at the ramp", "truck near the loading bay"),
        ] {
            let near = cosine(a, b);
            assert!(near > floor, "{a} / {b}: {near}");
        }
        let far = cosine("a lorry at the ramp", "cleaning on Sunday evening");
        assert!(far < floor, "{far}");
    }
}
