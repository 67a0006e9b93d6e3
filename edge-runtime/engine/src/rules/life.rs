//! The life of an event: a candidate until the evidence, the schedule and the cool-down let it begin, then open, then
//! over.
//!
//! A decision is put off for up to [`SETTLE_S`] while the evidence still grows: a track of two frames would begin every
//! event as a doubtful one that is corrected a second later. What ends before that is decided with what there is.
//!
//! Invariant: [`EventEmitter::begin`] is the only place that makes a `new`, [`EventEmitter::end`] the only one that makes an `end`, and it
//! consumes the open event.

use std::collections::BTreeMap;

use watchkeeper_contract::event::{Asks, Decision, Phase, RuleEvent, Verdict};
use watchkeeper_contract::id::{ChannelId, EventId, TrackId};
use watchkeeper_contract::rule::{ClipSpec, Gates, RuleSpec, Severity};

use super::decide::decide;
use super::evidence::EvidenceItem;
use super::moment::{Change, Moment};
use super::schedule::ActiveSchedule;

/// Longest time for which a decision waits for more evidence, in seconds.
pub(super) const SETTLE_S: f64 = 1.0;
/// Seconds between two looks at the evidence of an open event.
const REVIEW_EVERY_S: f64 = 1.0;
/// Seconds between two updates that only tell a new number.
const NUMBER_EVERY_S: f64 = 5.0;
/// Most tracks whose cool-down is remembered per rule; the one that began first makes room.
const MAX_COOLDOWNS: usize = 4096;

/// What became of something that a rule might tell of.
#[derive(Debug)]
pub(super) enum Lifecycle {
    /// It has not begun; why not is noted so that it can be counted.
    Candidate { held: Option<Suppressed> },
    /// It has begun.
    Open(Box<OpenEvent>),
    /// It has been told, or is not to be.
    Over,
}

/// Why a candidate could not begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Suppressed {
    /// The evidence is below the last gate.
    Weak,
    /// The rule or the track cools down.
    Cooling,
    /// The schedule says no.
    Asleep,
    /// More evidence may come.
    Settling,
}

impl Lifecycle {
    pub(super) fn candidate() -> Self {
        Self::Candidate { held: None }
    }

    /// The open event, if there is one; then this is over.
    pub(super) fn take_open(&mut self) -> Option<Box<OpenEvent>> {
        match std::mem::replace(self, Self::Over) {
            Self::Open(open) => Some(open),
            other => {
                *self = other;
                None
            }
        }
    }
}

/// An event that has begun.
#[derive(Debug)]
pub(super) struct OpenEvent {
    id: EventId,
    decision: Decision,
    reviewed_s: f64,
    told_s: f64,
    number: Option<f64>,
}

/// What an observation is written down with.
pub(super) struct Scene<'a> {
    pub(super) at: &'a Moment,
    /// Seconds of source time that have passed since the first frame.
    pub(super) clock: f64,
    /// Seconds for which a track may be out of sight, or a condition not hold, before its event ends.
    pub(super) grace_s: f64,
    pub(super) new_id: &'a mut dyn FnMut() -> EventId,
    pub(super) out: &'a mut Vec<Change>,
}

/// Where a rule's candidates are admitted, its events written and what it held back is counted.
#[derive(Debug)]
pub(super) struct EventEmitter {
    severity: Severity,
    gates: Gates,
    may_lower: bool,
    notify: Vec<ChannelId>,
    clip: Option<ClipSpec>,
    cooldown_s: f64,
    shared_cooldown: bool,
    awake: Option<ActiveSchedule>,
    /// When the latest event began, by track or for the whole rule.
    began: BTreeMap<Option<TrackId>, f64>,
    held_back: u32,
    /// Candidates that were too weak.
    pub(super) discarded: u64,
}

impl EventEmitter {
    pub(super) fn new(spec: &RuleSpec, awake: Option<ActiveSchedule>) -> Self {
        Self {
            severity: spec.severity,
            gates: spec.gates,
            may_lower: spec.second_opinion_may_lower,
            notify: spec.notify.clone(),
            clip: spec.clip,
            cooldown_s: spec.cooldown_s,
            shared_cooldown: spec.shared_cooldown,
            awake,
            began: BTreeMap::new(),
            held_back: 0,
            discarded: 0,
        }
    }

    /// Whether the schedule lets the rule look.
    pub(super) fn is_awake(&self, at: &Moment) -> bool {
        self.awake.as_ref().is_none_or(|a| a.at(at.local))
    }

    /// The decision, which tells a second opinion its terms where it asks for one.
    fn decide(&self, chain: &[EvidenceItem]) -> Decision {
        let mut decision = decide(chain, &self.gates);
        if decision.verdict == Verdict::Escalate {
            decision.asks = Some(Asks {
                gates: self.gates,
                may_lower: self.may_lower,
            });
        }
        decision
    }

    /// For whom an event of this track makes it quiet: for itself, or for all of them.
    fn quiet_for(&self, key: Option<TrackId>) -> Option<TrackId> {
        key.filter(|_| !self.shared_cooldown)
    }

