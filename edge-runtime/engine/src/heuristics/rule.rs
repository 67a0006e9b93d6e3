//! One rule at work: what it watches, and what it says when something happens.
//!
//! Invariant: whatever is open is ended by [`Rule::finish`]; a rule reads only its own needs.

use std::collections::BTreeMap;
use std::sync::Arc;

use watchkeeper_contract::event::RuleEvent;
use watchkeeper_contract::id::TrackId;
use watchkeeper_contract::rule::{Band, CountBound, RuleSpec, ValueTest};

use super::GRACE_S;
use super::check::{TrackKind, Watch};
use super::evidence::{Link, of_count, of_track, of_value};
use super::history::{History, Record};
use super::life::{Desk, Held, Life, Open, SETTLE_S, Scene};
use super::moment::{Input, Moment};
use super::presence::{Presence, Stay};
use super::schedule::Awake;
use crate::analytics::recent::Recent;
use crate::detections::{Detection, Detections};

/// Most tracks of which an `appears` rule remembers that they have appeared.
const MAX_KNOWN: usize = 4096;
/// Most tracks that an event about a count lists.
const MAX_LISTED: usize = 32;

/// The boxes of one need in one frame.
#[derive(Debug, Default)]
pub(super) struct Boxes<'a> {
    /// All of them, in an order that does not depend on the one they came in.
    all: Vec<&'a Detection>,
    /// One for each track, the best.
    tracked: BTreeMap<TrackId, &'a Detection>,
}

impl<'a> Boxes<'a> {
    pub(super) fn new(detections: &'a Detections) -> Self {
        let mut all: Vec<&Detection> = detections.boxes.iter().collect();
        let key = |d: &Detection| [d.confidence, d.bbox.x1, d.bbox.y1, d.bbox.x2, d.bbox.y2];
        all.sort_by(|a, b| {
            let (ka, kb) = (key(a), key(b));
            let by = ka.iter().zip(&kb).map(|(x, y)| y.total_cmp(x));
            by.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
                .then_with(|| a.class.cmp(&b.class))
        });
        let mut tracked = BTreeMap::new();
        for d in &all {
            if let Some(track) = d.track.filter(|t| t.0 >= 0) {
                tracked.entry(track).or_insert(*d);
            }
        }
        Self { all, tracked }
    }

    pub(super) fn tracked(&self) -> impl Iterator<Item = (TrackId, &'a Detection)> {
        self.tracked.iter().map(|(&t, &d)| (t, d))
    }
}

/// What the rules look at in one frame, by need and by group.
pub(super) struct View<'a> {
    pub(super) inputs: &'a [Input<'a>],
    pub(super) boxes: &'a [Option<Boxes<'a>>],
    pub(super) histories: &'a [History],
}

/// A condition about the scene as a whole: since when it holds, and what became of it.
#[derive(Debug)]
struct Level {
    since_s: Option<f64>,
    last_true_s: f64,
    life: Life,
    /// The latest number or truth, for the last words.
    latest: Reading,
}

/// What was read of a condition about the scene.
#[derive(Debug, Clone, Default)]
struct Reading {
    number: Option<f64>,
    tracks: Vec<TrackId>,
    scores: Vec<f64>,
}

#[derive(Debug)]
enum State {
    Tracks {
        presence: Presence,
        known: Recent<()>,
    },
    Crosses,
    Level(Box<Level>),
}

/// A rule at work.
#[derive(Debug)]
pub(super) struct Rule {
    name: String,
    classes: Vec<String>,
    band: Option<Band>,
    watch: Arc<Watch>,
    desk: Desk,
    state: State,
}

impl Rule {
    pub(super) fn new(spec: &RuleSpec, awake: Option<Awake>, watch: Watch) -> Self {
        let state = match &watch {
            Watch::Tracks { .. } => State::Tracks {
                presence: Presence::default(),
                known: Recent::new(MAX_KNOWN),
            },
            Watch::Crosses { .. } => State::Crosses,
            Watch::Count { .. } | Watch::Value { .. } => State::Level(Box::new(Level {
                since_s: None,
                last_true_s: 0.0,
                life: Life::candidate(),
                latest: Reading::default(),
            })),
        };
        Self {
            name: spec.name.clone(),
            classes: spec.classes.clone(),
            band: spec.confidence,
            watch: Arc::new(watch),
            desk: Desk::new(spec, awake),
            state,
        }
    }

