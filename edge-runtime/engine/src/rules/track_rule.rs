//! Rules about single objects: one appears, enters a zone, leaves it, or stays in it.
//!
//! - When a stay begins, counts and ends is decided in [`super::stays`], for all rules alike.
//! - Each stay makes at most one event, which ends with the stay or before.
//! - Of the stay of a still object only `stays` reports, with evidence against it.

use std::collections::BTreeMap;

use watchkeeper_contract::event::RuleEvent;
use watchkeeper_contract::id::TrackId;
use watchkeeper_vision::analytics::recent::Recent;
use watchkeeper_vision::analytics::visits::Stay;

use super::context::{RuleContext, Subject, View};
use super::evidence::EvidenceItem;
use super::history::History;
use super::life::{Lifecycle, SETTLE_S, Scene, Suppressed};
use super::moment::{FinishReason, Moment};
use super::plan::{TrackKind, TrackWatch};

/// Maximum number of tracks that an `appears` rule remembers.
const MAX_KNOWN: usize = 4096;

/// A rule about single objects, with what it knows of their stays.
#[derive(Debug)]
pub(super) struct TrackRule {
    watch: TrackWatch,
    /// By number of the stay; open stays only.
    followed: BTreeMap<u64, Followed>,
    known: Recent<()>,
}

/// State of a stay that a rule follows.
#[derive(Debug)]
struct Followed {
    best_track: TrackId,
    /// Why the rule does not accept the object; `None` once it has accepted it.
    refused: Option<Suppressed>,
    /// Whether it began while the schedule was inactive, for a momentary event.
    is_inactive: bool,
    life: Lifecycle,
}

impl Followed {
    fn make_case<'a>(
        &self,
        kind: &'a TrackKind,
        context: &'a mut RuleContext,
        stay: &'a Stay,
        history: &'a History,
    ) -> StayCase<'a> {
        StayCase {
            kind,
            context,
            stay,
            subject: self.subject(stay, history),
        }
    }

    fn subject<'a>(&self, stay: &Stay, history: &'a History) -> Subject<'a> {
        Subject::of_tracks([stay.first_track, stay.track, self.best_track], history)
    }
}

/// Why a rule did not see the beginning of a stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missed {
    /// An earlier stay of the track, or the stay in another process, made the event.
    Known,
    Inactive,
}

/// Which part of an event a reason describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReasonPart {
    Begin,
    End,
    Finish(FinishReason),
}

impl TrackRule {
    pub(super) fn new(watch: TrackWatch) -> Self {
        Self {
            watch,
            followed: BTreeMap::new(),
            known: Recent::new(MAX_KNOWN),
        }
    }

    pub(super) fn observe(
        &mut self,
        context: &mut RuleContext,
        scene: &mut Scene<'_>,
        view: &View<'_>,
    ) {
        self.end_stays(context, scene, view, None);
        self.known.next_round(u64::MAX);
        let history = &view.histories[self.watch.group];
        let stays = &view.stays[self.watch.scope];
        for stay in stays.visits.open() {
            if stay.last_s != scene.clock {
                continue;
            }
            let Some(d) = stays.box_of(&view.inputs, stay.track) else {
                continue;
            };
            if !self.followed.contains_key(&stay.number) {
                let missed = self.missed(context, scene, stay);
                self.follow(stay, missed);
            }
            if self.watch.kind == TrackKind::Appears {
                self.known.touch_or_insert(stay.track, ());
            }
            let Some(followed) = self.followed.get_mut(&stay.number) else {
                continue;
            };
            let sightings = |track| history.get(track).map_or(0, |record| record.seen);
            if sightings(stay.track) >= sightings(followed.best_track) {
                followed.best_track = stay.track;
            }
            let accepted = context.check(d, Some(followed.subject(stay, history)), scene.at);
            match accepted {
                Ok(()) => followed.refused = None,
                Err(why) => followed.refused = followed.refused.map(|_| why),
            }
            let mut case = followed.make_case(&self.watch.kind, context, stay, history);
            case.observe(scene, &mut followed.life, accepted.is_ok());
        }
    }

