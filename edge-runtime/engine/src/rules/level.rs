//! Rules about the scene as a whole: a count or a value beyond a bound for some time.
//!
//! - Before an event begins, its condition must hold without a break. Once begun, breaks up to the
//!   grace do not end it: a box may be missed. Boxes that break a bound `under` are not missed: it
//!   ends once they were seen for as long as the shortest visit.
//! - A frame without a value, or a gap without frames, counts as unknown until the grace is over. A
//!   condition that is true again after a longer gap starts over.
//! - At most one event is open. It ends with its condition, its data, its schedule or the source.

use watchkeeper_contract::event::RuleEvent;
use watchkeeper_contract::id::TrackId;
use watchkeeper_contract::rule::{CountBound, ValueTest};
use watchkeeper_vision::analytics::visits::LEAST_DWELL_S;
use watchkeeper_vision::detections::Detection;

use super::context::{RuleContext, View};
use super::evidence::{EvidenceItem, of_count, of_value};
use super::life::{Lifecycle, SETTLE_S, Scene, Suppressed};
use super::moment::{Moment, NeedValue};
use super::plan::{LevelWatch, Question};

/// Maximum number of tracks in an event about a count.
const MAX_LISTED: usize = 32;

#[derive(Debug, Default)]
struct Reading {
    holds: bool,
    number: Option<f64>,
    tracks: Vec<TrackId>,
    scores: Vec<f64>,
}

/// A rule about a count or a value.
#[derive(Debug)]
pub(super) struct Level {
    watch: LevelWatch,
    since_s: Option<f64>,
    last_true_s: f64,
    /// Time of the first frame that contradicted the condition since it last held.
    broken_s: Option<f64>,
    /// The latest reading that held, for the end of the event.
    latest: Reading,
    life: Lifecycle,
}

impl Level {
    pub(super) fn new(watch: LevelWatch) -> Self {
        Self {
            watch,
            since_s: None,
            last_true_s: 0.0,
            broken_s: None,
            latest: Reading::default(),
            life: Lifecycle::candidate(),
        }
    }

    pub(super) fn observe(
        &mut self,
        context: &mut RuleContext,
        scene: &mut Scene<'_>,
        view: &View<'_>,
    ) {
        let reading = self.read(context, scene.at, view);
        let is_over = reading.as_ref().is_some_and(|r| !r.holds);
        if scene.clock - self.last_true_s > scene.grace_s
            || self.is_contradicted(scene.clock, is_over)
        {
            let why = if is_over {
                "the condition ended"
            } else {
                "no data"
            };
            self.end(context, scene, why);
        }
        let open = matches!(self.life, Lifecycle::Open(_));
        match reading {
            // Held detections extend the event without adding evidence.
            Some(reading)
                if reading.holds && self.since_s.is_some() && is_held(view, &self.watch) =>
            {
                self.last_true_s = scene.clock;
                self.broken_s = None;
                return self.end_if_inactive(context, scene);
            }
            Some(reading) if reading.holds => {
                self.broken_s = None;
                self.since_s.get_or_insert(scene.clock);
                self.last_true_s = scene.clock;
                self.latest = reading;
            }
            Some(_) if !open => return self.end(context, scene, "the condition ended"),
            // A break within the grace, or a step that did not run.
            Some(_) | None => return self.end_if_inactive(context, scene),
        }
        self.end_if_inactive(context, scene);
        let Some(since) = self.since_s else { return };
        let held = scene.clock - since;
        if matches!(self.life, Lifecycle::Candidate { .. }) && held >= self.watch.for_s {
            let settled = held >= SETTLE_S.max(self.watch.for_s);
            let event = self.describe(context, scene.at, held, None);
            let chain = self.chain(scene.at, held);
            context
                .emitter
                .try_begin(scene, None, (&chain, settled), &mut self.life, event);
        } else if let Some(mut open) = self.life.take_open() {
            let at = scene.at;
            let look = || (self.chain(at, held), self.describe(context, at, held, None));
            context
                .emitter
                .review(scene, &mut open, look, self.is_further());
            self.life = Lifecycle::Open(open);
        }
    }

