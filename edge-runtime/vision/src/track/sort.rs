//! SORT and its descendants: `ByteTrack` with SORT's filter, OC-SORT and BoT-SORT.
//!
//! - They differ in the motion of a box, the order of matching, and when a track is confirmed.
//! - Constants are those of the `trackers` library (Apache 2.0). Bewley et al., "Simple online and
//!   realtime tracking", 2016; Zhang et al., "ByteTrack", 2022; Cao et al., "Observation-centric
//!   SORT", 2023; Aharon et al., "BoT-SORT", 2022 (without appearance and camera motion).
//! - The number of tracks is bounded, no input panics, and only confirmed tracks are returned.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::TrackId;

use super::assign::{Assignment, Matcher};
use super::axis::Axis;
use crate::detections::{Detection, DetectionId, Detections};
use crate::geometry::BBox;

/// Frame rate of `lost_track_buffer`.
const REFERENCE_FPS: f64 = 30.0;
/// Bound of the tracks of one source; beyond it none begins.
const MAX_TRACKS: usize = 2048;
/// Above every cost: pairs are matched for the best sum first, then judged singly.
const ANY_COST: f64 = 10.0;
/// Score below which BoT-SORT ignores a box.
const LOWEST_SCORE: f64 = 0.1;
/// Smallest side of a box in BoT-SORT's filter, in pixels.
const MIN_SIDE: f64 = 1e-3;
/// BoT-SORT's standard deviations of places, velocities and measurements, in widths and heights.
const PLACE_STD: f64 = 0.05;
const VELOCITY_STD: f64 = 0.00625;
const MEASURED_STD: f64 = 0.05;

/// The tracker's algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum SortKind {
    /// One round with all boxes.
    Sort {
        /// Score from which a box may begin a track.
        activation: f64,
        /// Overlap from which a box continues a track.
        overlap: f64,
    },
    /// Good boxes first, then poor ones.
    Byte {
        /// Score from which a box may begin a track.
        activation: f64,
        /// Overlap from which a box continues a track.
        overlap: f64,
        /// Score from which a box is good.
        good: f64,
    },
    /// Good boxes only: by overlap and direction, then by the place of the last sight.
    Oc {
        /// Overlap from which a box continues a track.
        overlap: f64,
        /// Score from which a box is good.
        good: f64,
        /// Weight of the direction.
        direction: f64,
        /// Frames over which the direction is measured.
        span: u32,
    },
    /// Good boxes first, by overlap and score; then poor ones; unconfirmed tracks last.
    Bot {
        /// Score from which a box may begin a track.
        activation: f64,
        /// Overlap times score from which a good box continues a track.
        overlap: f64,
        /// Overlap from which a poor box continues a track.
        poor_overlap: f64,
        /// Overlap times score from which a box continues an unconfirmed track.
        new_overlap: f64,
        /// Score from which a box is good.
        good: f64,
        /// Whether tracks of the first frame are confirmed at once.
        at_once: bool,
    },
}

/// Settings of a tracker.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SortConfig {
    pub kind: SortKind,
    /// Frames, at 30 per second, for which an unseen track is kept.
    pub lost_track_buffer: u32,
    /// Boxes until a track is confirmed.
    pub minimum_consecutive_frames: u32,
    /// Frames per second; 30 unless positive.
    pub frame_rate: f64,
}

impl SortConfig {
    fn most_unseen(&self) -> f64 {
        let rate = if self.frame_rate > 0.0 {
            self.frame_rate
        } else {
            REFERENCE_FPS
        };
        (rate / REFERENCE_FPS * f64::from(self.lost_track_buffer)).trunc()
    }
}

/// The four filtered numbers of a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Form {
    /// Left, top, right, bottom.
    Sides,
    /// Centre, area, and the constant aspect ratio.
    AreaAndRatio,
    /// Centre, width, height.
    CenterAndSize,
}

