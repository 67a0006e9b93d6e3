//! Which new tracks continue lost ones: the same object under another track id.
//!
//! - A track that begins where a lost one is expected, with about its size, is the same object. A
//!   person never continues a vehicle, nor a vehicle a person.
//!   Every other track is a separate object.
//! - A lost track has at most one successor: the first new track that is near enough, which takes
//!   the nearest lost one. If it is found again, it is another object from then on: no two boxes of
//!   a frame are one object.
//! - A tracker does not do this itself: in a crowd it would exchange neighbours. A counter only
//!   asks whether somebody went on, and an exchange of neighbours changes no count.
//! - Bounded by [`Recent`]; pure.

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::TrackId;

use super::recent::Recent;
use crate::detections::{Detection, Detections};
use crate::geometry::{BBox, Point};
use crate::numbers::mix;
use crate::track::SmoothClock;
use crate::track::class_group::Kind;

const MAX_TRACKS: usize = 4096;
/// Frames after which an unseen track is forgotten: longer than trackers remember one by default.
const MAX_FRAMES_UNSEEN: u64 = 512;
/// Seconds after which a lost track has no successor.
const LONGEST_GAP_S: f64 = 2.0;
/// Longest prediction of a lost track's place, in seconds.
const LONGEST_PREDICTION_S: f64 = 0.5;
/// Farthest distance of a successor from the expected place, in sizes of the lost box.
const FARTHEST: f64 = 0.75;
/// Lowest ratio of the sizes of both boxes.
const LEAST_RATIO: f64 = 0.5;
/// Weight of the latest velocity in its running mean.
const LATEST: f64 = 0.3;

/// An object: a track with its successors. Numbered from 1 in each [`Succession`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectId(pub u64);

/// Tracks, lost ones included, by the object they belong to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Succession {
    tracks: Recent<Seen>,
    #[serde(default)]
    clock: SmoothClock,
    last_object: u64,
    /// Object of each box of the latest frame; reuses its memory.
    #[serde(skip)]
    objects: Vec<Option<ObjectId>>,
}

/// The latest sight of a track.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Seen {
    bbox: BBox,
    #[serde(default)]
    kind: Kind,
    /// Of the centre, in pixels a second.
    velocity: Point,
    last_s: f64,
    object: ObjectId,
    is_succeeded: bool,
}

impl Default for Succession {
    fn default() -> Self {
        Self {
            tracks: Recent::new(MAX_TRACKS),
            clock: SmoothClock::default(),
            last_object: 0,
            objects: Vec::new(),
        }
    }
}

impl Succession {
    /// Processes a frame at `time_s` seconds of source time. Returns the object of each box; `None`
    /// for a box without a track.
    pub fn observe(&mut self, detections: &Detections, time_s: f64) -> &[Option<ObjectId>] {
        self.observe_boxes(detections.boxes.iter(), time_s)
    }

    /// Like [`observe`](Self::observe), with the boxes in another form.
    pub fn observe_boxes<'a>(
        &mut self,
        boxes: impl Iterator<Item = &'a Detection> + Clone,
        time_s: f64,
    ) -> &[Option<ObjectId>] {
        let time_s = self.clock.next(time_s);
        self.tracks.next_round(MAX_FRAMES_UNSEEN);
        self.objects.clear();
        // Known tracks first, so that none of them is taken for a lost one.
        for d in boxes.clone() {
            let known = track_of(d).and_then(|track| self.tracks.touch(track));
            self.objects.push(known.map(|seen| {
                if seen.is_succeeded {
                    self.last_object += 1;
                    seen.object = ObjectId(self.last_object);
                    seen.is_succeeded = false;
                }
                if d.held {
                    seen.hold(time_s);
                } else {
                    seen.advance(d, time_s);
                }
                seen.object
            }));
        }
        for (d, object) in boxes.zip(&mut self.objects) {
            if let (None, Some(track)) = (*object, track_of(d)) {
                let new = begin(&mut self.tracks, &mut self.last_object, d, time_s);
                *object = Some(new.object);
                self.tracks.touch_or_insert(track, new);
            }
        }
        &self.objects
    }

    /// Seconds since the first frame, without the camera's repeats of time stamps.
    pub fn now_s(&self) -> f64 {
        self.clock.now_s()
    }

    /// The object of each box of the latest frame, see [`observe`](Self::observe).
    pub fn objects(&self) -> &[Option<ObjectId>] {
        &self.objects
    }

    /// The object of a track seen before.
    pub fn object(&self, track: TrackId) -> Option<ObjectId> {
        self.tracks.get(track).map(|seen| seen.object)
    }
}

