//! The closed-world check: which words of a request no phrase has read.
//!
//! - A function word of the lexicon may be anywhere.
//! - A preposition counts as read only before what it belongs to: a camera, a place, a time.
//! - A conjunction counts as read only between two phrases that add up.
//! - Every other free word is left over, and a request with one is not proposed.

use crate::names;
use crate::reader::{Reader, Slot, one_of};
use crate::refusal::Refusal;
use crate::scene::{quoted, quoted_all};
use crate::token::Kind;

const WHERE: &str = "at|in|on|from|inside|into|onto|within|to|of|for|during|by|through|over|across|via|with|after|until";
const SENTENCE_END: &str = ".|!|?|;|\n";
const MARKS: &str = ".|,|;|:|!|?|\n|-|–|—|(|)|\"|'|“|”|„";

/// Words that change nothing of an order about what runs.
const OF_ORDERS: &str = "again|could|should|would|may|must|was|were|been";

impl Reader<'_> {
    /// Whether a phrase has read a word, or it changes nothing where it stands.
    pub(crate) fn is_read(&self, at: usize) -> bool {
        let word = self.free_word(at);
        if word.is_empty() || self.lexicon.is_function(word) {
            return true;
        }
        if self.tokens.get(at).is_some_and(|t| t.kind == Kind::Mark) {
            return one_of(MARKS, word) || self.is_arrow(at) || self.is_conjunction(at);
        }
        self.is_preposition(at) || self.is_conjunction(at) || self.is_limit(at)
    }

    /// `- >` and `=` before what is to be done.
    fn is_arrow(&self, at: usize) -> bool {
        let verb = matches!(self.slot_behind(at), Some(Slot::Verb | Slot::Wish));
        verb && self.is_free(at, ">|=|→")
    }

    /// Slot of the next word that is not a function word, in the same sentence.
    fn slot_behind(&self, at: usize) -> Option<Slot> {
        let mut behind = at + 1..self.tokens.len();
        self.slot_among(&mut behind)
    }

    /// Slot of the last word before that is not a function word, in the same sentence.
    fn slot_before(&self, at: usize) -> Option<Slot> {
        self.slot_among(&mut (0..at).rev())
    }

    fn slot_among(&self, at: &mut dyn Iterator<Item = usize>) -> Option<Slot> {
        for i in at {
            if self.slot_of(i) != Slot::Free {
                return Some(self.slot_of(i));
            }
            let word = self.word(i);
            let skips = self.lexicon.is_function(word)
                || one_of(WHERE, word)
                || one_of(",|:|-|–|only|just|every|each|all|and|then|(|)|>", word);
            if !skips || one_of(SENTENCE_END, word) {
                return None;
            }
        }
        None
    }

    fn is_preposition(&self, at: usize) -> bool {
        let word = self.free_word(at);
        match self.slot_behind(at) {
            Some(Slot::Place) if word == "from" => self.slot_before(at) == Some(Slot::Act),
            // `by the pool` is not in it.
            Some(Slot::Place) if word == "by" => false,
            // `from now until 11 pm` is not a time of every day.
            Some(Slot::Time) if word == "from" => self.free_word(at + 1) != "now",
            Some(Slot::Camera | Slot::Place | Slot::Way | Slot::Time | Slot::Wish) => {
                one_of(WHERE, word)
            }
            Some(Slot::Class | Slot::Bound) => match word {
                "for" | "about" | "of" => true,
                "on" => self.slot_before(at) == Some(Slot::Verb),
                "by" => self.slot_before(at) == Some(Slot::Act),
                _ => false,
            },
            Some(Slot::Verb) => word == "to",
            _ => word == "of" && self.slot_before(at) == Some(Slot::Act),
        }
    }

    fn is_conjunction(&self, at: usize) -> bool {
        let word = self.free_word(at);
        if !one_of("and|or|but|plus|then|+|&", word) {
            return false;
        }
        match (self.slot_before(at), self.slot_behind(at)) {
            (Some(Slot::Act), Some(Slot::Act)) => {
                word == "and" || (word == "or" && self.moves(at - 1) && self.moves(at + 1))
            }
            (Some(Slot::Way), Some(Slot::Way)) => one_of("and|or", word),
            (Some(Slot::Camera | Slot::Place), Some(Slot::Act)) => word == "and",
            (_, Some(Slot::Verb | Slot::Wish)) => word != "or",
            (last, Some(Slot::Time)) => last != Some(Slot::Time) && one_of("and|but", word),
            _ => false,
        }
    }

    /// Whether a word is for objects that come and go, each of which is reported.
    fn moves(&self, at: usize) -> bool {
        const MOVES: &str = "enter|enters|entering|entered|leave|leaves|leaving|left|exit|exits|exiting|arrive|arrives|arriving|depart|departs|arrivals|departures|comes|come|goes|go|in|out|appears|crosses";
        self.is(at, MOVES)
    }

    /// `only` and `every` beside what they limit.
    fn is_limit(&self, at: usize) -> bool {
        let beside = |i: usize| self.slot_of(i);
        let next =
            (at + 1..self.tokens.len()).find(|i| !self.is_free(*i, "a|an|the|for|about|at|on|in"));
        let next_is = |slots: &[Slot]| next.is_some_and(|i| slots.contains(&beside(i)));
        let waits = self.positions().any(|i| is_when(self, i));
        match self.free_word(at) {
            "only" | "just" => {
                let last_is = |slots: &[Slot]| at > 0 && slots.contains(&beside(at - 1));
                // `is only at the gate` says that it is nowhere else, which no rule can report.
                let is_of_place = !self.is_behind(at, "is|are|was|were|there|there's");
                // `when only a person is there` says so of everything else.
                let is_of_class = is_of_place && (0..at).all(|i| !is_when(self, i));
                let of_place = [Slot::Camera, Slot::Place];
                next_is(&[Slot::Time, Slot::Verb, Slot::Wish])
                    || next.is_some_and(|i| self.is_free(i, "when|if"))
                    || last_is(&[Slot::Time])
                    || is_of_place && (next_is(&of_place) || last_is(&of_place))
                    || is_of_class && (next_is(&[Slot::Class]) || last_is(&[Slot::Class]))
            }
            // `but only at night`, `but only on the gate camera`
            "but" => self.is_free(at + 1, "only|just") && self.is_limit(at + 1),
            "every" | "each" | "all" => beside(at + 1) == Slot::Class && !waits,
            _ => false,
        }
    }
}

