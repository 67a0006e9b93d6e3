//! One rule at work: whom it is about, what it watches, where its events are written.
//!
//! Invariant: whatever is open is ended by [`Rule::finish`]; a rule reads only its own needs.

use watchkeeper_contract::event::RuleEvent;
use watchkeeper_contract::id::TrackId;
use watchkeeper_contract::rule::{Band, RuleSpec};
use watchkeeper_vision::detections::Detection;

use super::boxes::Boxes;
use super::check::Watch;
use super::crossing::Crossing;
use super::evidence::{Link, of_track};
use super::history::{History, Record};
use super::level::Level;
use super::life::{EventEmitter, Scene};
use super::moment::{Input, Moment};
use super::schedule::Awake;
use super::stays::Stays;

/// What the rules look at in one frame, by need and by group.
pub(super) struct View<'a> {
    pub(super) inputs: &'a [Input<'a>],
    pub(super) boxes: &'a [Option<Boxes<'a>>],
    pub(super) histories: &'a [History],
}

/// What every rule has, whatever it watches.
#[derive(Debug)]
pub(super) struct Teller {
    name: String,
    classes: Vec<String>,
    band: Option<Band>,
    pub(super) emitter: EventEmitter,
}

impl Teller {
    /// Whether class and score of a box are those the rule is about. A track has the class that most of its boxes had.
    pub(super) fn fits(&self, d: &Detection, record: Option<&Record>) -> bool {
        let label = record.map_or(&*d.class, Record::label);
        let class = self.classes.is_empty() || self.classes.iter().any(|c| c == label);
        class
            && self
                .band
                .is_none_or(|b| b.min <= d.confidence && d.confidence <= b.max)
    }

    /// The things the rule is about, in words.
    pub(super) fn things(&self) -> String {
        if self.classes.is_empty() {
            "objects".to_owned()
        } else {
            self.classes.join(" or ")
        }
    }

    /// An event of this rule about nothing yet.
    pub(super) fn event(&self, at: &Moment, condition: &str, reason: String) -> RuleEvent {
        RuleEvent {
            rule: self.name.clone(),
            condition: condition.to_owned(),
            reason,
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
            notify: Vec::new(),
        }
    }
}

/// A track and what is known about it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) track: TrackId,
    pub(super) record: Option<&'a Record>,
}

impl<'a> Subject<'a> {
    pub(super) fn new(track: TrackId, history: &'a History) -> Self {
        Self {
            track,
            record: history.get(track),
        }
    }

    /// The evidence about it.
    pub(super) fn chain(&self) -> Vec<Link> {
        self.record.map(of_track).unwrap_or_default()
    }

    /// Such as `person #7`.
    pub(super) fn name(&self) -> String {
        let label = self.record.map(Record::label).filter(|l| !l.is_empty());
        format!("{} #{}", label.unwrap_or("object"), self.track)
    }

    /// Writes what is known about it into an event.
    pub(super) fn describe(&self, event: &mut RuleEvent, at: &Moment) {
        event.tracks = vec![self.track];
        let Some(record) = self.record else { return };
        event.label = Some(record.label().to_owned());
        event.score = Some(record.best_score);
        let [w, h] = at.size.map(f64::from);
        if w > 0.0 && h > 0.0 && record.bbox.width() > 0.0 {
            event.bbox = Some(record.bbox.normalised(w, h));
        }
    }
}

#[derive(Debug)]
enum Watcher {
    Stays(Stays),
    Crossing(Crossing),
    Level(Box<Level>),
}

/// A rule at work.
#[derive(Debug)]
pub(super) struct Rule {
    teller: Teller,
    watcher: Watcher,
}

impl Rule {
    pub(super) fn new(spec: &RuleSpec, awake: Option<Awake>, watch: Watch) -> Self {
        let teller = Teller {
            name: spec.name.clone(),
            classes: spec.classes.clone(),
            band: spec.confidence,
            emitter: EventEmitter::new(spec, awake),
        };
        let watcher = match watch {
            Watch::Tracks(tracks) => Watcher::Stays(Stays::new(tracks)),
            Watch::Crosses(crosses) => Watcher::Crossing(Crossing::new(crosses)),
            Watch::Level(level) => Watcher::Level(Box::new(Level::new(level))),
        };
        Self { teller, watcher }
    }

    /// Takes one frame.
    pub(super) fn observe(&mut self, scene: &mut Scene<'_>, view: &View<'_>) {
        match &mut self.watcher {
            Watcher::Stays(w) => w.observe(&mut self.teller, scene, view),
            Watcher::Crossing(w) => w.observe(&mut self.teller, scene, view),
            Watcher::Level(w) => w.observe(&mut self.teller, scene, view),
        }
    }

    /// Ends everything that is open: there will be no more frames.
    pub(super) fn finish(&mut self, scene: &mut Scene<'_>, histories: &[History]) {
        match &mut self.watcher {
            Watcher::Stays(w) => w.finish(&mut self.teller, scene, histories),
            Watcher::Crossing(_) => {}
            Watcher::Level(w) => w.over(&mut self.teller, scene, "the watch ended"),
        }
    }

    /// Candidates that were too weak to become events.
    pub(super) fn discarded(&self) -> u64 {
        self.teller.emitter.discarded
    }

    /// Tracks that were not watched because there were too many at once.
    pub(super) fn unwatched(&self) -> u64 {
        match &self.watcher {
            Watcher::Stays(w) => w.unwatched(),
            Watcher::Crossing(_) | Watcher::Level(_) => 0,
        }
    }
}
