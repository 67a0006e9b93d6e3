//! `ByteTrack` (Zhang et al., "Multi-Object Tracking by Associating Every Detection Box", ECCV
//! 2022) with the semantics of Roboflow's `byte_tracker` blocks and `supervision`.
//!
//! - Good boxes are matched first, by overlap and score; the remaining tracks may take poor boxes,
//!   which keeps half-hidden objects. Class does not matter. Except in the first frame, a new track
//!   counts once it was seen again.
//! - With known frame times, missing frames age lost tracks, and a gap longer than the buffer ends
//!   all tracks. With rare frames the buffer is as long in seconds as at the source's rate, but a
//!   track may always be missed twice.
//! - Without gaps, at the source's rate, results equal those of `supervision`. Ids and lists follow
//!   the reference's set order (`set_order`).
//! - Frames that no detector looked at change nothing.
//!
//! Invariants: a returned box is an input box with `track` set. An id occurs once per frame and is
//! never reused. At most [`MAX_TRACKS`] tracks are kept.

mod scratch;
mod settings;
mod track;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::TrackId;

use self::scratch::{Scratch, rebuild, replace, unpaired};
use self::settings::{REFERENCE_FPS, max_frames_lost};
use self::track::{Outcome, Sight, Track};
use crate::detections::{Detection, Detections};
use crate::geometry::BBox;
use crate::track::cadence::Cadence;
use crate::track::kalman::BoxFilter;

pub use settings::ByteTrackConfig;

/// Bound of the tracks; those lost longest are dropped first.
pub const MAX_TRACKS: usize = 4096;

/// Boxes at or below this score are ignored (the paper's lower bound).
const LOWEST_SCORE: f64 = 0.1;
/// Extra score that a new track needs over the activation threshold (the reference's margin).
const NEW_TRACK_MARGIN: f64 = 0.1;
/// Highest cost for poor boxes, for unconfirmed tracks, and for returning a track to a box.
const POOR_MATCH: f64 = 0.5;
const UNCONFIRMED_MATCH: f64 = 0.7;
const OUTPUT_MATCH: f64 = 0.5;
/// Tracks that overlap by more than 1 minus this are the same object.
const DUPLICATE_DISTANCE: f64 = 0.05;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ByteTrack {
    config: ByteTrackConfig,
    max_frames_lost: u64,
    cadence: Cadence,
    /// Seconds since the first timed frame.
    clock_s: f64,
    frame: u64,
    next_id: i64,
    /// Tracks of the last frame first, then lost ones, those lost longest first.
    tracks: Vec<Track>,
    #[serde(skip)]
    scratch: Scratch,
}

impl ByteTrack {
    #[must_use]
    pub fn new(config: ByteTrackConfig) -> Self {
        Self {
            config,
            max_frames_lost: max_frames_lost(&config),
            cadence: Cadence::default(),
            clock_s: 0.0,
            frame: 0,
            next_id: 1,
            tracks: Vec::new(),
            scratch: Scratch::default(),
        }
    }

    /// Sets the frame rate, for sources whose rate is known late.
    pub fn set_frame_rate(&mut self, fps: f64) {
        self.config.frame_rate = fps;
        self.max_frames_lost = max_frames_lost(&self.config);
    }

    /// Processes a frame without a time; returns the boxes of confirmed tracks, in their order.
    /// Held boxes keep their tracks and neither begin, move nor confirm any.
    pub fn update(&mut self, detections: &Detections) -> Detections {
        let mut out = Detections::default();
        self.follow(detections, &mut out);
        out
    }

    /// Like [`update`](Self::update), but replaces the contents of `out` and reuses its memory.
    /// With `time_s`, in seconds of source time, missing frames count as empty, and a gap longer
    /// than the buffer ends every track.
    pub fn update_into(
        &mut self,
        detections: &Detections,
        time_s: Option<f64>,
        out: &mut Detections,
    ) {
        if let Some(time_s) = time_s {
            self.pass(time_s);
        }
        self.follow(detections, out);
    }