fn track_of(d: &Detection) -> Option<TrackId> {
    d.track.filter(|track| track.0 >= 0)
}

/// The first sight of a new track: of a lost object, or of a new one.
fn begin(tracks: &mut Recent<Seen>, last_object: &mut u64, d: &Detection, time_s: f64) -> Seen {
    let lost = succeeded(tracks, d, time_s).and_then(|lost| tracks.touch(lost));
    let (object, velocity) = if let Some(lost) = lost {
        lost.is_succeeded = true;
        (lost.object, lost.velocity)
    } else {
        *last_object += 1;
        (ObjectId(*last_object), Point::default())
    };
    Seen {
        bbox: d.bbox,
        kind: Kind::of(d),
        velocity,
        last_s: time_s,
        object,
        is_succeeded: false,
    }
}

/// The lost track whose expected place is nearest to a new track's box.
fn succeeded(tracks: &Recent<Seen>, d: &Detection, time_s: f64) -> Option<TrackId> {
    let kind = Kind::of(d);
    let mut best = None;
    for (track, seen) in tracks.iter().filter(|(_, seen)| seen.kind.may_be(kind)) {
        let Some(distance) = seen.distance(&d.bbox, time_s) else {
            continue;
        };
        if best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, track));
        }
    }
    best.map(|(_, track)| track)
}

impl Seen {
    /// Nothing moved: it still stands where it was.
    fn hold(&mut self, time_s: f64) {
        self.velocity = Point::default();
        self.last_s = time_s;
    }

    fn advance(&mut self, d: &Detection, time_s: f64) {
        let dt = time_s - self.last_s;
        let (before, now) = (self.bbox.center(), d.bbox.center());
        self.bbox = d.bbox;
        self.kind = Kind::of(d);
        self.last_s = time_s;
        if dt > 0.0 {
            mix(&mut self.velocity.x, (now.x - before.x) / dt, LATEST);
            mix(&mut self.velocity.y, (now.y - before.y) / dt, LATEST);
        }
    }

