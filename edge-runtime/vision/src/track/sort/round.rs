//! One frame: rounds of matching between tracks and boxes, by algorithm.
//!
//! - Owns the order of matching, and when a track begins, is confirmed and ends.
//! - Tracks and boxes are indices of the frame's lists.
//! - Invariants: a box continues at most one track. At most [`MAX_TRACKS`] tracks begin.
//! - Not here: the assignment itself (`assign`), frames without a detector.

use watchkeeper_contract::id::TrackId;

use super::settings::{SortConfig, SortKind};
use super::track::Track;
use crate::geometry::BBox;
use crate::track::assign::Matcher;

/// Bound of the tracks of one source; beyond it none begins.
pub(super) const MAX_TRACKS: usize = 2048;
/// Above every cost: pairs are matched for the best sum first, then judged singly.
const ANY_COST: f64 = 10.0;
/// Score below which BoT-SORT ignores a box.
const LOWEST_SCORE: f64 = 0.1;

/// Work of one frame.
pub(super) struct Round<'a> {
    /// Boxes with their scores.
    pub(super) boxes: Vec<(BBox, f64)>,
    /// Predicted boxes of the tracks.
    pub(super) predicted: Vec<BBox>,
    pub(super) tracks: Vec<Track>,
    pub(super) config: SortConfig,
    pub(super) frame: u64,
    pub(super) ids: &'a mut i64,
    /// Boxes of confirmed tracks.
    pub(super) reported: Vec<(usize, TrackId)>,
}

/// Result of one round of matching.
struct Matches {
    /// Pairs of a track and a box.
    pairs: Vec<(usize, usize)>,
    free_tracks: Vec<usize>,
    free_boxes: Vec<usize>,
}