    /// Whether a candidate may begin now. `settled`: there will be no better evidence soon.
    fn admit(
        &self,
        scene: &Scene<'_>,
        key: Option<TrackId>,
        chain: &[EvidenceItem],
        settled: bool,
    ) -> Result<Decision, Suppressed> {
        if !self.is_awake(scene.at) {
            return Err(Suppressed::Asleep);
        }
        let decision = self.decide(chain);
        if !settled && decision.verdict < Verdict::Record {
            return Err(Suppressed::Settling);
        }
        if decision.verdict == Verdict::Discard {
            return Err(Suppressed::Weak);
        }
        // A critical event is never silenced.
        let cooling = self.severity != Severity::Critical
            && self
                .began
                .get(&self.quiet_for(key))
                .is_some_and(|t| scene.clock - t < self.cooldown_s);
        if cooling {
            Err(Suppressed::Cooling)
        } else {
            Ok(decision)
        }
    }

    /// Lets a candidate begin if it may; else notes why not.
    pub(super) fn try_begin(
        &mut self,
        scene: &mut Scene<'_>,
        key: Option<TrackId>,
        (chain, settled): (&[EvidenceItem], bool),
        life: &mut Lifecycle,
        event: RuleEvent,
    ) {
        match self.admit(scene, key, chain, settled) {
            Ok(decision) => {
                let open = self.begin(scene, key, event, decision, chain);
                *life = Lifecycle::Open(Box::new(open));
            }
            Err(why) => *life = Lifecycle::Candidate { held: Some(why) },
        }
    }

    /// Counts what never began.
    pub(super) fn give_up(&mut self, held: Option<Suppressed>) {
        match held {
            Some(Suppressed::Cooling) => self.held_back = self.held_back.saturating_add(1),
            Some(Suppressed::Weak | Suppressed::Settling) => {
                self.discarded = self.discarded.saturating_add(1)
            }
            Some(Suppressed::Asleep) | None => {}
        }
    }

    fn begin(
        &mut self,
        scene: &mut Scene<'_>,
        key: Option<TrackId>,
        mut event: RuleEvent,
        decision: Decision,
        chain: &[EvidenceItem],
    ) -> OpenEvent {
        if self.cooldown_s > 0.0 {
            let key = self.quiet_for(key);
            let full = self.began.len() >= MAX_COOLDOWNS && !self.began.contains_key(&key);
            if full {
                let oldest = self
                    .began
                    .iter()
                    .min_by(|a, b| a.1.total_cmp(b.1))
                    .map(|(&k, _)| k);
                oldest.and_then(|k| self.began.remove(&k));
            }
            self.began.insert(key, scene.clock);
        }
        event.held_back = std::mem::take(&mut self.held_back);
        let open = OpenEvent {
            id: (scene.new_id)(),
            decision,
            reviewed_s: scene.clock,
            told_s: scene.clock,
            number: event.number,
        };
        self.write(scene, &open, Phase::New, event, chain);
        open
    }

    /// Looks at the evidence of an open event again; tells when the decision has become a stronger one, or the number a
    /// larger one in the direction of the bound.
    pub(super) fn review(
        &self,
        scene: &mut Scene<'_>,
        open: &mut OpenEvent,
        look: impl FnOnce() -> (Vec<EvidenceItem>, RuleEvent),
        further: impl FnOnce(f64) -> bool,
    ) {
        if scene.clock - open.reviewed_s < REVIEW_EVERY_S {
            return;
        }
        open.reviewed_s = scene.clock;
        let (chain, event) = look();
        let decision = self.decide(&chain);
        let stronger = decision.verdict > open.decision.verdict;
        let number =
            scene.clock - open.told_s >= NUMBER_EVERY_S && open.number.is_some_and(further);
        if stronger || number {
            // A decision once made is not taken back while the event lasts.
            if decision.verdict >= open.decision.verdict {
                open.decision = decision;
            }
            open.told_s = scene.clock;
            open.number = event.number;
            self.write(scene, open, Phase::Update, event, &chain);
        }
    }

    /// Ends an open event.
    pub(super) fn end(
        &self,
        scene: &mut Scene<'_>,
        open: OpenEvent,
        event: RuleEvent,
        chain: &[EvidenceItem],
    ) {
        let mut open = open;
        let decision = self.decide(chain);
        if decision.verdict >= open.decision.verdict {
            open.decision = decision;
        }
        self.write(scene, &open, Phase::End, event, chain);
    }

    fn write(
        &self,
        scene: &mut Scene<'_>,
        open: &OpenEvent,
        phase: Phase,
        mut event: RuleEvent,
        chain: &[EvidenceItem],
    ) {
        event.notify.clone_from(&self.notify);
        scene.out.push(Change {
            id: open.id,
            phase,
            severity: self.severity,
            event,
            decision: open.decision.clone(),
            evidence: chain.iter().map(EvidenceItem::evidence).collect(),
            clip: self.clip.filter(|_| phase == Phase::New),
        });
    }
}
