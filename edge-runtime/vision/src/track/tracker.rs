//! Our own tracker: one round of matching, motion in real time, and a camera that may move.
//!
//! Each frame, tracks are moved to where they should be now, all of them are shifted by what the picture did
//! ([`camera`](super::camera)), and boxes are given to them so that the sum of their likenesses is greatest
//! ([`likeness`](super::likeness)): first to tracks that are reported, then to those that only began. A box that is left
//! over and good enough begins a track, moving as the others do. A track is reported once it was seen for a moment, and
//! given up when it was out of sight for as long as the buffer.
//!
//! The parts are published ones: constant velocity and optimal assignment (SORT, Bewley et al. 2016), poor boxes kept for
//! known tracks and overlap weighted with the score (`ByteTrack`, Zhang et al. 2022), camera motion taken out before
//! matching (BoT-SORT, Aharon et al. 2022; here from boxes, as there is no picture), buffered overlap (C-BIoU, Yang et al.
//! 2023). What was tried and left out, and where the constants come from, is in `docs/ref/tracking.md`.
//!
//! Time may do anything. A frame whose time isn't after the last one's counts as one usual interval; after a gap longer
//! than the buffer every track ends; frames that no detector looked at let no time pass. Boxes without extent, with
//! numbers that aren't finite or beyond any picture, belong to no track.
//!
//! Invariant: pure; what is said of a frame is final; an id appears at most once in a frame and is never given to a second
//! object; at most [`MAX_TRACKS`] tracks are kept; no allocation once it has seen as many boxes and tracks.

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::TrackId;

use super::assign::Assigner;
use super::cadence::Cadence;
use super::camera::Common;
use super::likeness::{Compared, grown};
use super::motion::BoxMotion;
use crate::detections::{Detection, Detections};
use crate::geometry::BBox;

/// Most tracks that are remembered at once; when there are so many, none begins.
pub const MAX_TRACKS: usize = 4096;

/// Sights after which a track's movement is known well enough to tell the camera's from it.
const SETTLED_SIGHTS: u32 = 3;
/// For telling the camera's movement, boxes are grown by this share of their size, and are taken where they overlap with
/// more than the first number and no other box by more than the second number times as much: a wrong pair is worse there
/// than none.
const CAMERA_BUFFER: f64 = 0.3;
const CAMERA_OVERLAP: f64 = 0.3;
const CAMERA_RIVAL: f64 = 0.6;
/// Least overlap with its last box at which a box that is only held belongs to a track.
const HELD_OVERLAP: f64 = 0.5;
/// Frames in which a track may be missed however far apart they are, as a pipeline may look only now and then.
const ALWAYS_FORGIVEN: u32 = 2;
/// Frames a second where nothing is known.
const USUAL_FPS: f64 = 30.0;
/// Longest step in seconds for which motion is foretold.
const LONGEST_STEP_S: f64 = 3600.0;
/// Coordinates beyond this are no pixels.
const FARTHEST: f64 = 1e7;
/// Against the rounding of times that are added up.
const INSTANT_S: f64 = 1e-6;

/// What can be set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TrackerConfig {
    /// Score from which a box that fits no track begins one. Scores weigh relative to it, so a detector that is never sure
    /// needs only this set.
    pub activation: f64,
    /// Seconds for which a track can be found again.
    pub buffer_s: f64,
    /// Likeness under which a box doesn't belong to a track, `0.0..=1.0`.
    pub least_likeness: f64,
    /// Seconds for which a track has to be in sight before it is reported.
    pub confirm_s: f64,
    /// Frames in which it has to be in sight before that, whatever the frame rate.
    pub fewest_sights: u32,
    /// Frames per second, where frames come without their time. Not above 0: 30.
    pub frame_rate: f64,
}

/// The activation at which scores weigh as they are.
const ACTIVATION: f64 = 0.5;

impl Default for TrackerConfig {
    fn default() -> Self {
        Self {
            activation: ACTIVATION,
            buffer_s: 1.0,
            least_likeness: 0.2,
            confirm_s: 0.14,
            fewest_sights: 2,
            frame_rate: USUAL_FPS,
        }
    }
}

