//! Our own tracker: one round of matching, motion in seconds, and camera motion.
//!
//! - Per frame: predict, shift by the camera motion ([`camera`](super::camera)), assign boxes for
//!   the greatest sum of likenesses ([`likeness`](super::likeness)), reported tracks first. An
//!   unassigned box of half the score `activation` begins a track. The process noise suits the
//!   stream ([`drift`](super::drift)).
//! - A track is reported after `confirm_s` in sight and one box of the score `activation`. It is
//!   dropped after `buffer_s` out of sight.
//! - Sources: SORT (Bewley et al. 2016), `ByteTrack` (Zhang et al. 2022), BoT-SORT (Aharon et al.
//!   2022; here from boxes), C-BIoU (Yang et al. 2023). Constants and rejected variants:
//!   `docs/ref/tracking.md`.
//! - A frame that repeats a time counts as one usual interval ([`Cadence`]). A gap longer than the
//!   buffer ends every track. No time passes in frames that no detector looked at. Invalid boxes
//!   belong to no track.
//!
//! Invariants: pure; results are final; an id occurs once per frame and is never reused; at most
//! [`MAX_TRACKS`] tracks; no allocation in the steady state.

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::TrackId;

use super::assign::Assigner;
use super::cadence::Cadence;
use super::camera::Common;
use super::class_group::{group_id, group_score, has_mixed_group, is_covered};
use super::drift::Drift;
use super::likeness::{BUFFER, FIRST_BUFFER, grown, likeness};
use super::motion::BoxMotion;
use crate::detections::{Detection, Detections};
use crate::geometry::BBox;

/// Bound of the tracks; when it is reached, none begins.
pub const MAX_TRACKS: usize = 4096;

/// Sights after which a track's motion is known well enough to estimate the camera's.
const SETTLED_SIGHTS: u32 = 3;
/// Sights after which its innovations no longer depend on its start.
const CORRELATED_SIGHTS: u32 = 6;
/// Matching for camera motion: boxes are extended by this share of their size. A pair needs an
/// overlap over the first threshold, and no rival over the second one times as much. A wrong pair
/// is worse than none.
const CAMERA_BUFFER: f64 = 0.3;
const MIN_CAMERA_IOU: f64 = 0.3;
const CAMERA_RIVAL: f64 = 0.6;
/// Share of the activation from which an unassigned box begins a track.
const TENTATIVE: f64 = 0.5;
/// Seconds in sight, times the scores, after which an unreported track may be missed in a frame.
const MISS_ALLOWED_S: f64 = 0.1;
/// Factor on the similarity of a box of another class. Detectors confuse vans and trucks, and a
/// rider covers the bicycle.
const OTHER_CLASS: f64 = 0.5;
/// Lowest overlap of a held box with its track's last box.
const MIN_HELD_IOU: f64 = 0.5;
/// Frames in which a track may be missed at any frame rate, because a pipeline may look rarely.
const MIN_BUFFER_FRAMES: u32 = 2;
const USUAL_FPS: f64 = 30.0;
/// Deviation from the usual interval, in intervals, beyond which a step is unusual.
const UNUSUAL_INTERVALS: f64 = 0.5;
/// Longest prediction in seconds.
const MAX_STEP_S: f64 = 3600.0;
/// Coordinates beyond this are invalid.
const MAX_COORDINATE: f64 = 1e7;
/// Tolerance for rounding of added times.
const INSTANT_S: f64 = 1e-6;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TrackerConfig {
    /// Score that a box of a track must have before it is reported. Scores weigh relative to it, so
    /// for a detector with low scores only this must be set.
    pub activation: f64,
    /// Seconds for which a track can be found again.
    pub buffer_s: f64,
    /// Lowest likeness of a box and its track, `0.0..=1.0`.
    pub least_likeness: f64,
    /// Seconds in sight, times the scores, before a track is reported.
    pub confirm_s: f64,
    /// Frames in sight before a track is reported, at any frame rate.
    pub fewest_sights: u32,
    /// Frames per second for frames without a time; 30 unless positive.
    pub frame_rate: f64,
}

/// Default of [`TrackerConfig::activation`], at which scores have weight 1.
pub const ACTIVATION: f64 = 0.5;
pub const LEAST_LIKENESS: f64 = 0.2;

impl Default for TrackerConfig {
    fn default() -> Self {
        Self {
            activation: ACTIVATION,
            buffer_s: 1.0,
            least_likeness: LEAST_LIKENESS,
            confirm_s: 0.125,
            fewest_sights: 2,
            frame_rate: USUAL_FPS,
        }
    }
}

