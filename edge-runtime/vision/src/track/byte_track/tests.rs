//! Ids over frames, gaps and outages.

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
fn tracks_of_one_frame_have_ids_in_order_of_reference() {
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
fn hidden_object_is_found_again_only_within_buffer() {
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
fn buffer_is_as_long_with_an_eighth_of_the_frames() {
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
