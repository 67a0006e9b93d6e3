//! What has to happen, from everything that the phrases of a request say together.
//!
//! - A number is one of objects only before a class, or where a comparison says so. A condition
//!   that no rule can express stays unread.
//! - Two phrases that no single condition can hold are refused, never narrowed to one of them.

use watchkeeper_contract::rule::{Condition, CountBound, CrossDirection};
use watchkeeper_engine::templates::watch::TRACKED;

use super::location::{direction_of, which_line};
use super::parts::Parts;
use crate::answer::Missing;
use crate::lexicon::{NOTIFIES, Polarity, Way};
use crate::names::{self, Mention};
use crate::place::Where;
use crate::reader::{Reader, Slot, one_of};
use crate::refusal::{Notes, Refusal};
use crate::scene::{Camera, Shape};
use crate::settings::{CRITICAL, seconds};

/// Seconds for which too few have to be seen, where the request does not say how long. A detector
/// misses a person for some frames, and one person walks behind another: neither is an event.
/// Longer than the two seconds for which a tracker keeps a lost track.
const TOO_FEW_S: f64 = 3.0;

const NO_SUM: &str = "I can tell each one that comes, goes or crosses, and when more or fewer than a number are there at once; I do not add up how many came. Say for example \"when there are more than 3 people\".";
const ONE_CONDITION: &str = "That is more than one condition, and a watch has one. Say a sentence for each, such as \"Tell me when no car is at the gate. Tell me when more than 2 cars are at the gate.\"";
const PARKED: &str = "A number does not tell whether they are parked or drive. Say it without that, or how long each stays, such as \"when a car stays in the left half for 10 minutes\".";
const NONE_MOVES: &str = "I tell those who come, go or cross as they do, and not that none did. I can tell when nobody is there for a time: say for example \"when nobody is in the hall for 10 minutes\".";
const WHICH_IS_IN: &str = "Which way is in? Say it as it is seen, such as \"from left to right\".";
const IN_A_MOMENT: &str = "Crossing a line or leaving takes no time. Say it without the time, or say for how long somebody stays or nobody is there, such as \"when nobody is in the hall for 10 minutes\".";
const ALL_COUNT: &str = "I count all that are there, and not only those who stay. Say for example \"tell me when a person stays at the bench for 2 minutes\": each of them is an event, and \"how many people stayed at the bench today\" counts those.";
const COUNT_ALONE: &str = "A count has no hours, times and pauses: it counts each object as long as it runs. Say it without them, or say what shall be reported, such as \"tell me when more than 3 people are in the hall at night\".";
const NO_MOVEMENT: &str = "I can tell when nothing is there, and not when nothing moves. Say for example \"when nobody is in the hall for 10 minutes\".";
const NOT_ALONE: &str = "I can tell when none of something is there, and not when there is none but something else. Say it without the exception, such as \"when nobody is in the hall\".";

impl Parts {
    pub(crate) fn is_line(&self) -> bool {
        self.place.as_ref().is_some_and(Where::is_line)
    }

    pub(super) fn crosses(&self) -> bool {
        self.acts.crosses || self.is_line()
    }

    /// Whether there are to be none of the objects.
    pub(crate) fn is_none(&self) -> bool {
        self.mentions.iter().any(Mention::is_none)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.acts.empty || self.is_none()
    }

    /// Refuses what no single condition can hold.
    pub(super) fn refuse_contradictions(&self, cameras: &[&Camera]) -> Result<(), Refusal> {
        let (acts, crosses) = (&self.acts, self.crosses());
        let comes_or_goes = acts.enters || acts.leaves;
        // One watch reports entering and leaving objects.
        let come_and_go = acts.enters && acts.leaves && self.settings.hold_s.is_none();
        // `free or occupied`, `comes or waits` are two conditions.
        let two = (acts.empty && (acts.occupied || acts.moves()))
            || (self.is_empty() && self.bound.is_some())
            || (acts.stays && (acts.leaves || acts.crosses))
            || (acts.appears && acts.leaves && !crosses)
            || self.clauses > 2
            || (self.clauses == 2 && !come_and_go);
        // `nobody but a dog` means that a dog is there alone.
        let is_left_out = |m: &Mention| m.polarity == Polarity::Excluded;
        let alone = self.is_none() && self.mentions.iter().any(is_left_out);
        let is_no_movement = |m: &Mention| m.is_none() && one_of("movement|motion", &m.said);
        let is_counted = self.bound.is_some() || self.is_empty() || acts.occupied;
        // That none comes is known when the time for it is over.
        let none_comes = acts.appears && self.settings.hold_s.is_none();
        let adds_up = self.bound.is_some() && (acts.crosses || comes_or_goes);
        let none_moves = self.is_none() && (crosses || comes_or_goes || none_comes);
        let only_counts = self.counts && !self.reports;
        let in_a_moment =
            self.reports && (crosses || acts.leaves) && self.settings.hold_s.is_some();
        let has_no_way = self.ways.is_empty() && acts.enters != acts.leaves && !acts.both_ways;
        let refused = [
            (adds_up, NO_SUM),
            (two, ONE_CONDITION),
            (is_counted && acts.parks, PARKED),
            (none_moves, NONE_MOVES),
            (alone, NOT_ALONE),
            (only_counts && acts.stays, ALL_COUNT),
            (only_counts && self.settings.limits_events(), COUNT_ALONE),
            (self.mentions.iter().any(is_no_movement), NO_MOVEMENT),
            (in_a_moment, IN_A_MOMENT),
            (crosses && has_no_way, WHICH_IS_IN),
        ];
        Refusal::first(&refused)?;
        if only_counts && !crosses && comes_or_goes {
            return Err(which_line(
                "Who comes and goes is counted where they cross a line, as \
                 `watchkeeper watch traffic-count` does. Where is it?",
                cameras,
            ));
        }
        Ok(())
    }