    /// Candidates that were too weak to become events.
    pub(super) fn discarded(&self) -> u64 {
        self.desk.discarded
    }

    /// Tracks that were not watched because there were too many at once.
    pub(super) fn unwatched(&self) -> u64 {
        match &self.state {
            State::Tracks { presence, .. } => presence.unwatched,
            State::Crosses | State::Level(_) => 0,
        }
    }

    /// Takes one frame.
    pub(super) fn observe(&mut self, scene: &mut Scene<'_>, view: &View<'_>) {
        let watch = Arc::clone(&self.watch);
        match &*watch {
            Watch::Tracks {
                kind,
                need,
                group,
                inside_only,
            } => {
                let boxes = view.boxes[*need].as_ref();
                let inside = |d: &Detection| {
                    let time = d.extra.as_ref().and_then(|e| e.time_in_zone);
                    !inside_only || time.is_some_and(|t| t > 0.0)
                };
                let present = boxes
                    .into_iter()
                    .flat_map(Boxes::tracked)
                    .filter(|(_, d)| inside(d));
                self.tracks(scene, kind, present, &view.histories[*group]);
            }
            Watch::Crosses { line, needs, group } => {
                for (need, direction) in needs.iter().zip(["in", "out"]) {
                    let boxes = need.and_then(|n| view.boxes[n].as_ref());
                    for (track, d) in boxes.into_iter().flat_map(Boxes::tracked) {
                        self.crossed(scene, line, direction, (track, d), &view.histories[*group]);
                    }
                }
            }
            Watch::Count {
                need,
                bound,
                inside_only,
                ..
            } => {
                let reading = view.boxes[*need]
                    .as_ref()
                    .map(|b| self.count(b, *inside_only));
                let holds = reading
                    .as_ref()
                    .and_then(|r| r.number)
                    .map(|n| match bound {
                        CountBound::Over(b) => n > f64::from(*b),
                        CountBound::Under(b) => n < f64::from(*b),
                    });
                self.level(scene, &watch, holds, reading);
            }
            Watch::Value { need, test, .. } => {
                let number = |n: f64| Reading {
                    number: Some(n),
                    ..Reading::default()
                };
                let (holds, reading) = match (test, view.inputs[*need]) {
                    (ValueTest::Is(want), Input::Boolean(b)) => {
                        (Some(b == *want), Some(Reading::default()))
                    }
                    (ValueTest::Over(v), Input::Number(n)) if n.is_finite() => {
                        (Some(n > *v), Some(number(n)))
                    }
                    (ValueTest::Under(v), Input::Number(n)) if n.is_finite() => {
                        (Some(n < *v), Some(number(n)))
                    }
                    _ => (None, None),
                };
                self.level(scene, &watch, holds, reading);
            }
        }
    }

    /// Ends everything that is open: there will be no more frames.
    pub(super) fn finish(&mut self, scene: &mut Scene<'_>, histories: &[History]) {
        let watch = Arc::clone(&self.watch);
        match (&mut self.state, &*watch) {
            (State::Tracks { presence, .. }, Watch::Tracks { kind, group, .. }) => {
                for (track, stay) in presence.take_all() {
                    self.gone(scene, kind, (track, stay), &histories[*group], true);
                }
            }
            (State::Level(_), _) => self.level_over(scene, &watch, "the source ended"),
            _ => {}
        }
    }

    /// Whether class and score of a box are those the rule is about.
    fn fits(&self, d: &Detection, record: Option<&Record>) -> bool {
        let label = record.map_or(&*d.class, Record::label);
        let class = self.classes.is_empty() || self.classes.iter().any(|c| c == label);
        class
            && self
                .band
                .is_none_or(|b| b.min <= d.confidence && d.confidence <= b.max)
    }

    // ---- conditions about tracks -------------------------------------------------------------------------------

