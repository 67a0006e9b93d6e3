//! Rules about the presence of tracks: one appears, enters a zone, leaves it, stays in it.
//!
//! Invariant: each stay of a track makes at most one event, which ends at the latest with the stay.

use watchkeeper_contract::event::RuleEvent;
use watchkeeper_vision::analytics::recent::Recent;

use super::boxes::{Boxes, in_zone, time_in_zone};
use super::check::{TrackKind, TrackWatch};
use super::context::{RuleContext, Subject, View};
use super::history::History;
use super::life::{Lifecycle, SETTLE_S, Scene};
use super::moment::Moment;
use super::presence::{Presence, Stay};

/// Most tracks of which an `appears` rule remembers that they have appeared.
const MAX_KNOWN: usize = 4096;

/// What a rule about presence watches, and who is there.
#[derive(Debug)]
pub(super) struct Stays {
    watch: TrackWatch,
    presence: Presence,
    known: Recent<()>,
}

/// Which part of an event's life a reason is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReasonPart {
    Begin,
    End,
    SourceEnded,
}

impl Stays {
    pub(super) fn new(watch: TrackWatch) -> Self {
        Self {
            watch,
            presence: Presence::default(),
            known: Recent::new(MAX_KNOWN),
        }
    }

    pub(super) fn unwatched(&self) -> u64 {
        self.presence.unwatched
    }

    pub(super) fn observe(
        &mut self,
        context: &mut RuleContext,
        scene: &mut Scene<'_>,
        view: &View<'_>,
    ) {
        let kind = &self.watch.kind;
        let history = &view.histories[self.watch.group];
        for (track, stay) in self.presence.take_gone(scene.clock, scene.grace_s) {
            gone(
                kind,
                context,
                scene,
                Subject::new(track, history),
                stay,
                false,
            );
        }
        let awake = context.emitter.is_awake(scene.at);
        self.known.next_round(u64::MAX);
        let boxes = view.boxes[self.watch.need].as_ref();
        for (track, d) in boxes.into_iter().flat_map(Boxes::tracked) {
            if !in_zone(d, self.watch.keeps_outside) {
                continue;
            }
            if d.is_held() {
                self.presence.keep(track, scene.clock);
                continue;
            }
            let subject = Subject::new(track, history);
            let Some((stay, new)) = self.presence.see(track, scene.clock) else {
                continue;
            };
            stay.told_s = stay.told_s.max(time_in_zone(d).unwrap_or(0.0));
            if new {
                // What happens at one moment is not told when the rule was asleep at that moment.
                let missed = match kind {
                    TrackKind::Appears => self.known.touch(track).is_some() || !awake,
                    TrackKind::Enters { .. } => !awake,
                    TrackKind::Leaves { .. } | TrackKind::Stays { .. } => false,
                };
                if missed {
                    stay.life = Lifecycle::Over;
                }
            }
            if *kind == TrackKind::Appears {
                self.known.touch_or_insert(track, ());
            }
            let fits = context.fits(d, subject.record);
            stay.fitted |= fits;
            there(kind, context, scene, subject, stay, fits);
        }
    }

    /// Ends what is open: there will be no more frames.
    pub(super) fn finish(
        &mut self,
        context: &mut RuleContext,
        scene: &mut Scene<'_>,
        histories: &[History],
    ) {
        let history = &histories[self.watch.group];
        for (track, stay) in self.presence.take_all() {
            gone(
                &self.watch.kind,
                context,
                scene,
                Subject::new(track, history),
                stay,
                true,
            );
        }
    }
}

/// Whether the stay alone, so far, is what the rule is about.
fn ripe(kind: &TrackKind, stay: &Stay) -> bool {
    match kind {
        TrackKind::Appears | TrackKind::Enters { .. } => true,
        TrackKind::Leaves { .. } => false,
        TrackKind::Stays { for_s, .. } => stay.dwell_s() >= *for_s,
    }
}

/// A track is there in this frame.
fn there(
    kind: &TrackKind,
    context: &mut RuleContext,
    scene: &mut Scene<'_>,
    subject: Subject<'_>,
    stay: &mut Stay,
    fits: bool,
) {
    if matches!(stay.life, Lifecycle::Candidate { .. }) && fits && ripe(kind, stay) {
        let settled = scene.clock - stay.since_s >= SETTLE_S;
        attempt(kind, context, scene, subject, stay, settled);
    } else if let Some(mut open) = stay.life.take_open() {
        let (at, clock) = (scene.at, scene.clock);
        let look = || {
            (
                subject.chain(),
                tell(kind, context, (at, clock), subject, stay, ReasonPart::Begin),
            )
        };
        context.emitter.review(scene, &mut open, look, |_| false);
        stay.life = Lifecycle::Open(open);
    }
}

