//! Statistics of each track: duration, scores, steadiness.
//!
//! - At most [`MAX_TRACKS`] tracks; the one unseen for longest is evicted.
//! - [`Record::good`] is the latest sight of at least [`GOOD_SHARE`] of the best quality, which
//!   counts half as much after [`HALF_LIFE_S`] seconds. Quality is score times area, so an object
//!   that leaves or is being hidden had its good sight before.
//! - Every number in a [`Record`] is finite.

use std::sync::Arc;

use watchkeeper_contract::id::TrackId;
use watchkeeper_vision::analytics::recent::Recent;
use watchkeeper_vision::detections::Detection;
use watchkeeper_vision::geometry::{BBox, Point};
use watchkeeper_vision::numbers::mix;
use watchkeeper_vision::track::SmoothClock;

pub const MAX_TRACKS: usize = 2048;
/// Maximum number of classes counted for a track.
const MAX_CLASSES: usize = 8;
/// Weight of the latest observation in a running mean.
const LATEST: f64 = 0.15;
/// Share of the best quality from which a sight is good.
const GOOD_SHARE: f64 = 0.8;
/// Seconds after which the best quality counts half.
const HALF_LIFE_S: f64 = 1.0;
/// Weight of the latest velocity in its mean: higher, because it predicts one step only.
const LATEST_VELOCITY: f64 = 0.4;

/// A box of a track, in pixels, and the number of a frame that shows it there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sight {
    pub bbox: BBox,
    pub frame: u64,
}

/// Statistics of one track.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Clock at the first sighting, in seconds.
    pub first_s: f64,
    /// Clock at the latest sighting, in seconds.
    pub last_s: f64,
    /// Number of frames with a sighting.
    pub seen: u64,
    /// Number of them while pictures were damaged.
    pub damaged: u64,
    pub best_score: f64,
    /// Latest box, in pixels.
    pub bbox: BBox,
    /// Number of the latest frame that shows it, where it is or where a held box says that it is.
    pub frame: u64,
    /// The latest good sight, which an event shows once the object is out of sight.
    pub good: Sight,
    /// Best quality of a sight, decayed to the latest one.
    best_quality: f64,
    /// Running mean of the relative change of width and height between sightings.
    pub size_change: f64,
    /// Running mean of the distance between predicted and actual centre, in box diagonals.
    pub surprise: f64,
    /// Running mean of the score by frame; a frame without a sighting has 0.
    pub recent_score: f64,
    first_round: u64,
    last_round: u64,
    /// Smooth clock at the latest sighting, in seconds.
    moved_s: f64,
    score_sum: f64,
    velocity: Option<Point>,
    votes: Vec<(Arc<str>, u32)>,
}

impl Record {
    fn new(d: &Detection, at: Instants) -> Self {
        let score = score(d);
        let bbox = if usable(&d.bbox) {
            d.bbox
        } else {
            BBox::default()
        };
        Self {
            first_s: at.clock,
            last_s: at.clock,
            seen: 1,
            damaged: u64::from(at.is_damaged),
            best_score: score,
            bbox,
            frame: at.frame,
            good: Sight {
                bbox,
                frame: at.frame,
            },
            best_quality: score * bbox.area(),
            size_change: 0.0,
            surprise: 0.0,
            recent_score: score,
            first_round: at.round,
            last_round: at.round,
            moved_s: at.moved_s,
            score_sum: score,
            velocity: None,
            votes: vec![(d.class.clone(), 1)],
        }
    }