    fn follow(&mut self, stay: &Stay, missed: Option<Missed>) {
        let followed = Followed {
            best_track: stay.track,
            refused: Some(Suppressed::NotAccepted),
            is_inactive: missed == Some(Missed::Inactive),
            life: match missed {
                Some(_) => Lifecycle::Over,
                None => Lifecycle::candidate(),
            },
        };
        self.followed.insert(stay.number, followed);
    }

    /// Why the momentary event of a stay happened before the rule could see it, if it did.
    fn missed(&mut self, context: &RuleContext, scene: &Scene<'_>, stay: &Stay) -> Option<Missed> {
        let is_known = match &self.watch.kind {
            TrackKind::Appears => self.known.touch(stay.track).is_some(),
            TrackKind::Enters { .. } => stay.counted_s.is_some_and(|at| at < scene.clock),
            TrackKind::Leaves { .. } | TrackKind::Stays { .. } => return None,
        };
        if is_known {
            return Some(Missed::Known);
        }
        (!context.emitter.is_active(scene.at)).then_some(Missed::Inactive)
    }

    /// Processes the stays that ended in this frame, or because there are no more (`finish`).
    pub(super) fn end_stays(
        &mut self,
        context: &mut RuleContext,
        scene: &mut Scene<'_>,
        view: &View<'_>,
        finish: Option<FinishReason>,
    ) {
        let history = &view.histories[self.watch.group];
        for stay in view.stays[self.watch.scope].visits.ended() {
            let followed = self.followed.remove(&stay.number);
            if let Some(followed) = followed.filter(|_| stay.counted_s.is_some() || stay.is_still) {
                let mut case = followed.make_case(&self.watch.kind, context, stay, history);
                case.end(scene, followed, finish);
            }
        }
    }
}

/// A stay in the current frame, as a rule of this kind decides about it.
struct StayCase<'a> {
    kind: &'a TrackKind,
    context: &'a mut RuleContext,
    stay: &'a Stay,
    subject: Subject<'a>,
}