    /// Counts the frames missing before this time.
    fn pass(&mut self, time_s: f64) {
        let passed = self.cadence.next(time_s);
        self.clock_s += passed.map_or(0.0, |p| p.seconds);
        if let Some(passed) = passed.filter(|p| p.is_late()) {
            if passed.seconds > self.buffer_s() {
                self.tracks.clear();
            }
            // Saturates; `follow` counts the present frame.
            self.frame = self.frame.saturating_add(passed.intervals as u64 - 1);
        }
    }

    /// Seconds for which a lost track can be found again.
    fn buffer_s(&self) -> f64 {
        f64::from(self.config.lost_track_buffer) / REFERENCE_FPS
    }

    fn follow(&mut self, detections: &Detections, out: &mut Detections) {
        let mut scratch = std::mem::take(&mut self.scratch);
        self.frame = self.frame.saturating_add(1);
        if detections.is_held() {
            for track in &mut self.tracks {
                if track.sight == Sight::Tracked {
                    track.last_frame = self.frame;
                    track.last_s = self.clock_s;
                }
            }
            self.expire();
        } else {
            self.associate(&detections.boxes, &mut scratch);
            self.begin(&detections.boxes, &scratch.unmatched, scratch.still_tracked);
            self.expire();
            self.drop_duplicates(&mut scratch);
        }
        self.output(detections, &mut scratch, out);
        self.scratch = scratch;
    }

    /// Matches boxes to tracks and rebuilds the list of tracks; collects the unmatched good boxes.
    fn associate(&mut self, boxes: &[Detection], scratch: &mut Scratch) {
        let mut tracks = std::mem::take(&mut self.tracks);
        self.select(boxes, &tracks, scratch);
        self.match_good(boxes, &mut tracks, scratch);
        self.match_poor(boxes, &mut tracks, scratch);
        self.match_unconfirmed(boxes, &mut tracks, scratch);
        rebuild(&tracks, scratch);
        // The two lists swap their memory in each frame.
        std::mem::swap(&mut scratch.tracks, &mut tracks);
        self.tracks = tracks;
    }

    fn select(&self, boxes: &[Detection], tracks: &[Track], scratch: &mut Scratch) {
        let Scratch {
            good,
            poor,
            outcome,
            confirmed,
            unconfirmed,
            ..
        } = scratch;
        let threshold = self.config.activation_threshold;
        let usable = || {
            boxes
                .iter()
                .enumerate()
                .filter(|(_, d)| has_extent(&d.bbox))
        };
        let of_score = |is: &dyn Fn(f64) -> bool, list: &mut Vec<usize>| {
            let those = usable().filter(|(_, d)| is(d.confidence));
            replace(list, those.map(|(place, _)| place));
        };
        of_score(&|score| score >= threshold, good);
        of_score(&|score| score > LOWEST_SCORE && score < threshold, poor);
        outcome.clear();
        outcome.resize(tracks.len(), Outcome::StillLost);
        let is_confirmed = |t: &usize| tracks[*t].confirmed;
        replace(confirmed, (0..tracks.len()).filter(is_confirmed));
        replace(unconfirmed, (0..tracks.len()).filter(|t| !is_confirmed(t)));
    }

    /// First round: good boxes with every confirmed track, lost ones included.
    fn match_good(&mut self, boxes: &[Detection], tracks: &mut [Track], scratch: &mut Scratch) {
        let Scratch {
            good,
            rows_left,
            cols_left,
            order,
            free,
            outcome,
            confirmed,
            predicted,
            matcher,
            ..
        } = scratch;
        for &t in &*confirmed {
            if tracks[t].sight != Sight::Tracked {
                tracks[t].filter.hold_height();
            }
            tracks[t].filter.predict();
        }
        replace(
            predicted,
            confirmed.iter().map(|&t| tracks[t].filter.bbox()),
        );
        let cost = |r: usize, c: usize| scored(&predicted[r], &boxes[good[c]]);
        let most = self.config.match_threshold;
        let first = matcher.assign(confirmed.len(), good.len(), most, cost);
        for &(row, col) in &first.pairs {
            let t = confirmed[row];
            outcome[t] = self.update_matched(&mut tracks[t], &boxes[good[col]]);
        }
        unpaired(first, order, rows_left, cols_left);
        replace(free, cols_left.iter().map(|&c| good[c]));
    }