    fn see(&mut self, d: &Detection, at: Instants) {
        let dt = at.moved_s - self.moved_s;
        let missed = at.round - self.last_round - 1;
        self.recent_score *= (1.0 - LATEST).powf(missed as f64);
        mix(&mut self.recent_score, score(d), LATEST);
        self.last_s = at.clock;
        self.frame = at.frame;
        self.last_round = at.round;
        self.moved_s = at.moved_s;
        self.seen += 1;
        self.damaged += u64::from(at.is_damaged);
        self.best_score = self.best_score.max(score(d));
        self.score_sum += score(d);
        self.vote(&d.class);
        if !usable(&d.bbox) {
            return;
        }
        if usable(&self.bbox) {
            self.compare(&d.bbox, dt);
        }
        self.bbox = d.bbox;
        let quality = score(d) * d.bbox.area();
        let decayed = self.best_quality * 0.5f64.powf(dt.max(0.0) / HALF_LIFE_S);
        self.best_quality = decayed.max(quality);
        if quality >= GOOD_SHARE * self.best_quality {
            self.good = Sight {
                bbox: d.bbox,
                frame: at.frame,
            };
        }
    }

    fn vote(&mut self, class: &Arc<str>) {
        if let Some((_, n)) = self.votes.iter_mut().find(|(c, _)| c == class) {
            *n = n.saturating_add(1);
        } else if self.votes.len() < MAX_CLASSES {
            self.votes.push((class.clone(), 1));
        }
    }

    fn compare(&mut self, now: &BBox, dt: f64) {
        let before = &self.bbox;
        let ratio = |a: f64, b: f64| (a / b).ln().abs();
        let change = f64::midpoint(
            ratio(now.width(), before.width()),
            ratio(now.height(), before.height()),
        );
        mix(&mut self.size_change, change, LATEST);
        if dt <= 0.0 {
            return;
        }
        let (a, b) = (before.center(), now.center());
        let step = Point::new((b.x - a.x) / dt, (b.y - a.y) / dt);
        if let Some(v) = &mut self.velocity {
            let miss = (b.x - a.x - v.x * dt).hypot(b.y - a.y - v.y * dt);
            mix(
                &mut self.surprise,
                miss / now.width().hypot(now.height()),
                LATEST,
            );
            mix(&mut v.x, step.x, LATEST_VELOCITY);
            mix(&mut v.y, step.y, LATEST_VELOCITY);
        } else if step.x.is_finite() && step.y.is_finite() {
            self.velocity = Some(step);
        }
    }

    pub fn mean_score(&self) -> f64 {
        self.score_sum / self.seen as f64
    }

    /// Returns the fraction of frames with a sighting, from the first to the latest one.
    pub fn continuity(&self) -> f64 {
        self.seen as f64 / (self.last_round - self.first_round + 1) as f64
    }

    /// Returns the seconds from the first to the latest sighting.
    pub fn age_s(&self) -> f64 {
        self.last_s - self.first_s
    }

    /// Returns the class of most boxes; of equally frequent ones the alphabetically first.
    pub fn label(&self) -> &str {
        let most = self
            .votes
            .iter()
            .max_by(|a, b| a.1.cmp(&b.1).then(b.0.cmp(&a.0)));
        most.map_or("", |(class, _)| class)
    }
}

fn score(d: &Detection) -> f64 {
    if d.confidence.is_finite() {
        d.confidence.clamp(0.0, 1.0)
    } else {
        0.0
    }
}

fn usable(b: &BBox) -> bool {
    let sides = b.width() > 0.0 && b.height() > 0.0;
    sides && [b.x1, b.y1, b.x2, b.y2].iter().all(|v| v.abs() < 1e9)
}

/// When a sighting was, in three ways.
#[derive(Debug, Clone, Copy)]
struct Instants {
    clock: f64,
    round: u64,
    frame: u64,
    moved_s: f64,
    is_damaged: bool,
}

#[derive(Debug, Clone)]
pub struct History {
    tracks: Recent<Record>,
    round: u64,
    /// Number of the frame in its source.
    frame: u64,
    /// Whether pictures are damaged now.
    pub(super) is_damaged: bool,
    /// For velocities: a camera's repeated time stamps are no short time.
    smooth: SmoothClock,
    moved_s: f64,
}

impl Default for History {
    fn default() -> Self {
        Self {
            tracks: Recent::new(MAX_TRACKS),
            round: 0,
            frame: 0,
            is_damaged: false,
            smooth: SmoothClock::default(),
            moved_s: 0.0,
        }
    }
}

