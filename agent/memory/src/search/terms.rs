//! Splits texts into words and stems, notes and queries by the same code.
//!
//! Word boundaries are those of Unicode (UAX #29), stems those of Snowball's English algorithm.
//! Words of other languages keep their endings, which the n-grams of the hashed vectors compensate.

use rust_stemmers::{Algorithm, Stemmer};
use unicode_segmentation::UnicodeSegmentation;
use xxhash_rust::xxh3::xxh3_64;

/// English stop words, sorted: articles, pronouns, prepositions, auxiliary verbs and question
/// words.
const STOP_WORDS: &[&str] = &[
    "a", "about", "after", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be",
    "been", "before", "being", "but", "by", "can", "could", "did", "do", "does", "for", "from",
    "get", "got", "had", "has", "have", "he", "her", "him", "his", "how", "i", "if", "in", "into",
    "is", "it", "its", "just", "may", "me", "my", "no", "not", "of", "off", "on", "or", "our",
    "out", "she", "should", "so", "some", "than", "that", "the", "their", "them", "then", "there",
    "these", "they", "this", "to", "up", "us", "was", "we", "were", "what", "when", "where",
    "which", "while", "who", "whose", "why", "will", "with", "would", "you", "your",
];

/// Returns the words of `text` in lower case, without stop words.
pub(crate) fn words(text: &str) -> impl Iterator<Item = String> {
    text.unicode_words()
        // UAX #29 joins words with underscores; names of cameras have them.
        .flat_map(|word| word.split('_'))
        .map(|word| word.to_lowercase().replace('\u{2019}', "'"))
        .filter(|word| !word.is_empty() && STOP_WORDS.binary_search(&word.as_str()).is_err())
}

/// Returns the stem of a word in lower case.
pub(crate) fn stem(word: &str) -> String {
    let english = word.bytes().all(|b| b.is_ascii_lowercase() || b == b'\'');
    if english {
        Stemmer::create(Algorithm::English).stem(word).into_owned()
    } else {
        word.to_owned()
    }
}

/// Hash of a stem. Two of a million stems collide with a chance of 3 in 10⁸; then they are one
/// word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Term(u64);

/// Returns the terms of `text`, in its order.
pub(super) fn terms(text: &str) -> impl Iterator<Item = Term> {
    words(text).map(|word| Term(xxh3_64(stem(&word).as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_words_are_sorted() {
        assert!(STOP_WORDS.is_sorted());
    }

    #[test]
    fn inflections_cases_and_names_share_their_terms() {
        let of = |text| terms(text).collect::<Vec<_>>();
        assert_eq!(of("The deliveries"), of("DELIVERY"));
        assert_eq!(of("loading_dock-2"), of("loading dock 2"));
        assert_eq!(of("driver\u{2019}s"), of("driver's"));
        assert!(of("where is the").is_empty());
        assert_eq!(of("Lieferung für Tor 3").len(), 4);
    }
}