impl TrackerConfig {
    /// Whether a track with these sights is reported.
    fn is_known(&self, track: &Track) -> bool {
        track.best_score >= self.activation
            && track.sights >= self.fewest_sights
            && track.seen_s + INSTANT_S >= self.confirm_s
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Track {
    motion: BoxMotion,
    expected: BBox,
    last: BBox,
    class_id: i64,
    /// Set once it is reported.
    id: Option<TrackId>,
    sights: u32,
    #[serde(default)]
    best_score: f64,
    /// Seconds in sight, times the scores.
    seen_s: f64,
    /// Of the previous frame; 0 if it was not seen.
    #[serde(default)]
    innovation: [f64; 2],
    /// Frames since its last sight; 0 in this frame.
    missed: u32,
    last_s: f64,
}

impl Track {
    /// Similarity of a box and this track where it is expected, `0.0..=1.0`.
    fn likeness(&self, seen: &Seen) -> f64 {
        // An object that moves by its size between two frames has no overlap until its velocity is
        // known.
        let is_first = self.id.is_none() && self.sights == 1;
        let buffer = if is_first { FIRST_BUFFER } else { BUFFER };
        let is_same_class = self.class_id == seen.class_id;
        let class = if is_same_class { 1.0 } else { OTHER_CLASS };
        likeness(&self.expected, &seen.bbox, buffer) * seen.weight * class
    }
}

/// A valid box.
#[derive(Debug, Clone, Copy)]
struct Seen {
    index: usize,
    bbox: BBox,
    class_id: i64,
    score: f64,
    /// The score relative to the activation, `0.0..=1.0`. It weighs similarities, as in
    /// `ByteTrack`'s first round; this makes a second round for poor boxes needless.
    weight: f64,
    /// Extended, for matching camera motion.
    wide: BBox,
    track: Option<usize>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Tracker {
    config: TrackerConfig,
    cadence: Cadence,
    /// Seconds of the frames that a detector looked at.
    clock_s: f64,
    is_first: bool,
    last_id: i64,
    tracks: Vec<Track>,
    #[serde(default)]
    drift: Drift,
    // Memory reused in each frame.
    #[serde(skip)]
    seen: Vec<Seen>,
    #[serde(skip)]
    rows: Vec<usize>,
    #[serde(skip)]
    cols: Vec<usize>,
    #[serde(skip)]
    assigner: Assigner,
    #[serde(skip)]
    common: Common,
    #[serde(skip)]
    ids: Vec<Option<TrackId>>,
}

impl Tracker {
    pub fn new(config: TrackerConfig) -> Self {
        Self {
            config,
            cadence: Cadence::default(),
            clock_s: 0.0,
            is_first: true,
            last_id: 0,
            tracks: Vec::new(),
            drift: Drift::default(),
            seen: Vec::new(),
            rows: Vec::new(),
            cols: Vec::new(),
            assigner: Assigner::default(),
            common: Common::default(),
            ids: Vec::new(),
        }
    }

    /// Changes the settings; tracks continue.
    pub fn set_config(&mut self, config: TrackerConfig) {
        self.config = config;
    }

    /// Processes a frame; returns the boxes of reported tracks in their order, unchanged except for
    /// `track`. `time_s` is in seconds of source time, when known.
    pub fn update(&mut self, detections: &Detections, time_s: Option<f64>) -> Detections {
        let mut out = Detections::default();
        self.update_into(detections, time_s, &mut out);
        out
    }

    /// Like [`update`](Self::update), but replaces the contents of `out`.
    pub fn update_into(
        &mut self,
        detections: &Detections,
        time_s: Option<f64>,
        out: &mut Detections,
    ) {
        let ids = self.identify(detections, time_s);
        let boxes = detections.boxes.iter().zip(ids);
        let known = boxes.filter(|(_, id)| id.is_some());
        out.boxes.clear();
        out.boxes
            .extend(known.map(|(d, &track)| Detection { track, ..d.clone() }));
        out.size = detections.size;
    }

    /// Like [`update`](Self::update), but returns only the track of each box, without copying.
    pub fn identify(&mut self, detections: &Detections, time_s: Option<f64>) -> &[Option<TrackId>] {
        let (dt, is_usual) = self.advance_clock(time_s);
        self.ids.clear();
        self.ids.resize(detections.boxes.len(), None);
        self.read_boxes(&detections.boxes);
        if detections.is_held() {
            self.assign_held_boxes();
        } else {
            self.predict(dt);
            // After an unusual step, all deviate by the error of its time.
            if is_usual {
                self.compensate_camera_motion();
            }
            self.associate(|track| track.id.is_some());
            self.associate(|track| track.id.is_none());
            self.update_tracks(dt);
            self.start_tracks(dt);
            self.drop_lost_tracks();
        }
        &self.ids
    }

    /// Seconds to this frame, and whether they are about the usual interval; drops all tracks after
    /// a gap.
    fn advance_clock(&mut self, time_s: Option<f64>) -> (f64, bool) {
        let fps = self.config.frame_rate;
        let nominal = if fps.is_finite() && fps > 0.0 {
            1.0 / fps
        } else {
            1.0 / USUAL_FPS
        };
        let Some(passed) = time_s.and_then(|t| self.cadence.next(t)) else {
            return (nominal.min(MAX_STEP_S), true);
        };
        if passed.is_late() && passed.seconds > self.config.buffer_s {
            self.tracks.clear();
        }
        let dt = if passed.seconds > 0.0 {
            passed.seconds
        } else {
            self.cadence.usual_s().unwrap_or(nominal)
        };
        let is_usual = (passed.intervals - 1.0).abs() <= UNUSUAL_INTERVALS;
        (dt.min(MAX_STEP_S), is_usual)
    }

    fn read_boxes(&mut self, boxes: &[Detection]) {
        let weight = ACTIVATION / self.config.activation;
        let weight = if weight > 0.0 { weight } else { f64::MAX };
        self.seen.clear();
        let is_mixed = has_mixed_group(boxes);
        for (index, d) in boxes.iter().enumerate() {
            if is_valid(d) && !(is_mixed && is_covered(boxes, index)) {
                let class_id = group_id(d);
                let score = if is_mixed {
                    group_score(boxes, d)
                } else {
                    d.confidence
                };
                self.seen.push(Seen {
                    index,
                    bbox: d.bbox,
                    class_id,
                    score,
                    weight: (score * weight).clamp(0.0, 1.0),
                    wide: grown(&d.bbox, CAMERA_BUFFER),
                    track: None,
                });
            }
        }
    }

    fn predict(&mut self, dt: f64) {
        self.clock_s += dt;
        for track in &mut self.tracks {
            if track.missed > 0 {
                track.motion.hold_size();
            }
            track.motion.advance(dt, self.drift.factor());
            track.expected = track.motion.bbox();
            track.missed = track.missed.saturating_add(1);
        }
    }

    /// Shifts predictions by the camera motion.
    fn compensate_camera_motion(&mut self) {
        self.common.clear();
        for track in &self.tracks {
            // Seen in the previous frame; this one is not matched yet.
            if track.missed == 1
                && track.sights >= SETTLED_SIGHTS
                && let Some(seen) = only_near(&track.expected, &self.seen)
            {
                let (a, b) = (track.expected.center(), seen.center());
                self.common.add([b.x - a.x, b.y - a.y]);
            }
        }
        let Some(by) = self.common.shift() else {
            return;
        };
        for track in &mut self.tracks {
            track.motion.shift(by);
            track.expected = track.motion.bbox();
        }
    }

    /// Assigns unassigned boxes to the tracks that `meant` selects.
    fn associate(&mut self, meant: impl Fn(&Track) -> bool) {
        self.rows.clear();
        let tracks = self.tracks.iter().enumerate();
        self.rows
            .extend(tracks.filter(|(_, t)| meant(t)).map(|(i, _)| i));
        self.cols.clear();
        let seen = self.seen.iter().enumerate();
        self.cols
            .extend(seen.filter(|(_, s)| s.track.is_none()).map(|(i, _)| i));
        let most = 1.0 - self.config.least_likeness;
        self.assigner.begin(self.rows.len(), self.cols.len(), most);
        for (row, &t) in self.rows.iter().enumerate() {
            let track = &self.tracks[t];
            for (col, &s) in self.cols.iter().enumerate() {
                let likeness = track.likeness(&self.seen[s]);
                if likeness > 0.0 {
                    self.assigner.allow(row, col, 1.0 - likeness);
                }
            }
        }
        self.assigner.solve();
        for (row, &t) in self.rows.iter().enumerate() {
            if let Some(col) = self.assigner.partner(row) {
                self.seen[self.cols[col]].track = Some(t);
            }
        }
    }

    /// Corrects tracks by their boxes, and reports them.
    fn update_tracks(&mut self, dt: f64) {
        for seen in &self.seen {
            let Some(track) = seen.track.and_then(|t| self.tracks.get_mut(t)) else {
                continue;
            };
            let innovation = track.motion.correct(&seen.bbox);
            let was_seen = track.missed == 1;
            if was_seen && track.sights >= CORRELATED_SIGHTS {
                self.drift.add(track.innovation, innovation);
            }
            track.innovation = if was_seen { innovation } else { [0.0; 2] };
            track.last = seen.bbox;
            track.class_id = seen.class_id;
            track.sights = track.sights.saturating_add(1);
            track.best_score = track.best_score.max(seen.score);
            track.seen_s += dt * seen.weight;
            track.missed = 0;
            track.last_s = self.clock_s;
            if track.id.is_none() && self.config.is_known(track) {
                track.id = Some(next_id(&mut self.last_id));
            }
            self.ids[seen.index] = track.id;
        }
        self.drift.learn(dt);
    }

    /// Begins a track with each unassigned box. The good ones of the first frame are reported at
    /// once. Such objects did not just appear, and a single picture would have no tracks otherwise.
    fn start_tracks(&mut self, dt: f64) {
        self.common.clear();
        for track in &self.tracks {
            if track.missed == 0 && track.sights > SETTLED_SIGHTS {
                self.common.add(track.motion.velocity());
            }
        }
        let habit = self.common.habit();
        let least = TENTATIVE * self.config.activation;
        for seen in &self.seen {
            let is_free = seen.track.is_none() && seen.score >= least;
            if is_free && self.tracks.len() < MAX_TRACKS {
                let mut track = Track {
                    motion: BoxMotion::new(&seen.bbox, habit),
                    expected: seen.bbox,
                    last: seen.bbox,
                    class_id: seen.class_id,
                    id: None,
                    sights: 1,
                    best_score: seen.score,
                    seen_s: dt * seen.weight,
                    innovation: [0.0; 2],
                    missed: 0,
                    last_s: self.clock_s,
                };
                let is_there = self.is_first && seen.score >= self.config.activation;
                track.id =
                    (is_there || self.config.is_known(&track)).then(|| next_id(&mut self.last_id));
                self.ids[seen.index] = track.id;
                self.tracks.push(track);
            }
        }
        self.is_first = false;
    }

    /// Drops tracks out of sight: reported ones after `buffer_s`, others at once or a frame later.
    fn drop_lost_tracks(&mut self) {
        let is_timed = self.config.confirm_s > 0.0;
        let oldest = self.clock_s - self.config.buffer_s - INSTANT_S;
        self.tracks.retain(|t| match t.id {
            Some(_) => t.missed <= MIN_BUFFER_FRAMES || t.last_s >= oldest,
            None if is_timed && t.seen_s + INSTANT_S >= MISS_ALLOWED_S => t.missed <= 1,
            None => t.missed == 0,
        });
    }

    /// Assigns held boxes to their last tracks.
    fn assign_held_boxes(&mut self) {
        self.assigner
            .begin(self.tracks.len(), self.seen.len(), 1.0 - MIN_HELD_IOU);
        for (row, track) in self.tracks.iter().enumerate() {
            if track.missed > 0 || track.id.is_none() {
                continue;
            }
            for (col, seen) in self.seen.iter().enumerate() {
                self.assigner
                    .allow(row, col, 1.0 - track.last.iou(&seen.bbox));
            }
        }
        self.assigner.solve();
        for (row, track) in self.tracks.iter().enumerate() {
            if let Some(col) = self.assigner.partner(row) {
                self.ids[self.seen[col].index] = track.id;
            }
        }
    }
}

fn next_id(last: &mut i64) -> TrackId {
    *last += 1;
    TrackId(*last)
}

/// Whether the box has valid coordinates and a valid score.
fn is_valid(d: &Detection) -> bool {
    let b = &d.bbox;
    let near = [b.x1, b.y1, b.x2, b.y2]
        .iter()
        .all(|c| c.abs() <= MAX_COORDINATE);
    near && b.width() > 0.0 && b.height() > 0.0 && d.confidence.is_finite()
}

/// The only box near the predicted one.
fn only_near(expected: &BBox, seen: &[Seen]) -> Option<BBox> {
    let wide = grown(expected, CAMERA_BUFFER);
    let (mut best, mut second, mut found) = (MIN_CAMERA_IOU, 0.0, None);
    for s in seen {
        let overlap = wide.iou(&s.wide);
        if overlap > best {
            second = if found.is_some() { best } else { second };
            (best, found) = (overlap, Some(s.bbox));
        } else if overlap > second {
            second = overlap;
        }
    }
    found.filter(|_| second < CAMERA_RIVAL * best)
}

#[cfg(test)]
mod tests;