impl Form {
    fn measure(self, b: &BBox) -> [f64; 4] {
        let (c, w, h) = (b.center(), b.width(), b.height());
        match self {
            Self::Sides => [b.x1, b.y1, b.x2, b.y2],
            Self::AreaAndRatio => [c.x, c.y, w * h, w / (h + 1e-6)],
            Self::CenterAndSize => [c.x, c.y, w, h],
        }
    }

    fn bbox(self, [a, b, c, d]: [f64; 4]) -> BBox {
        let around = |w: f64, h: f64| BBox::new(a - w / 2.0, b - h / 2.0, a + w / 2.0, b + h / 2.0);
        match self {
            Self::Sides => BBox::new(a, b, c, d),
            Self::AreaAndRatio => {
                let w = (c * d).sqrt();
                around(w, c / w)
            }
            Self::CenterAndSize => around(c, d),
        }
    }
}

/// Motion of a box: four independent filters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Motion {
    form: Form,
    axes: [Axis; 4],
}

impl Motion {
    fn new(form: Form, b: &BBox) -> Self {
        let at = form.measure(b);
        let mut stds = match form {
            Form::Sides => [(1.0, 1.0); 4],
            Form::AreaAndRatio => [(10_f64.sqrt(), 100.0); 4],
            Form::CenterAndSize => {
                let first = |side: f64| (2.0 * PLACE_STD * side, 10.0 * VELOCITY_STD * side);
                let (w, h) = (first(b.width()), first(b.height()));
                [w, h, w, h]
            }
        };
        if form == Form::AreaAndRatio {
            // The aspect ratio is constant.
            stds[3].1 = 0.0;
        }
        let axis = |i: usize| Axis::new(at[i], stds[i].0, stds[i].1);
        Self {
            form,
            axes: [axis(0), axis(1), axis(2), axis(3)],
        }
    }

    fn bbox(&self) -> BBox {
        self.form.bbox(self.axes.map(|a| a.position))
    }

    /// Width and height, at least [`MIN_SIDE`].
    fn sides(&self) -> [f64; 4] {
        let b = self.bbox();
        let (w, h) = (b.width().max(MIN_SIDE), b.height().max(MIN_SIDE));
        [w, h, w, h]
    }

    /// Predicts one frame ahead.
    fn predict(&mut self) {
        if self.form == Form::AreaAndRatio && self.axes[2].position + self.axes[2].velocity <= 0.0 {
            self.axes[2].velocity = 0.0;
        }
        self.advance();
    }

    fn advance(&mut self) {
        let noise = match self.form {
            Form::Sides => [(0.1, 0.1); 4],
            Form::AreaAndRatio => [(1.0, 0.1), (1.0, 0.1), (1.0, 0.01), (1.0, 0.0)],
            Form::CenterAndSize => self.sides().map(|s| (PLACE_STD * s, VELOCITY_STD * s)),
        };
        for (axis, (place, velocity)) in self.axes.iter_mut().zip(noise) {
            axis.advance(1.0, place, velocity);
        }
        self.keep_size();
    }

    fn correct(&mut self, b: &BBox) {
        self.correct_by(self.form.measure(b));
    }

    fn correct_by(&mut self, measured: [f64; 4]) {
        let noise = match self.form {
            Form::Sides => [0.1_f64.sqrt(); 4],
            Form::AreaAndRatio => [1.0, 1.0, 10_f64.sqrt(), 10_f64.sqrt()],
            Form::CenterAndSize => self.sides().map(|s| MEASURED_STD * s),
        };
        for ((axis, at), std) in self.axes.iter_mut().zip(measured).zip(noise) {
            axis.correct(at, std);
        }
        self.keep_size();
    }

    fn keep_size(&mut self) {
        if self.form == Form::CenterAndSize {
            for axis in &mut self.axes[2..] {
                axis.position = axis.position.max(MIN_SIDE);
            }
        }
    }
}

/// OC-SORT's observations of a track.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Past {
    last: BBox,
    /// Boxes with the track's age, over the span of directions, and always the latest.
    seen: VecDeque<(u32, BBox)>,
    /// Unit vector `(down, across)`.
    direction: Option<[f64; 2]>,
    /// The filter at the moment of loss.
    frozen: Option<Motion>,
    is_observed: bool,
}

