//! State that all kinds of rules share: settings, the frame, and the track of an event.
//!
//! - Not here: when an event begins and ends (`life`), or what a condition is (`track_rule`,
//!   `crossing`, `level`).

use watchkeeper_contract::event::RuleEvent;
use watchkeeper_contract::id::TrackId;
use watchkeeper_contract::rule::{Band, RuleSpec};
use watchkeeper_vision::detections::Detection;
use watchkeeper_vision::geometry::BBox;

use super::boxes::Inputs;
use super::evidence::{EvidenceItem, of_track};
use super::history::{History, Record};
use super::life::{EventEmitter, Suppressed};
use super::moment::Moment;
use super::plan::ReadingNeeds;
use super::schedule::ActiveSchedule;
use super::stays::Stays;

/// Data of one frame for the rules, by need and by group.
pub(super) struct View<'a> {
    pub(super) inputs: Inputs<'a>,
    pub(super) histories: &'a [History],
    /// By number of the scope.
    pub(super) stays: &'a [Stays],
}

/// Settings of a rule, independent of its condition.
#[derive(Debug)]
pub(super) struct RuleContext {
    name: String,
    classes: Vec<String>,
    band: Option<Band>,
    /// Areas in which objects are ignored, normalised `[x_min, y_min, x_max, y_max]`.
    ignored_areas: Vec<[f64; 4]>,
    pub(super) emitter: EventEmitter,
}

impl RuleContext {
    pub(super) fn new(spec: &RuleSpec, active: Option<ActiveSchedule>, read: ReadingNeeds) -> Self {
        Self {
            name: spec.name.clone(),
            classes: spec.classes.clone(),
            band: spec.confidence,
            ignored_areas: spec.ignore.clone(),
            emitter: EventEmitter::new(spec, active, read),
        }
    }

    /// Checks whether the rule accepts the class, score and place of a box. The class of a track
    /// is that of most of its boxes, and its place that of its latest box.
    pub(super) fn check(
        &self,
        d: &Detection,
        subject: Option<Subject<'_>>,
        at: &Moment,
    ) -> Result<(), Suppressed> {
        let record = subject.and_then(|s| s.record);
        let label = record.map_or(&*d.class, Record::label);
        let class = self.classes.is_empty() || self.classes.iter().any(|c| c == label);
        let score = |b: Band| b.min <= d.confidence && d.confidence <= b.max;
        if !(class && self.band.is_none_or(score)) {
            return Err(Suppressed::NotAccepted);
        }
        let latest = subject.and_then(|s| s.latest);
        let bbox = latest.map_or(&d.bbox, |record| &record.bbox);
        if self.is_ignored(bbox, at) {
            return Err(Suppressed::InIgnoredArea);
        }
        Ok(())
    }

    /// Whether the middle of the lower edge of a box lies in an ignored area.
    fn is_ignored(&self, bbox: &BBox, at: &Moment) -> bool {
        let [w, h] = at.size.map(f64::from);
        let (x, y) = (f64::midpoint(bbox.x1, bbox.x2) / w, bbox.y2 / h);
        let mut areas = self.ignored_areas.iter();
        areas.any(|[x_min, y_min, x_max, y_max]| {
            (*x_min..=*x_max).contains(&x) && (*y_min..=*y_max).contains(&y)
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Names this number of the accepted classes for a reason text.
    pub(super) fn things(&self, number: f64) -> String {
        match self.classes.as_slice() {
            [] if number == 1.0 => "object".to_owned(),
            [] => "objects".to_owned(),
            classes => classes.join(" or "),
        }
    }

    /// Creates an event of this rule, without subject.
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
            shown_frame: None,
            frame: at.frame,
            pts_s: at.time_s,
            held_back: 0,
            readings: Vec::new(),
            decide: None,
            on_act: Vec::new(),
            notify: Vec::new(),
        }
    }
}

/// An object with its history.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject<'a> {
    /// Track by which the object is named: its first one.
    pub(super) track: TrackId,
    latest_track: TrackId,
    /// Statistics of its track with the most sightings.
    pub(super) record: Option<&'a Record>,
    /// Statistics of its track now.
    latest: Option<&'a Record>,
    is_damaged: bool,
}

impl<'a> Subject<'a> {
    /// An object that always had this track.
    pub(super) fn new(track: TrackId, history: &'a History) -> Self {
        Self::of_tracks([track; 3], history)
    }

    /// An object by its first track, its track now and the one with the most sightings.
    pub(super) fn of_tracks(
        [track, latest_track, best]: [TrackId; 3],
        history: &'a History,
    ) -> Self {
        Self {
            track,
            latest_track,
            record: history.get(best),
            latest: history.get(latest_track),
            is_damaged: history.is_damaged,
        }
    }

    pub(super) fn chain(&self) -> Vec<EvidenceItem> {
        let mut chain = self.record.map(of_track).unwrap_or_default();
        chain.extend(EvidenceItem::damage(self.is_damaged, self.record));
        chain
    }

    /// Returns a name such as `person #7`.
    pub(super) fn name(&self) -> String {
        let label = self.record.map(Record::label).filter(|l| !l.is_empty());
        format!("{} #{}", label.unwrap_or("object"), self.track)
    }

    /// Adds the object's details to an event.
    pub(super) fn describe(&self, event: &mut RuleEvent, at: &Moment) {
        event.tracks = vec![self.track];
        if self.latest_track != self.track {
            event.tracks.push(self.latest_track);
        }
        if let Some(record) = self.record {
            event.label = Some(record.label().to_owned());
            event.score = Some(record.best_score);
        }
        let Some(record) = self.latest else { return };
        let [w, h] = at.size.map(f64::from);
        let earlier = (record.frame != at.frame).then_some(record.good);
        let bbox = earlier.map_or(record.bbox, |sight| sight.bbox);
        if w > 0.0 && h > 0.0 && bbox.width() > 0.0 {
            event.bbox = Some(bbox.normalised(w, h));
            event.shown_frame = earlier.map(|sight| sight.frame);
        }
    }
}
