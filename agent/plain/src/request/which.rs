//! Which of them, and how many: `the second person`, `several cars`, `when all have left`.
//!
//! A rule reports each object that does something, and how many there are at once.
//!
//! - A request for one by its position, for an amount without a number, or for one thing after
//!   another is refused.
//! - That all of them have left means that none is there.

use crate::answer::Missing;
use crate::names::{Mention, Stand};
use crate::need::{Need, Notes};
use crate::reader::Reader;
use crate::scene::quoted;

/// Places among others.
const ORDINALS: [&str; 15] = [
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
    "last", "next", "final", "another", "nth",
];
/// Amounts that are no numbers. `all` and `some` mean any object.
const AMOUNTS: [&str; 22] = [
    "many", "several", "few", "multiple", "numerous", "lots", "lot", "plenty", "bunch", "couple",
    "group", "groups", "dozens", "hundreds", "most", "half", "both", "majority", "part", "more",
    "enough", "loads",
];
/// Words between one of these and what it is about.
const BETWEEN: [&str; 14] = [
    "of",
    "the",
    "my",
    "our",
    "these",
    "those",
    "them",
    "a",
    "or",
    "two",
    "three",
    "such",
    "different",
    "other",
];

/// Refuses one of them by its place among them, and amounts that are no numbers.
pub(crate) fn refuse(r: &Reader, mentions: &[Mention]) -> Result<(), Need> {
    for mention in mentions.iter().filter(|m| m.stand == Stand::Wanted) {
        // `a dog or another animal` is any other.
        let is_other = |at: &usize| {
            r.any_word(*at) != "another"
                || !at
                    .checked_sub(1)
                    .is_some_and(|i| matches!(r.any_word(i), "or" | "and"))
        };
        if let Some(at) = before(r, mention, &ORDINALS).filter(is_other) {
            let written = r.written(at..mention.at.end);
            return Err(Need::not_read(
                format!(
                    "I tell each one that comes, and not {} of them. Say how many there are at once (\"at least 2 people\"), or how often you want to hear of it (\"at most once an hour\").",
                    quoted(&written)
                ),
                vec![written],
            ));
        }
        if let Some(at) = before(r, mention, &AMOUNTS) {
            // `how many people` is what is counted.
            if at.checked_sub(1).is_some_and(|i| r.any_word(i) == "how") {
                continue;
            }
            let written = r.written(at..mention.at.end);
            return Err(Need::new(
                Missing::Number,
                format!(
                    "How many is {}? Say the request again with a number, such as \"at least 3\" or \"fewer than 2\".",
                    quoted(&written)
                ),
            ));
        }
    }
    Ok(())
}

/// Where amounts that are no numbers stand before what is watched for: `several people`.
pub(super) fn amounts(r: &Reader, mentions: &[Mention]) -> Vec<usize> {
    let wanted = mentions.iter().filter(|m| m.stand == Stand::Wanted);
    wanted.filter_map(|m| before(r, m, &AMOUNTS)).collect()
}

/// Refuses to wait for what all of them do: who is not seen is not known.
pub(super) fn refuse_all(r: &Reader, mentions: &[Mention]) -> Result<(), Need> {
    let mut wanted = mentions.iter().filter(|m| m.stand == Stand::Wanted);
    let Some(mention) = wanted.find(|m| is_all_of_them(r, m)) else {
        return Ok(());
    };
    let written = r.written(mention.at.clone());
    Err(Need::new(
        Missing::Meaning,
        format!(
            "I tell each one that comes, and cannot tell whether it is all of them ({}). I can tell when nobody is there any more, or when there are more than a number.",
            quoted(&written)
        ),
    ))
}

/// Whether what is waited for is that all of them do something: `when everybody is in the hall`.
fn is_all_of_them(r: &Reader, mention: &Mention) -> bool {
    let said = mention.said.to_lowercase();
    let start = match said.as_str() {
        "everybody" | "everyone" => mention.at.start,
        _ => match before(r, mention, &["all"]) {
            Some(at) => at,
            None => return false,
        },
    };
    let when = |back: usize| start.checked_sub(back).map_or("", |i| r.any_word(i));
    let next = r.any_word(mention.at.end);
    let relative = matches!(next, "who" | "that" | "which");
    matches!(
        when(1),
        "when" | "if" | "once" | "whenever" | "until" | "unless"
    ) && !relative
}

/// Where one of these words stands free before what is mentioned, perhaps with one that describes
/// it between.
fn before(r: &Reader, mention: &Mention, words: &[&str]) -> Option<usize> {
    let mut described = false;
    for at in (0..mention.at.start).rev().take(5) {
        let word = r.word(at);
        if words.contains(&word) {
            return Some(at);
        }
        // `the first ten people`
        if r.fits_any_number(at) {
            continue;
        }
        let is_word = r.tokens.get(at).is_some_and(|t| t.is_word());
        if word.is_empty() || !is_word {
            return None;
        }
        if !BETWEEN.contains(&word) {
            // `the second red car`
            if described || crate::weighty::joins(word) {
                return None;
            }
            described = true;
        }
    }
    None
}

