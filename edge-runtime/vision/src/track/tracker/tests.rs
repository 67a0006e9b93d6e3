//! Tests of our own tracker.

use super::*;
use crate::detections::testing::tracked;
use proptest::prelude::*;

const FRAME_S: f64 = 1.0 / 30.0;

/// Untracked boxes with score and class.
fn boxes(of: &[(BBox, f64, i64)]) -> Detections {
    let places: Vec<_> = of.iter().map(|b| (0, b.0)).collect();
    let mut d = tracked(&places);
    for (b, &(_, score, class_id)) in d.boxes.iter_mut().zip(of) {
        (b.track, b.confidence, b.class_id) = (None, score, class_id);
    }
    d
}

/// A box of 40×80 pixels.
fn at(x: f64, y: f64) -> BBox {
    BBox::new(x, y, x + 40.0, y + 80.0)
}

/// Boxes of 40×80 pixels with a good score.
fn people(places: &[(f64, f64)]) -> Detections {
    let all: Vec<_> = places.iter().map(|&(x, y)| (at(x, y), 0.9, 0)).collect();
    boxes(&all)
}

/// The id of each box, 0 for none.
fn ids(t: &mut Tracker, d: &Detections) -> Vec<i64> {
    let found = t.identify(d, None);
    found.iter().map(|id| id.map_or(0, |id| id.0)).collect()
}

fn ids_at(t: &mut Tracker, d: &Detections, time_s: f64) -> Vec<i64> {
    let found = t.identify(d, Some(time_s));
    found.iter().map(|id| id.map_or(0, |id| id.0)).collect()
}

fn tracker() -> Tracker {
    Tracker::new(TrackerConfig::default())
}

/// A tracker that has known one person at (100, 50) for a second, and the time of its last frame.
fn settled() -> (Tracker, f64) {
    let mut t = tracker();
    for i in 0..=30 {
        ids_at(&mut t, &people(&[(100.0, 50.0)]), f64::from(i) * FRAME_S);
    }
    (t, 1.0)
}

#[test]
fn an_object_keeps_its_id_while_it_moves() {
    let mut t = tracker();
    for i in 0..90 {
        let x = 100.0 + 3.0 * f64::from(i);
        let found = ids(&mut t, &people(&[(x, 50.0), (500.0 - x / 2.0, 200.0)]));
        assert_eq!(found, [1, 2], "frame {i}");
    }
}

#[test]
fn first_objects_are_reported_at_once_later_ones_if_lasting() {
    let mut t = tracker();
    assert_eq!(ids(&mut t, &people(&[(100.0, 50.0)])), [1]);
    let two = people(&[(100.0, 50.0), (400.0, 50.0)]);
    for _ in 0..4 {
        assert_eq!(ids(&mut t, &two), [1, 0]);
    }
    assert_eq!(ids(&mut t, &two), [1, 2]);
}

#[test]
fn a_box_that_comes_and_goes_is_never_reported() {
    let (mut t, _) = settled();
    for i in 0..60 {
        let flicker = people(&[(100.0, 50.0), (400.0, 50.0)]);
        let d = if i % 3 == 2 {
            people(&[(100.0, 50.0)])
        } else {
            flicker
        };
        assert_eq!(ids(&mut t, &d).get(1).copied().unwrap_or(0), 0);
    }
}

#[test]
fn at_a_slow_rate_two_frames_are_enough() {
    let config = TrackerConfig {
        frame_rate: 5.0,
        ..TrackerConfig::default()
    };
    let mut t = Tracker::new(config);
    ids(&mut t, &people(&[]));
    assert_eq!(ids(&mut t, &people(&[(100.0, 50.0)])), [0]);
    assert_eq!(ids(&mut t, &people(&[(100.0, 50.0)])), [1]);
}

#[test]
fn quick_object_is_followed_at_a_low_rate() {
    // By 1.1 widths a frame.
    let mut t = Tracker::new(TrackerConfig {
        frame_rate: 5.0,
        ..TrackerConfig::default()
    });
    ids(&mut t, &people(&[]));
    let frames = (0..8).map(|n| ids(&mut t, &people(&[(100.0 + 44.0 * f64::from(n), 50.0)])));
    assert_eq!(
        frames.flatten().collect::<Vec<_>>(),
        [0, 1, 1, 1, 1, 1, 1, 1]
    );
}

#[test]
fn a_poor_box_carries_a_track_on_but_begins_none() {
    let (mut t, _) = settled();
    let d = boxes(&[(at(101.0, 50.0), 0.3, 0), (at(400.0, 50.0), 0.3, 0)]);
    for _ in 0..30 {
        assert_eq!(ids(&mut t, &d), [1, 0]);
    }
}

