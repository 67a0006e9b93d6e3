//! Verbs: whether a request watches or counts, and what happens in the picture.

use crate::intent::named_watch;
use crate::names::{self, Mention};
use crate::reader::{Reader, Slot};

/// Acts of a request, by their words.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Acts {
    pub(crate) crosses: bool,
    pub(crate) enters: bool,
    pub(crate) leaves: bool,
    pub(crate) stays: bool,
    pub(crate) empty: bool,
    pub(crate) occupied: bool,
    /// Something comes or is seen for the first time.
    pub(crate) appears: bool,
    /// Both directions: `in and out`.
    pub(crate) both_ways: bool,
    /// Only people do that.
    pub(crate) people: bool,
    /// Only what drives does that.
    pub(crate) parks: bool,
    /// It only moves.
    pub(super) motion: bool,
}

impl Acts {
    /// Whether something comes, goes, crosses or stays.
    pub(super) fn moves(&self) -> bool {
        self.crosses || self.enters || self.leaves || self.stays
    }

    /// Whether the words imply an object if none is named.
    pub(super) fn tell_who(&self) -> bool {
        self.empty || self.occupied || self.people
    }
}

/// Takes the words for what happens.
///
/// The order matters: each pattern takes words from those after it.
///
/// `moves`: whether a direction or a line was named, which implies movement. `held`: whether a
/// duration was stated.
pub(super) fn acts(r: &mut Reader<'_>, mentions: &[Mention], moves: bool, held: bool) -> Acts {
    r.slot = Slot::Act;
    let mut hidden = r.find_all("@nouns_like_verbs");
    // `stops coming` is the end of it, and nothing that stays.
    let is_end = |i| r.is_free(i, "stop|stops|stopped") && r.word(i + 1).ends_with("ing");
    hidden.extend(r.groups(is_end));
    r.with_hidden(hidden, |r| verbs(r, mentions, moves, held))
}

/// Assumption where more than staying is said of the objects.
const ALL_STAY: &str = "I can't tell how they are there, or who is with them: all that are there for that time count, also those that move.";

fn verbs(r: &mut Reader<'_>, mentions: &[Mention], moves: bool, held: bool) -> Acts {
    let both_ways = r.take_all(&["@both_ways"]);
    // Before `left alone`, which of an object is that it stays.
    let empty = take_state(r, mentions, "@is_empty");
    if r.has(&["@how_it_is_there"]) {
        r.assume(ALL_STAY);
    }
    let mut acts = Acts {
        both_ways,
        crosses: r.take_all(&["@crosses"]) || both_ways,
        leaves: r.take_all(&["@leaves"]),
        enters: r.take_all(&["@enters"]),
        people: r.has(&["@only_people"]),
        parks: r.has(&["@parks"]),
        stays: r.take_all(&["@stays"]),
        empty,
        occupied: take_state(r, mentions, "@is_occupied"),
        appears: take_passing(r),
        motion: false,
    };
    if held {
        r.take_all(&["has|have|it's|he's|she's been"]);
    }
    if moves || acts.crosses {
        r.take_all(&["@goes"]);
    }
    acts.appears |= r.take_all(&["@appears"]);
    r.take_all(&["@is_there"]);
    // A staying object does not move, and no rule measures how long something moves.
    if !(acts.stays || held || mentions.iter().any(Mention::is_none)) {
        // `a moving car` is not any car.
        acts.motion = r.mark_where(|r, i| {
            r.is_free(i, "moves|move|moving") && r.slot_of(i + 1) != Slot::Class
        });
    }
    acts
}

/// Takes `drives by` where no place follows: who walks by the pool is not in it.
fn take_passing(r: &mut Reader<'_>) -> bool {
    let mut passing = r.find_all("@passes_by");
    let ends = |at: usize| r.is_free(at, "|.|,|!|\n|on|at|in|and");
    passing.retain(|at| ends(at.end) && r.slot_of(at.end) != Slot::Place);
    passing.iter().for_each(|at| r.mark(at.clone()));
    !passing.is_empty()
}

/// Takes words for the state of a place. Beside a class it says something else, unless it is said
/// of that class: `occupied by a car`, `free of cars`.
fn take_state(r: &mut Reader<'_>, mentions: &[Mention], states: &str) -> bool {
    let Some(found) = r.find(&[states]) else {
        return false;
    };
    let end = found.at.end;
    let of_class = r.is(end, "by|of");
    if mentions.iter().any(|m| m.at.start < end || !of_class) {
        return false;
    }
    r.mark(found.at.start..end + usize::from(of_class));
    true
}

/// Takes words that say nothing of what is watched for.
pub(super) fn take_courtesies(r: &mut Reader<'_>) {
    r.take_all(&["@courtesies"]);
    while let Some(found) = r.find(&["@as_soon_as"]) {
        r.mark(found.at.start..found.at.end - 1);
    }
}

/// Takes the verbs of watching and of counting. Returns whether there is one of each.
pub(super) fn wanted(r: &mut Reader<'_>) -> (bool, bool) {
    // `Watch tower` is a camera if there is one.
    let mut names = r.find_all("@nouns_like_verbs");
    names.extend(names::camera_positions(r).into_iter().map(|(at, _)| at));
    // `tell me when the gate watch stops`; of a critical alarm the first word is used already.
    names.extend(named_watch(&r.reread()));
    r.with_hidden(names, |r| {
        let counts = r.take_all(&["@count"]);
        if counts {
            // Who watches to count wants no event.
            r.take_all(&["watch|monitor", "keep an eye on"]);
        }
        let watches = r.take_all(&["@watch"]);
        r.take_all(&["message|messages|msg with?"]);
        if counts {
            r.take_all(&["how many", "the? number of"]);
        }
        (watches, counts)
    })
}
