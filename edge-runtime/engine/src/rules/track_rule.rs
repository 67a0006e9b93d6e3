//! Rules about single tracks: one appears, enters a zone, leaves it, or stays in it.
//!
//! - Each visit of a track makes at most one event, which ends with the visit or before.

use watchkeeper_contract::event::RuleEvent;
use watchkeeper_vision::analytics::recent::Recent;

use super::boxes::{Boxes, in_zone, time_in_zone};
use super::context::{RuleContext, Subject, View};
use super::history::History;
use super::life::{Lifecycle, SETTLE_S, Scene};
use super::moment::Moment;
use super::plan::{TrackKind, TrackWatch};
use super::visits::{Visit, Visits};

/// Maximum number of tracks that an `appears` rule remembers.
const MAX_KNOWN: usize = 4096;

/// A rule about single tracks, with their visits.
#[derive(Debug)]
pub(super) struct TrackRule {
    watch: TrackWatch,
    visits: Visits,
    known: Recent<()>,
}

/// Which part of an event a reason describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReasonPart {
    Begin,
    End,
    SourceEnded,
}

impl TrackRule {
    pub(super) fn new(watch: TrackWatch) -> Self {
        Self {
            watch,
            visits: Visits::default(),
            known: Recent::new(MAX_KNOWN),
        }
    }

    pub(super) fn unwatched(&self) -> u64 {
        self.visits.unwatched
    }

    pub(super) fn observe(
        &mut self,
        context: &mut RuleContext,
        scene: &mut Scene<'_>,
        view: &View<'_>,
    ) {
        let kind = &self.watch.kind;
        let history = &view.histories[self.watch.group];
        for (track, visit) in self.visits.take_gone(scene.clock, scene.grace_s) {
            end_visit(
                kind,
                context,
                scene,
                Subject::new(track, history),
                visit,
                false,
            );
        }
        let active = context.emitter.is_active(scene.at);
        self.known.next_round(u64::MAX);
        let boxes = view.boxes[self.watch.need].as_ref();
        for (track, d) in boxes.into_iter().flat_map(Boxes::tracked) {
            if !in_zone(d, self.watch.keeps_outside) {
                continue;
            }
            if d.is_held() {
                self.visits.hold(track, scene.clock);
                continue;
            }
            let subject = Subject::new(track, history);
            let Some((visit, new)) = self.visits.see(track, scene.clock) else {
                continue;
            };
            visit.reported_s = visit.reported_s.max(time_in_zone(d).unwrap_or(0.0));
            if new {
                // A momentary event is skipped if it happened while the schedule was inactive.
                let missed = match kind {
                    TrackKind::Appears => self.known.touch(track).is_some() || !active,
                    TrackKind::Enters { .. } => !active,
                    TrackKind::Leaves { .. } | TrackKind::Stays { .. } => false,
                };
                if missed {
                    visit.life = Lifecycle::Over;
                }
            }
            if *kind == TrackKind::Appears {
                self.known.touch_or_insert(track, ());
            }
            let fits = context.fits(d, subject.record);
            visit.fitted |= fits;
            observe_present(kind, context, scene, subject, visit, fits);
        }
    }

    /// Ends all open events: there are no more frames.
    pub(super) fn finish(
        &mut self,
        context: &mut RuleContext,
        scene: &mut Scene<'_>,
        histories: &[History],
    ) {
        let history = &histories[self.watch.group];
        for (track, visit) in self.visits.take_all() {
            end_visit(
                &self.watch.kind,
                context,
                scene,
                Subject::new(track, history),
                visit,
                true,
            );
        }
    }
}

/// Returns whether the visit so far satisfies the condition.
fn is_satisfied(kind: &TrackKind, visit: &Visit) -> bool {
    match kind {
        TrackKind::Appears | TrackKind::Enters { .. } => true,
        TrackKind::Leaves { .. } => false,
        TrackKind::Stays { for_s, .. } => visit.dwell_s() >= *for_s,
    }
}