/// Refuses one thing after another: `when a person comes in and then a car`. `acts`: the words of
/// what happens.
pub(super) fn one_after_another(
    r: &Reader,
    mentions: &[Mention],
    acts: &[usize],
) -> Result<(), Need> {
    let after = |at: usize| {
        let thing = |i: usize| {
            mentions
                .iter()
                .any(|m| m.at.start == i && m.at.start > at && m.stand == Stand::Wanted)
        };
        (at + 1..at + 4).any(thing) || (at + 1..at + 3).any(|i| acts.contains(&i))
    };
    let begun = |at: usize| mentions.iter().any(|m| m.at.end <= at) || acts.iter().any(|i| *i < at);
    let Some(at) = (1..r.tokens.len()).find(|at| {
        let word = r.word(*at);
        let is_if = (0..*at).any(|i| matches!(r.any_word(i), "if" | "when"));
        // `if a car is seen, then …` says what is to be done.
        matches!(
            word,
            "then" | "afterwards" | "later" | "followed" | "subsequently"
        ) && begun(*at)
            && (word != "then" || !is_if || after(*at))
            && after(*at)
    }) else {
        return Ok(());
    };
    let written = r.written(at..(at + 3).min(r.tokens.len()));
    Err(Need::not_read(
        format!(
            "I cannot wait for one thing after another ({}). I can tell each of them when it happens: say them one at a time.",
            quoted(&written)
        ),
        vec![written],
    ))
}

/// Whether all of them have left, so that nobody is there; the words for it are used.
///
/// `every person that leaves` is each of them.
pub(super) fn all_have_left(
    r: &mut Reader,
    mentions: &[Mention],
    leaves: bool,
    notes: &mut Notes,
) -> Result<bool, Need> {
    for mention in mentions.iter().filter(|m| m.stand == Stand::Wanted) {
        let all = AllOf::read(r, mention);
        if !all.is_all && all.last.is_none() && all.all.is_none() && all.behind.is_none() {
            continue;
        }
        const GONE: [&str; 1] = ["is|are|has|have|had|be all|both? gone|away|left"];
        let gone = r
            .find(&GONE)
            .filter(|found| found.at.start >= mention.at.end)
            // `everyone's gone`
            .or_else(|| r.fits("all? gone", mention.at.end));
        if !leaves && gone.is_none() {
            continue;
        }
        let begins = all.last.or(all.all).unwrap_or(mention.at.start);
        let is_each = is_each_of_them(r, mention);
        let when = (begins.saturating_sub(3)..begins).any(|i| {
            matches!(
                r.any_word(i),
                "when" | "if" | "once" | "whenever" | "after" | "until" | "because"
            )
        });
        if is_each && when && (all.is_all || all.all.is_some()) {
            let written = r.written(begins..mention.at.end);
            return Err(Need::new(
                Missing::Meaning,
                format!(
                    "{} may be each of them or all of them together: say \"whenever a car leaves\", or \"when there are no cars\" for none being there.",
                    quoted(&written)
                ),
            ));
        }
        if is_each || (!when && all.last.is_none() && all.behind.is_none() && gone.is_none()) {
            continue;
        }
        for found in all.last.into_iter().chain(all.all).chain(all.behind) {
            r.mark(found..found + 1);
        }
        if let Some(gone) = gone {
            r.mark(gone.at);
        }
        notes
            .assumed
            .push("That all of them have left is taken as that none of them is there.".to_owned());
        return Ok(true);
    }
    Ok(false)
}

/// The words around a class that mean all of them.
struct AllOf {
    /// Whether the class itself means all, such as `everybody`.
    is_all: bool,
    /// Position of `last` before the class.
    last: Option<usize>,
    /// Position of `all` or `every` before the class.
    all: Option<usize>,
    /// Position of `all` behind the class.
    behind: Option<usize>,
}

impl AllOf {
    fn read(r: &Reader, mention: &Mention) -> Self {
        let said = mention.said.to_lowercase();
        let all = before(r, mention, &["all", "every"]).or_else(|| {
            // `all of the people`
            (0..mention.at.start)
                .rev()
                .take(3)
                .find(|i| matches!(r.any_word(*i), "all" | "every"))
        });
        Self {
            is_all: matches!(said.as_str(), "everybody" | "everyone" | "everything"),
            last: before(r, mention, &["last", "final"]),
            all,
            behind: (mention.at.end..r.tokens.len().min(mention.at.end + 4))
                .find(|i| r.word(*i) == "all"),
        }
    }
}

/// Whether each of them is meant: `everybody who leaves`, `all cars leaving the yard`.
fn is_each_of_them(r: &Reader, mention: &Mention) -> bool {
    let each = (mention.at.end..r.tokens.len().min(mention.at.end + 6)).find_map(|i| {
        match r.any_word(i) {
            "who" | "that" | "which" => Some(true),
            "leaving" | "exiting" | "departing" => {
                let is = r.any_word(i.saturating_sub(1));
                Some(!matches!(is, "is" | "are"))
            }
            "leave" | "leaves" | "left" | "exit" | "exits" | "gone" | "away" => Some(false),
            _ => None,
        }
    });
    each == Some(true)
}