impl History {
    /// Begins the frame of this number at this source time in seconds, before its sightings.
    pub fn advance(&mut self, frame: u64, time_s: f64) {
        self.frame = frame;
        self.moved_s = self.smooth.next(time_s);
    }

    pub fn next_frame(&mut self) {
        self.round += 1;
        self.tracks.next_round(u64::MAX);
    }

    /// Adds a sighting of this frame. A second box of the same track in one frame is ignored. A
    /// held box keeps the track from being evicted, without changing its statistics.
    pub fn see(&mut self, d: &Detection, clock: f64) {
        let Some(track) = d.track.filter(|t| t.0 >= 0) else {
            return;
        };
        if d.held {
            if let Some(record) = self.tracks.touch(track) {
                if record.good.frame == record.frame {
                    record.good.frame = self.frame;
                }
                record.frame = self.frame;
            }
            return;
        }
        let at = Instants {
            clock,
            round: self.round,
            frame: self.frame,
            moved_s: self.moved_s,
            is_damaged: self.is_damaged,
        };
        if let Some(record) = self.tracks.touch(track) {
            if record.last_round != at.round {
                record.see(d, at);
            }
        } else {
            self.tracks.touch_or_insert(track, Record::new(d, at));
        }
    }

    /// Frames of the good sights of tracks seen since `clock_s`.
    pub fn good_frames(&self, clock_s: f64) -> impl Iterator<Item = u64> {
        let records = self.tracks.iter().map(|(_, record)| record);
        let recent = records.filter(move |record| record.last_s >= clock_s);
        recent.map(|record| record.good.frame)
    }