    /// Adds the bound that words without a number say.
    pub(super) fn complete(&mut self) {
        let said = match (self.is_empty(), self.acts.occupied) {
            (true, _) => Some(CountBound::Under(1)),
            (false, true) => Some(CountBound::Over(0)),
            (false, false) => None,
        };
        self.bound = self.bound.or(said);
    }

    /// The conditions at this place, and the place that they need; none where the request only
    /// counts.
    pub(super) fn conditions(
        &self,
        mut place: Option<Where>,
        camera: &Camera,
        notes: &mut Notes,
    ) -> Result<(Vec<Condition>, Option<Where>), Refusal> {
        if self.crosses() {
            let conditions = self.crossing(place.as_ref(), camera, notes)?;
            return Ok((conditions, place));
        }
        let stays = self.acts.stays || (self.settings.hold_s.is_some() && self.reports);
        let moves = self.bound.is_none() && (stays || self.reports);
        if place.is_none() && moves && (stays || self.acts.leaves) {
            notes.assume("No place was said: the whole picture.");
            place = Some(Where::whole_picture());
        }
        let conditions = match self.bound {
            Some(bound) => vec![self.count(bound, place.as_ref(), notes)],
            None if stays => vec![self.stay(place.as_ref())?],
            None if self.reports => self.coming_and_going(place.as_ref(), notes),
            None => Vec::new(),
        };
        let is_one_way = matches!(self.ways.as_slice(), [way] if *way != Way::Any);
        match is_one_way {
            false => Ok((conditions, place)),
            true => Err(no_line(place.as_ref(), camera)),
        }
    }

    fn crossing(
        &self,
        place: Option<&Where>,
        camera: &Camera,
        notes: &mut Notes,
    ) -> Result<Vec<Condition>, Refusal> {
        let Some((line, Shape::Line(a, b))) = place.map(|p| (p.step(), &p.shape)) else {
            return Err(no_line(place, camera));
        };
        let direction = direction_of(&self.ways, (*a, *b))?;
        let way = match direction {
            _ if self.reports => return Ok(vec![Condition::Crosses { line, direction }]),
            CrossDirection::Any => return Ok(Vec::new()),
            CrossDirection::In => "in",
            CrossDirection::Out => "out",
        };
        notes.assume(format!(
            "A line counts both directions, each by itself: the one that was said is count_{way}."
        ));
        Ok(Vec::new())
    }

    fn count(&self, bound: CountBound, place: Option<&Where>, notes: &mut Notes) -> Condition {
        let for_s = match (self.settings.hold_s, bound) {
            (Some(said), _) => said,
            (None, CountBound::Over(_)) => 0.0,
            (None, CountBound::Under(_)) => {
                notes.assume(format!(
                    "For how long was not said: it has to be so for {}, because somebody who is hidden for a moment is not gone.",
                    seconds(TOO_FEW_S)
                ));
                TOO_FEW_S
            }
        };
        let zone = place.filter(|place| !place.is_line());
        Condition::Count {
            detections: zone.map_or(TRACKED.to_owned(), |zone| {
                format!("$steps.{}.timed_detections", zone.step())
            }),
            bound,
            for_s,
        }
    }

    fn stay(&self, place: Option<&Where>) -> Result<Condition, Refusal> {
        let Some(for_s) = self.settings.hold_s else {
            return Err(Refusal::new(
                Missing::Duration,
                "How long shall they stay before it counts? Say for example \"two minutes\".",
            ));
        };
        let zone = place.map(Where::step).unwrap_or_default();
        Ok(Condition::Stays { zone, for_s })
    }

    fn coming_and_going(&self, place: Option<&Where>, notes: &mut Notes) -> Vec<Condition> {
        let Some(zone) = place.map(Where::step) else {
            if self.acts.enters {
                let seen = "No place was said: an object seen for the first time has entered.";
                notes.assume(seen.to_owned());
            }
            let detections = TRACKED.to_owned();
            return vec![Condition::Appears { detections }];
        };
        let enters = self.acts.enters || !self.acts.leaves;
        let enters = enters.then(|| Condition::Enters { zone: zone.clone() });
        let leaves = self.acts.leaves.then_some(Condition::Leaves { zone });
        enters.into_iter().chain(leaves).collect()
    }
}