#[test]
fn track_of_poor_boxes_is_reported_with_its_first_good_one() {
    let (mut t, _) = settled();
    let seen = |score| boxes(&[(at(100.0, 50.0), 0.9, 0), (at(400.0, 50.0), score, 0)]);
    for _ in 0..9 {
        assert_eq!(ids(&mut t, &seen(0.4)), [1, 0]);
    }
    assert_eq!(ids(&mut t, &seen(0.5)), [1, 2]);
}

#[test]
fn unreported_track_may_miss_a_frame_unless_rows_decide() {
    for (fewest_sights, confirm_s, missed, expected) in [
        (2, 0.125, 1, 2),
        (2, 0.125, 2, 0),
        (5, 0.0, 0, 2),
        (5, 0.0, 1, 0),
    ] {
        let (mut t, _) = settled();
        t.set_config(TrackerConfig {
            fewest_sights,
            confirm_s,
            ..TrackerConfig::default()
        });
        let one = people(&[(100.0, 50.0)]);
        let two = people(&[(100.0, 50.0), (400.0, 50.0)]);
        (0..4).for_each(|_| assert_eq!(ids(&mut t, &two), [1, 0]));
        (0..missed).for_each(|_| assert_eq!(ids(&mut t, &one), [1]));
        assert_eq!(ids(&mut t, &two), [1, expected], "missed {missed} times");
    }
}

#[test]
fn scores_weigh_relative_to_the_activation() {
    let found = |activation| {
        let mut t = Tracker::new(TrackerConfig {
            activation,
            ..TrackerConfig::default()
        });
        let seen = |x: f64| boxes(&[(at(x, 50.0), 0.25, 0)]);
        ids(&mut t, &seen(100.0));
        ids(&mut t, &seen(120.0))
    };
    assert_eq!(found(0.5), [0]);
    assert_eq!(found(0.2), [1]);
}

#[test]
fn vehicle_split_among_classes_starts_track_by_joint_score() {
    let seen = |classes: &[&str]| {
        let all: Vec<_> = (0..)
            .zip(classes)
            .map(|(n, _)| (at(100.0, 50.0), 0.35, n))
            .collect();
        let mut d = boxes(&all);
        for (b, &class) in d.boxes.iter_mut().zip(classes) {
            b.class = class.into();
        }
        ids(&mut tracker(), &d)
    };
    assert_eq!(seen(&["car"]), [0]);
    // 1 - 0.65³ = 0.73
    assert_eq!(seen(&["car", "truck", "bus"]), [1, 0, 0]);
    assert_eq!(seen(&["car", "person", "dog"]), [0, 0, 0]);
}

#[test]
fn hidden_object_is_found_again_only_within_buffer() {
    for (hidden, expected) in [(1, true), (29, true), (45, false)] {
        let (mut t, _) = settled();
        for _ in 0..hidden {
            ids(&mut t, &people(&[]));
        }
        let mut found = vec![];
        for _ in 0..6 {
            found = ids(&mut t, &people(&[(100.0, 50.0)]));
        }
        assert_eq!(found == [1], expected, "hidden for {hidden} frames");
    }
}

#[test]
fn a_walker_behind_a_pillar_comes_out_with_the_same_id() {
    let mut t = tracker();
    let mut found = vec![];
    for i in 0..90 {
        let d = people(&[(100.0 + 4.0 * f64::from(i), 50.0)]);
        let is_hidden = (45..60).contains(&i);
        let d = if is_hidden { people(&[]) } else { d };
        found = ids(&mut t, &d);
    }
    assert_eq!(found, [1]);
}

#[test]
fn two_that_pass_each_other_keep_their_ids() {
    let mut t = tracker();
    let mut found = vec![];
    for i in 0..120 {
        let step = 3.0 * f64::from(i);
        found = ids(
            &mut t,
            &people(&[(100.0 + step, 50.0), (460.0 - step, 70.0)]),
        );
    }
    assert_eq!(found, [1, 2]);
}

#[test]
fn a_box_whose_class_changes_keeps_its_id() {
    let mut t = tracker();
    for i in 0..30 {
        let place = at(100.0 + 3.0 * f64::from(i), 50.0);
        let found = ids(&mut t, &boxes(&[(place, 0.9, i64::from(i % 3))]));
        assert_eq!(found, [1], "frame {i}");
    }
}