/// Whether a word begins the clause of a condition.
fn is_when(r: &Reader<'_>, at: usize) -> bool {
    r.is(at, "when|if|whenever")
}

/// Refuses a request to watch with words that no phrase has read. `nearest` is the command line of
/// a template that comes close, if there is one.
pub(crate) fn refuse(r: &Reader<'_>, nearest: impl Fn() -> Option<String>) -> Result<(), Refusal> {
    let left = r.groups(|at| !r.is_read(at));
    // Before a class that was read it says how that is; a verb or an adverb has no article.
    let is_class = |i: usize| r.slot_of(i) == Slot::Class;
    let may_be_thing = |i: usize| {
        let is_known = r.lexicon.is_everyday(r.word(i)) || names::class_begins(r, i);
        let is_led = r.is_behind(i, "a|an|the|any|some|no|my|our|about|for|of|when|if");
        r.is_word(i) && is_led && !is_known && !is_class(i + 1)
    };
    let is_left = |i: usize| left.iter().any(|at| at.contains(&i));
    let remedy = match r.with_tokens(&r.tokens_where(is_left)).remedy("request") {
        Some(remedy) => format!("{remedy} Or say"),
        None if r.positions().any(|i| is_left(i) && may_be_thing(i)) => format!(
            "If it is a thing to watch for, no model here ({}) knows it: ask \"what objects can you detect\". Otherwise say",
            r.scene.model_names()
        ),
        None => "Say".to_owned(),
    };
    let template = nearest().map_or_else(
        || ": `watchkeeper watch --list` shows them".to_owned(),
        |command| format!(", of which the nearest is `{command}`"),
    );
    let hint = format!(
        "{remedy} it in other words, a sentence for each class and each camera, or use a template{template}."
    );
    let words = left.into_iter().map(|at| r.written(at)).collect();
    refuse_words(r, words, &hint)
}

/// Refuses a request because of `words` that nothing has read. `hint`: what can be said instead.
pub(crate) fn refuse_words(r: &Reader<'_>, words: Vec<String>, hint: &str) -> Result<(), Refusal> {
    if words.is_empty() {
        return Ok(());
    }
    let text = no_such_camera(r).unwrap_or_else(|| {
        let words = quoted_all(&words, ", ");
        format!("I do not understand {words} of that, so I propose nothing. {hint}")
    });
    Err(Refusal::not_read(text, words))
}

/// A sentence about the camera that is named and that there is not: `the pool camera`,
/// `on camera pool`.
pub(crate) fn no_such_camera(r: &Reader<'_>) -> Option<String> {
    let is_name = |i: &usize| {
        let is_unread = matches!(r.slot_of(*i), Slot::Free | Slot::Place);
        is_unread && r.is_word(*i) && !r.lexicon.is_everyday(r.word(*i)) && !names::camera_at(r, *i)
    };
    let beside = |i: usize| {
        let behind = r.is_behind(i, "on|at|from|of|for|in").then_some(i + 1);
        i.checked_sub(1).into_iter().chain(behind)
    };
    let cameras = r.positions().filter(|i| r.is_free(*i, "camera|cam"));
    let name = { cameras }.flat_map(beside).find(is_name)?;
    let (name, cameras) = (r.written(name..name + 1), names::listed(&r.scene.cameras));
    Some(format!(
        "There is no camera {}; the cameras are: {cameras}.",
        quoted(&name)
    ))
}

/// Words that no phrase has read of an order about what runs. `small`: words that say nothing
/// there.
pub(crate) fn unread_words(r: &Reader<'_>, small: &str) -> Vec<String> {
    left_over(r, |word| {
        r.lexicon.is_function(word) || one_of(OF_ORDERS, word) || one_of(small, word)
    })
}

/// Words that no phrase has read of a question.
pub(crate) fn content_words(r: &Reader<'_>) -> Vec<String> {
    left_over(r, |word| r.lexicon.is_asked(word))
}

fn left_over(r: &Reader<'_>, is_small: impl Fn(&str) -> bool) -> Vec<String> {
    let is_read = |at: usize| {
        let word = r.free_word(at);
        word.is_empty() || one_of(MARKS, word) || is_small(word)
    };
    let left = r.groups(|at| !is_read(at));
    left.into_iter().map(|at| r.written(at)).collect()
}
