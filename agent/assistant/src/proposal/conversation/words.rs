//! Short texts that a session understands itself: yes, no, and notes.
//!
//! - Invariant: a confirmation is compared with the whole text, never searched in it.
//! - Not here: requests and corrections (crate `plain`).

use watchkeeper_memory::Kind;

/// Texts that confirm. They are compared with the whole text.
pub(super) const YES: [&str; 16] = [
    "yes",
    "y",
    "yes please",
    "yes do it",
    "yeah",
    "yep",
    "sure",
    "alright",
    "all right",
    "please do",
    "ok",
    "okay",
    "do it",
    "go ahead",
    "confirm",
    "apply",
];
/// Texts that decline. They are compared with the whole text.
pub(super) const NO: [&str; 8] = [
    "no",
    "n",
    "no thanks",
    "cancel",
    "never mind",
    "nevermind",
    "forget it",
    "don't",
];

/// Words that make a note a preference, not knowledge.
const PREFERENCE_WORDS: [&str; 10] = [
    "i", "we", "me", "us", "want", "prefer", "like", "always", "never", "please",
];

/// Returns the kind and text of a note: the words behind `remember` or `note:`.
pub(super) fn parse_note(text: &str) -> Option<(Kind, &str)> {
    let (first, rest) = text.split_once(char::is_whitespace)?;
    let verb = first.trim_end_matches([':', ',']);
    let rest = rest.trim();
    let that = rest
        .split_once(' ')
        .filter(|(that, _)| that.eq_ignore_ascii_case("that"))
        .map(|(_, words)| words.trim());
    // `note` alone may begin any request.
    let is_note = verb.eq_ignore_ascii_case("note") && (verb.len() < first.len() || that.is_some());
    if !is_note && !verb.eq_ignore_ascii_case("remember") {
        return None;
    }
    let rest = that.unwrap_or(rest);
    let is_preference = |word: &str| PREFERENCE_WORDS.contains(&word.to_lowercase().as_str());
    let kind = match rest
        .split(|c: char| !c.is_alphanumeric())
        .any(is_preference)
    {
        true => Kind::Preference,
        false => Kind::Knowledge,
    };
    (!rest.is_empty()).then_some((kind, rest))
}

/// Whether the whole text is one of `words`, ignoring case and punctuation.
pub(super) fn is_phrase(text: &str, words: &[&str]) -> bool {
    let text = text.to_lowercase().replace('’', "'");
    let text = text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '.' | '!' | ','));
    words.contains(&text)
}