    /// Second round: poor boxes with tracks that were seen a frame ago.
    fn match_poor(&mut self, boxes: &[Detection], tracks: &mut [Track], scratch: &mut Scratch) {
        let Scratch {
            poor,
            rows_left,
            cols_left,
            order,
            outcome,
            confirmed,
            just_seen,
            newly_lost,
            predicted,
            matcher,
            ..
        } = scratch;
        let left = rows_left.iter().map(|&row| confirmed[row]);
        replace(
            just_seen,
            left.filter(|&t| tracks[t].sight == Sight::Tracked),
        );
        replace(
            predicted,
            just_seen.iter().map(|&t| tracks[t].filter.bbox()),
        );
        let cost = |r: usize, c: usize| 1.0 - predicted[r].iou(&boxes[poor[c]].bbox);
        let second = matcher.assign(just_seen.len(), poor.len(), POOR_MATCH, cost);
        for &(row, col) in &second.pairs {
            let t = just_seen[row];
            outcome[t] = self.update_matched(&mut tracks[t], &boxes[poor[col]]);
        }
        unpaired(second, order, rows_left, cols_left);
        replace(newly_lost, rows_left.iter().map(|&row| just_seen[row]));
        for &t in &*newly_lost {
            outcome[t] = Outcome::NewlyLost;
        }
    }

    /// Third round: tracks that began a frame ago must be seen again now, or they were noise.
    fn match_unconfirmed(
        &mut self,
        boxes: &[Detection],
        tracks: &mut [Track],
        scratch: &mut Scratch,
    ) {
        let Scratch {
            rows_left,
            cols_left,
            order,
            free,
            unmatched,
            outcome,
            unconfirmed,
            predicted,
            matcher,
            ..
        } = scratch;
        replace(
            predicted,
            unconfirmed.iter().map(|&t| tracks[t].filter.bbox()),
        );
        let cost = |r: usize, c: usize| scored(&predicted[r], &boxes[free[c]]);
        let third = matcher.assign(unconfirmed.len(), free.len(), UNCONFIRMED_MATCH, cost);
        for &(row, col) in &third.pairs {
            let t = unconfirmed[row];
            outcome[t] = self.update_matched(&mut tracks[t], &boxes[free[col]]);
        }
        for &row in &third.free_rows {
            outcome[unconfirmed[row]] = Outcome::Dropped;
        }
        unpaired(third, order, rows_left, cols_left);
        replace(unmatched, cols_left.iter().map(|&c| free[c]));
    }

    /// Corrects a track by its matched box.
    fn update_matched(&mut self, track: &mut Track, seen: &Detection) -> Outcome {
        track.filter.correct(&seen.bbox);
        track.last_frame = self.frame;
        track.last_s = self.clock_s;
        if track.sight != Sight::Tracked {
            track.sight = Sight::Tracked;
            track.streak = 0;
            return Outcome::FoundAgain;
        }
        track.streak = track.streak.saturating_add(1);
        if track.streak >= self.config.minimum_consecutive_frames {
            track.confirmed = true;
            if track.id.is_none() {
                track.id = Some(self.new_id());
            }
        }
        Outcome::Matched
    }

    fn new_id(&mut self) -> TrackId {
        let id = TrackId(self.next_id);
        self.next_id += 1;
        id
    }

    /// Begins a track with each box that is good enough. They follow the first `still_tracked`
    /// tracks.
    fn begin(&mut self, boxes: &[Detection], unmatched: &[usize], still_tracked: usize) {
        let before = self.tracks.len();
        let activation = self.config.activation_threshold;
        // An unreachable threshold falls back to the activation threshold, as in the reference.
        let least = match activation + NEW_TRACK_MARGIN {
            unreachable if unreachable > 1.0 => activation,
            least => least,
        };
        for seen in unmatched.iter().map(|&place| &boxes[place]) {
            if seen.confidence < least {
                continue;
            }
            let at_once = self.frame == 1 && self.config.minimum_consecutive_frames <= 1;
            let id = at_once.then(|| self.new_id());
            self.tracks.push(Track {
                filter: BoxFilter::new(&seen.bbox),
                sight: Sight::Tracked,
                confirmed: at_once,
                streak: 1,
                first_frame: self.frame,
                last_frame: self.frame,
                last_s: self.clock_s,
                id,
            });
        }
        let begun = self.tracks.len() - before;
        self.tracks[still_tracked..].rotate_right(begun);
    }