impl Round<'_> {
    /// Boxes with such a score.
    fn boxes_scored(&self, is_wanted: impl Fn(f64) -> bool) -> Vec<usize> {
        let all = 0..self.boxes.len();
        all.filter(|&seen| is_wanted(self.boxes[seen].1)).collect()
    }

    fn tracks_where(&self, is_wanted: impl Fn(&Track) -> bool) -> Vec<usize> {
        let all = 0..self.tracks.len();
        all.filter(|&track| is_wanted(&self.tracks[track]))
            .collect()
    }

    /// Matches tracks and boxes for the greatest sum of `likeness(track, box)`; then drops pairs
    /// with an `overlap(track, box)` below `min_overlap`.
    fn match_boxes(
        matcher: &mut Matcher,
        [tracks, boxes]: [&[usize]; 2],
        min_overlap: f64,
        overlap: impl Fn(usize, usize) -> f64,
        likeness: impl Fn(usize, usize) -> f64,
    ) -> Matches {
        let cost = |row: usize, col: usize| -likeness(tracks[row], boxes[col]);
        let found = matcher.assign(tracks.len(), boxes.len(), ANY_COST, cost);
        let (mut rows, mut cols) = (found.free_rows.clone(), found.free_cols.clone());
        let mut pairs = Vec::new();
        for &(row, col) in &found.pairs {
            let (track, seen) = (tracks[row], boxes[col]);
            if overlap(track, seen) >= min_overlap {
                pairs.push((track, seen));
            } else {
                rows.push(row);
                cols.push(col);
            }
        }
        rows.sort_unstable();
        cols.sort_unstable();
        Matches {
            pairs,
            free_tracks: rows.into_iter().map(|row| tracks[row]).collect(),
            free_boxes: cols.into_iter().map(|col| boxes[col]).collect(),
        }
    }

    /// Intersection over union of a box and the predicted box of a track.
    fn overlap(&self, track: usize, seen: usize) -> f64 {
        let overlap = self.predicted[track].iou(&self.boxes[seen].0);
        if overlap.is_finite() { overlap } else { 0.0 }
    }

    /// Updates tracks by their boxes, and reports those that are confirmed.
    fn update_tracks(&mut self, pairs: &[(usize, usize)]) {
        let span = match self.config.kind {
            SortKind::Oc { span, .. } => span,
            _ => 0,
        };
        for &(track, seen) in pairs {
            self.tracks[track].update(&self.boxes[seen].0, span);
            if self.is_reported(&self.tracks[track]) {
                self.report(track, seen);
            }
        }
    }

    fn is_confirmed(&self, track: &Track) -> bool {
        track.hits >= self.config.minimum_consecutive_frames
    }

    /// Whether a track is reported in this frame. OC-SORT reports unconfirmed tracks in the first
    /// frames. SORT reports none, not even one with an id; `ByteTrack` and BoT-SORT do.
    fn is_reported(&self, track: &Track) -> bool {
        let first_frames = u64::from(self.config.minimum_consecutive_frames) + 1;
        self.is_confirmed(track)
            || match self.config.kind {
                SortKind::Sort { .. } => false,
                SortKind::Oc { .. } => self.frame <= first_frames,
                SortKind::Byte { .. } | SortKind::Bot { .. } => track.id.is_some(),
            }
    }

    /// Reports the box of a track; a track without an id gets one.
    fn report(&mut self, track: usize, seen: usize) {
        let id = *self.tracks[track].id.get_or_insert_with(|| {
            let id = TrackId(*self.ids);
            *self.ids = self.ids.saturating_add(1);
            id
        });
        self.reported.push((seen, id));
    }

    /// Begins tracks with the boxes of at least this score.
    fn start_tracks(&mut self, boxes: &[usize], min_score: f64) {
        for &seen in boxes {
            let (bbox, score) = &self.boxes[seen];
            if *score >= min_score && self.tracks.len() < MAX_TRACKS {
                self.tracks.push(Track::new(self.config.kind, bbox));
            }
        }
    }

    /// Drops tracks unseen for too long, or unseen before they were confirmed.
    fn drop_lost_tracks(&mut self, keeps_tracks_with_id: bool) {
        let max_unseen = self.config.max_unseen();
        let min_hits = self.config.minimum_consecutive_frames;
        self.tracks.retain(|track| {
            let is_confirmed =
                track.hits >= min_hits || (keeps_tracks_with_id && track.id.is_some());
            f64::from(track.unseen) < max_unseen && (is_confirmed || track.unseen == 0)
        });
    }

    pub(super) fn sort(&mut self, matcher: &mut Matcher, activation: f64, min_overlap: f64) {
        let (tracks, boxes) = (self.tracks_where(|_| true), self.boxes_scored(|_| true));
        let overlap = |track, seen| self.overlap(track, seen);
        let found = Self::match_boxes(matcher, [&tracks, &boxes], min_overlap, overlap, overlap);
        self.update_tracks(&found.pairs);
        self.start_tracks(&found.free_boxes, activation);
        self.drop_lost_tracks(false);
        // Boxes stay in their order.
        self.reported.sort_unstable_by_key(|(seen, _)| *seen);
    }

    pub(super) fn byte(
        &mut self,
        matcher: &mut Matcher,
        activation: f64,
        min_overlap: f64,
        good: f64,
    ) {
        let tracks = self.tracks_where(|_| true);
        let good_boxes = self.boxes_scored(|score| score >= good);
        let poor_boxes = self.boxes_scored(|score| score < good);
        let overlap = |track, seen| self.overlap(track, seen);
        let mut match_boxes = |tracks: &[usize], boxes: &[usize]| {
            Self::match_boxes(matcher, [tracks, boxes], min_overlap, overlap, overlap)
        };
        let first = match_boxes(&tracks, &good_boxes);
        let second = match_boxes(&first.free_tracks, &poor_boxes);
        self.update_tracks(&first.pairs);
        self.update_tracks(&second.pairs);
        self.start_tracks(&first.free_boxes, activation);
        self.drop_lost_tracks(true);
    }

    pub(super) fn oc(
        &mut self,
        matcher: &mut Matcher,
        min_overlap: f64,
        good: f64,
        direction_weight: f64,
        span: u32,
    ) {
        let tracks = self.tracks_where(|_| true);
        let boxes = self.boxes_scored(|score| score >= good);
        let overlap = |track, seen| self.overlap(track, seen);
        let likeness = |track, seen| {
            overlap(track, seen) + direction_weight * self.direction(track, seen, span)
        };
        let first = Self::match_boxes(matcher, [&tracks, &boxes], min_overlap, overlap, likeness);
        self.update_tracks(&first.pairs);
        let free = [&first.free_tracks[..], &first.free_boxes];
        let overlap = |track: usize, seen: usize| {
            let last = self.tracks[track].past.as_ref().map(|past| past.last);
            last.map_or(0.0, |last| last.iou(&self.boxes[seen].0))
        };
        let second = Self::match_boxes(matcher, free, min_overlap, overlap, overlap);
        self.update_tracks(&second.pairs);
        let max_unseen = self.config.max_unseen();
        self.tracks
            .retain(|track| f64::from(track.unseen) <= max_unseen);
        self.start_tracks(&second.free_boxes, good);
    }

    /// Agreement between a track's direction and that to a box, -0.5 to 0.5 times the score.
    fn direction(&self, track: usize, seen: usize, span: u32) -> f64 {
        let track = &self.tracks[track];
        let past = track.past.as_ref();
        let Some((past, [down, across])) = past.and_then(|past| Some((past, past.direction?)))
        else {
            return 0.0;
        };
        let (bbox, score) = &self.boxes[seen];
        let reference = past.reference(track.age, span).unwrap_or(past.last);
        let (from, to) = (reference.center(), bbox.center());
        let (dx, dy) = (to.x - from.x, to.y - from.y);
        let length = dx.hypot(dy) + 1e-6;
        let cosine = (across * dx + down * dy) / length;
        let angle = cosine.clamp(-1.0, 1.0).acos();
        (std::f64::consts::FRAC_PI_2 - angle) / std::f64::consts::PI * score
    }

    pub(super) fn bot(&mut self, matcher: &mut Matcher) {
        let SortKind::Bot {
            activation,
            overlap: min_overlap,
            poor_overlap,
            new_overlap,
            good,
            at_once,
        } = self.config.kind
        else {
            return;
        };
        let good_boxes = self.boxes_scored(|score| score >= good);
        let poor_boxes = self.boxes_scored(|score| score > LOWEST_SCORE && score < good);
        // Tracks of the last frame come before lost ones.
        let mut known = self.tracks_where(|t| t.unseen <= 1 && self.is_confirmed(t));
        known.extend(self.tracks_where(|t| t.unseen > 1));
        let unconfirmed = self.tracks_where(|t| t.unseen <= 1 && !self.is_confirmed(t));

        let overlap = |track, seen| self.overlap(track, seen);
        let scored = |track: usize, seen: usize| overlap(track, seen) * self.boxes[seen].1;
        let lists = [&known[..], &good_boxes];
        let first = Self::match_boxes(matcher, lists, min_overlap, scored, scored);
        let mut left = first.free_tracks;
        left.retain(|&track| self.tracks[track].unseen == 1);
        let lists = [&left[..], &poor_boxes];
        let second = Self::match_boxes(matcher, lists, poor_overlap, overlap, overlap);
        let lists = [&unconfirmed[..], &first.free_boxes];
        let third = Self::match_boxes(matcher, lists, new_overlap, scored, scored);
        for found in [&first.pairs, &second.pairs, &third.pairs] {
            self.update_tracks(found);
        }
        // Unconfirmed tracks that are not seen again are dropped.
        self.drop_tracks(&third.free_tracks);
        let known = self.tracks.len();
        self.start_tracks(&third.free_boxes, activation);
        if at_once && self.frame == 1 {
            self.report_new_tracks(known, &third.free_boxes, activation);
        }
        self.drop_lost_tracks(false);
    }

    fn drop_tracks(&mut self, dropped: &[usize]) {
        let mut index = 0;
        self.tracks.retain(|_| {
            index += 1;
            !dropped.contains(&(index - 1))
        });
    }

    /// Reports the tracks from `first` on, which began with the boxes of at least this score.
    fn report_new_tracks(&mut self, first: usize, boxes: &[usize], min_score: f64) {
        let began = boxes
            .iter()
            .filter(|&&seen| self.boxes[seen].1 >= min_score);
        let began: Vec<usize> = began.copied().collect();
        for (track, seen) in (first..self.tracks.len()).zip(began) {
            self.report(track, seen);
        }
    }
}