impl Past {
    /// The box from which directions are measured: `span` frames ago, or the first one after it.
    fn reference(&self, age: u32, span: u32) -> Option<BBox> {
        let within = self
            .seen
            .iter()
            .find(|(at, _)| age - at <= span && *at < age);
        within.or(self.seen.back()).map(|(_, b)| *b)
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Track {
    motion: Motion,
    id: Option<TrackId>,
    age: u32,
    /// Frames since it was seen.
    unseen: u32,
    /// Number of its boxes; consecutive ones, where the algorithm counts so.
    hits: u32,
    past: Option<Past>,
}

impl Track {
    fn new(kind: SortKind, b: &BBox) -> Self {
        let form = match kind {
            SortKind::Sort { .. } | SortKind::Byte { .. } => Form::Sides,
            SortKind::Oc { .. } => Form::AreaAndRatio,
            SortKind::Bot { .. } => Form::CenterAndSize,
        };
        let past = matches!(kind, SortKind::Oc { .. }).then(|| Past {
            last: *b,
            seen: VecDeque::new(),
            direction: None,
            frozen: None,
            is_observed: true,
        });
        Self {
            motion: Motion::new(form, b),
            id: None,
            age: 0,
            unseen: 0,
            hits: u32::from(past.is_none()),
            past,
        }
    }

    fn predict(&mut self, kind: SortKind) {
        let was_unseen = self.unseen > 0;
        if let Some(past) = self.past.as_mut().filter(|p| p.is_observed && was_unseen) {
            past.frozen = Some(self.motion);
            past.is_observed = false;
        }
        self.motion.predict();
        if was_unseen && matches!(kind, SortKind::Byte { .. } | SortKind::Oc { .. }) {
            self.hits = 0;
        }
        self.age = self.age.saturating_add(1);
        self.unseen = self.unseen.saturating_add(1);
    }

    fn see(&mut self, b: &BBox, span: u32) {
        if let Some(past) = &mut self.past {
            if let Some(from) = past.reference(self.age, span) {
                let (from, to) = (from.center(), b.center());
                let [down, across] = [to.y - from.y, to.x - from.x];
                let length = down.hypot(across) + 1e-6;
                past.direction = Some([down / length, across / length]);
            }
            if let Some(frozen) = past.frozen.take().filter(|_| !past.is_observed) {
                self.motion = refound(frozen, &past.last, b, self.unseen);
            }
            past.is_observed = true;
            past.last = *b;
            past.seen.push_back((self.age, *b));
            let age = self.age;
            while past.seen.len() > 1 && past.seen.front().is_some_and(|(at, _)| age - at > span) {
                past.seen.pop_front();
            }
        }
        self.motion.correct(b);
        self.unseen = 0;
        self.hits = self.hits.saturating_add(1);
    }
}

/// Moves a frozen filter along the straight line to the place where the track is seen again.
fn refound(mut motion: Motion, last: &BBox, now: &BBox, frames: u32) -> Motion {
    let steps = f64::from(frames.max(1));
    let (from, to) = (last.center(), now.center());
    let sides = |b: &BBox| {
        let [_, _, area, ratio] = Form::AreaAndRatio.measure(b);
        [(area * ratio).sqrt(), (area / ratio).sqrt()]
    };
    let ([w1, h1], [w2, h2]) = (sides(last), sides(now));
    for step in 1..=frames {
        let share = f64::from(step) / steps;
        let (w, h) = (w1 + (w2 - w1) * share, h1 + (h2 - h1) * share);
        let x = from.x + (to.x - from.x) * share;
        let y = from.y + (to.y - from.y) * share;
        motion.correct_by([x, y, w * h, w / h]);
        if step < frames {
            motion.advance();
        }
    }
    motion
}

/// Tracker state of one source.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SortTracker {
    config: SortConfig,
    frame: u64,
    tracks: Vec<Track>,
    /// Tracks of the last frame's boxes, for held boxes.
    last: Vec<(DetectionId, TrackId)>,
    #[serde(skip)]
    matcher: Matcher,
}

impl SortTracker {
    #[must_use]
    pub fn new(config: SortConfig) -> Self {
        Self {
            config,
            frame: 0,
            tracks: Vec::new(),
            last: Vec::new(),
            matcher: Matcher::default(),
        }
    }