    pub fn get(&self, track: TrackId) -> Option<&Record> {
        self.tracks.get(track)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use watchkeeper_vision::detections::testing::tracked;

    fn walk(h: &mut History, frames: u32, step: f64, wobble: f64) {
        for i in 0..frames {
            let (x, w) = (f64::from(i) * step, 40.0 + wobble * f64::from(i % 2));
            h.next_frame();
            h.advance(0, f64::from(i) / 10.0);
            let d = tracked(&[(1, BBox::new(x, 0.0, x + w, 80.0))]);
            h.see(&d.boxes[0], f64::from(i) / 10.0);
        }
    }

    #[test]
    fn steady_walk_has_no_surprise() {
        let mut h = History::default();
        walk(&mut h, 30, 5.0, 0.0);
        let r = h.get(TrackId(1)).unwrap();
        assert_eq!((r.seen, r.continuity()), (30, 1.0));
        assert!((r.age_s() - 2.9).abs() < 1e-9);
        assert!(r.surprise < 1e-9 && r.size_change < 1e-9, "{r:?}");
    }

    #[test]
    fn wobbling_box_has_size_change() {
        let mut h = History::default();
        walk(&mut h, 30, 5.0, 20.0);
        assert!(h.get(TrackId(1)).unwrap().size_change > 0.1);
    }

    #[test]
    fn gaps_lower_continuity() {
        let mut h = History::default();
        walk(&mut h, 5, 5.0, 0.0);
        for _ in 0..5 {
            h.next_frame();
        }
        walk(&mut h, 1, 5.0, 0.0);
        assert!(h.get(TrackId(1)).unwrap().continuity() < 0.6);
    }

    #[test]
    fn missed_frames_lower_the_recent_score_more_than_early_ones_do() {
        let mut h = History::default();
        let mut recent_after = |missed: u32| {
            (0..missed).for_each(|_| h.next_frame());
            walk(&mut h, 1, 5.0, 0.0);
            h.get(TrackId(1)).unwrap().recent_score
        };
        let score = recent_after(0);
        let at_once = recent_after(10);
        assert!(at_once < score / 2.0, "{at_once} of {score}");
        let later = (0..30).map(|_| recent_after(0)).last().unwrap();
        assert!(later > 0.99 * score, "{later} of {score}");
    }

    #[test]
    fn held_box_adds_no_sighting_and_no_age() {
        let mut h = History::default();
        walk(&mut h, 3, 5.0, 0.0);
        let before = h.get(TrackId(1)).unwrap().clone();
        let mut d = tracked(&[(1, BBox::new(10.0, 0.0, 50.0, 80.0))]);
        d.boxes[0].held = true;
        for n in 3..100 {
            h.see(&d.boxes[0], f64::from(n) / 10.0);
        }
        assert_eq!(h.get(TrackId(1)), Some(&before));
    }

    /// Frames of the good sights of an object with these widths, ten frames a second.
    fn good_frames(widths: impl IntoIterator<Item = f64>) -> Vec<u64> {
        let mut h = History::default();
        let mut show = |(frame, width): (u64, f64)| {
            h.next_frame();
            h.advance(frame, frame as f64 / 10.0);
            let d = tracked(&[(1, BBox::new(0.0, 0.0, width, 80.0))]);
            h.see(&d.boxes[0], frame as f64 / 10.0);
            let good = h.get(TrackId(1)).unwrap().good;
            assert!(good.bbox.width() >= width);
            good.frame
        };
        (0..).zip(widths).map(&mut show).collect()
    }

    #[test]
    fn good_sight_of_an_object_that_leaves_is_before_it_is_cut() {
        let widths = [50.0, 60.0, 60.0, 58.0, 40.0, 25.0, 10.0];
        assert_eq!(good_frames(widths), [0, 1, 2, 3, 3, 3, 3]);
    }

    #[test]
    fn good_sight_of_an_object_that_stays_small_is_the_latest() {
        let widths = std::iter::once(60.0).chain([30.0; 40]);
        let good = good_frames(widths);
        assert_eq!((good[5], good[40]), (0, 40));
    }

    #[test]
    fn label_is_the_most_frequent_class() {
        let mut h = History::default();
        for class in ["dog", "person", "person"] {
            let mut d = tracked(&[(1, BBox::new(0.0, 0.0, 9.0, 9.0))]);
            d.boxes[0].class = class.into();
            h.next_frame();
            h.see(&d.boxes[0], 0.0);
        }
        assert_eq!(h.get(TrackId(1)).unwrap().label(), "person");
    }

    /// The surprise of a walker at a constant speed, 25 frames a second, seen at `times`.
    fn surprise(times: &[f64]) -> f64 {
        let mut h = History::default();
        for (n, &time) in times.iter().enumerate() {
            let x = n as f64 * 3.0;
            h.next_frame();
            h.advance(0, time);
            let d = tracked(&[(1, BBox::new(x, 0.0, x + 40.0, 80.0))]);
            h.see(&d.boxes[0], time);
        }
        h.get(TrackId(1)).unwrap().surprise
    }

    #[test]
    fn times_in_pairs_make_a_steady_walk_no_surprise() {
        let at = |n: u32| f64::from(n / 2) * 0.08 + f64::from(n % 2) * 1e-6;
        let times: Vec<f64> = (0..50).map(at).collect();
        assert!(surprise(&times) < 0.001, "{}", surprise(&times));
    }

    proptest! {
        #[test]
        fn steady_walk_stays_unsurprising_whatever_the_time_stamps_do(
            repeats in 1usize..6,
            reorder in any::<bool>(),
            burst in 1usize..4,
            jitter in proptest::collection::vec(-0.3f64..0.3, 100),
        ) {
            let times: Vec<f64> = (0..100)
                .map(|n| n / repeats * repeats)
                .map(|n| if (50..50 + burst).contains(&n) { 50 + burst } else { n })
                .map(|n| if reorder && n % 4 < 2 { n ^ 1 } else { n })
                .map(|n| (n as f64 + jitter[n.min(99)]) * 0.04)
                .collect();
            let surprise = surprise(&times);
            // Of the evidence's ten percent, less than a sixth is lost.
            prop_assert!((-4.0 * surprise).exp() > 0.84, "{}", surprise);
        }
    }
}