    fn tracks<'a>(
        &mut self,
        scene: &mut Scene<'_>,
        kind: &TrackKind,
        present: impl Iterator<Item = (TrackId, &'a Detection)>,
        history: &History,
    ) {
        let State::Tracks { presence, known } = &mut self.state else {
            return;
        };
        let gone = presence.take_gone(scene.clock, GRACE_S);
        let (mut presence, mut known) = (
            std::mem::take(presence),
            std::mem::replace(known, Recent::new(0)),
        );
        for stay in gone {
            self.gone(scene, kind, stay, history, false);
        }
        let awake = self.desk.is_awake(scene.at);
        known.next_round(u64::MAX);
        for (track, d) in present {
            let Some((stay, new)) = presence.see(track, scene.clock) else {
                continue;
            };
            let told = d
                .extra
                .as_ref()
                .and_then(|e| e.time_in_zone)
                .filter(|t| t.is_finite());
            stay.told_s = stay.told_s.max(told.unwrap_or(0.0));
            if new {
                // What happens at one moment is not told when the rule was asleep at that moment.
                let missed = match kind {
                    TrackKind::Appears => known.touch(track).is_some() || !awake,
                    TrackKind::Enters { .. } => !awake,
                    TrackKind::Leaves { .. } | TrackKind::Stays { .. } => false,
                };
                if missed {
                    stay.life = Life::Over;
                }
            }
            if *kind == TrackKind::Appears {
                known.touch_or_insert(track, ());
            }
            self.there(scene, kind, (track, d), stay, history.get(track));
        }
        self.state = State::Tracks { presence, known };
    }

    /// A track is there in this frame.
    fn there(
        &mut self,
        scene: &mut Scene<'_>,
        kind: &TrackKind,
        (track, d): (TrackId, &Detection),
        stay: &mut Stay,
        record: Option<&Record>,
    ) {
        let fits = self.fits(d, record);
        stay.fitted |= fits;
        let ripe = match kind {
            TrackKind::Appears | TrackKind::Enters { .. } => true,
            TrackKind::Leaves { .. } => false,
            TrackKind::Stays { for_s, .. } => stay.dwell_s() >= *for_s,
        };
        let mut life = std::mem::replace(&mut stay.life, Life::Over);
        match &mut life {
            Life::Candidate { .. } if ripe && fits => {
                self.attempt(scene, kind, track, stay, record, &mut life, false);
            }
            Life::Open(open) => {
                let (at, clock) = (*scene.at, scene.clock);
                let event = || self.told(kind, track, stay, record, &at, clock, Words::Begin);
                self.desk
                    .review(scene, open, || chain(record), event, |_| false);
            }
            Life::Candidate { .. } | Life::Over => {}
        }
        stay.life = life;
    }