#[test]
fn a_rider_and_the_bicycle_at_the_same_place_keep_their_ids() {
    let mut t = tracker();
    for i in 0..60 {
        let x = 100.0 + 3.0 * f64::from(i);
        let (rider, bicycle) = ((at(x, 50.0), 0.9, 0), (at(x + 2.0, 54.0), 0.8, 1));
        let turned = i % 2 == 1;
        let d = if turned {
            [bicycle, rider]
        } else {
            [rider, bicycle]
        };
        let mut found = ids(&mut t, &boxes(&d));
        if turned {
            found.reverse();
        }
        assert_eq!(found, [1, 2], "frame {i}");
    }
}

#[test]
fn a_camera_that_turns_at_once_loses_nobody() {
    let row: Vec<(f64, f64)> = (0..6)
        .map(|n| (60.0 + 90.0 * f64::from(n), 100.0))
        .collect();
    let shifted = |by: f64| -> Vec<(f64, f64)> { row.iter().map(|&(x, y)| (x + by, y)).collect() };
    let mut t = tracker();
    for _ in 0..30 {
        ids(&mut t, &people(&row));
    }
    // Half a box per frame.
    for i in 1..=12 {
        let found = ids(&mut t, &people(&shifted(22.0 * f64::from(i))));
        assert_eq!(found, [1, 2, 3, 4, 5, 6], "frame {i}");
    }
}

#[test]
fn one_that_starts_among_many_at_rest_keeps_its_id() {
    let mut t = tracker();
    let (mut x, mut v) = (100.0, 0.0);
    for i in 0..420 {
        let jitter = |n: usize| ((i * 7 + n * 3) % 5) as f64 - 2.0;
        let still = (1..9).map(|n| (100.0 + jitter(n), 100.0 * n as f64 + jitter(n + 1)));
        // Ten seconds at rest, then within half a second up to two sizes a second.
        v = if i < 300 {
            0.0
        } else {
            f64::min(v + 8.0, 120.0)
        };
        x += v * FRAME_S;
        let seen: Vec<_> = std::iter::once((x + jitter(0), 0.0)).chain(still).collect();
        assert_eq!(
            ids(&mut t, &people(&seen)),
            [1, 2, 3, 4, 5, 6, 7, 8, 9],
            "frame {i}"
        );
    }
}

#[test]
fn outage_longer_than_buffer_ends_all_tracks() {
    for (away_s, expected) in [(0.7, 1), (600.0, 0)] {
        let (mut t, at) = settled();
        let found = ids_at(&mut t, &people(&[(100.0, 50.0)]), at + away_s);
        assert_eq!(found, [expected], "away for {away_s} s");
    }
}

#[test]
fn a_pipeline_that_looks_every_five_seconds_keeps_its_tracks() {
    let mut t = tracker();
    for i in 0..20 {
        let found = ids_at(&mut t, &people(&[(100.0, 50.0)]), f64::from(i) * 5.0);
        assert_eq!(found, [1], "look {i}");
    }
}

#[test]
fn looks_every_five_seconds_may_miss_an_object_twice() {
    for (missed, expected) in [(2, 1), (3, 0)] {
        let mut t = tracker();
        let mut found = vec![];
        for i in 0..20 {
            let is_missed = (19 - missed..19).contains(&i);
            let d = people(if is_missed { &[] } else { &[(100.0, 50.0)] });
            found = ids_at(&mut t, &d, f64::from(i) * 5.0);
        }
        assert_eq!(found, [expected], "missed {missed} times");
    }
}

#[test]
fn time_that_stands_still_or_goes_back_counts_as_usual() {
    let (mut t, at) = settled();
    let walk = |i: i32| people(&[(100.0 + 2.0 * f64::from(i), 50.0)]);
    for (i, time) in (1..).zip([at, at, at - 50.0, at - 60.0, f64::NAN, at - 60.0]) {
        assert_eq!(ids_at(&mut t, &walk(i), time), [1], "time {time}");
    }
}

#[test]
fn boxes_that_are_only_held_keep_their_tracks_and_prove_nothing() {
    let (mut t, mut time) = settled();
    let seen = people(&[(100.0, 50.0), (400.0, 50.0)]);
    assert_eq!(ids_at(&mut t, &seen, time + FRAME_S), [1, 0]);
    let mut held = seen.clone();
    for b in &mut held.boxes {
        b.held = true;
    }
    for _ in 0..300 {
        time += FRAME_S;
        assert_eq!(ids_at(&mut t, &held, time), [1, 0]);
    }
    // No detector looked, so the second box is still new.
    assert_eq!(ids_at(&mut t, &seen, time + FRAME_S), [1, 0]);
}

#[test]
fn boxes_leave_as_they_came() {
    let (mut t, at) = settled();
    let d = people(&[(103.0, 51.0), (400.0, 50.0)]);
    let out = t.update(&d, Some(at + FRAME_S));
    let mut wanted = d.boxes[0].clone();
    wanted.track = Some(TrackId(1));
    assert_eq!(out.boxes, [wanted]);
    assert_eq!(out.size, d.size);
}