/// Processes a track that is present in this frame.
fn observe_present(
    kind: &TrackKind,
    context: &mut RuleContext,
    scene: &mut Scene<'_>,
    subject: Subject<'_>,
    visit: &mut Visit,
    fits: bool,
) {
    if matches!(visit.life, Lifecycle::Candidate { .. }) && fits && is_satisfied(kind, visit) {
        let settled = scene.clock - visit.since_s >= SETTLE_S;
        try_begin(kind, context, scene, subject, visit, settled);
    } else if let Some(mut open) = visit.life.take_open() {
        let (at, clock) = (scene.at, scene.clock);
        let look = || {
            (
                subject.chain(),
                describe(
                    kind,
                    context,
                    (at, clock),
                    subject,
                    visit,
                    ReasonPart::Begin,
                ),
            )
        };
        context.emitter.review(scene, &mut open, look, |_| false);
        visit.life = Lifecycle::Open(open);
    }
}

/// Begins an event if it is admitted; ends it at once if it is momentary.
fn try_begin(
    kind: &TrackKind,
    context: &mut RuleContext,
    scene: &mut Scene<'_>,
    subject: Subject<'_>,
    visit: &mut Visit,
    settled: bool,
) {
    let now = (scene.at, scene.clock);
    let event = describe(kind, context, now, subject, visit, ReasonPart::Begin);
    let (chain, end) = (subject.chain(), event.clone());
    let key = Some(subject.track);
    context
        .emitter
        .try_begin(scene, key, (&chain, settled), &mut visit.life, event);
    let momentary = matches!(kind, TrackKind::Enters { .. } | TrackKind::Leaves { .. });
    if momentary && let Some(open) = visit.life.take_open() {
        context.emitter.end(scene, *open, end, &chain);
    }
}

/// Processes the end of a visit: the track is gone, or the source ended (`ended`).
fn end_visit(
    kind: &TrackKind,
    context: &mut RuleContext,
    scene: &mut Scene<'_>,
    subject: Subject<'_>,
    mut visit: Visit,
    ended: bool,
) {
    if let Lifecycle::Candidate { held } = visit.life {
        // The end of the source does not count as leaving.
        let leaves = matches!(kind, TrackKind::Leaves { .. }) && !ended;
        if !visit.fitted || !(leaves || is_satisfied(kind, &visit)) {
            context.emitter.give_up(held.filter(|_| visit.fitted));
            return;
        }
        // Decides now what was postponed for more evidence.
        try_begin(kind, context, scene, subject, &mut visit, true);
    }
    let words = if ended {
        ReasonPart::SourceEnded
    } else {
        ReasonPart::End
    };
    let now = (scene.at, scene.clock);
    let event = describe(kind, context, now, subject, &visit, words);
    match visit.life {
        Lifecycle::Open(open) => context.emitter.end(scene, *open, event, &subject.chain()),
        Lifecycle::Candidate { held } => context.emitter.give_up(held),
        Lifecycle::Over => {}
    }
}

/// Returns the event of a visit with its reason.
fn describe(
    kind: &TrackKind,
    context: &RuleContext,
    (at, clock): (&Moment, f64),
    subject: Subject<'_>,
    visit: &Visit,
    words: ReasonPart,
) -> RuleEvent {
    let (who, dwell, away) = (subject.name(), visit.dwell_s(), clock - visit.held_s);
    let (condition, zone) = match kind {
        TrackKind::Appears => ("appears", None),
        TrackKind::Enters { zone } => ("enters", Some(zone)),
        TrackKind::Leaves { zone } => ("leaves", Some(zone)),
        TrackKind::Stays { zone, .. } => ("stays", Some(zone)),
    };
    let reason = match (kind, words) {
        (_, ReasonPart::SourceEnded) => {
            format!("the source ended while {who} was there, after {dwell:.1} s")
        }
        (TrackKind::Appears, ReasonPart::Begin) if dwell < 0.05 => {
            format!("{who} was seen for the first time")
        }
        (TrackKind::Appears, ReasonPart::Begin) => {
            format!("{who} was seen for the first time and stayed for {dwell:.1} s")
        }
        (TrackKind::Appears, ReasonPart::End) => {
            format!("{who} was last seen {dwell:.1} s after it appeared, {away:.1} s ago")
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
    let mut event = context.event(at, condition, reason);
    subject.describe(&mut event, at);
    event.zone = zone.cloned();
    event.dwell_s = zone.map(|_| dwell);
    event
}
