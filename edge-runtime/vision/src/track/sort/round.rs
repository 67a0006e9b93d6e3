//! One frame: rounds of matching between tracks and boxes, by algorithm.
//!
//! - Owns the order of matching, when a track begins, is confirmed, and ends.
//! - Invariants: a box continues at most one track. At most [`MAX_TRACKS`] tracks begin.
//! - Not here: the assignment itself (`assign`), frames without a detector.

use watchkeeper_contract::id::TrackId;

use super::settings::{SortConfig, SortKind};
use super::track::Track;
use crate::geometry::BBox;
use crate::track::assign::{Assignment, Matcher};

/// Bound of the tracks of one source; beyond it none begins.
pub(super) const MAX_TRACKS: usize = 2048;
/// Above every cost: pairs are matched for the best sum first, then judged singly.
const ANY_COST: f64 = 10.0;
/// Score below which BoT-SORT ignores a box.
const LOWEST_SCORE: f64 = 0.1;

/// Work of one frame.
pub(super) struct Round<'a> {
    pub(super) boxes: Vec<(BBox, f64)>,
    /// Predicted boxes of the tracks.
    pub(super) places: Vec<BBox>,
    pub(super) tracks: Vec<Track>,
    pub(super) config: SortConfig,
    pub(super) frame: u64,
    pub(super) ids: &'a mut i64,
    pub(super) answer: Vec<(usize, TrackId)>,
}