    /// Distance of a new track's box from the place where this one is expected, in sizes; `None`
    /// if it can't be its successor.
    fn distance(&self, bbox: &BBox, time_s: f64) -> Option<f64> {
        let gap_s = time_s - self.last_s;
        if self.is_succeeded || !(gap_s > 0.0 && gap_s <= LONGEST_GAP_S) {
            return None;
        }
        let size = self.bbox.area().sqrt();
        let ratio = (bbox.area() / self.bbox.area()).sqrt();
        let ahead = gap_s.min(LONGEST_PREDICTION_S);
        let (from, to) = (self.bbox.center(), bbox.center());
        let expected = Point::new(
            from.x + self.velocity.x * ahead,
            from.y + self.velocity.y * ahead,
        );
        let distance = (to.x - expected.x).hypot(to.y - expected.y) / size;
        let fits = distance <= FARTHEST && ratio.min(1.0 / ratio) >= LEAST_RATIO;
        fits.then_some(distance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detections::testing::tracked;
    use proptest::prelude::*;

    fn at(track: i64, x: f64) -> (i64, BBox) {
        (track, BBox::new(x, 100.0, x + 40.0, 180.0))
    }

    /// Objects of the last of some frames, ten a second.
    fn objects(frames: &[&[(i64, BBox)]]) -> Vec<Option<u64>> {
        let mut succession = Succession::default();
        let mut last = Vec::new();
        for (n, frame) in frames.iter().enumerate() {
            let found = succession.observe(&tracked(frame), n as f64 / 10.0);
            last = found.iter().map(|o| o.map(|o| o.0)).collect();
        }
        last
    }

    #[test]
    fn track_that_begins_where_another_was_lost_is_the_same_object() {
        let walk = |track: i64, n: i64| [at(track, n as f64 * 8.0)];
        let frames: Vec<[(i64, BBox); 1]> = (0..10).map(|n| walk(1, n)).collect();
        let mut frames: Vec<&[(i64, BBox)]> = frames.iter().map(|f| &f[..]).collect();
        let hidden: [&[(i64, BBox)]; 3] = [&[]; 3];
        frames.extend(hidden);
        let (back, later) = (walk(7, 13), walk(9, 14));
        frames.push(&back);
        assert_eq!(objects(&frames), [Some(1)]);
        frames.push(&later);
        assert_eq!(objects(&frames), [Some(1)], "a third id of the same object");
    }

    #[test]
    fn track_lost_after_a_long_hold_is_continued() {
        let mut succession = Succession::default();
        succession.observe(&tracked(&[at(1, 0.0)]), 0.0);
        let mut held = tracked(&[at(1, 0.0)]);
        held.boxes[0].held = true;
        for second in 1..=30 {
            succession.observe(&held, f64::from(second));
        }
        succession.observe(&tracked(&[at(2, 0.0)]), 31.0);
        assert_eq!(succession.object(TrackId(2)), succession.object(TrackId(1)));
    }

    #[test]
    fn track_beside_a_visible_one_is_another_object() {
        assert_eq!(
            objects(&[&[at(1, 0.0)], &[at(1, 0.0), at(2, 10.0)]]),
            [Some(1), Some(2)]
        );
    }

    #[test]
    fn distant_or_differently_sized_track_is_another_object() {
        let far = at(2, 100.0);
        let small = (3, BBox::new(15.0, 130.0, 25.0, 150.0));
        for new in [far, small] {
            assert_eq!(objects(&[&[at(1, 0.0)], &[], &[new]]), [Some(2)]);
        }
    }

    #[test]
    fn person_continues_no_vehicle_and_no_vehicle_a_person() {
        for (before, after, is_one) in [
            ("car", "person", false),
            ("person", "Vehicle", false),
            ("car", "truck", true),
            ("bicycle", "person", true),
            ("dog", "cat", true),
        ] {
            let mut succession = Succession::default();
            for (n, class) in [before, after].into_iter().enumerate() {
                let mut frame = tracked(&[at(n as i64, 0.0)]);
                frame.boxes[0].class = class.into();
                succession.observe(&frame, n as f64 / 10.0);
            }
            let [first, second] = [0, 1].map(|track| succession.object(TrackId(track)));
            assert_eq!(first == second, is_one, "{before}, {after}");
        }
    }

    #[test]
    fn lost_track_has_one_successor() {
        let both = [at(2, 2.0), at(3, 4.0)];
        assert_eq!(objects(&[&[at(1, 0.0)], &[], &both]), [Some(1), Some(2)]);
    }

    #[test]
    fn lost_track_found_beside_its_successor_is_another_object() {
        let frames: [&[(i64, BBox)]; 4] = [
            &[at(1, 0.0)],
            &[],
            &[at(2, 2.0)],
            &[at(1, 30.0), at(2, 4.0)],
        ];
        assert_eq!(objects(&frames), [Some(2), Some(1)]);
    }

    #[test]
    fn track_lost_for_long_has_no_successor() {
        let (first, last) = ([at(1, 0.0)], [at(2, 0.0)]);
        let mut frames: Vec<&[(i64, BBox)]> = vec![&first];
        frames.extend([&[] as &[(i64, BBox)]; 20]);
        frames.push(&last);
        assert_eq!(objects(&frames), [Some(2)]);
    }

    proptest! {
        #[test]
        fn no_two_boxes_of_a_frame_are_one_object(
            frames in proptest::collection::vec(
                proptest::collection::btree_map(0i64..6, (0.0f64..300.0, 5.0f64..80.0), 0..5),
                1..40,
            )
        ) {
            let mut succession = Succession::default();
            for (n, frame) in frames.iter().enumerate() {
                let boxes: Vec<(i64, BBox)> = frame
                    .iter()
                    .map(|(&t, &(x, w))| (t, BBox::new(x, 0.0, x + w, 2.0 * w)))
                    .collect();
                let found = succession.observe(&tracked(&boxes), n as f64 / 10.0);
                let distinct: std::collections::BTreeSet<_> = found.iter().collect();
                prop_assert_eq!(distinct.len(), boxes.len());
            }
        }

        #[test]
        fn any_number_is_harmless(v in proptest::collection::vec(proptest::num::f64::ANY, 10)) {
            let mut succession = Succession::default();
            succession.observe(&tracked(&[(1, BBox::new(v[0], v[1], v[2], v[3]))]), v[4]);
            succession.observe(&tracked(&[]), v[4]);
            succession.observe(&tracked(&[(2, BBox::new(v[5], v[6], v[7], v[8]))]), v[9]);
        }
    }
}