#[test]
fn crowd_beyond_bounds_is_followed_up_to_capacity() {
    let mut t = tracker();
    let crowd: Vec<(f64, f64)> = (0..MAX_TRACKS + 10)
        .map(|n| ((n % 100) as f64 * 50.0, (n / 100) as f64 * 100.0))
        .collect();
    let found = ids(&mut t, &people(&crowd));
    let reported = found.iter().filter(|&&id| id > 0).count();
    assert_eq!(reported, MAX_TRACKS);
}

/// Frames of up to seven boxes that meet.
fn frames() -> impl Strategy<Value = Vec<Vec<(f64, f64, f64, i64)>>> {
    let one = (0.0f64..300.0, 0.0f64..200.0, 0.05f64..1.0, 0i64..2);
    proptest::collection::vec(proptest::collection::vec(one, 0..8), 1..40)
}

fn as_boxes(frame: &[(f64, f64, f64, i64)], scale: f64) -> Detections {
    let of: Vec<_> = frame
        .iter()
        .map(|&(x, y, score, class)| {
            let (b, s) = (at(x, y), scale);
            (
                BBox::new(b.x1 * s, b.y1 * s, b.x2 * s, b.y2 * s),
                score,
                class,
            )
        })
        .collect();
    boxes(&of)
}

proptest! {
    #[test]
    fn the_same_frames_give_the_same_ids_each_once_a_frame(frames in frames()) {
        let (mut a, mut b) = (tracker(), tracker());
        for frame in &frames {
            let d = as_boxes(frame, 1.0);
            let found = ids(&mut a, &d);
            prop_assert_eq!(&found, &ids(&mut b, &d));
            let mut reported: Vec<_> = found.into_iter().filter(|&id| id > 0).collect();
            let n = reported.len();
            reported.sort_unstable();
            reported.dedup();
            prop_assert_eq!(reported.len(), n);
        }
    }

    #[test]
    fn a_picture_of_another_size_is_followed_alike(frames in frames()) {
        // Powers of two scale without rounding.
        let (mut small, mut large) = (tracker(), tracker());
        for frame in &frames {
            let found = ids(&mut small, &as_boxes(frame, 1.0));
            prop_assert_eq!(found, ids(&mut large, &as_boxes(frame, 4.0)));
        }
    }

    #[test]
    fn steady_objects_keep_their_tracks_whatever_the_time_stamps_do(
        speeds in proptest::collection::vec(-6.0f64..6.0, 1..6),
        repeats in 1usize..6,
        reorder in any::<bool>(),
        burst in 1usize..4,
        jitter in proptest::collection::vec(-0.3f64..0.3, 100),
    ) {
        let mut t = tracker();
        for n in 0..100 {
            let seen: Vec<_> = (0..).zip(&speeds)
                .map(|(lane, v)| (1000.0 + v * n as f64, 100.0 * f64::from(lane)))
                .collect();
            let shown = n / repeats * repeats;
            let shown = if (50..50 + burst).contains(&shown) { 50 + burst } else { shown };
            let shown = if reorder && shown % 4 < 2 { shown ^ 1 } else { shown };
            let time = (shown as f64 + jitter[shown.min(99)]) / 25.0;
            let wanted: Vec<i64> = (1..).take(speeds.len()).collect();
            prop_assert_eq!(ids_at(&mut t, &people(&seen), time), wanted, "frame {}", n);
        }
    }

    #[test]
    fn no_number_and_no_time_does_harm(
        frames in proptest::collection::vec(
            (proptest::collection::vec(
                (proptest::array::uniform5(proptest::num::f64::ANY), 0.0f64..300.0, any::<bool>()), 0..8),
             proptest::num::f64::ANY), 1..30),
    ) {
        let mut t = tracker();
        let good = people(&[(1000.0, 1000.0)]);
        for (frame, time) in frames {
            let mut d = good.clone();
            for (wild, x, is_wild) in frame {
                let [x1, y1, x2, y2, score] = wild;
                let b = if is_wild { (BBox::new(x1, y1, x2, y2), score, 0) } else { (at(x, 50.0), 0.9, 0) };
                d.boxes.extend(boxes(&[b]).boxes);
            }
            let found = ids_at(&mut t, &d, time);
            prop_assert_eq!(found.len(), d.boxes.len());
        }
        // The tracker still works afterwards.
        let mut found = vec![];
        for i in 0..10 {
            found = ids_at(&mut t, &good, 1e6 + f64::from(i) * FRAME_S);
        }
        prop_assert!(found[0] > 0, "{:?}", found);
    }
}