/// Lets a candidate begin if it may, and ends it at once if it is about one moment.
fn attempt(
    kind: &TrackKind,
    context: &mut RuleContext,
    scene: &mut Scene<'_>,
    subject: Subject<'_>,
    stay: &mut Stay,
    settled: bool,
) {
    let now = (scene.at, scene.clock);
    let event = tell(kind, context, now, subject, stay, ReasonPart::Begin);
    let (chain, end) = (subject.chain(), event.clone());
    let key = Some(subject.track);
    context
        .emitter
        .try_begin(scene, key, (&chain, settled), &mut stay.life, event);
    let momentary = matches!(kind, TrackKind::Enters { .. } | TrackKind::Leaves { .. });
    if momentary && let Some(open) = stay.life.take_open() {
        context.emitter.end(scene, *open, end, &chain);
    }
}

/// A track is gone, or the source is (`ended`).
fn gone(
    kind: &TrackKind,
    context: &mut RuleContext,
    scene: &mut Scene<'_>,
    subject: Subject<'_>,
    mut stay: Stay,
    ended: bool,
) {
    if let Lifecycle::Candidate { held } = stay.life {
        // A source that ends is nobody leaving.
        let leaves = matches!(kind, TrackKind::Leaves { .. }) && !ended;
        if !stay.fitted || !(leaves || ripe(kind, &stay)) {
            context.emitter.give_up(held.filter(|_| stay.fitted));
            return;
        }
        // What was put off for more evidence is decided with what there is.
        attempt(kind, context, scene, subject, &mut stay, true);
    }
    let words = if ended {
        ReasonPart::SourceEnded
    } else {
        ReasonPart::End
    };
    let now = (scene.at, scene.clock);
    let event = tell(kind, context, now, subject, &stay, words);
    match stay.life {
        Lifecycle::Open(open) => context.emitter.end(scene, *open, event, &subject.chain()),
        Lifecycle::Candidate { held } => context.emitter.give_up(held),
        Lifecycle::Over => {}
    }
}

/// The event of a stay, in words.
fn tell(
    kind: &TrackKind,
    context: &RuleContext,
    (at, clock): (&Moment, f64),
    subject: Subject<'_>,
    stay: &Stay,
    words: ReasonPart,
) -> RuleEvent {
    let (who, dwell, away) = (subject.name(), stay.dwell_s(), clock - stay.kept_s);
    let (condition, zone) = match kind {
        TrackKind::Appears => ("appears", None),
        TrackKind::Enters { zone } => ("enters", Some(zone)),
        TrackKind::Leaves { zone } => ("leaves", Some(zone)),
        TrackKind::Stays { zone, .. } => ("stays", Some(zone)),
    };
    let reason = match (kind, words) {
        (_, ReasonPart::SourceEnded) => {
            format!("the watch ended with {who} there for {dwell:.1} s")
        }
        (TrackKind::Appears, ReasonPart::Begin) if dwell < 0.05 => {
            format!("{who} was seen for the first time")
        }
        (TrackKind::Appears, ReasonPart::Begin) => {
            format!("{who} was seen for the first time and has been there for {dwell:.1} s")
        }
        (TrackKind::Appears, ReasonPart::End) => format!(
            "{who} was last seen {dwell:.1} s after it appeared and not for {away:.1} s since"
        ),
        (TrackKind::Enters { zone }, _) => format!("{who} entered zone {zone}"),
        (TrackKind::Leaves { zone }, _) => {
            format!("{who} left zone {zone} after {dwell:.1} s and did not return for {away:.1} s")
        }
        (TrackKind::Stays { zone, for_s }, ReasonPart::Begin) => {
            format!("{who} has been in zone {zone} for {dwell:.1} s; the bound is {for_s} s")
        }
        (TrackKind::Stays { zone, for_s }, ReasonPart::End) => {
            format!("{who} left zone {zone} after {dwell:.1} s; the bound was {for_s} s")
        }
    };
    let mut event = context.event(at, condition, reason);
    subject.describe(&mut event, at);
    event.zone = zone.cloned();
    event.dwell_s = zone.map(|_| dwell);
    event
}
