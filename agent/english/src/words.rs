//! Lists of words in one text.

/// Whether a word is one of these, which `|` separates.
pub fn one_of(words: &str, word: &str) -> bool {
    words.split('|').any(|one| one == word)
}