/// The question which line is crossed. A zone does not count: an answer would contradict it.
fn no_line(zone: Option<&Where>, camera: &Camera) -> Refusal {
    let Some(zone) = zone else {
        return which_line("Where is the line that they cross?", &[camera]);
    };
    let text = format!(
        "Only a line reports who crosses it and which way, and {} is a zone. Say the whole request again with a line instead, or with \"enters\" or \"leaves\".",
        zone.text
    );
    Refusal::meaning(which_line(&text, &[camera]).text)
}

/// A number that nothing compares is the least.
const BARE: &str = "<n>";

/// How many of them there have to be. `None`: nothing was said about that, or nothing that a rule
/// can express; those words stay unread.
pub(super) fn bound(r: &mut Reader<'_>) -> Option<CountBound> {
    const GOES_ON: &str = "are|is|at|in|on|there|stand|wait|.|,";
    let bounds = r.lexicon.meanings.bounds.iter();
    let bounds = bounds.flat_map(|of| of.words.iter().map(|pattern| (pattern.as_str(), of.is)));
    for (pattern, (shift, over)) in bounds.chain([(BARE, (-1, true))]) {
        let is_bare = pattern == BARE;
        let found = r.positions().find_map(|at| {
            let found = r.match_at(pattern, at)?;
            let (before, next) = (r.before(at), found.at.end);
            let counted = names::class_begins(r, next);
            let ends = r.tokens.len() == next && one_of("are|is", before);
            // `stays for more than 3` is a time without its unit.
            let is_time = r.free_word(found.at.start.wrapping_sub(1)) == "for";
            let compares = !is_bare && !is_time && (ends || r.is(next, GOES_ON));
            (counted || compares).then_some(found)
        });
        let Some(found) = found else {
            continue;
        };
        let bound = limit(found.value(0), shift, over)?;
        if is_bare && r.free_word(found.at.start) == "one" {
            return None;
        }
        r.slot = Slot::Bound;
        r.mark(found.at);
        r.take_all(&["all? at the same time", "all? at once", "simultaneously"]);
        return Some(bound);
    }
    None
}

/// The bound that a number makes; none if it is not a number of objects, or one that is never so.
fn limit(number: f64, shift: i64, over: bool) -> Option<CountBound> {
    if number.fract() != 0.0 || !(0.0..=1e6).contains(&number) {
        return None;
    }
    let limit = u32::try_from(number as i64 + shift).ok()?;
    match (over, limit) {
        (true, limit) => Some(CountBound::Over(limit)),
        (false, 0) => None,
        (false, limit) => Some(CountBound::Under(limit)),
    }
}

/// The number of clauses with a condition: each begins with `when` or a similar word, or follows a
/// second verb of telling. `hold_at`: position of the duration of a state.
pub(super) fn clauses(r: &Reader<'_>, mentions: &[Mention], hold_at: Option<usize>) -> usize {
    let count = |begins: &dyn Fn(usize) -> bool| {
        let begin = |i: &usize| begins(*i) && matches!(r.slot_of(*i), Slot::Free | Slot::Other);
        r.positions().filter(begin).count()
    };
    let soon = |i: usize| r.word(i) == "soon" && i > 0 && r.word(i - 1) == "as";
    let whens = count(&|i| r.is(i, "when|if|whenever") || soon(i));
    let whos = count(&|i| r.is(i, "who|which"));
    let twice = 1 + usize::from(tells_twice(r, mentions, hold_at));
    whens.max(whos).max(twice)
}

/// Whether two things are to be reported: `tell me about people, and warn me after 10
/// minutes`, `alert me about people. If they stay 10 minutes it's urgent`.
fn tells_twice(r: &Reader<'_>, mentions: &[Mention], hold_at: Option<usize>) -> bool {
    let tells = |i: usize, words: &str| {
        matches!(r.slot_of(i), Slot::Verb | Slot::Wish)
            && (r.is(i, words) || r.is(i, "warning|let|remind|report|shout|flag"))
    };
    let ends = |i: usize| r.is(i, ".|!|?|;|\n");
    mentions.iter().any(|mention| {
        let behind = mention.at.end..r.tokens.len();
        let first = (0..mention.at.start).any(|i| tells(i, NOTIFIES));
        let again = |i: &usize| tells(*i, NOTIFIES) || tells(*i, CRITICAL) || ends(*i);
        let second = behind.clone().find(again).filter(|_| first);
        second.is_some_and(|at| {
            let acts = (at..behind.end).any(|i| r.slot_of(i) == Slot::Act);
            acts || hold_at.is_some_and(|hold| hold > at)
        })
    })
}
