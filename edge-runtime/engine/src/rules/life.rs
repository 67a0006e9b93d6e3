//! Lifecycle of an event: candidate, open, over.
//!
//! - A candidate begins once evidence, schedule, cool-down and hourly limit allow it.
//! - A decision waits up to [`SETTLE_S`] while evidence still grows; otherwise most events would
//!   begin as doubtful and be corrected a second later.
//! - Only [`EventEmitter::begin`] makes a `new` record and only [`EventEmitter::end`] an `end`; the
//!   latter consumes the open event.

use std::collections::{BTreeMap, VecDeque};

use watchkeeper_contract::event::{Asks, Decision, Phase, RuleEvent, Verdict, gate_text};
use watchkeeper_contract::id::{ChannelId, EventId, TrackId};
use watchkeeper_contract::pipeline::{MAX_TOO_WEAK, SuppressedCounts, TooWeak};
use watchkeeper_contract::review::Calibration;
use watchkeeper_contract::rule::{BelowGates, ClipSpec, DecideSpec, Gates, RuleSpec, Severity};

use super::decide::{calibrate, confidence, decide};
use super::evidence::EvidenceItem;
use super::moment::{Change, Moment};
use super::plan::ReadingNeeds;
use super::readings::Readings;
use super::schedule::ActiveSchedule;

/// Maximum seconds that a decision waits for more evidence.
pub(super) const SETTLE_S: f64 = 1.0;
/// Seconds between two reviews of an open event's evidence.
const REVIEW_EVERY_S: f64 = 1.0;
/// Seconds between two updates that only report a new number.
const NUMBER_EVERY_S: f64 = 5.0;
/// Seconds that an hourly limit looks back.
const HOUR_S: f64 = 3600.0;
/// Maximum number of tracks with a cool-down per rule; the oldest is evicted.
const MAX_COOLDOWNS: usize = 4096;

/// State of a possible event.
#[derive(Debug)]
pub(super) enum Lifecycle {
    /// Not begun; `held` says why.
    Candidate {
        held: Option<Suppressed>,
    },
    Open(Box<OpenEvent>),
    /// Ended, or never to begin.
    Over,
}

/// Why a candidate did not begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Suppressed {
    /// The confidence is below the last gate.
    Weak,
    /// The rule or the track is cooling down.
    Cooling,
    Inactive,
    /// More evidence may follow.
    Settling,
    /// The rule does not accept the class or the score.
    NotAccepted,
    /// The object is in an area that the rule ignores.
    InIgnoredArea,
    /// The rule has begun its most events of an hour.
    OverHourlyLimit,
}

impl Lifecycle {
    pub(super) fn candidate() -> Self {
        Self::Candidate { held: None }
    }

    /// Takes the open event, if there is one, and marks this as over.
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

#[derive(Debug)]
pub(super) struct OpenEvent {
    id: EventId,
    decision: Decision,
    reviewed_s: f64,
    reported_s: f64,
    number: Option<f64>,
}

/// The current frame, as rules record events about it.
pub(super) struct Scene<'a> {
    pub(super) at: &'a Moment,
    /// Seconds of source time since the first frame.
    pub(super) clock: f64,
    /// Seconds that a track may be unseen, or a condition false, before its event ends.
    pub(super) grace_s: f64,
    pub(super) new_id: &'a mut dyn FnMut() -> EventId,
    pub(super) out: &'a mut Vec<Change>,
}