    /// Number of tracked tracks; they come first.
    fn count_tracked(&self) -> usize {
        let tracked = |t: &&Track| t.sight == Sight::Tracked;
        self.tracks.iter().take_while(tracked).count()
    }

    /// Drops expired tracks, and marks those whose buffer is over.
    fn expire(&mut self) {
        let (frame, max) = (self.frame, self.max_frames_lost);
        // Half an interval tolerates jitter: at the source's rate, counting frames decides.
        let room_s = self.cadence.usual_s().unwrap_or(0.0) / 2.0;
        let (now_s, max_s) = (self.clock_s, self.buffer_s() + room_s);
        self.tracks.retain_mut(|t| match &mut t.sight {
            Sight::Lost { expired: true } => false,
            Sight::Lost { expired } => {
                let age = frame.saturating_sub(t.last_frame);
                // A track lost in this frame is not judged yet.
                *expired = age > 1 && (age > max || now_s - t.last_s > max_s);
                true
            }
            Sight::Tracked => true,
        });
        let excess = self.tracks.len().saturating_sub(MAX_TRACKS);
        if excess > 0 {
            let from = self.count_tracked().min(MAX_TRACKS);
            self.tracks.drain(from..from + excess);
        }
    }

    /// Of a tracked and a lost track at the same place, drops the younger one.
    fn drop_duplicates(&mut self, scratch: &mut Scratch) {
        let split = self.count_tracked();
        if split == 0 || split == self.tracks.len() {
            return;
        }
        let Scratch {
            predicted: boxes,
            duplicates,
            ..
        } = scratch;
        replace(boxes, self.tracks.iter().map(|t| t.filter.bbox()));
        let age = |t: &Track| t.last_frame.saturating_sub(t.first_frame);
        duplicates.clear();
        duplicates.resize(self.tracks.len(), false);
        for a in 0..split {
            for b in split..boxes.len() {
                if 1.0 - boxes[a].iou(&boxes[b]) < DUPLICATE_DISTANCE {
                    let younger = if age(&self.tracks[a]) > age(&self.tracks[b]) {
                        b
                    } else {
                        a
                    };
                    duplicates[younger] = true;
                }
            }
        }
        let mut duplicates = duplicates.iter();
        self.tracks
            .retain(|_| !duplicates.next().is_some_and(|d| *d));
    }

    /// Returns for each confirmed track the box that covers it best, unchanged instead of filtered.
    fn output(&self, detections: &Detections, scratch: &mut Scratch, out: &mut Detections) {
        let Scratch {
            predicted,
            ids,
            matcher,
            ..
        } = scratch;
        let known = || {
            let tracks = self.tracks.iter();
            tracks.filter(|t| t.confirmed && t.sight == Sight::Tracked)
        };
        replace(predicted, known().map(|t| t.filter.bbox()));
        replace(ids, known().map(|t| t.id.unwrap_or(TrackId(-1))));
        let boxes = &detections.boxes;
        let cost = |d: usize, t: usize| 1.0 - boxes[d].bbox.iou(&predicted[t]);
        let found = matcher.assign(boxes.len(), predicted.len(), OUTPUT_MATCH, cost);
        let pairs = found.pairs.iter().filter(|(_, t)| ids[*t].0 >= 0);
        out.boxes.clear();
        out.boxes.extend(pairs.map(|&(d, t)| Detection {
            track: Some(ids[t]),
            ..boxes[d].clone()
        }));
        out.size = detections.size;
    }
}

fn has_extent(b: &BBox) -> bool {
    let finite = b.x1.is_finite() && b.y1.is_finite() && b.x2.is_finite() && b.y2.is_finite();
    finite && b.width() > 0.0 && b.height() > 0.0
}

/// Cost of a match by overlap and score.
fn scored(place: &BBox, seen: &Detection) -> f64 {
    1.0 - place.iou(&seen.bbox) * seen.confidence
}

#[cfg(test)]
mod tests;