    /// Whether more objects than a bound `under` allows were seen for the least time of a visit;
    /// `now` says whether this frame shows them.
    fn is_contradicted(&mut self, clock: f64, now: bool) -> bool {
        let is_under = matches!(
            self.watch.question,
            Question::Count {
                bound: CountBound::Under(_),
                ..
            }
        );
        is_under && now && clock - *self.broken_s.get_or_insert(clock) >= LEAST_DWELL_S
    }

    pub(super) fn end(&mut self, context: &mut RuleContext, scene: &mut Scene<'_>, why: &str) {
        let Some(since) = self.since_s.take() else {
            return;
        };
        self.broken_s = None;
        let held = self.last_true_s - since;
        let chain = self.chain(scene.at, held);
        // Decides now what was postponed for more evidence.
        if let Lifecycle::Candidate {
            held: Some(Suppressed::Settling),
        } = self.life
        {
            let event = self.describe(context, scene.at, held, None);
            context
                .emitter
                .try_begin(scene, None, (&chain, true), &mut self.life, event);
        }
        match std::mem::replace(&mut self.life, Lifecycle::candidate()) {
            Lifecycle::Open(open) => {
                let event = self.describe(context, scene.at, held, Some(why));
                context.emitter.end(scene, *open, event, &chain);
            }
            Lifecycle::Candidate { held: reason } => {
                let event = self.describe(context, scene.at, held, Some(why));
                let emitter = &mut context.emitter;
                emitter.give_up_event(scene, since, reason, &event, &chain);
            }
            Lifecycle::Over => {}
        }
        self.latest = Reading::default();
    }

    /// Ends the event once the schedule is over.
    fn end_if_inactive(&mut self, context: &mut RuleContext, scene: &mut Scene<'_>) {
        if matches!(self.life, Lifecycle::Open(_)) && !context.emitter.is_active(scene.at) {
            self.end(context, scene, "the schedule ended");
        }
    }

    /// Reads the condition; `None` if the step did not run or gave no usable number.
    fn read(&self, context: &RuleContext, at: &Moment, view: &View<'_>) -> Option<Reading> {
        match &self.watch.question {
            Question::Count { bound, of_zone } => {
                let boxes = view.inputs.boxes(self.watch.need)?;
                let counted = boxes.all().filter(|d| {
                    context.check(d, None, at).is_ok() && !(*of_zone && d.outside_zone)
                });
                Some(count(counted, *bound))
            }
            Question::Value { test } => {
                let (holds, number) = match (test, view.inputs.value(self.watch.need)) {
                    (ValueTest::Is(want), NeedValue::Boolean(b)) => (b == *want, None),
                    (ValueTest::Over(v), NeedValue::Number(n)) if n.is_finite() => {
                        (n > *v, Some(n))
                    }
                    (ValueTest::Under(v), NeedValue::Number(n)) if n.is_finite() => {
                        (n < *v, Some(n))
                    }
                    _ => return None,
                };
                Some(Reading {
                    holds,
                    number,
                    ..Reading::default()
                })
            }
        }
    }

    fn chain(&self, at: &Moment, held: f64) -> Vec<EvidenceItem> {
        let mut chain = match &self.watch.question {
            Question::Count {
                bound: CountBound::Over(b) | CountBound::Under(b),
                ..
            } => of_count(&self.latest.scores, f64::from(*b), held),
            Question::Value {
                test: ValueTest::Over(b) | ValueTest::Under(b),
            } => of_value(self.latest.number.map(|n| [n, *b]), held),
            Question::Value {
                test: ValueTest::Is(_),
            } => of_value(None, held),
        };
        chain.extend(EvidenceItem::damage(at.is_damaged, None));
        chain
    }