/// Admits candidates, emits events and counts what was suppressed.
#[derive(Debug)]
pub(super) struct EventEmitter {
    severity: Severity,
    gates: Gates,
    may_lower: bool,
    below_gates: BelowGates,
    may_calibrate: bool,
    calibration: Option<Calibration>,
    notify: Vec<ChannelId>,
    on_act: Vec<ChannelId>,
    clip: Option<ClipSpec>,
    pub(super) readings: Readings,
    /// Chain that decides about its events.
    sources: Option<Box<DecideSpec>>,
    cooldown_s: f64,
    shared_cooldown: bool,
    max_per_hour: Option<u32>,
    /// Starts of the latest events, at most `max_per_hour`.
    began_lately: VecDeque<f64>,
    active: Option<ActiveSchedule>,
    /// Start of the latest event, by track or for the whole rule.
    began: BTreeMap<Option<TrackId>, f64>,
    held_back: u32,
    /// Number of candidates with too little evidence.
    pub(super) discarded: u64,
    /// The latest of them, at most [`MAX_TOO_WEAK`].
    pub(super) too_weak: VecDeque<TooWeak>,
    /// Numbers of other candidates that never began.
    pub(super) suppressed: SuppressedCounts,
}

impl EventEmitter {
    pub(super) fn new(spec: &RuleSpec, active: Option<ActiveSchedule>, read: ReadingNeeds) -> Self {
        Self {
            severity: spec.severity,
            gates: spec.gates,
            may_lower: spec.second_opinion_may_lower,
            below_gates: spec.below_gates,
            may_calibrate: spec.calibrate,
            calibration: None,
            notify: spec.notify.clone(),
            on_act: spec.on_act.clone(),
            clip: spec.clip,
            readings: Readings::new(read),
            sources: spec.decide.clone(),
            cooldown_s: spec.cooldown_s,
            shared_cooldown: spec.shared_cooldown,
            max_per_hour: spec.max_per_hour,
            began_lately: VecDeque::new(),
            active,
            began: BTreeMap::new(),
            held_back: 0,
            discarded: 0,
            too_weak: VecDeque::new(),
            suppressed: SuppressedCounts::default(),
        }
    }

    /// Calibrates the confidence of later decisions, unless the rule is not to be calibrated.
    pub(super) fn set_calibration(&mut self, calibration: Option<Calibration>) {
        self.calibration = calibration.filter(|_| self.may_calibrate);
    }

    pub(super) fn is_active(&self, at: &Moment) -> bool {
        match (&self.active, at.local) {
            (Some(schedule), Some(local)) => schedule.at(local),
            (None, _) | (_, None) => true,
        }
    }

    /// Decides; an escalation includes the terms for a second opinion.
    fn decide(&self, chain: &[EvidenceItem]) -> Decision {
        let mut decision = decide(chain, &self.gates);
        if let Some(calibration) = &self.calibration {
            decision = calibrate(decision, &self.gates, self.severity, calibration);
        }
        // A critical event acts although pictures are damaged: its evidence says so.
        if decision.verdict > Verdict::Review
            && self.severity != Severity::Critical
            && chain.iter().any(EvidenceItem::is_damage)
        {
            decision.verdict = Verdict::Review;
            decision.reason = format!(
                "review: pictures are damaged; without that {}",
                decision.reason
            );
        }
        if self.sources.is_some() && decision.verdict != Verdict::Discard {
            decision.verdict = Verdict::Escalate;
            decision.reason = format!("its chain decides; by the box alone {}", decision.reason);
        }
        if decision.verdict == Verdict::Escalate {
            decision.asks = Some(Asks {
                gates: self.gates,
                may_lower: self.may_lower,
                below_gates: self.below_gates,
            });
        }
        decision
    }

    /// Key of the cool-down that an event of this track starts.
    fn quiet_for(&self, key: Option<TrackId>) -> Option<TrackId> {
        key.filter(|_| !self.shared_cooldown)
    }

    /// Decides whether a candidate may begin. `settled`: no better evidence is expected soon.
    fn admit(
        &self,
        scene: &Scene<'_>,
        key: Option<TrackId>,
        chain: &[EvidenceItem],
        settled: bool,
    ) -> Result<Decision, Suppressed> {
        if !self.is_active(scene.at) {
            return Err(Suppressed::Inactive);
        }
        let mut decision = self.decide(chain);
        if !settled && decision.verdict < Verdict::Record {
            return Err(Suppressed::Settling);
        }
        if decision.verdict == Verdict::Discard {
            if self.below_gates == BelowGates::Discard {
                return Err(Suppressed::Weak);
            }
            decision.verdict = Verdict::Review;
            decision.reason = format!(
                "review: {}, where the rule lets a person decide",
                gate_text(decision.confidence, self.gates.escalate)
            );
        }
        // Critical events are never suppressed by a cool-down or a limit.
        if self.severity == Severity::Critical {
            return Ok(decision);
        }
        let began = self.began.get(&self.quiet_for(key));
        if began.is_some_and(|t| scene.clock - t < self.cooldown_s) {
            return Err(Suppressed::Cooling);
        }
        if self.is_over_hourly_limit(scene.clock) {
            return Err(Suppressed::OverHourlyLimit);
        }
        Ok(decision)
    }

