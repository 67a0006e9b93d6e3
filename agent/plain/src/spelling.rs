//! Corrects words that mean nothing here and are one typing error away from one that does.
//!
//! - A word that means something here, or is part of a name of this box, is never touched.
//! - A word is corrected only where a single word fits it.
//! - The answer says each correction, so a wrong guess is seen before the user confirms.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use crate::hours;
use crate::lexicon::{Lexicon, folded};
use crate::scene::{Scene, quoted};
use crate::token::{Kind, Token, number_word};

/// Shortest word of which a letter may be missing.
const SHORT: usize = 5;
/// Shortest word of which a letter may be another one or too many.
const LONG: usize = 7;

/// Puts slips right, and returns a sentence about each. The tokens say afterwards what was meant.
pub(crate) fn put_right(tokens: &mut Vec<Token>, scene: &Scene, lexicon: &Lexicon) -> Vec<String> {
    let names = names(scene);
    let mut slips = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let right = tokens
            .get(at)
            .filter(|token| token.kind == Kind::Word)
            .and_then(|token| meant(&token.text, &names, lexicon));
        let Some(right) = right else {
            at += 1;
            continue;
        };
        let meant = crate::token::tokens(&right);
        let count = meant.len();
        let replaced: Vec<Token> = tokens.splice(at..=at, meant).collect();
        let written: String = replaced.into_iter().map(|t| t.written).collect();
        // Nobody has to be told that `pls` is please.
        if count == 1 && !lexicon.is_everyday(&right) {
            slips.push(format!(
                "I read {} as {}.",
                quoted(&written),
                quoted(&right)
            ));
        }
        at += count;
    }
    slips
}

/// Every word of a name on this box.
fn names(scene: &Scene) -> BTreeSet<String> {
    let cameras = scene.cameras.iter().flat_map(|camera| {
        let places = camera.places.iter().map(|place| place.name.as_str());
        places.chain([camera.id.as_str(), &camera.name])
    });
    let pipelines = scene.pipelines.iter();
    let pipelines = pipelines.flat_map(|pipeline| [pipeline.spec.id.as_str(), &pipeline.name]);
    let channels = scene.channels.iter().map(|channel| channel.as_str());
    let labels = scene.models.iter().flat_map(|m| &m.labels);
    let names = cameras.chain(pipelines).chain(channels);
    let folded = names.chain(labels.map(String::as_str)).map(folded);
    folded
        .flat_map(|name| name.split(' ').map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

/// The word that was meant by one that means nothing.
fn meant(word: &str, names: &BTreeSet<String>, lexicon: &Lexicon) -> Option<String> {
    if names.contains(word) {
        return None;
    }
    if let Some(right) = lexicon.spelling.written.get(word) {
        return Some(right.clone());
    }
    let is_known = lexicon.has(word) || hours::is_time(word) || number_word(word).is_some();
    if is_known || !word.chars().all(char::is_alphabetic) {
        return None;
    }
    // `enter` is no slip of `enters`.
    let is_form = |r: &str| r.strip_suffix('s') == Some(word) || word.strip_suffix('s') == Some(r);
    let right = lexicon.spelling.right.iter();
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
    let sorted = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    let begins_alike = written.chars().next() == right.chars().next();
    strsim::osa_distance(written, right) == 1
        && match w.cmp(&r) {
            Ordering::Equal if sorted(written) == sorted(right) => w > 3,
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
