//! Corrects words that mean nothing here and are one typing error away from one that does.
//!
//! - A word that means something here, or is part of a name of this box, is never touched. A word
//!   that is no name and resembles a part of exactly one name is that name, misspelt.
//! - A word is corrected only where a single word fits it.
//! - The answer says each correction, so a wrong guess is seen before the user confirms.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use watchkeeper_english::number_word;

use crate::lexicon::{Lexicon, folded};
use crate::scene::{Scene, quoted};
use crate::token::Token;

/// Shortest word of which a letter may be missing.
const SHORT: usize = 5;
/// Shortest word of which a letter may be another one or too many.
const LONG: usize = 7;

/// Puts slips right: the tokens say afterwards what was meant. Returns them with a sentence about
/// each slip.
pub(crate) fn correct_spelling(
    tokens: Vec<Token>,
    scene: &Scene,
    lexicon: &Lexicon,
) -> (Vec<Token>, Vec<String>) {
    let names = names(scene);
    let (mut right, mut slips) = (Vec::new(), Vec::new());
    for token in tokens {
        let word = Some(&token.text).filter(|_| token.is_word());
        let Some(meant) = word.and_then(|word| meant(word, &names, lexicon)) else {
            right.push(token);
            continue;
        };
        let words = crate::token::tokens(&meant);
        // Corrections of `pls` and the like are not reported.
        if words.len() == 1 && !lexicon.is_everyday(&meant) {
            let (written, meant) = (quoted(&token.written), quoted(&meant));
            slips.push(format!("I read {written} as {meant}."));
        }
        right.extend(words);
    }
    (right, slips)
}

/// The words of the names on this box: those of cameras and places, whose misspellings are
/// corrected, and those of the others.
fn names(scene: &Scene) -> [BTreeSet<String>; 2] {
    let cameras = scene.cameras.iter().flat_map(|camera| {
        let places = camera.places.iter().map(|place| place.name.as_str());
        places.chain([camera.id.as_str(), &camera.name])
    });
    let pipelines = scene.pipelines.iter();
    let pipelines = pipelines.flat_map(|p| [p.spec.id.as_str(), &p.name]);
    let channels = scene.channels.iter().map(|channel| channel.as_str());
    let labels = scene.models.iter().flat_map(|m| &m.labels);
    let others = pipelines.chain(channels).chain(labels.map(String::as_str));
    [words(cameras), words(others)]
}

fn words<'n>(names: impl Iterator<Item = &'n str>) -> BTreeSet<String> {
    let names: Vec<String> = names.map(folded).collect();
    names.join(" ").split(' ').map(str::to_owned).collect()
}

/// The word that an unknown word stands for.
fn meant(word: &str, names: &[BTreeSet<String>; 2], lexicon: &Lexicon) -> Option<String> {
    let [places, others] = names;
    if places.contains(word) || others.contains(word) {
        return None;
    }
    if let Some(right) = lexicon.spelling.written.get(word) {
        return Some(right.clone());
    }
    let is_known = lexicon.has(word) || number_word(word).is_some();
    if is_known || !word.chars().all(char::is_alphabetic) {
        return None;
    }
    // `enter` is not a slip of `enters`.
    let is_form = |r: &str| r.strip_suffix('s') == Some(word) || word.strip_suffix('s') == Some(r);
    let right = lexicon.spelling.right.union(places);
    let mut right = right.filter(|r| is_slip(word, r) && !is_form(r));
    match (right.next(), right.next()) {
        (Some(only), None) => Some(only.clone()),
        _ => None,
    }
}

/// Whether one slip makes `written` of `right`: two letters in each other's place, one missing,
/// another or too many.
fn is_slip(written: &str, right: &str) -> bool {
    let (w, r) = (written.chars().count(), right.chars().count());
    // Two letters in each other's place are two changes of one letter.
    let is_swapped = w == r && strsim::levenshtein(written, right) == 2;
    let begins_alike = written.chars().next() == right.chars().next();
    strsim::osa_distance(written, right) == 1
        && match w.cmp(&r) {
            _ if is_swapped => w > 3,
            Ordering::Less => begins_alike && r >= SHORT,
            Ordering::Equal | Ordering::Greater => begins_alike && w >= LONG,
        }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn one_slip_is_one_letter_moved_missing_doubled_or_another() {
        for (written, right) in [
            ("wehn", "when"),
            ("preson", "person"),
            ("somone", "someone"),
            ("notifiy", "notify"),
            ("garagge", "garage"),
            ("somebady", "somebody"),
            ("truk", "truck"),
        ] {
            assert!(is_slip(written, right), "{written}");
        }
    }

    #[test]
    fn another_word_is_no_slip() {
        for (written, right) in [
            ("court", "count"),
            ("hatch", "watch"),
            ("hall", "half"),
            ("center", "enter"),
            ("trunk", "truck"),
            ("mooring", "morning"),
            ("person", "person"),
        ] {
            assert!(!is_slip(written, right), "{written}");
        }
    }
}
