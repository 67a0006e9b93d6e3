//! The rules of one pipeline, frame by frame.
//!
//! - The clock never goes back, whatever the frames' times do.
//! - Every history and every list of stays sees a frame before any rule does.

use std::collections::BTreeMap;

use watchkeeper_contract::id::EventId;
use watchkeeper_contract::pipeline::{MAX_TOO_WEAK, SuppressedCounts, TooWeak, ZoneVisits};
use watchkeeper_contract::review::Calibration;
use watchkeeper_contract::rule::RuleSpec;
use watchkeeper_vision::analytics::grace::{GRACE_S, Grace};
use watchkeeper_vision::analytics::{StillTracks, Visits};
use watchkeeper_vision::frame::Picture;

use super::boxes::{BoxOrder, Boxes, Inputs};
use super::check::{RuleError, compile};
use super::context::View;
use super::facts::WorkflowFacts;
use super::history::History;
use super::life::Scene;
use super::moment::{Change, FinishReason, Moment, Need, NeedValue};
use super::rule::Rule;
use super::stays::Stays;

/// The rules of one pipeline with their state.
#[derive(Debug)]
pub struct RuleSet {
    needs: Vec<Need>,
    orders: Vec<BoxOrder>,
    groups: Vec<Vec<usize>>,
    histories: Vec<History>,
    /// By number of the scope.
    stays: Vec<Stays>,
    /// By number of the need with all boxes of a tracker.
    still: BTreeMap<usize, StillTracks>,
    rules: Vec<Rule>,
    pre_roll_s: Option<f64>,
    /// Source time that never goes back.
    clock: f64,
    grace: Grace,
    last_time_s: Option<f64>,
}

impl RuleSet {
    /// Compiles rules against a workflow.
    ///
    /// # Errors
    /// All errors of all rules, with the accepted values.
    pub fn new(specs: &[RuleSpec], facts: &WorkflowFacts<'_>) -> Result<Self, Vec<RuleError>> {
        let plan = compile(specs, facts)?;
        let clips = specs.iter().filter_map(|spec| spec.clip);
        let pre_roll_s = clips.map(|clip| clip.before_s).reduce(f64::max);
        let rules = plan
            .rules
            .into_iter()
            .map(|(spec, awake, watch, read)| Rule::new(&spec, awake, watch, read));
        Ok(Self {
            orders: plan.needs.iter().map(|_| BoxOrder::default()).collect(),
            needs: plan.needs,
            histories: vec![History::default(); plan.groups.len()],
            groups: plan.groups,
            still: plan
                .scopes
                .iter()
                .map(|scope| (scope.tracked, StillTracks::default()))
                .collect(),
            stays: plan.scopes.into_iter().map(Stays::new).collect(),
            rules: rules.collect(),
            pre_roll_s,
            clock: 0.0,
            grace: Grace::new(GRACE_S),
            last_time_s: None,
        })
    }

    /// Calibrates the confidence of the rules with these names; all others lose their calibration.
    pub fn set_calibrations(&mut self, by_rule: &BTreeMap<String, Calibration>) {
        for rule in &mut self.rules {
            rule.set_calibration(by_rule);
        }
    }

    /// Returns the workflow values that [`observe`](Self::observe) asks for, by their number.
    pub fn needs(&self) -> &[Need] {
        &self.needs
    }

    /// Returns the longest `before_s` of the rules' clips, in seconds; `None` without clips.
    pub fn pre_roll_s(&self) -> Option<f64> {
        self.pre_roll_s
    }