    /// Whether the rule has begun its most events in the hour before `clock`.
    fn is_over_hourly_limit(&self, clock: f64) -> bool {
        let Some(most) = self.max_per_hour else {
            return false;
        };
        let nth_latest = self.began_lately.len().checked_sub(most as usize);
        let oldest = nth_latest.and_then(|nth| self.began_lately.get(nth));
        oldest.is_some_and(|began| clock - began < HOUR_S)
    }

    /// Begins the event if it is admitted, otherwise notes why not.
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

    /// Counts a candidate since `since_s` that never began, and lists it if its evidence was too
    /// weak.
    pub(super) fn give_up_event(
        &mut self,
        scene: &Scene<'_>,
        since_s: f64,
        held: Option<Suppressed>,
        event: &RuleEvent,
        chain: &[EvidenceItem],
    ) {
        self.give_up(held);
        if let Some(Suppressed::Weak | Suppressed::Settling) = held {
            if self.too_weak.len() == MAX_TOO_WEAK {
                self.too_weak.pop_front();
            }
            self.too_weak.push_back(TooWeak {
                rule: event.rule.clone(),
                reason: event.reason.clone(),
                pts_s: event.pts_s - (scene.clock - since_s),
                confidence: confidence(chain),
            });
        }
    }

    /// Counts a candidate that never began.
    pub(super) fn give_up(&mut self, held: Option<Suppressed>) {
        match held {
            Some(Suppressed::Cooling) => {
                self.held_back = self.held_back.saturating_add(1);
                self.suppressed.cooling_down += 1;
            }
            Some(Suppressed::Weak | Suppressed::Settling) => self.discarded += 1,
            Some(Suppressed::Inactive) => self.suppressed.inactive += 1,
            Some(Suppressed::NotAccepted) => self.suppressed.not_accepted += 1,
            Some(Suppressed::InIgnoredArea) => self.suppressed.in_ignored_area += 1,
            Some(Suppressed::OverHourlyLimit) => {
                self.held_back = self.held_back.saturating_add(1);
                self.suppressed.over_hourly_limit += 1;
            }
            None => {}
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
        if let Some(most) = self.max_per_hour {
            self.began_lately.push_back(scene.clock);
            if self.began_lately.len() > most as usize {
                self.began_lately.pop_front();
            }
        }
        event.held_back = std::mem::take(&mut self.held_back);
        let open = OpenEvent {
            id: (scene.new_id)(),
            decision,
            reviewed_s: scene.clock,
            reported_s: scene.clock,
            number: event.number,
        };
        self.write(scene, &open, Phase::New, event, chain);
        open
    }

    /// Reviews the evidence of an open event. Emits an update if the verdict became stronger or the
    /// number moved further beyond its bound.
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
            scene.clock - open.reported_s >= NUMBER_EVERY_S && open.number.is_some_and(further);
        if stronger || number {
            // A verdict never weakens while the event is open.
            if decision.verdict >= open.decision.verdict {
                open.decision = decision;
            }
            open.reported_s = scene.clock;
            open.number = event.number;
            self.write(scene, open, Phase::Update, event, &chain);
        }
    }

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
        event.on_act.clone_from(&self.on_act);
        if phase == Phase::New && self.sources.is_some() {
            event.readings = self.readings.latest(scene.clock);
            event.decide.clone_from(&self.sources);
        }
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
