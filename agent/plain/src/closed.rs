//! The closed-world check: which words of a request no phrase has read.
//!
//! - A function word of the lexicon may stand anywhere.
//! - A preposition counts as read only before what it belongs to: a camera, a place, a time.
//! - A conjunction counts as read only between two phrases that add up.
//! - Every other free word is left over, and a request with one is not proposed.

use std::ops::Range;

use crate::hours::is_time;
use crate::names;
use crate::need::Need;
use crate::reader::{Reader, Slot, one_of};
use crate::scene::{quoted, quoted_all};
use crate::token::Kind;

const WHERE: &str = "at|in|on|from|inside|into|onto|within|to|of|for|during|by|through|over|across|via|with|after|until";
const SENTENCE_END: &str = ".|!|?|;|\n";
const MARKS: &str = ".|,|;|:|!|?|\n|-|–|—|(|)|\"|'|“|”|„";

/// Words that change nothing of an order about what runs.
const OF_ORDERS: &str =
    "again|always|could|should|would|may|must|was|were|been|constantly|continuously";

/// Words that no phrase has read, together where they stand together.
pub(crate) fn unread(r: &Reader<'_>) -> Vec<Range<usize>> {
    let check = Check { r };
    r.groups(|at| !check.is_read(at))
}

struct Check<'r> {
    r: &'r Reader<'r>,
}