    /// Processes one frame and returns the changes of events, rule by rule. `value` returns the
    /// same value of a need, by its number in [`needs`](Self::needs), as often as it is asked. By
    /// the picture still objects are recognised. A frame whose time is not a number is ignored.
    pub fn observe<'a>(
        &mut self,
        at: &Moment,
        picture: Option<&Picture>,
        value: impl Fn(usize) -> NeedValue<'a>,
        new_id: &mut dyn FnMut() -> EventId,
    ) -> Vec<Change> {
        if !at.time_s.is_finite() {
            return Vec::new();
        }
        self.clock = match self.last_time_s.replace(at.time_s) {
            Some(last) => self.clock + (at.time_s - last).max(0.0),
            None => at.time_s,
        };
        let grace_s = self.grace.next(self.clock);

        self.sort_boxes(&value);
        // Its values may live longer than what is seen in one frame.
        let values = |need: usize| -> NeedValue<'_> { value(need) };
        let inputs = Inputs {
            values: &values,
            orders: &self.orders,
        };
        for (group, history) in self.groups.iter().zip(&mut self.histories) {
            let found = || group.iter().filter_map(|&n| inputs.boxes(n));
            history.advance(at.frame, at.time_s);
            history.is_damaged = at.is_damaged;
            // A frame without detection, or in which the steps did not run, adds no sighting and
            // no gap.
            let is_missing = found().next().is_none();
            let is_held = found().any(|boxes| !boxes.is_empty()) && found().all(Boxes::is_held);
            if !is_missing && !is_held {
                history.next_frame();
            }
            for (_, d) in found().flat_map(Boxes::tracked) {
                history.see(d, self.clock);
            }
        }

        if let Some(picture) = picture {
            find_still(&mut self.still, inputs, picture, self.clock);
        }
        for stays in &mut self.stays {
            let still = self.still.get(&stays.tracked());
            let is_still = |track| still.is_some_and(|still| still.is_still(track));
            stays.observe(inputs, is_still, self.clock);
        }

        self.ask_rules(at, grace_s, &value, new_id, &Rule::observe)
    }

    /// Calls `ask` for each rule and returns the changes of events.
    fn ask_rules<'v>(
        &mut self,
        at: &Moment,
        grace_s: f64,
        values: impl Fn(usize) -> NeedValue<'v>,
        new_id: &mut dyn FnMut() -> EventId,
        ask: &dyn Fn(&mut Rule, &mut Scene<'_>, &View<'_>),
    ) -> Vec<Change> {
        // Its values may live longer than what is seen in one frame.
        let values = |need: usize| -> NeedValue<'_> { values(need) };
        let view = View {
            inputs: Inputs {
                values: &values,
                orders: &self.orders,
            },
            histories: &self.histories,
            stays: &self.stays,
        };
        let mut out = Vec::new();
        let mut scene = Scene {
            at,
            clock: self.clock,
            grace_s,
            new_id,
            out: &mut out,
        };
        for rule in &mut self.rules {
            ask(rule, &mut scene, &view);
        }
        out
    }

    fn sort_boxes<'a>(&mut self, value: &impl Fn(usize) -> NeedValue<'a>) {
        for (need, order) in self.orders.iter_mut().enumerate() {
            if let NeedValue::Detections(detections) = value(need) {
                order.sort(detections);
            }
        }
    }

    /// Ends every stay and every open event, for a reason that the events name. `value` returns
    /// what steps decided at the end; only crossings are read from it.
    pub fn finish<'a>(
        &mut self,
        reason: FinishReason,
        at: &Moment,
        value: impl Fn(usize) -> NeedValue<'a>,
        new_id: &mut dyn FnMut() -> EventId,
    ) -> Vec<Change> {
        for stays in &mut self.stays {
            stays.visits.finish();
        }
        self.sort_boxes(&value);
        let finish = |rule: &mut Rule, scene: &mut Scene<'_>, view: &View<'_>| {
            rule.finish(reason, scene, view)
        };
        self.ask_rules(at, GRACE_S, value, new_id, &finish)
    }

    /// Returns the visits of each zone of the workflow so far, by name.
    pub fn zones(&self) -> impl Iterator<Item = (&str, ZoneVisits)> {
        self.zone_stays()
            .map(|(name, stays)| (name, stays.summary()))
    }

    /// Returns the stays of each zone of the workflow, by name, to be saved.
    pub fn zone_stays(&self) -> impl Iterator<Item = (&str, &Visits)> {
        self.stays
            .iter()
            .filter_map(|stays| Some((stays.zone()?, &stays.visits)))
    }

    /// Resumes the stays of a zone, before the first frame. Ignores an unknown zone.
    pub fn resume_stays(&mut self, zone: &str, saved: Visits) {
        if let Some(stays) = self.stays.iter_mut().find(|s| s.zone() == Some(zone)) {
            stays.visits = saved;
        }
    }

    /// Frames that events show of objects of the last `kept_s` seconds, once out of sight.
    pub fn good_frames(&self, kept_s: f64) -> impl Iterator<Item = u64> {
        let since_s = self.clock - kept_s;
        let histories = self.histories.iter();
        histories.flat_map(move |history| history.good_frames(since_s))
    }

    /// Number of visits of all zones so far.
    pub fn visits(&self) -> u64 {
        self.zone_stays().map(|(_, visits)| visits.count()).sum()
    }

    /// Number of candidates with too little evidence.
    pub fn discarded(&self) -> u64 {
        self.rules.iter().map(Rule::discarded).sum()
    }

    /// The latest candidates with too little evidence, in order of time.
    pub fn too_weak(&self) -> Vec<TooWeak> {
        let mut all: Vec<_> = self
            .rules
            .iter()
            .flat_map(Rule::too_weak)
            .cloned()
            .collect();
        all.sort_by(|a, b| a.pts_s.total_cmp(&b.pts_s));
        all.drain(..all.len().saturating_sub(MAX_TOO_WEAK));
        all
    }

    /// Numbers of other candidates that made no event.
    pub fn suppressed(&self) -> SuppressedCounts {
        let each = self.rules.iter().map(Rule::suppressed);
        each.fold(SuppressedCounts::default(), |sum, counts| sum + counts)
    }

    /// How often an object was ignored because too many were in a zone or picture at once.
    pub fn unwatched(&self) -> u64 {
        self.stays.iter().map(|s| s.visits.unwatched()).sum()
    }
}

/// Finds out which tracks are still, where their boxes are of this picture.
fn find_still(
    by_need: &mut BTreeMap<usize, StillTracks>,
    inputs: Inputs<'_>,
    picture: &Picture,
    clock: f64,
) {
    for (need, still) in by_need {
        let NeedValue::Detections(found) = inputs.value(*need) else {
            continue;
        };
        if found.size == [picture.width, picture.height] {
            let tracked = inputs.boxes(*need).into_iter().flat_map(Boxes::tracked);
            still.observe(picture, tracked.map(|(_, d)| d), clock);
        }
    }
}