    /// Sets the frame rate, for sources whose rate is known late.
    pub const fn set_frame_rate(&mut self, fps: f64) {
        self.config.frame_rate = fps;
    }

    /// Processes a frame; returns the boxes of confirmed tracks, matched ones first. `ids` counts
    /// the tracks of all sources. Held boxes keep their tracks.
    pub fn update(&mut self, detections: &Detections, ids: &mut i64) -> Detections {
        let mut out = Detections {
            boxes: Vec::new(),
            size: detections.size,
        };
        let answer: Vec<(usize, TrackId)> = if detections.is_held() {
            let had = |d: &Detection| self.last.iter().find(|(id, _)| *id == d.id).map(|l| l.1);
            let all = detections.boxes.iter().enumerate();
            all.filter_map(|(i, d)| Some((i, had(d)?))).collect()
        } else {
            self.follow(detections, ids)
        };
        self.last.clear();
        for (i, track) in answer {
            if let Some(d) = detections.boxes.get(i) {
                let mut d = d.clone();
                d.track = Some(track);
                self.last.push((d.id.clone(), track));
                out.boxes.push(d);
            }
        }
        out
    }

    /// Indices of the boxes with a track.
    fn follow(&mut self, detections: &Detections, ids: &mut i64) -> Vec<(usize, TrackId)> {
        // OC-SORT does not count frames without tracks and boxes.
        let is_idle = self.tracks.is_empty() && detections.boxes.is_empty();
        if !is_idle || matches!(self.config.kind, SortKind::Bot { .. }) {
            self.frame = self.frame.saturating_add(1);
        }
        if is_idle {
            return Vec::new();
        }
        for track in &mut self.tracks {
            track.predict(self.config.kind);
        }
        let mut round = Round {
            boxes: detections
                .boxes
                .iter()
                .map(|d| (d.bbox, d.confidence))
                .collect(),
            places: self.tracks.iter().map(|t| t.motion.bbox()).collect(),
            tracks: std::mem::take(&mut self.tracks),
            config: self.config,
            frame: self.frame,
            ids,
            answer: Vec::new(),
        };
        let matcher = &mut self.matcher;
        match self.config.kind {
            SortKind::Sort {
                activation,
                overlap,
            } => round.sort(matcher, activation, overlap),
            SortKind::Byte {
                activation,
                overlap,
                good,
            } => round.byte(matcher, activation, overlap, good),
            SortKind::Oc {
                overlap,
                good,
                direction,
                span,
            } => round.oc(matcher, overlap, good, direction, span),
            SortKind::Bot { .. } => round.bot(matcher),
        }
        self.tracks = round.tracks;
        self.tracks.truncate(MAX_TRACKS);
        round.answer
    }
}

/// Work of one frame.
struct Round<'a> {
    boxes: Vec<(BBox, f64)>,
    /// Predicted boxes of the tracks.
    places: Vec<BBox>,
    tracks: Vec<Track>,
    config: SortConfig,
    frame: u64,
    ids: &'a mut i64,
    answer: Vec<(usize, TrackId)>,
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

    /// Continues a track with a box.
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
        let (most, proof) = (
            self.config.most_unseen(),
            self.config.minimum_consecutive_frames,
        );
        self.tracks.retain(|t| {
            let has_proved = t.hits >= proof || (named_stay && t.id.is_some());
            f64::from(t.unseen) < most && (has_proved || t.unseen == 0)
        });
    }

    fn sort(&mut self, matcher: &mut Matcher, activation: f64, least: f64) {
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

    fn byte(&mut self, matcher: &mut Matcher, activation: f64, least: f64, good: f64) {
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

    fn oc(&mut self, matcher: &mut Matcher, least: f64, good: f64, weight: f64, span: u32) {
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

    fn bot(&mut self, matcher: &mut Matcher) {
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