impl TrackerConfig {
    /// Whether a track that was seen so often and so long is reported.
    fn is_known(&self, sights: u32, seen_s: f64) -> bool {
        sights >= self.fewest_sights && seen_s + INSTANT_S >= self.confirm_s
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Track {
    motion: BoxMotion,
    /// Where it should be now.
    expected: BBox,
    /// Where it was seen last.
    last: BBox,
    class_id: i64,
    /// Once it is reported.
    id: Option<TrackId>,
    sights: u32,
    /// Seconds for which it was in sight.
    seen_s: f64,
    /// Frames since it was seen last; 0: in this one.
    missed: u32,
    /// The clock at its last sight.
    last_s: f64,
}

/// A box that can be followed.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// Its place in the list.
    index: usize,
    bbox: BBox,
    class_id: i64,
    score: f64,
    compared: Compared,
    /// Grown, for telling the camera's movement.
    wide: BBox,
    /// The track it was given to, by place.
    track: Option<usize>,
}

/// State of one source.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Tracker {
    config: TrackerConfig,
    cadence: Cadence,
    /// Seconds of the frames that were looked at.
    clock_s: f64,
    is_first: bool,
    last_id: i64,
    tracks: Vec<Track>,
    // Memory that is used again in each frame.
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
    /// A tracker that has seen nothing.
    #[must_use]
    pub fn new(config: TrackerConfig) -> Self {
        Self {
            config,
            cadence: Cadence::default(),
            clock_s: 0.0,
            is_first: true,
            last_id: 0,
            tracks: Vec::new(),
            seen: Vec::new(),
            rows: Vec::new(),
            cols: Vec::new(),
            assigner: Assigner::default(),
            common: Common::default(),
            ids: Vec::new(),
        }
    }

    /// Sets what can be set; tracks go on.
    pub fn set_config(&mut self, config: TrackerConfig) {
        self.config = config;
    }

    /// Takes the boxes of the next frame and gives back those that belong to a reported track, in their order and as they
    /// were but for `track`. `time_s`: seconds of source time, where it is known.
    pub fn update(&mut self, detections: &Detections, time_s: Option<f64>) -> Detections {
        let mut out = Detections::default();
        self.update_into(detections, time_s, &mut out);
        out
    }

    /// Puts them into `out` in the place of what is there.
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

    /// The same without copying: the identity of each box, in their order.
    pub fn identify(&mut self, detections: &Detections, time_s: Option<f64>) -> &[Option<TrackId>] {
        let dt = self.step(time_s);
        self.ids.clear();
        self.ids.resize(detections.boxes.len(), None);
        self.take(&detections.boxes);
        if detections.is_held() {
            self.hand_back_held();
        } else {
            self.advance(dt);
            self.follow_the_camera();
            self.give_boxes(|track| track.id.is_some());
            self.give_boxes(|track| track.id.is_none());
            self.see(dt);
            self.begin(dt);
            self.give_up();
        }
        &self.ids
    }

    /// Seconds to this frame; forgets everything after a gap.
    fn step(&mut self, time_s: Option<f64>) -> f64 {
        let fps = self.config.frame_rate;
        let nominal = if fps.is_finite() && fps > 0.0 {
            1.0 / fps
        } else {
            1.0 / USUAL_FPS
        };
        let Some(passed) = time_s.and_then(|t| self.cadence.next(t)) else {
            return nominal.min(LONGEST_STEP_S);
        };
        if passed.is_late() && passed.seconds > self.config.buffer_s {
            self.tracks.clear();
        }
        let dt = if passed.seconds > 0.0 {
            passed.seconds
        } else {
            self.cadence.usual_s().unwrap_or(nominal)
        };
        dt.min(LONGEST_STEP_S)
    }

    /// Notes the boxes that can be followed.
    fn take(&mut self, boxes: &[Detection]) {
        let weight = ACTIVATION / self.config.activation;
        let weight = if weight > 0.0 { weight } else { f64::MAX };
        self.seen.clear();
        for (index, d) in boxes.iter().enumerate() {
            if is_followable(d) {
                self.seen.push(Seen {
                    index,
                    bbox: d.bbox,
                    class_id: d.class_id,
                    score: d.confidence,
                    compared: Compared::new(&d.bbox, d.class_id)
                        .weighing((d.confidence * weight).clamp(0.0, 1.0)),
                    wide: grown(&d.bbox, CAMERA_BUFFER),
                    track: None,
                });
            }
        }
    }