    /// Lets a candidate begin if it may, and ends it at once if it is about one moment.
    #[allow(
        clippy::too_many_arguments,
        reason = "the parts of one track's situation"
    )]
    fn attempt(
        &mut self,
        scene: &mut Scene<'_>,
        kind: &TrackKind,
        track: TrackId,
        stay: &Stay,
        record: Option<&Record>,
        life: &mut Life,
        last_chance: bool,
    ) {
        let chain = chain(record);
        let settled = last_chance || scene.clock - stay.since_s >= SETTLE_S;
        let event = self.told(
            kind,
            track,
            stay,
            record,
            scene.at,
            scene.clock,
            Words::Begin,
        );
        let again = event.clone();
        self.desk
            .try_begin(scene, Some(track), (&chain, settled), life, || event);
        let momentary = matches!(kind, TrackKind::Enters { .. } | TrackKind::Leaves { .. });
        if momentary && let Some(open) = life.take_open() {
            self.desk.end(scene, *open, again, &chain);
        }
    }

    /// A track is gone, or the source is (`ended`).
    fn gone(
        &mut self,
        scene: &mut Scene<'_>,
        kind: &TrackKind,
        (track, mut stay): (TrackId, Stay),
        history: &History,
        ended: bool,
    ) {
        let record = history.get(track);
        let mut life = std::mem::replace(&mut stay.life, Life::Over);
        if let Life::Candidate { held } = life {
            let ripe = match kind {
                TrackKind::Appears | TrackKind::Enters { .. } => true,
                TrackKind::Leaves { .. } => !ended,
                TrackKind::Stays { for_s, .. } => stay.dwell_s() >= *for_s,
            };
            if !(ripe && stay.fitted) {
                self.desk.give_up(held.filter(|_| stay.fitted));
                return;
            }
            self.attempt(scene, kind, track, &stay, record, &mut life, true);
        }
        match life {
            Life::Open(open) => {
                let words = if ended {
                    Words::SourceEnded
                } else {
                    Words::End
                };
                let event = self.told(kind, track, &stay, record, scene.at, scene.clock, words);
                self.desk.end(scene, *open, event, &chain(record));
            }
            Life::Candidate { held } => self.desk.give_up(held),
            Life::Over => {}
        }
    }

    fn crossed(
        &mut self,
        scene: &mut Scene<'_>,
        line: &str,
        direction: &str,
        (track, d): (TrackId, &Detection),
        history: &History,
    ) {
        let record = history.get(track);
        if !self.fits(d, record) {
            return;
        }
        let chain = chain(record);
        let mut event = self.blank(scene.at, "crosses");
        fill(&mut event, track, record, scene.at);
        event.line = Some(line.to_owned());
        event.direction = Some(direction.to_owned());
        event.reason = format!(
            "{} crossed line {line}, counted as {direction}",
            who(track, record)
        );
        let again = event.clone();
        let mut life = Life::candidate();
        self.desk
            .try_begin(scene, Some(track), (&chain, true), &mut life, || event);
        match life {
            Life::Open(open) => self.desk.end(scene, *open, again, &chain),
            Life::Candidate { held } => self.desk.give_up(held),
            Life::Over => {}
        }
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "the parts of one track's situation"
    )]
    fn told(
        &self,
        kind: &TrackKind,
        track: TrackId,
        stay: &Stay,
        record: Option<&Record>,
        at: &Moment,
        clock: f64,
        words: Words,
    ) -> RuleEvent {
        let (who, dwell) = (who(track, record), stay.dwell_s());
        let (condition, zone) = match kind {
            TrackKind::Appears => ("appears", None),
            TrackKind::Enters { zone } => ("enters", Some(zone)),
            TrackKind::Leaves { zone } => ("leaves", Some(zone)),
            TrackKind::Stays { zone, .. } => ("stays", Some(zone)),
        };
        let mut event = self.blank(at, condition);
        fill(&mut event, track, record, at);
        event.zone = zone.cloned();
        event.dwell_s = zone.map(|_| dwell);
        event.reason = match (kind, words) {
            (TrackKind::Appears, Words::Begin) => {
                format!(
                    "{who} was seen for the first time, {:.1} s ago",
                    clock - stay.since_s
                )
            }
            (TrackKind::Appears, Words::End) => {
                format!(
                    "{who} was last seen {:.1} s after it appeared; the grace is {GRACE_S} s",
                    dwell
                )
            }
            (TrackKind::Enters { zone }, _) => format!("{who} entered zone {zone}"),
            (TrackKind::Leaves { zone }, _) => {
                format!("{who} left zone {zone} after {dwell:.1} s; the grace is {GRACE_S} s")
            }
            (TrackKind::Stays { zone, for_s }, Words::Begin) => {
                format!("{who} has been in zone {zone} for {dwell:.1} s; the bound is {for_s} s")
            }
            (TrackKind::Stays { zone, for_s }, Words::End) => {
                format!("{who} left zone {zone} after {dwell:.1} s; the bound was {for_s} s")
            }
            (_, Words::SourceEnded) => {
                format!("the source ended with {who} there for {dwell:.1} s")
            }
        };
        event
    }

    // ---- conditions about the scene ----------------------------------------------------------------------------

    fn count(&self, boxes: &Boxes<'_>, inside_only: bool) -> Reading {
        let mut reading = Reading::default();
        for d in &boxes.all {
            let time = d.extra.as_ref().and_then(|e| e.time_in_zone);
            if self.fits(d, None) && (!inside_only || time.is_some_and(|t| t > 0.0)) {
                reading.scores.push(d.confidence);
                reading.tracks.extend(d.track);
            }
        }
        reading.tracks.sort_unstable();
        reading.tracks.dedup();
        reading.tracks.truncate(MAX_LISTED);
        reading.number = Some(reading.scores.len() as f64);
        reading
    }

    fn level(
        &mut self,
        scene: &mut Scene<'_>,
        watch: &Watch,
        holds: Option<bool>,
        reading: Option<Reading>,
    ) {
        let awake = self.desk.is_awake(scene.at);
        let State::Level(level) = &mut self.state else {
            return;
        };
        let clock = scene.clock;
        let within_grace = level.since_s.is_some() && clock - level.last_true_s <= GRACE_S;
        match holds {
            Some(true) => {
                level.since_s.get_or_insert(clock);
                level.last_true_s = clock;
                level.latest = reading.unwrap_or_default();
            }
            // A flicker does not end an event; before it began, the condition has to hold without a break.
            Some(false) if within_grace && matches!(level.life, Life::Open(_)) => {}
            Some(false) => return self.level_over(scene, watch, "it is over"),
            // Nothing is known about this frame.
            None if within_grace => {}
            None => return self.level_over(scene, watch, "nothing more is known"),
        }
        if !awake && matches!(level.life, Life::Open(_)) {
            return self.level_over(scene, watch, "the schedule ended");
        }
        let State::Level(level) = &mut self.state else {
            return;
        };
        let held = clock - level.since_s.unwrap_or(clock);
        let (for_s, latest) = (for_s(watch), level.latest.clone());
        let mut life = std::mem::replace(&mut level.life, Life::Over);
        let event = |rule: &Self, at| rule.level_event(watch, &latest, held, at, None);
        match &mut life {
            Life::Candidate { .. } if holds == Some(true) && held >= for_s => {
                let chain = level_chain(watch, &latest, held);
                let (at, settled) = (*scene.at, held >= SETTLE_S.max(for_s));
                let first = event(self, &at);
                self.desk
                    .try_begin(scene, None, (&chain, settled), &mut life, || first);
            }
            Life::Open(open) if holds == Some(true) => {
                let at = *scene.at;
                let further = |told: f64| latest.number.is_some_and(|n| beyond(watch, n, told));
                let chain = || level_chain(watch, &latest, held);
                self.desk
                    .review(scene, open, chain, || event(self, &at), further);
            }
            Life::Candidate { .. } | Life::Open(_) | Life::Over => {}
        }
        if let State::Level(level) = &mut self.state {
            level.life = life;
        }
    }

    /// The condition does not hold any more, or is not looked at any more.
    fn level_over(&mut self, scene: &mut Scene<'_>, watch: &Watch, why: &str) {
        let State::Level(level) = &mut self.state else {
            return;
        };
        // Without a beginning there is nothing that could be over.
        let Some(since) = level.since_s.take() else {
            return;
        };
        let held = level.last_true_s - since;
        let latest = std::mem::take(&mut level.latest);
        let mut life = std::mem::replace(&mut level.life, Life::candidate());
        let chain = level_chain(watch, &latest, held);
        // What was put off for more evidence is decided with what there is.
        if let Life::Candidate {
            held: Some(Held::Settling),
        } = life
        {
            let first = self.level_event(watch, &latest, held, scene.at, None);
            self.desk
                .try_begin(scene, None, (&chain, true), &mut life, || first);
        }
        match life {
            Life::Open(open) => {
                let last = self.level_event(watch, &latest, held, scene.at, Some(why));
                let open: Open = *open;
                self.desk.end(scene, open, last, &chain);
            }
            Life::Candidate { held } => self.desk.give_up(held),
            Life::Over => {}
        }
    }

    fn level_event(
        &self,
        watch: &Watch,
        latest: &Reading,
        held: f64,
        at: &Moment,
        over: Option<&str>,
    ) -> RuleEvent {
        let number = latest.number.unwrap_or(0.0);
        let what = |side: &str, bound: f64| format!("{side} the bound of {bound}");
        let (condition, said) = match watch {
            Watch::Count {
                selector, bound, ..
            } => {
                let (side, b) = match bound {
                    CountBound::Over(b) => ("over", f64::from(*b)),
                    CountBound::Under(b) => ("under", f64::from(*b)),
                };
                let things = match &*self.classes {
                    [] => "objects".to_owned(),
                    classes => classes.join(" or "),
                };
                (
                    "count",
                    format!("{number} {things} in {selector}, {}", what(side, b)),
                )
            }
            Watch::Value { selector, test, .. } => {
                let said = match test {
                    ValueTest::Is(b) => format!("{selector} is {b}"),
                    ValueTest::Over(b) => format!("{selector} is {number}, {}", what("over", *b)),
                    ValueTest::Under(b) => format!("{selector} is {number}, {}", what("under", *b)),
                };
                ("value", said)
            }
            Watch::Tracks { .. } | Watch::Crosses { .. } => ("", String::new()),
        };
        let mut event = self.blank(at, condition);
        event.number = latest.number;
        event.tracks.clone_from(&latest.tracks);
        event.score = latest
            .scores
            .iter()
            .copied()
            .filter(|s| s.is_finite())
            .reduce(f64::max);
        event.reason = match over {
            None => format!("{said}, for {held:.1} s ({} s asked for)", for_s(watch)),
            Some(why) => format!("{said}, held for {held:.1} s; {why}"),
        };
        event
    }

    fn blank(&self, at: &Moment, condition: &str) -> RuleEvent {
        RuleEvent {
            rule: self.name.clone(),
            condition: condition.to_owned(),
            reason: String::new(),
            label: None,
            tracks: Vec::new(),
            zone: None,
            line: None,
            direction: None,
            number: None,
            dwell_s: None,
            score: None,
            bbox: None,
            frame: at.frame,
            pts_s: at.time_s,
            held_back: 0,
        }
    }
}