    /// Returns a test whether the latest number is further beyond the bound than another one.
    fn is_further(&self) -> impl FnOnce(f64) -> bool + use<> {
        let now = self.latest.number;
        let up = match &self.watch.question {
            Question::Count { bound, .. } => matches!(bound, CountBound::Over(_)),
            Question::Value { test } => matches!(test, ValueTest::Over(_)),
        };
        move |told| now.is_some_and(|n| if up { n > told } else { n < told })
    }

    /// Returns the event with its reason; `over` says why it ends.
    fn describe(
        &self,
        context: &RuleContext,
        at: &Moment,
        held: f64,
        over: Option<&str>,
    ) -> RuleEvent {
        let LevelWatch {
            selector, for_s, ..
        } = &self.watch;
        let number = self.latest.number.unwrap_or(0.0);
        let (condition, said) = match &self.watch.question {
            Question::Count { bound, .. } => {
                let bound = match bound {
                    CountBound::Over(b) => format!("over the limit of {b}"),
                    CountBound::Under(b) => format!("under the limit of {b}"),
                };
                (
                    "count",
                    format!(
                        "{number} {}{}, {bound}",
                        context.things(number),
                        place(selector)
                    ),
                )
            }
            Question::Value { test } => {
                let value = value(selector);
                let said = match test {
                    ValueTest::Is(b) => format!("{value} is {b}"),
                    ValueTest::Over(b) => format!("{value} is {number}, over the limit of {b}"),
                    ValueTest::Under(b) => format!("{value} is {number}, under the limit of {b}"),
                };
                ("value", said)
            }
        };
        let reason = match over {
            None if *for_s > 0.0 => format!("{said}, for {held:.1} s (limit {for_s} s)"),
            None => format!("{said}, for {held:.1} s"),
            Some(why) => format!("{said}, held for {held:.1} s; {why}"),
        };
        let mut event = context.event(at, condition, reason);
        event.number = self.latest.number;
        event.tracks.clone_from(&self.latest.tracks);
        event.score = self
            .latest
            .scores
            .iter()
            .copied()
            .reduce(f64::max)
            .filter(|s| s.is_finite());
        event
    }
}

/// Splits a selector into step and output.
fn parts(selector: &str) -> Option<(&str, &str)> {
    selector.strip_prefix("$steps.")?.split_once('.')
}

/// Names where boxes are counted; empty for the whole picture.
fn place(selector: &str) -> String {
    match parts(selector) {
        Some((_, "tracked_detections")) => String::new(),
        Some((zone, "timed_detections")) => format!(" in {zone}"),
        Some((step, output)) => format!(" among the {output} of {step}"),
        None => format!(" in {selector}"),
    }
}

/// Names a value for a reason text.
fn value(selector: &str) -> String {
    match parts(selector) {
        Some((step, output)) => format!("the {output} of {step}"),
        None => selector.to_owned(),
    }
}

/// Returns whether boxes are present but no detector ran on this frame.
fn is_held(view: &View<'_>, watch: &LevelWatch) -> bool {
    let boxes = view.inputs.boxes(watch.need);
    boxes.is_some_and(|boxes| !boxes.is_empty() && boxes.is_held())
}

/// Counts the boxes that the rule accepts.
fn count<'a>(accepted: impl Iterator<Item = &'a Detection>, bound: CountBound) -> Reading {
    let mut reading = Reading::default();
    for d in accepted {
        reading.scores.push(d.confidence);
        reading.tracks.extend(d.track);
    }
    let n = reading.scores.len();
    reading.holds = match bound {
        CountBound::Over(b) => n > b as usize,
        CountBound::Under(b) => n < b as usize,
    };
    reading.number = Some(n as f64);
    reading.tracks.sort_unstable();
    reading.tracks.dedup();
    reading.tracks.truncate(MAX_LISTED);
    reading
}