    fn advance(&mut self, dt: f64) {
        self.clock_s += dt;
        for track in &mut self.tracks {
            if track.missed > 0 {
                track.motion.hold_size();
            }
            track.motion.advance(dt);
            track.expected = track.motion.bbox();
            track.missed = track.missed.saturating_add(1);
        }
    }

    /// Shifts what is expected by what the picture did beyond it.
    fn follow_the_camera(&mut self) {
        self.common.clear();
        for track in &self.tracks {
            // One frame ago, as this one has not been matched yet.
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

    /// Gives boxes that have no track yet to the tracks that are meant.
    fn give_boxes(&mut self, meant: impl Fn(&Track) -> bool) {
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
            let wanted = Compared::new(&track.expected, track.class_id);
            for (col, &s) in self.cols.iter().enumerate() {
                let likeness = wanted.likeness(&self.seen[s].compared);
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

    /// Corrects tracks by the boxes they were given, and reports them.
    fn see(&mut self, dt: f64) {
        for seen in &self.seen {
            let Some(track) = seen.track.and_then(|t| self.tracks.get_mut(t)) else {
                continue;
            };
            track.motion.correct(&seen.bbox);
            track.last = seen.bbox;
            track.class_id = seen.class_id;
            track.sights = track.sights.saturating_add(1);
            track.seen_s += dt;
            track.missed = 0;
            track.last_s = self.clock_s;
            let is_known = self.config.is_known(track.sights, track.seen_s);
            if track.id.is_none() && is_known {
                track.id = Some(next_id(&mut self.last_id));
            }
            self.ids[seen.index] = track.id;
        }
    }

    /// Begins a track with each good box that has none. What is there from the start is reported at once: it did not come
    /// from nowhere, and a picture alone would have no tracks otherwise.
    fn begin(&mut self, dt: f64) {
        self.common.clear();
        for track in &self.tracks {
            if track.missed == 0 && track.sights > SETTLED_SIGHTS {
                self.common.add(track.motion.velocity());
            }
        }
        let habit = self.common.habit();
        for seen in &self.seen {
            let is_free = seen.track.is_none() && seen.score >= self.config.activation;
            if is_free && self.tracks.len() < MAX_TRACKS {
                let is_known = self.is_first || self.config.is_known(1, dt);
                let id = is_known.then(|| next_id(&mut self.last_id));
                self.ids[seen.index] = id;
                self.tracks.push(Track {
                    motion: BoxMotion::new(&seen.bbox, habit),
                    expected: seen.bbox,
                    last: seen.bbox,
                    class_id: seen.class_id,
                    id,
                    sights: 1,
                    seen_s: dt,
                    missed: 0,
                    last_s: self.clock_s,
                });
            }
        }
        self.is_first = false;
    }

    /// Drops tracks that were out of sight for too long; those that nobody was told of, at once.
    fn give_up(&mut self) {
        let oldest = self.clock_s - self.config.buffer_s - INSTANT_S;
        let is_known = |t: &Track| t.missed <= ALWAYS_FORGIVEN || t.last_s >= oldest;
        self.tracks
            .retain(|t| t.missed == 0 || t.id.is_some() && is_known(t));
    }

    /// Boxes that are only held have the tracks they had when they were seen.
    fn hand_back_held(&mut self) {
        self.assigner
            .begin(self.tracks.len(), self.seen.len(), 1.0 - HELD_OVERLAP);
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

/// Whether a box has numbers that a picture can have.
fn is_followable(d: &Detection) -> bool {
    let b = &d.bbox;
    let near = [b.x1, b.y1, b.x2, b.y2].iter().all(|c| c.abs() <= FARTHEST);
    near && b.width() > 0.0 && b.height() > 0.0 && d.confidence.is_finite()
}

/// The only box that is near the expected one.
fn only_near(expected: &BBox, seen: &[Seen]) -> Option<BBox> {
    let wide = grown(expected, CAMERA_BUFFER);
    let (mut best, mut second, mut found) = (CAMERA_OVERLAP, 0.0, None);
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
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests;