/// Which part of an event's life a reason is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Words {
    Begin,
    End,
    SourceEnded,
}

fn chain(record: Option<&Record>) -> Vec<Link> {
    record.map(of_track).unwrap_or_default()
}

fn who(track: TrackId, record: Option<&Record>) -> String {
    let label = record.map_or("object", Record::label);
    format!(
        "{} #{track}",
        if label.is_empty() { "object" } else { label }
    )
}

/// Writes what is known about a track into an event.
fn fill(event: &mut RuleEvent, track: TrackId, record: Option<&Record>, at: &Moment) {
    event.tracks = vec![track];
    let Some(record) = record else { return };
    event.label = Some(record.label().to_owned());
    event.score = Some(record.best_score);
    let [w, h] = at.size.map(f64::from);
    let b = record.bbox;
    if w > 0.0 && h > 0.0 && b.width() > 0.0 {
        event.bbox = Some(b.normalised(w, h)).filter(|b| b.iter().all(|v| v.is_finite()));
    }
}

fn for_s(watch: &Watch) -> f64 {
    match watch {
        Watch::Count { for_s, .. } | Watch::Value { for_s, .. } => *for_s,
        Watch::Tracks { .. } | Watch::Crosses { .. } => 0.0,
    }
}

fn level_chain(watch: &Watch, latest: &Reading, held: f64) -> Vec<Link> {
    match watch {
        Watch::Count {
            bound: CountBound::Over(b) | CountBound::Under(b),
            ..
        } => of_count(&latest.scores, f64::from(*b), held),
        Watch::Value {
            test: ValueTest::Over(b) | ValueTest::Under(b),
            ..
        } => of_value(latest.number.map(|n| [n, *b]), held),
        _ => of_value(None, held),
    }
}

/// Whether `now` is further beyond the bound than `told`.
fn beyond(watch: &Watch, now: f64, told: f64) -> bool {
    match watch {
        Watch::Count {
            bound: CountBound::Over(_),
            ..
        }
        | Watch::Value {
            test: ValueTest::Over(_),
            ..
        } => now > told,
        Watch::Count {
            bound: CountBound::Under(_),
            ..
        }
        | Watch::Value {
            test: ValueTest::Under(_),
            ..
        } => now < told,
        _ => false,
    }
}
