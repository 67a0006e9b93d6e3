//! Corrects words that mean nothing here and are one typing error away from one that does.
//!
//! - A word that means something here, or is part of a name of this box, is never touched.
//! - A word is corrected only where a single word fits it.
//! - The answer says each correction, so a wrong guess is seen before the user confirms.

use std::cmp::Ordering;

use crate::hours;
use crate::lexicon::{Lexicon, folded};
use crate::scene::{Scene, quoted};
use crate::token::{Kind, Token, number_word};

/// Shortest word of which a letter may be missing.
const SHORT: usize = 5;
/// Shortest word that may have a letter too many.
const MIDDLE: usize = 6;
/// Shortest word of which a letter may be another one.
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
fn names(scene: &Scene) -> Vec<String> {
    let mut names: Vec<&str> = Vec::new();
    for camera in &scene.cameras {
        names.extend([camera.id.as_str(), &camera.name]);
        names.extend(camera.places.iter().map(|place| place.name.as_str()));
    }
    for pipeline in &scene.pipelines {
        names.extend([pipeline.spec.id.as_str(), &pipeline.name]);
    }
    names.extend(scene.channels.iter().map(|channel| channel.as_str()));
    names.extend(
        scene
            .models
            .iter()
            .flat_map(|m| &m.labels)
            .map(String::as_str),
    );
    let folded: Vec<String> = names.into_iter().map(folded).collect();
    folded.join(" ").split(' ').map(str::to_owned).collect()
}

/// The word that was meant by one that means nothing.
fn meant(word: &str, names: &[String], lexicon: &Lexicon) -> Option<String> {
    if names.iter().any(|name| name == word) {
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
    let letters = word.chars().count();
    let all_right = lexicon.spelling.right.iter();
    let all_right = all_right.filter(|r| r.len().abs_diff(letters) <= 1);
    let right = all_right.filter(|r| is_slip(word, r, LONG) && !is_form(r));
    // A name is anything at all: only what can hardly be another word counts for one.
    let names = names.iter().filter(|name| {
        name.chars().count() >= SHORT
            && name.chars().all(char::is_alphabetic)
            && is_slip(word, name, usize::MAX)
            && !is_form(name)
    });
    let mut all: Vec<&String> = right.chain(names).collect();
    all.sort_unstable();
    all.dedup();
    match all.as_slice() {
        [only] => Some((*only).clone()),
        _ => None,
    }
}

/// Whether one slip makes `written` of `right`. `another`: shortest word of which a letter may be
/// another one or too many.
fn is_slip(written: &str, right: &str, another: usize) -> bool {
    if strsim::osa_distance(written, right) != 1 {
        return false;
    }
    let (w, r) = (written.chars().count(), right.chars().count());
    let same = written
        .chars()
        .zip(right.chars())
        .take_while(|(a, b)| a == b)
        .count();
    let is_name = another == usize::MAX;
    match w.cmp(&r) {
        // Two letters in each other's place, else another letter.
        Ordering::Equal => {
            let mut sorted = [written, right].map(|word| word.chars().collect::<Vec<_>>());
            sorted
                .iter_mut()
                .for_each(|letters| letters.sort_unstable());
            let swapped = sorted.first() == sorted.last();
            (swapped && w > 3) || (same > 0 && w >= another)
        }
        // A name may be any word: of a short one a letter less is another.
        Ordering::Less => same > 0 && r >= SHORT + usize::from(is_name),
        Ordering::Greater => {
            let letter = |at: usize| written.chars().nth(at);
            let doubled = same > 0 && letter(same) == letter(same - 1);
            same > 0 && w > SHORT && (doubled || (w > MIDDLE && !is_name))
        }
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
            ("untill", "until"),
            ("truk", "truck"),
        ] {
            assert!(is_slip(written, right, LONG), "{written}");
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
            assert!(!is_slip(written, right, LONG), "{written}");
        }
    }
}