impl Round<'_> {
    /// Indices of the boxes whose score is `wanted`.
    fn scored(&self, wanted: impl Fn(f64) -> bool) -> Vec<usize> {
        let each = self.boxes.iter().enumerate();
        each.filter(|(_, (_, score))| wanted(*score))
            .map(|(i, _)| i)
            .collect()
    }

    /// Matches tracks and boxes for the greatest sum of `likeness(track, box)`; then drops pairs
    /// whose `overlap` is too small.
    fn pairs(
        matcher: &mut Matcher,
        tracks: &[usize],
        boxes: &[usize],
        least: f64,
        overlap: impl Fn(usize, usize) -> f64,
        likeness: impl Fn(usize, usize) -> f64,
    ) -> Assignment {
        let cost = |t: usize, b: usize| -likeness(tracks[t], boxes[b]);
        let found = matcher.assign(tracks.len(), boxes.len(), ANY_COST, cost);
        let mut found = found.clone();
        let (kept, parted): (Vec<_>, Vec<_>) = found
            .pairs
            .iter()
            .copied()
            .partition(|&(t, b)| overlap(tracks[t], boxes[b]) >= least);
        found.pairs = kept;
        for (t, b) in parted {
            found.free_rows.push(t);
            found.free_cols.push(b);
        }
        found.free_rows.sort_unstable();
        found.free_cols.sort_unstable();
        found
    }

    fn overlap(&self, track: usize, b: usize) -> f64 {
        let seen = &self.boxes[b].0;
        let overlap = self.places[track].iou(seen);
        if overlap.is_finite() { overlap } else { 0.0 }
    }

    fn see(&mut self, track: usize, b: usize) {
        let span = match self.config.kind {
            SortKind::Oc { span, .. } => span,
            _ => 0,
        };
        self.tracks[track].see(&self.boxes[b].0, span);
    }

    /// Returns the track's id; a track without one gets it.
    fn name(&mut self, track: usize) -> TrackId {
        *self.tracks[track].id.get_or_insert_with(|| {
            let id = TrackId(*self.ids);
            *self.ids = self.ids.saturating_add(1);
            id
        })
    }

    /// Returns a box whose track has an id or is just confirmed.
    fn tell(&mut self, track: usize, b: usize) {
        let has_proved = self.tracks[track].hits >= self.config.minimum_consecutive_frames;
        if has_proved || self.tracks[track].id.is_some() {
            let id = self.name(track);
            self.answer.push((b, id));
        }
    }

    fn begin(&mut self, b: usize) {
        if self.tracks.len() < MAX_TRACKS {
            self.tracks
                .push(Track::new(self.config.kind, &self.boxes[b].0));
        }
    }

    /// Drops tracks unseen for too long, or unseen before they were confirmed.
    fn expire(&mut self, named_stay: bool) {
        let most = self.config.most_unseen();
        let proof = self.config.minimum_consecutive_frames;
        self.tracks.retain(|t| {
            let has_proved = t.hits >= proof || (named_stay && t.id.is_some());
            f64::from(t.unseen) < most && (has_proved || t.unseen == 0)
        });
    }

    pub(super) fn sort(&mut self, matcher: &mut Matcher, activation: f64, least: f64) {
        let tracks: Vec<usize> = (0..self.tracks.len()).collect();
        let boxes: Vec<usize> = (0..self.boxes.len()).collect();
        let overlap = |t, b| self.overlap(t, b);
        let found = Self::pairs(matcher, &tracks, &boxes, least, overlap, overlap);
        for &(t, b) in &found.pairs {
            self.see(t, b);
            // SORT returns no unconfirmed track, not even one with an id.
            if self.tracks[t].hits >= self.config.minimum_consecutive_frames {
                self.tell(t, b);
            }
        }
        for b in found.free_cols {
            if self.boxes[b].1 >= activation {
                self.begin(b);
            }
        }
        self.expire(false);
        // Boxes stay in their order.
        self.answer.sort_unstable_by_key(|(b, _)| *b);
    }

    pub(super) fn byte(&mut self, matcher: &mut Matcher, activation: f64, least: f64, good: f64) {
        let tracks: Vec<usize> = (0..self.tracks.len()).collect();
        let (good_ones, poor) = (self.scored(|s| s >= good), self.scored(|s| s < good));
        let overlap = |t, b| self.overlap(t, b);
        let first = Self::pairs(matcher, &tracks, &good_ones, least, overlap, overlap);
        let left: Vec<usize> = first.free_rows.clone();
        let second = Self::pairs(matcher, &left, &poor, least, overlap, overlap);
        for &(t, b) in &first.pairs {
            self.see(t, good_ones[b]);
            self.tell(t, good_ones[b]);
        }
        for &(t, b) in &second.pairs {
            self.see(left[t], poor[b]);
            self.tell(left[t], poor[b]);
        }
        for &b in &first.free_cols {
            if self.boxes[good_ones[b]].1 >= activation {
                self.begin(good_ones[b]);
            }
        }
        self.expire(true);
    }

    pub(super) fn oc(
        &mut self,
        matcher: &mut Matcher,
        least: f64,
        good: f64,
        weight: f64,
        span: u32,
    ) {
        let tracks: Vec<usize> = (0..self.tracks.len()).collect();
        let boxes = self.scored(|s| s >= good);
        let overlap = |t, b| self.overlap(t, b);
        let likeness = |t, b| overlap(t, b) + weight * self.direction(t, b, span);
        let first = Self::pairs(matcher, &tracks, &boxes, least, overlap, likeness);
        for &(t, b) in &first.pairs {
            self.see(t, boxes[b]);
            self.tell_oc(t, boxes[b]);
        }
        let left: Vec<usize> = first.free_cols.iter().map(|b| boxes[*b]).collect();
        let overlap = |t: usize, b: usize| {
            let last = self.tracks[t].past.as_ref().map(|p| p.last);
            last.map_or(0.0, |last| last.iou(&self.boxes[b].0))
        };
        let second = Self::pairs(matcher, &first.free_rows, &left, least, overlap, overlap);
        for &(t, b) in &second.pairs {
            self.see(first.free_rows[t], left[b]);
            self.tell_oc(first.free_rows[t], left[b]);
        }
        let most = self.config.most_unseen();
        self.tracks.retain(|t| f64::from(t.unseen) <= most);
        for b in second.free_cols {
            self.begin(left[b]);
        }
    }

    /// OC-SORT returns unconfirmed tracks in the first frames.
    fn tell_oc(&mut self, track: usize, b: usize) {
        let proof = self.config.minimum_consecutive_frames;
        if self.frame <= u64::from(proof) + 1 || self.tracks[track].hits >= proof {
            let id = self.name(track);
            self.answer.push((b, id));
        }
    }

    /// Agreement between a track's direction and that to a box, -0.5 to 0.5 times the score.
    fn direction(&self, track: usize, b: usize, span: u32) -> f64 {
        let track = &self.tracks[track];
        let Some((past, [down, across])) =
            track.past.as_ref().and_then(|p| Some((p, p.direction?)))
        else {
            return 0.0;
        };
        let (seen, score) = &self.boxes[b];
        let from = past
            .reference(track.age, span)
            .unwrap_or(past.last)
            .center();
        let to = seen.center();
        let (dx, dy) = (to.x - from.x, to.y - from.y);
        let length = dx.hypot(dy) + 1e-6;
        let cosine = (across * dx + down * dy) / length;
        let angle = cosine.clamp(-1.0, 1.0).acos();
        (std::f64::consts::FRAC_PI_2 - angle) / std::f64::consts::PI * score
    }

    pub(super) fn bot(&mut self, matcher: &mut Matcher) {
        let SortKind::Bot {
            activation,
            overlap: least,
            poor_overlap,
            new_overlap,
            good,
            at_once,
        } = self.config.kind
        else {
            return;
        };
        let good_ones = self.scored(|s| s >= good);
        let poor = self.scored(|s| s > LOWEST_SCORE && s < good);
        let proof = self.config.minimum_consecutive_frames;
        let of = |wanted: &dyn Fn(&Track) -> bool| -> Vec<usize> {
            let each = self.tracks.iter().enumerate();
            each.filter(|(_, t)| wanted(t)).map(|(i, _)| i).collect()
        };
        // Tracks seen last come before lost ones.
        let mut pool = of(&|t| t.unseen <= 1 && t.hits >= proof);
        pool.extend(of(&|t| t.unseen > 1));
        let unproved = of(&|t| t.unseen <= 1 && t.hits < proof);

        let overlap = |t, b| self.overlap(t, b);
        let scored = |t: usize, b: usize| self.overlap(t, b) * self.boxes[b].1;
        let first = Self::pairs(matcher, &pool, &good_ones, least, scored, scored);
        let left: Vec<usize> = first
            .free_rows
            .iter()
            .map(|t| pool[*t])
            .filter(|t| self.tracks[*t].unseen == 1)
            .collect();
        let second = Self::pairs(matcher, &left, &poor, poor_overlap, overlap, overlap);
        let free: Vec<usize> = first.free_cols.iter().map(|b| good_ones[*b]).collect();
        let third = Self::pairs(matcher, &unproved, &free, new_overlap, scored, scored);

        let name =
            |pairs: &[(usize, usize)], tracks: &[usize], boxes: &[usize]| -> Vec<(usize, usize)> {
                pairs.iter().map(|&(t, b)| (tracks[t], boxes[b])).collect()
            };
        let mut all = name(&first.pairs, &pool, &good_ones);
        all.extend(name(&second.pairs, &left, &poor));
        all.extend(name(&third.pairs, &unproved, &free));
        for (t, b) in all {
            self.see(t, b);
            self.tell(t, b);
        }
        // Unconfirmed tracks that are not seen again are dropped.
        let gone: Vec<usize> = third.free_rows.iter().map(|t| unproved[*t]).collect();
        self.drop_tracks(&gone);
        for b in third.free_cols.iter().map(|b| free[*b]) {
            self.begin_bot(b, activation, at_once);
        }
        self.expire(false);
    }

    fn drop_tracks(&mut self, gone: &[usize]) {
        let mut number = 0;
        self.tracks.retain(|_| {
            number += 1;
            !gone.contains(&(number - 1))
        });
    }

    /// Begins a BoT-SORT track, which may have its id at once in the first frame.
    fn begin_bot(&mut self, b: usize, activation: f64, at_once: bool) {
        let before = self.tracks.len();
        if self.boxes[b].1 >= activation {
            self.begin(b);
        }
        if at_once && self.frame == 1 && self.tracks.len() > before {
            let id = self.name(before);
            self.answer.push((b, id));
        }
    }
}
