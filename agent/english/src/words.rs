//! Lists of words in one text, and the words that no reader needs.

/// Articles, pronouns, wishes and politeness: they change nothing of a request.
const COURTESIES: &str = "\
    a|an|can|could|hello|hi|i|just|kindly|me|my|need|our|please|shall|should|thanks|the|then|us\
    |want|we|would|you|your";

/// Whether a lower-case word is an article, a pronoun or polite, and changes nothing of a request.
pub fn is_courtesy(word: &str) -> bool {
    one_of(COURTESIES, word)
}

/// Whether a word is one of these, which `|` separates.
pub fn one_of(words: &str, word: &str) -> bool {
    words.split('|').any(|one| one == word)
}
