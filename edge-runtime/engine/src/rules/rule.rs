//! One rule at work: whom it is about, what it watches, where its events are written.
//!
//! Invariant: whatever is open is ended by [`Rule::finish`]; a rule reads only its own needs.

use watchkeeper_contract::rule::RuleSpec;

use super::check::Watch;
use super::context::{RuleContext, View};
use super::crossing::Crossing;
use super::history::History;
use super::level::Level;
use super::life::Scene;
use super::schedule::ActiveSchedule;
use super::stays::Stays;

#[derive(Debug)]
enum Watcher {
    Stays(Stays),
    Crossing(Crossing),
    Level(Box<Level>),
}

/// A rule at work.
#[derive(Debug)]
pub(super) struct Rule {
    context: RuleContext,
    watcher: Watcher,
}

impl Rule {
    pub(super) fn new(spec: &RuleSpec, awake: Option<ActiveSchedule>, watch: Watch) -> Self {
        let context = RuleContext::new(spec, awake);
        let watcher = match watch {
            Watch::Tracks(tracks) => Watcher::Stays(Stays::new(tracks)),
            Watch::Crosses(crosses) => Watcher::Crossing(Crossing::new(crosses)),
            Watch::Level(level) => Watcher::Level(Box::new(Level::new(level))),
        };
        Self { context, watcher }
    }

    /// Takes one frame.
    pub(super) fn observe(&mut self, scene: &mut Scene<'_>, view: &View<'_>) {
        match &mut self.watcher {
            Watcher::Stays(w) => w.observe(&mut self.context, scene, view),
            Watcher::Crossing(w) => w.observe(&mut self.context, scene, view),
            Watcher::Level(w) => w.observe(&mut self.context, scene, view),
        }
    }

    /// Ends everything that is open: there will be no more frames.
    pub(super) fn finish(&mut self, scene: &mut Scene<'_>, histories: &[History]) {
        match &mut self.watcher {
            Watcher::Stays(w) => w.finish(&mut self.context, scene, histories),
            Watcher::Crossing(_) => {}
            Watcher::Level(w) => w.over(&mut self.context, scene, "the watch ended"),
        }
    }

    /// Candidates that were too weak to become events.
    pub(super) fn discarded(&self) -> u64 {
        self.context.emitter.discarded
    }

    /// Tracks that were not watched because there were too many at once.
    pub(super) fn unwatched(&self) -> u64 {
        match &self.watcher {
            Watcher::Stays(w) => w.unwatched(),
            Watcher::Crossing(_) | Watcher::Level(_) => 0,
        }
    }
}