impl StayCase<'_> {
    /// Returns whether the stay so far satisfies the condition.
    fn is_satisfied(&self) -> bool {
        let (is_visit, dwell_s) = (self.stay.counted_s.is_some(), self.stay.dwell_s());
        match self.kind {
            TrackKind::Appears | TrackKind::Enters { .. } => is_visit,
            TrackKind::Leaves { .. } => false,
            TrackKind::Stays { for_s, .. } => (is_visit || self.stay.is_still) && dwell_s >= *for_s,
        }
    }

    fn chain(&self) -> Vec<EvidenceItem> {
        let mut chain = self.subject.chain();
        chain.extend(self.stay.is_still.then(EvidenceItem::no_change));
        chain
    }

    /// Processes an object that is present in this frame. `fits`: the rule accepts it.
    fn observe(&mut self, scene: &mut Scene<'_>, life: &mut Lifecycle, fits: bool) {
        if matches!(life, Lifecycle::Candidate { .. }) && fits && self.is_satisfied() {
            let settled = scene.clock - self.stay.enter_s >= SETTLE_S;
            self.try_begin(scene, life, settled);
        } else if let Some(mut open) = life.take_open() {
            let now = (scene.at, scene.clock);
            let look = || (self.chain(), self.event(now, ReasonPart::Begin));
            let emitter = &self.context.emitter;
            emitter.review(scene, &mut open, look, |_| false);
            *life = Lifecycle::Open(open);
        }
    }

    /// Begins an event if it is admitted; ends it at once if it is momentary.
    fn try_begin(&mut self, scene: &mut Scene<'_>, life: &mut Lifecycle, settled: bool) {
        let event = self.event((scene.at, scene.clock), ReasonPart::Begin);
        let (chain, end) = (self.chain(), event.clone());
        let (key, emitter) = (Some(self.subject.track), &mut self.context.emitter);
        emitter.try_begin(scene, key, (&chain, settled), life, event);
        let momentary = matches!(
            self.kind,
            TrackKind::Enters { .. } | TrackKind::Leaves { .. }
        );
        if momentary && let Some(open) = life.take_open() {
            emitter.end(scene, *open, end, &chain);
        }
    }

    /// Processes the end of a stay: the object is gone, or there are no more frames (`finish`).
    fn end(&mut self, scene: &mut Scene<'_>, followed: Followed, finish: Option<FinishReason>) {
        let Followed {
            refused, mut life, ..
        } = followed;
        if followed.is_inactive {
            let why = refused.unwrap_or(Suppressed::Inactive);
            self.context.emitter.give_up(Some(why));
        }
        if matches!(life, Lifecycle::Candidate { .. }) {
            // The end of the frames does not count as leaving.
            let is_visit = self.stay.counted_s.is_some();
            let leaves =
                is_visit && matches!(self.kind, TrackKind::Leaves { .. }) && finish.is_none();
            if !(leaves || self.is_satisfied()) {
                return;
            }
            if refused.is_some() {
                self.context.emitter.give_up(refused);
                return;
            }
            // Decides now what was postponed for more evidence.
            self.try_begin(scene, &mut life, true);
        }
        let part = finish.map_or(ReasonPart::End, ReasonPart::Finish);
        let (event, chain) = (self.event((scene.at, scene.clock), part), self.chain());
        let emitter = &mut self.context.emitter;
        match life {
            Lifecycle::Open(open) => emitter.end(scene, *open, event, &chain),
            Lifecycle::Candidate { held } => {
                emitter.give_up_event(scene, self.stay.enter_s, held, &event, &chain);
            }
            Lifecycle::Over => {}
        }
    }

    /// Returns the event of the stay at a moment, with its reason.
    fn event(&self, (at, clock): (&Moment, f64), part: ReasonPart) -> RuleEvent {
        let (who, dwell) = (self.subject.name(), self.stay.dwell_s());
        let away = clock - self.stay.kept_s;
        // The evidence grew late, or a cool-down held the event back.
        let since = clock - self.stay.enter_s;
        let is_late = since > SETTLE_S;
        let (condition, zone) = match self.kind {
            TrackKind::Appears => ("appears", None),
            TrackKind::Enters { zone } => ("enters", Some(zone)),
            TrackKind::Leaves { zone } => ("leaves", Some(zone)),
            TrackKind::Stays { zone, .. } => ("stays", Some(zone)),
        };
        let reason = match (self.kind, part) {
            (_, ReasonPart::Finish(reason)) => {
                format!("{reason} while {who} was there, after {dwell:.1} s")
            }
            (TrackKind::Appears, ReasonPart::Begin) if is_late => {
                format!("{who} was first seen {since:.1} s ago")
            }
            (TrackKind::Appears, ReasonPart::Begin) => {
                format!("{who} was seen for the first time")
            }
            (TrackKind::Appears, ReasonPart::End) => {
                format!("{who} was last seen {dwell:.1} s after it appeared, {away:.1} s ago")
            }
            (TrackKind::Enters { zone }, _) if is_late => {
                format!("{who} entered zone {zone} {since:.1} s ago")
            }
            (TrackKind::Enters { zone }, _) => format!("{who} entered zone {zone}"),
            (TrackKind::Leaves { zone }, _) => {
                format!("{who} left zone {zone} after {dwell:.1} s, {away:.1} s ago")
            }
            (TrackKind::Stays { zone, for_s }, ReasonPart::Begin) => {
                format!("{who} in zone {zone} for {dwell:.1} s (limit {for_s} s)")
            }
            (TrackKind::Stays { zone, for_s }, ReasonPart::End) => {
                format!("{who} left zone {zone} after {dwell:.1} s (limit {for_s} s)")
            }
        };
        let mut event = self.context.event(at, condition, reason);
        self.subject.describe(&mut event, at);
        event.zone = zone.cloned();
        event.dwell_s = Some(dwell);
        event
    }
}