impl Check<'_> {
    fn is_read(&self, at: usize) -> bool {
        let r = self.r;
        let word = r.word(at);
        if word.is_empty() || self.r.lexicon.is_function(word) {
            return true;
        }
        if r.tokens.get(at).is_some_and(|t| t.kind == Kind::Mark) {
            return one_of(MARKS, word) || self.is_arrow(at) || self.is_conjunction(at);
        }
        self.is_preposition(at)
            || self.is_conjunction(at)
            || self.is_limit(at)
            || self.is_of_the_request(at)
    }

    /// `could you tell me`, `always tell me`: said of the request, and not of what is watched for.
    fn is_of_the_request(&self, at: usize) -> bool {
        let r = self.r;
        one_of(
            "could|should|would|may|must|always|constantly|continuously",
            r.word(at),
        ) && !(0..at).any(|i| r.slot_of(i) == Slot::Class || is_when(r, i))
    }

    /// `- >` and `=` before what is to be done.
    fn is_arrow(&self, at: usize) -> bool {
        let verb = matches!(self.next(at), Some(Slot::Verb | Slot::Wish));
        verb && one_of(">|=|→", self.r.word(at))
    }

    /// Slot of the next word that is no function word, in the same sentence.
    fn next(&self, at: usize) -> Option<Slot> {
        let mut behind = at + 1..self.r.tokens.len();
        self.slot_among(&mut behind)
    }

    /// Slot of the last word before that is no function word, in the same sentence.
    fn last(&self, at: usize) -> Option<Slot> {
        self.slot_among(&mut (0..at).rev())
    }

    fn slot_among(&self, at: &mut dyn Iterator<Item = usize>) -> Option<Slot> {
        let r = self.r;
        for i in at {
            if r.slot_of(i) != Slot::Free {
                return Some(r.slot_of(i));
            }
            let word = r.any_word(i);
            let skips = self.r.lexicon.is_function(word)
                || one_of(WHERE, word)
                || one_of(",|:|-|–|only|just|every|each|all|and|then|(|)|>", word);
            if !skips || one_of(SENTENCE_END, word) {
                return None;
            }
        }
        None
    }

    fn is_preposition(&self, at: usize) -> bool {
        let word = self.r.word(at);
        match self.next(at) {
            Some(Slot::Place) if word == "from" => self.last(at) == Some(Slot::Act),
            Some(Slot::Camera | Slot::Place | Slot::Way | Slot::Time | Slot::Wish) => {
                one_of(WHERE, word)
            }
            Some(Slot::Class | Slot::Bound) => match word {
                "for" | "about" | "of" => true,
                "on" => self.last(at) == Some(Slot::Verb),
                "by" => self.last(at) == Some(Slot::Act),
                _ => false,
            },
            Some(Slot::Verb) => word == "to",
            _ => word == "of" && self.last(at) == Some(Slot::Act),
        }
    }

    fn is_conjunction(&self, at: usize) -> bool {
        let word = self.r.word(at);
        if !one_of("and|or|but|plus|then|+|&", word) {
            return false;
        }
        match (self.last(at), self.next(at)) {
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

    /// Whether a word is of those that come and go, each of which is told.
    fn moves(&self, at: usize) -> bool {
        const MOVES: &str = "enter|enters|entering|entered|leave|leaves|leaving|left|exit|exits|exiting|arrive|arrives|arriving|depart|departs|arrivals|departures|comes|come|goes|go|in|out|appears|crosses";
        one_of(MOVES, self.r.any_word(at))
    }

    /// `only` and `every` beside what they limit.
    fn is_limit(&self, at: usize) -> bool {
        let r = self.r;
        let beside = |i: usize| r.slot_of(i);
        let next =
            (at + 1..r.tokens.len()).find(|i| !one_of("a|an|the|for|about|at|on|in", r.word(*i)));
        let next_is = |slots: &[Slot]| next.is_some_and(|i| slots.contains(&beside(i)));
        let waits = (0..r.tokens.len()).any(|i| is_when(r, i));
        match r.word(at) {
            "only" | "just" => {
                let last_is = |slots: &[Slot]| at > 0 && slots.contains(&beside(at - 1));
                // `is only at the gate` says that it is nowhere else, which no rule tells.
                let is_of_place = !one_of("is|are|was|were|there|there's", r.before(at));
                // `when only a person is there` says so of everything else.
                let is_of_class = is_of_place && (0..at).all(|i| !is_when(r, i));
                let of_place = [Slot::Camera, Slot::Place];
                next_is(&[Slot::Time, Slot::Verb, Slot::Wish])
                    || next.is_some_and(|i| one_of("when|if", r.word(i)))
                    || last_is(&[Slot::Time])
                    || is_of_place && (next_is(&of_place) || last_is(&of_place))
                    || is_of_class && (next_is(&[Slot::Class]) || last_is(&[Slot::Class]))
            }
            // `but only at night`, `but only on the gate camera`
            "but" => one_of("only|just", r.word(at + 1)) && self.is_limit(at + 1),
            "every" | "each" | "all" => beside(at + 1) == Slot::Class && !waits,
            _ => false,
        }
    }
}

/// Whether a word begins the clause of a condition.
fn is_when(r: &Reader<'_>, at: usize) -> bool {
    one_of("when|if|whenever", r.any_word(at))
}

/// Refuses a request to watch with words that no phrase has read.
pub(crate) fn refuse(r: &Reader<'_>) -> Result<(), Need> {
    let left = unread(r);
    if left.is_empty() {
        return Ok(());
    }
    let words: Vec<String> = left.iter().map(|at| r.written(at.clone())).collect();
    let known = |i: usize| names::class_begins(r, i) || names::camera_at(r, i);
    let is_known = left.iter().any(|at| at.clone().any(known));
    let all = || left.iter().cloned().flatten();
    let is_time = all().any(|i| is_time(r.word(i)));
    let is_camera =
        all().any(|i| one_of("camera|cam", r.word(i))) && !all().any(|i| names::camera_at(r, i));
    let unknown = left.iter().find_map(|at| unknown_class(r, at));
    if let Some(class) = unknown.filter(|_| !is_known && !is_time && !is_camera) {
        let labels = vec![class.clone()];
        return Err(names::no_such_class(&class, labels, words, r.scene));
    }
    let remedy = match (is_known, is_time) {
        (_, true) => {
            "A watch has days of the week and hours, and no dates: say for example \"on fridays between 20:00 and 23:00\"."
        }
        (_, false) if is_outage(r, &words) => {
            "A camera that is lost, failed, black or frozen is an event by itself: `min_severity = \"warning\"` in the section of a channel sends it there."
        }
        (_, false) if is_camera => &no_such_camera(r)
            .unwrap_or_else(|| format!("The cameras are: {}.", names::listed(&r.scene.cameras))),
        (true, false) => "Say a sentence for each class and each camera.",
        (false, false) => "Say it in other words, or one thing in a sentence.",
    };
    let text = format!(
        "I do not understand {} here, and without it the request would be another one, so I propose nothing. {remedy}",
        quoted_all(&words, ", ")
    );
    Err(Need::not_read(text, words))
}

/// Whether what is left over is said of a camera that gives no picture.
fn is_outage(r: &Reader<'_>, left: &[String]) -> bool {
    const OUTAGE: &str = "offline|dark|black|frozen|covered|blind|disconnected|disconnects|unplugged|signal|connection|outage|outages|lost|dead";
    let is_camera = r
        .tokens
        .iter()
        .any(|t| one_of("camera|cameras|cam", &t.text));
    let mut words = left.iter().flat_map(|words| words.split(' '));
    is_camera && words.any(|word| one_of(OUTAGE, word))
}

/// A sentence about the camera that is named and that there is not: `the pool camera`,
/// `on camera pool`.
pub(crate) fn no_such_camera(r: &Reader<'_>) -> Option<String> {
    let is_name = |i: &usize| {
        let is_unread = matches!(r.slot_of(*i), Slot::Free | Slot::Place);
        let is_word = r.tokens.get(*i).is_some_and(|t| t.is_word());
        is_unread && is_word && !r.lexicon.is_everyday(r.any_word(*i))
    };
    let beside = |i: usize| {
        let behind = one_of("on|at|from|of|for|in", r.before(i)).then_some(i + 1);
        let mut names = i.checked_sub(1).into_iter().chain(behind);
        names.find(is_name)
    };
    let mut cameras = (0..r.tokens.len()).filter(|i| one_of("camera|cam", r.word(*i)));
    let name = cameras.find_map(beside)?;
    let (name, cameras) = (r.written(name..name + 1), names::listed(&r.scene.cameras));
    Some(format!(
        "There is no camera {}; the cameras are: {cameras}.",
        quoted(&name)
    ))
}

/// Whether a word and those that describe it stand where only an object does, and no place:
/// `a safe`, `when the safe`, `about the safe`.
pub(crate) fn is_object(r: &Reader<'_>, start: usize) -> bool {
    let before = r.before(r.before_articles(start));
    one_of("a|an", r.before(start)) || one_of("when|if|whenever|about", before)
}

/// Words that stand before a class and are none.
const NO_CLASS: &str = "no|not|never|between|fewer|less|more|exactly|several|few|second|third|last|next|same|remember|without|than";

/// The first words left over that stand where a class would.
fn unknown_class(r: &Reader<'_>, at: &Range<usize>) -> Option<String> {
    let content = |i: &usize| {
        let word = r.word(*i);
        r.tokens.get(*i).is_some_and(|t| t.is_word())
            && !word.is_empty()
            && !r.lexicon.is_everyday(word)
            && !one_of(NO_CLASS, word)
            && !word.ends_with("ing")
            // `drives me mad`: a verb.
            && !one_of("me|us", r.any_word(i + 1))
    };
    let mut words = at.clone().filter(content);
    let start = words.find(|i| !r.lexicon.words.places.contains(r.word(*i)) || is_object(r, *i))?;
    let end = (start..at.end).find(|i| !content(i)).unwrap_or(at.end);
    // `a red car`: it describes what is known.
    if r.slot_of(end) == Slot::Class {
        return None;
    }
    let article = one_of("a|an|any|the|some|no", r.before(start));
    let before = start - usize::from(article);
    let joins = one_of("or|and", r.before(before))
        && before
            .checked_sub(2)
            .is_some_and(|i| r.slot_of(i) == Slot::Class);
    // `the shop is on fire`
    let is_state = r.before(start) == "on" && one_of("is|are", r.before(start - 1));
    let is_subject = joins
        || is_state
        || one_of("when|if|whenever|about|for|of|:", r.before(before))
        || article && one_of("is|are|see|sees|spot|spots", r.before(before))
        || before == 0
        || before
            .checked_sub(1)
            .is_some_and(|i| r.slot_of(i) == Slot::Verb);
    (is_subject && end - start < 3).then(|| r.written(start..end))
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
        let word = r.word(at);
        word.is_empty() || one_of(MARKS, word) || is_small(word)
    };
    let left = r.groups(|at| !is_read(at));
    left.into_iter().map(|at| r.written(at)).collect()
}
