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

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::TrackId;

use crate::detections::{Detection, Detections};
use crate::geometry::BBox;
use crate::set_order::SetOrder;
use crate::track::assign::{Assignment, Matcher};
use crate::track::cadence::Cadence;
use crate::track::kalman::BoxFilter;

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
/// Frame rate that `lost_track_buffer` refers to.
const REFERENCE_FPS: f64 = 30.0;

/// Settings; the defaults are Roboflow's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ByteTrackConfig {
    /// Score from which a box is matched in the first round; a new track needs 0.1 more.
    pub activation_threshold: f64,
    /// Frames for which a lost track can be found again, at 30 frames per second; scaled to
    /// `frame_rate`.
    pub lost_track_buffer: u32,
    /// Highest cost `1 - overlap × score` of a match in the first round.
    pub match_threshold: f64,
    /// Matches after the first box until a track is reported; 1 gives it an id at once.
    pub minimum_consecutive_frames: u32,
    /// Frames per second of the source. 0 ends lost tracks almost at once, as Roboflow does for an
    /// unknown rate; use 30 to avoid that.
    pub frame_rate: f64,
}

impl Default for ByteTrackConfig {
    fn default() -> Self {
        Self {
            activation_threshold: 0.25,
            lost_track_buffer: 30,
            match_threshold: 0.8,
            minimum_consecutive_frames: 1,
            frame_rate: REFERENCE_FPS,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Sight {
    /// Matched in the last frame.
    Tracked,
    /// Not matched. `expired`: the next frame is its last chance, because the reference drops a
    /// lost track one frame late.
    Lost { expired: bool },
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Track {
    filter: BoxFilter,
    sight: Sight,
    confirmed: bool,
    /// Consecutive matches since it began or was found again.
    streak: u32,
    first_frame: u64,
    last_frame: u64,
    /// Clock when it was last seen or held.
    last_s: f64,
    id: Option<TrackId>,
}

/// Result of this frame for a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// A lost track without a match.
    StillLost,
    Matched,
    FoundAgain,
    NewlyLost,
    Dropped,
}

/// Tracker state of one source.
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

/// Memory reused in each frame; boxes and tracks are indices.
#[derive(Debug, Clone, Default)]
struct Scratch {
    /// Boxes with a good and with a poor score.
    good: Vec<usize>,
    poor: Vec<usize>,
    /// Unpaired rows and columns of a round, in the reference's order.
    rows_left: Vec<usize>,
    cols_left: Vec<usize>,
    order: SetOrder,
    /// Good boxes that no confirmed track took.
    free: Vec<usize>,
    /// Good boxes that no track took.
    unmatched: Vec<usize>,
    outcome: Vec<Outcome>,
    /// Tracks of each round.
    confirmed: Vec<usize>,
    unconfirmed: Vec<usize>,
    just_seen: Vec<usize>,
    /// Tracks without a box in this frame.
    newly_lost: Vec<usize>,
    /// Number of matched tracks that were not lost before.
    still_tracked: usize,
    /// Predicted boxes of a round.
    predicted: Vec<BBox>,
    ids: Vec<TrackId>,
    matcher: Matcher,
    tracks: Vec<Track>,
    duplicates: Vec<bool>,
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

    /// Selects the boxes and the tracks of each round.
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

/// Collects the remaining tracks into `scratch.tracks`, in the order of the reference.
fn rebuild(tracks: &[Track], scratch: &mut Scratch) {
    let Scratch {
        outcome,
        newly_lost,
        still_tracked,
        tracks: rebuilt,
        ..
    } = scratch;
    rebuilt.clear();
    for kept in [Outcome::Matched, Outcome::FoundAgain, Outcome::StillLost] {
        let those = tracks
            .iter()
            .zip(&*outcome)
            .filter(|(_, outcome)| **outcome == kept);
        rebuilt.extend(those.map(|(track, _)| *track));
    }
    *still_tracked = outcome
        .iter()
        .filter(|outcome| **outcome == Outcome::Matched)
        .count();
    rebuilt.extend(newly_lost.iter().map(|&t| Track {
        sight: Sight::Lost { expired: false },
        ..tracks[t]
    }));
}

/// Replaces the contents of a list, reusing its memory.
fn replace<T>(list: &mut Vec<T>, with: impl Iterator<Item = T>) {
    list.clear();
    list.extend(with);
}

/// The unpaired rows and columns of an assignment in the reference's order: that of a set, or
/// ascending where there was nothing to match.
fn unpaired(
    found: &Assignment,
    order: &mut SetOrder,
    rows: &mut Vec<usize>,
    cols: &mut Vec<usize>,
) {
    replace(rows, found.free_rows.iter().copied());
    replace(cols, found.free_cols.iter().copied());
    let paired = found.pairs.len();
    let (of_rows, of_cols) = (paired + rows.len(), paired + cols.len());
    if of_rows > 0 && of_cols > 0 {
        order.arrange(of_rows, rows);
        order.arrange(of_cols, cols);
    }
}

fn max_frames_lost(config: &ByteTrackConfig) -> u64 {
    let scaled = config.frame_rate / REFERENCE_FPS * f64::from(config.lost_track_buffer);
    // Saturates, NaN becomes 0.
    scaled as u64
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
mod tests {
    use super::*;
    use crate::detections::testing::tracked;
    use proptest::prelude::*;

    /// Untracked boxes `(x, y, score)` of 40×80 pixels.
    fn boxes(at: &[(f64, f64, f64)]) -> Detections {
        let bbox = |x, y| BBox::new(x, y, x + 40.0, y + 80.0);
        let mut d = tracked(
            &at.iter()
                .map(|&(x, y, _)| (0, bbox(x, y)))
                .collect::<Vec<_>>(),
        );
        for (b, &(_, _, score)) in d.boxes.iter_mut().zip(at) {
            b.track = None;
            b.confidence = score;
        }
        d
    }

    fn ids(d: &Detections) -> Vec<i64> {
        d.boxes
            .iter()
            .filter_map(|b| b.track)
            .map(|t| t.0)
            .collect()
    }

    #[test]
    fn an_object_keeps_its_id_while_it_moves() {
        let mut t = ByteTrack::new(ByteTrackConfig::default());
        for i in 0..60 {
            let x = 100.0 + 3.0 * f64::from(i);
            let out = t.update(&boxes(&[(x, 50.0, 0.9), (500.0 - x / 2.0, 200.0, 0.9)]));
            assert_eq!(ids(&out), [1, 2], "frame {i}");
        }
    }

    /// Ids of supervision 0.30.9 for these boxes. Thirteen tracks continue and four begin; the last
    /// of these is the first in the set of unmatched boxes.
    #[test]
    fn tracks_that_begin_together_have_their_ids_in_the_order_of_the_reference() {
        let mut t = ByteTrack::new(ByteTrackConfig::default());
        let row = |columns: &[usize]| {
            let at: Vec<_> = columns
                .iter()
                .map(|&c| (c as f64 * 60.0, 50.0, 0.9))
                .collect();
            boxes(&at)
        };
        let first: Vec<usize> = (0..17).filter(|c| ![3, 9, 12, 16].contains(c)).collect();
        t.update(&row(&first));
        let all: Vec<usize> = (0..17).collect();
        t.update(&row(&all));
        let out = t.update(&row(&all));
        let id_of = |column: usize| ids(&out)[column];
        assert_eq!([3, 9, 12, 16].map(id_of), [16, 15, 17, 14]);
    }

    #[test]
    fn a_threshold_of_one_lets_a_sure_box_begin_a_track() {
        let mut t = ByteTrack::new(ByteTrackConfig {
            activation_threshold: 0.95,
            ..Default::default()
        });
        assert_eq!(ids(&t.update(&boxes(&[(100.0, 50.0, 0.96)]))), [1]);
    }

    #[test]
    fn a_poor_box_carries_a_track_on_but_begins_none() {
        let mut t = ByteTrack::new(ByteTrackConfig::default());
        t.update(&boxes(&[(100.0, 50.0, 0.9)]));
        assert_eq!(
            ids(&t.update(&boxes(&[(101.0, 50.0, 0.15), (400.0, 50.0, 0.15)]))),
            [1]
        );
        assert_eq!(
            ids(&t.update(&boxes(&[(102.0, 50.0, 0.15), (400.0, 50.0, 0.15)]))),
            [1]
        );
    }

    #[test]
    fn a_box_seen_once_after_the_first_frame_is_noise() {
        let mut t = ByteTrack::new(ByteTrackConfig::default());
        t.update(&boxes(&[]));
        assert!(ids(&t.update(&boxes(&[(100.0, 50.0, 0.9)]))).is_empty());
        assert!(ids(&t.update(&boxes(&[]))).is_empty());
        assert!(ids(&t.update(&boxes(&[(100.0, 50.0, 0.9)]))).is_empty());
        assert_eq!(ids(&t.update(&boxes(&[(100.0, 50.0, 0.9)]))), [1]);
    }

    #[test]
    fn a_track_comes_out_after_the_asked_number_of_sights() {
        let mut t = ByteTrack::new(ByteTrackConfig {
            minimum_consecutive_frames: 3,
            ..Default::default()
        });
        t.update(&boxes(&[]));
        // The first box counts.
        for _ in 0..2 {
            assert!(ids(&t.update(&boxes(&[(100.0, 50.0, 0.9)]))).is_empty());
        }
        assert_eq!(ids(&t.update(&boxes(&[(100.0, 50.0, 0.9)]))), [1]);
    }

    #[test]
    fn a_hidden_object_is_found_again_within_the_buffer_and_not_after_it() {
        for (gap, expected) in [(1, true), (31, true), (32, false), (60, false)] {
            let mut t = ByteTrack::new(ByteTrackConfig::default());
            for _ in 0..5 {
                t.update(&boxes(&[(100.0, 50.0, 0.9)]));
            }
            for _ in 0..gap {
                t.update(&boxes(&[]));
            }
            let out = t.update(&boxes(&[(100.0, 50.0, 0.9)]));
            assert_eq!(ids(&out) == [1], expected, "hidden for {gap} frames");
        }
    }

    #[test]
    fn without_a_frame_rate_lost_tracks_are_given_up() {
        let mut t = ByteTrack::new(ByteTrackConfig {
            frame_rate: 0.0,
            ..Default::default()
        });
        t.update(&boxes(&[(100.0, 50.0, 0.9)]));
        for _ in 0..3 {
            t.update(&boxes(&[]));
        }
        assert!(ids(&t.update(&boxes(&[(100.0, 50.0, 0.9)]))).is_empty());
    }

    #[test]
    fn boxes_leave_as_they_came() {
        let mut t = ByteTrack::new(ByteTrackConfig::default());
        let frame = boxes(&[(100.0, 50.0, 0.9), (300.0, 50.0, 0.8)]);
        let mut out = t.update(&frame);
        for b in &mut out.boxes {
            b.track = None;
        }
        assert_eq!(out, frame);
    }

    #[test]
    fn when_there_are_too_many_tracks_those_lost_for_longest_go() {
        let mut t = ByteTrack::new(ByteTrackConfig {
            frame_rate: 1e9,
            ..Default::default()
        });
        t.update(&boxes(&[(0.0, 0.0, 0.9), (300.0, 0.0, 0.9)]));
        let tracked = t.tracks[0];
        let mut lost = t.tracks.remove(1);
        lost.sight = Sight::Lost { expired: false };
        for i in 0..MAX_TRACKS + 9 {
            lost.id = Some(TrackId(100 + i as i64));
            t.tracks.push(lost);
        }
        t.expire();
        assert_eq!(t.tracks.len(), MAX_TRACKS);
        assert_eq!(t.tracks[0].id, tracked.id);
        assert_eq!(t.tracks[1].id, Some(TrackId(110)));
    }

    impl ByteTrack {
        /// The boxes of a frame at `time_s` seconds of source time.
        fn update_at(&mut self, detections: &Detections, time_s: f64) -> Detections {
            let mut out = Detections::default();
            self.update_into(detections, Some(time_s), &mut out);
            out
        }
    }

    /// A tracker that saw one object for 30 frames at 15 frames per second, and the time of the
    /// next frame.
    fn settled() -> (ByteTrack, f64) {
        let mut t = ByteTrack::new(ByteTrackConfig {
            frame_rate: 15.0,
            ..Default::default()
        });
        for i in 0..30 {
            t.update_at(&boxes(&[(100.0, 50.0, 0.9)]), f64::from(i) / 15.0);
        }
        (t, 2.0)
    }

    #[test]
    fn outage_longer_than_the_buffer_gives_a_new_id() {
        for (away_s, expected) in [(0.1, 1), (0.9, 1), (1.1, 2), (600.0, 2)] {
            let (mut t, at) = settled();
            t.update_at(&boxes(&[(100.0, 50.0, 0.9)]), at + away_s);
            let out = t.update_at(&boxes(&[(100.0, 50.0, 0.9)]), at + away_s + 1.0 / 15.0);
            assert_eq!(ids(&out), [expected], "away for {away_s} s");
        }
    }

    #[test]
    fn an_outage_ages_what_was_lost_before_it() {
        let (mut t, at) = settled();
        let frame = 1.0 / 15.0;
        for i in 0..8 {
            t.update_at(&boxes(&[]), at + f64::from(i) * frame);
        }
        // Lost for 0.5 s, then an outage of 0.9 s: longer than the buffer, and the frame after it
        // is the last chance.
        t.update_at(&boxes(&[]), at + 7.0 * frame + 0.9);
        t.update_at(&boxes(&[]), at + 8.0 * frame + 0.9);
        let out = t.update_at(&boxes(&[(100.0, 50.0, 0.9)]), at + 9.0 * frame + 0.9);
        assert!(ids(&out).is_empty());
    }

    #[test]
    fn a_pipeline_that_looks_every_five_seconds_keeps_its_tracks() {
        let mut t = ByteTrack::new(ByteTrackConfig::default());
        for i in 0..20 {
            let out = t.update_at(&boxes(&[(100.0, 50.0, 0.9)]), f64::from(i) * 5.0);
            assert_eq!(ids(&out), [1], "look {i}");
        }
    }

    #[test]
    fn the_buffer_is_as_long_on_a_box_that_sees_an_eighth_of_the_frames() {
        let config = ByteTrackConfig {
            frame_rate: 25.0,
            ..Default::default()
        };
        for (missed, expected) in [(2, true), (3, true), (6, false), (15, false)] {
            let mut t = ByteTrack::new(config);
            let mut looks = (0..).map(|look| f64::from(look) * 8.0 / 25.0);
            for at in looks.by_ref().take(20) {
                t.update_at(&boxes(&[(100.0, 50.0, 0.9)]), at);
            }
            for at in looks.by_ref().take(missed) {
                t.update_at(&boxes(&[]), at);
            }
            let out = t.update_at(&boxes(&[(100.0, 50.0, 0.9)]), looks.next().unwrap_or(0.0));
            assert_eq!(ids(&out) == [1], expected, "missed {missed} times");
        }
    }

    #[test]
    fn boxes_that_are_only_held_keep_their_tracks_and_confirm_none() {
        let (mut t, mut at) = settled();
        let seen = boxes(&[(100.0, 50.0, 0.9), (400.0, 50.0, 0.9)]);
        assert_eq!(ids(&t.update_at(&seen, at)), [1]);
        let mut held = seen.clone();
        for b in &mut held.boxes {
            b.held = true;
        }
        for _ in 0..300 {
            at += 1.0 / 15.0;
            assert_eq!(ids(&t.update_at(&held, at)), [1]);
        }
        // No detector looked, so the second box is still new.
        assert_eq!(ids(&t.update_at(&boxes(&[(100.0, 50.0, 0.9)]), at)), [1]);
        assert_eq!(ids(&t.update_at(&seen, at + 0.1)), [1]);
        assert_eq!(ids(&t.update_at(&seen, at + 0.2)), [1, 2]);
    }

    proptest! {
        #[test]
        fn at_the_rate_of_the_source_time_changes_nothing(
            frames in proptest::collection::vec(
                proptest::collection::vec((0.0f64..600.0, 0.0f64..400.0, 0.05f64..1.0), 0..8), 1..60),
            rate in prop::sample::select(vec![5.0, 10.0, 12.5, 15.0, 24.0, 25.0, 30000.0 / 1001.0, 30.0, 50.0, 60.0]),
            lost_track_buffer in 0u32..90,
        ) {
            let config = ByteTrackConfig { frame_rate: rate, lost_track_buffer, ..Default::default() };
            let (mut counted, mut timed) = (ByteTrack::new(config), ByteTrack::new(config));
            for (n, frame) in (0u32..).zip(frames) {
                // Rounded as by containers.
                let at = (f64::from(n) / rate * 1e3).round() / 1e3;
                let d = boxes(&frame);
                prop_assert_eq!(counted.update(&d), timed.update_at(&d, at));
            }
        }

        #[test]
        fn jitter_is_no_gap(
            predicted in proptest::collection::vec(0.0f64..600.0, 1..8),
            jitter in proptest::collection::vec(0.6f64..1.4, 1..60),
            interval in 0.02f64..3.0,
        ) {
            let config = ByteTrackConfig::default();
            let (mut counted, mut timed) = (ByteTrack::new(config), ByteTrack::new(config));
            // Every object is seen in every frame, so no track can be lost.
            let rows = (0..).map(|row| f64::from(row) * 200.0);
            let d = boxes(&predicted.into_iter().zip(rows).map(|(x, y)| (x, y, 0.9)).collect::<Vec<_>>());
            let mut at = 0.0;
            for factor in jitter {
                at += interval * factor;
                prop_assert_eq!(counted.update(&d), timed.update_at(&d, at));
            }
        }

        #[test]
        fn each_id_is_given_once_a_frame_and_numbers_are_harmless(
            frames in proptest::collection::vec(
                proptest::collection::vec(
                    (proptest::num::f64::ANY, 0.0f64..300.0, 0.0f64..300.0, any::<bool>()), 0..8),
                1..20),
        ) {
            let mut t = ByteTrack::new(ByteTrackConfig::default());
            for frame in frames {
                let mut d = boxes(&[]);
                for (odd, x, y, wild) in frame {
                    let mut b = boxes(&[(x, y, 0.9)]).boxes.remove(0);
                    if wild {
                        b.bbox.x2 = odd;
                        b.confidence = odd;
                    }
                    d.boxes.push(b);
                }
                let mut seen = ids(&t.update(&d));
                let n = seen.len();
                seen.sort_unstable();
                seen.dedup();
                prop_assert_eq!(seen.len(), n);
            }
        }
    }
}
