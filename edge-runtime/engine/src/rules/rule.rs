//! One rule at work.
//!
//! - [`Rule::finish`] ends all open events.
//! - A rule reads only its own needs.

use std::collections::BTreeMap;

use watchkeeper_contract::pipeline::{SuppressedCounts, TooWeak};
use watchkeeper_contract::review::Calibration;
use watchkeeper_contract::rule::RuleSpec;

use super::context::{RuleContext, View};
use super::crossing::Crossing;
use super::level::Level;
use super::life::Scene;
use super::moment::FinishReason;
use super::plan::{ReadingNeeds, Watch};
use super::schedule::ActiveSchedule;
use super::track_rule::TrackRule;

#[derive(Debug)]
enum Watcher {
    Tracks(TrackRule),
    Crossing(Crossing),
    Level(Box<Level>),
}

#[derive(Debug)]
pub(super) struct Rule {
    context: RuleContext,
    watcher: Watcher,
}

impl Rule {
    pub(super) fn new(
        spec: &RuleSpec,
        active: Option<ActiveSchedule>,
        watch: Watch,
        read: ReadingNeeds,
    ) -> Self {
        let context = RuleContext::new(spec, active, read);
        let watcher = match watch {
            Watch::Tracks(tracks) => Watcher::Tracks(TrackRule::new(tracks)),
            Watch::Crosses(crosses) => Watcher::Crossing(Crossing::new(crosses)),
            Watch::Level(level) => Watcher::Level(Box::new(Level::new(level))),
        };
        Self { context, watcher }
    }

    pub(super) fn observe(&mut self, scene: &mut Scene<'_>, view: &View<'_>) {
        self.context
            .emitter
            .readings
            .observe(view.inputs, scene.clock);
        match &mut self.watcher {
            Watcher::Tracks(w) => w.observe(&mut self.context, scene, view),
            Watcher::Crossing(w) => w.observe(&mut self.context, scene, view),
            Watcher::Level(w) => w.observe(&mut self.context, scene, view),
        }
    }

    /// Ends all open events: there are no more frames, every stay has ended, and the values are
    /// those that steps decided at the end.
    pub(super) fn finish(&mut self, reason: FinishReason, scene: &mut Scene<'_>, view: &View<'_>) {
        match &mut self.watcher {
            Watcher::Tracks(w) => w.end_stays(&mut self.context, scene, view, Some(reason)),
            Watcher::Crossing(w) => w.observe(&mut self.context, scene, view),
            Watcher::Level(w) => w.end(&mut self.context, scene, &reason.to_string()),
        }
    }

    /// Calibrates its confidence; `None` leaves it as the evidence gives it.
    pub(super) fn set_calibration(&mut self, of: &BTreeMap<String, Calibration>) {
        let own = of.get(self.context.name()).copied();
        self.context.emitter.set_calibration(own);
    }

    /// Numbers of other candidates that never began.
    pub(super) fn suppressed(&self) -> SuppressedCounts {
        self.context.emitter.suppressed
    }

    /// Number of candidates with too little evidence.
    pub(super) fn discarded(&self) -> u64 {
        self.context.emitter.discarded
    }

    pub(super) fn too_weak(&self) -> impl Iterator<Item = &TooWeak> {
        self.context.emitter.too_weak.iter()
    }
}
