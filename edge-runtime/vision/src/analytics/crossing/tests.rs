//! Tests of the crossing counter.

use super::*;
use crate::detections::testing::tracked;
use proptest::prelude::*;

const FPS: f64 = 10.0;

/// A line at y = 200 from left to right, crossed by the foot: up is in.
fn line() -> CrossingCounter {
    let (start, end) = (Point::new(100.0, 200.0), Point::new(500.0, 200.0));
    CrossingCounter::new(start, end, Anchor::BottomCenter)
}

/// A person of 20 × 50 pixels with this foot.
fn person(track: i64, x: f64, foot: f64) -> (i64, BBox) {
    (track, BBox::new(x - 10.0, foot - 50.0, x + 10.0, foot))
}

/// Counts in and out after frames of boxes, ten a second.
fn counts(frames: &[Vec<(i64, BBox)>]) -> (u64, u64) {
    let mut line = line();
    for (n, frame) in frames.iter().enumerate() {
        line.update(&tracked(frame), n as f64 / FPS);
    }
    (line.count_in(), line.count_out())
}

/// One person whose foot goes through these heights, at x = 300.
fn walk(feet: &[f64]) -> Vec<Vec<(i64, BBox)>> {
    let frames = feet.iter().map(|&foot| vec![person(1, 300.0, foot)]);
    frames.collect()
}

fn steps(from: f64, to: f64, by: f64) -> Vec<f64> {
    let count = ((to - from).abs() / by) as usize;
    let way = (to - from).signum() * by;
    (0..=count).map(|n| from + way * n as f64).collect()
}

#[test]
fn object_beyond_band_at_end_of_source_has_crossed() {
    let finish = |feet: &[f64], unseen: u32| {
        let mut line = line();
        for n in 0..feet.len() as u32 + unseen {
            let seen = feet.get(n as usize).map(|&foot| person(1, 300.0, foot));
            let frame = seen.into_iter().collect::<Vec<_>>();
            line.update(&tracked(&frame), f64::from(n) / FPS);
        }
        assert_eq!(line.count_in(), 0, "before the end");
        let depths = line.finish().crossed_in.iter().map(|c| c.depth);
        let depths: Vec<_> = depths.collect();
        assert_eq!(line.count_in(), depths.len() as u64);
        assert!(line.finish().crossed_in.is_empty(), "once");
        depths
    };
    let over = [steps(260.0, 194.0, 6.0), vec![188.0]].concat();
    assert_eq!(finish(&over, 0), [Some(1.2)]);
    assert_eq!(
        finish(&over, 1),
        [],
        "lost, which decides nothing before the end either"
    );
    assert_eq!(finish(&steps(260.0, 197.0, 6.0), 0), [], "in the band");
}

#[test]
fn walk_over_the_line_counts_once_each_way() {
    let up = steps(260.0, 140.0, 4.0);
    assert_eq!(counts(&walk(&up)), (1, 0));
    let back = steps(140.0, 260.0, 4.0);
    assert_eq!(counts(&walk(&[up, back].concat())), (1, 1));
}

/// Depths of the crossings in frames of boxes, ten a second.
fn depths(frames: &[Vec<(i64, BBox)>]) -> Vec<Option<f64>> {
    let mut line = line();
    let mut depths = Vec::new();
    for (n, frame) in frames.iter().enumerate() {
        let crossed = line.update(&tracked(frame), n as f64 / FPS);
        let both = crossed.crossed_in.iter().chain(&crossed.crossed_out);
        depths.extend(both.map(|crossing| crossing.depth));
    }
    depths
}

#[test]
fn depth_is_distance_before_line_since_last_crossing() {
    let there_and_back = [steps(260.0, 140.0, 4.0), steps(140.0, 260.0, 4.0)].concat();
    // The farthest point before the line, in boxes of 50 pixels.
    assert_eq!(depths(&walk(&there_and_back)), [Some(1.2), Some(1.2)]);
}

#[test]
fn way_around_the_end_begins_a_new_depth() {
    let around = steps(350.0, 190.0, 4.0).into_iter().map(|y| (520.0, y));
    let beside = steps(520.0, 300.0, 4.0).into_iter().map(|x| (x, 190.0));
    let back = steps(190.0, 230.0, 4.0).into_iter().map(|y| (300.0, y));
    let places = around.chain(beside).chain(back);
    let frames = places.map(|(x, y)| vec![person(1, x, y)]);
    // 10 pixels before the line on the second way, in boxes of 50 pixels.
    assert_eq!(depths(&frames.collect::<Vec<_>>()), [Some(0.2)]);
}

#[test]
fn another_track_on_the_far_side_has_no_depth() {
    let feet = steps(260.0, 140.0, 4.0);
    let frames = feet.iter().map(|&foot| {
        let track = if foot > 200.0 { 1 } else { 2 };
        vec![person(track, 300.0, foot)]
    });
    assert_eq!(depths(&frames.collect::<Vec<_>>()), [Some(0.0)]);
}

#[test]
fn foot_crosses_while_the_head_is_still_on_the_other_side() {
    let feet = [steps(170.0, 215.0, 5.0), vec![215.0; 10]].concat();
    assert_eq!(counts(&walk(&feet)), (0, 1));
}

#[test]
fn rocking_on_the_line_is_one_crossing() {
    let rocking = [212.0, 190.0, 211.0, 189.0, 213.0, 190.0].map(|foot| vec![foot; 5]);
    let feet = [steps(260.0, 190.0, 5.0), rocking.concat()].concat();
    assert_eq!(counts(&walk(&feet)), (1, 0));
    let gone_back = [feet, steps(190.0, 260.0, 5.0)].concat();
    assert_eq!(counts(&walk(&gone_back)), (1, 1));
}

#[test]
fn box_that_is_cut_for_a_moment_does_not_cross() {
    let feet = [vec![215.0; 10], vec![190.0; 2], vec![215.0; 10]].concat();
    assert_eq!(counts(&walk(&feet)), (0, 0));
}

#[test]
fn two_moments_beyond_the_line_do_not_add_up() {
    let moment = [vec![192.0], vec![203.0; 50]].concat();
    let feet = [vec![215.0; 50], moment.clone(), moment].concat();
    assert_eq!(counts(&walk(&feet)), (0, 0));
}

#[test]
fn who_appears_beyond_the_end_of_the_line_does_not_cross_it() {
    let away = steps(198.0, 120.0, 4.0);
    let frames = away.iter().map(|&foot| vec![person(1, 560.0, foot)]);
    assert_eq!(counts(&frames.collect::<Vec<_>>()), (0, 0));
    // At the border of the picture, beside the line's extension.
    let frames = steps(205.0, 259.0, 3.0);
    let frames = frames.iter().map(|&foot| vec![person(1, 9.0, foot)]);
    assert_eq!(counts(&frames.collect::<Vec<_>>()), (0, 0));
}

#[test]
fn object_unseen_on_the_way_over_is_counted_when_it_is_back() {
    let mut frames = walk(&steps(280.0, 230.0, 5.0));
    frames.extend(vec![Vec::new(); 100]);
    frames.extend(walk(&steps(170.0, 120.0, 5.0)));
    assert_eq!(counts(&frames), (1, 0));
}

#[test]
fn change_of_track_id_on_the_line_is_counted() {
    let feet = steps(260.0, 140.0, 4.0);
    let frames = feet.iter().map(|&foot| {
        let track = if foot > 200.0 { 1 } else { 2 };
        vec![person(track, 300.0, foot)]
    });
    assert_eq!(counts(&frames.collect::<Vec<_>>()), (1, 0));
}

#[test]
fn way_around_the_end_of_the_line_is_no_crossing() {
    let around = steps(260.0, 140.0, 4.0);
    let frames = around.iter().map(|&foot| vec![person(1, 520.0, foot)]);
    assert_eq!(counts(&frames.collect::<Vec<_>>()), (0, 0));
}

/// Feet of somebody at the right border of the picture of 640 × 480, beside a line there.
fn at_border(xs: &[f64]) -> (u64, u64) {
    let (start, end) = (Point::new(630.0, 0.0), Point::new(630.0, 480.0));
    let mut line = CrossingCounter::new(start, end, Anchor::BottomCenter);
    for n in 0..xs.len() + 20 {
        let x = xs.get(n);
        let boxes: Vec<(i64, BBox)> = x.map(|&x| person(1, x, 300.0)).into_iter().collect();
        line.update(&tracked(&boxes), n as f64 / FPS);
    }
    (line.count_in(), line.count_out())
}

#[test]
fn object_entering_picture_on_line_counts_by_direction() {
    assert_eq!(at_border(&steps(632.0, 560.0, 4.0)), (0, 1));
}

#[test]
fn object_leaving_picture_on_line_counts_by_direction() {
    assert_eq!(at_border(&steps(560.0, 630.0, 5.0)), (1, 0));
}

#[test]
fn who_stands_at_the_border_and_is_lost_there_does_not_count() {
    let feet = [steps(560.0, 630.0, 5.0), vec![630.0; 50]].concat();
    assert_eq!(at_border(&feet), (0, 0));
}

#[test]
fn who_is_held_at_the_border_has_not_gone() {
    let (start, end) = (Point::new(630.0, 0.0), Point::new(630.0, 480.0));
    let mut line = CrossingCounter::new(start, end, Anchor::BottomCenter);
    for (n, x) in steps(560.0, 630.0, 5.0).into_iter().enumerate() {
        line.update(&tracked(&[person(1, x, 300.0)]), n as f64 / FPS);
    }
    let mut held = tracked(&[person(1, 630.0, 300.0)]);
    held.boxes[0].held = true;
    for n in 15..100 {
        line.update(&held, f64::from(n) / FPS);
    }
    assert_eq!((line.count_in(), line.count_out()), (0, 0));
}

#[test]
fn held_and_untracked_boxes_change_nothing() {
    let mut line = line();
    for (n, foot) in steps(260.0, 140.0, 4.0).into_iter().enumerate() {
        let mut d = tracked(&[person(1, 300.0, foot), person(2, 400.0, foot)]);
        d.boxes[0].held = true;
        d.boxes[1].track = None;
        line.update(&d, n as f64 / FPS);
    }
    assert_eq!((line.count_in(), line.count_out()), (0, 0));
}

proptest! {
    #[test]
    fn counts_of_one_object_differ_by_at_most_one(
        path in proptest::collection::vec((100.0f64..500.0, 100.0f64..300.0), 1..120)
    ) {
        let mut line = line();
        for (n, (x, foot)) in path.into_iter().enumerate() {
            line.update(&tracked(&[person(1, x, foot)]), n as f64 / FPS);
            prop_assert!(line.count_in().abs_diff(line.count_out()) <= 1);
        }
    }

    #[test]
    fn walk_is_counted_at_every_size_and_frame_rate(
        scale in 0.2f64..5.0, fps in 2.0f64..60.0, jitter in 0.0f64..0.04, seed: u64
    ) {
        let mut random = fastrand::Rng::with_seed(seed);
        let at = |v: f64| v * scale;
        let (start, end) = (Point::new(0.0, at(200.0)), Point::new(at(640.0), at(200.0)));
        let mut line = CrossingCounter::new(start, end, Anchor::BottomCenter);
        let frames = (6.0 * fps) as u32;
        for n in 0..=frames {
            let foot = 260.0 - 120.0 * f64::from(n) / f64::from(frames);
            let foot = foot + 50.0 * jitter * (2.0 * random.f64() - 1.0);
            let (_, b) = person(1, 300.0, foot);
            let b = BBox::new(at(b.x1), at(b.y1), at(b.x2), at(b.y2));
            line.update(&tracked(&[(1, b)]), f64::from(n) / fps);
        }
        prop_assert_eq!((line.count_in(), line.count_out()), (1, 0));
    }

    #[test]
    fn any_number_is_harmless(v in proptest::collection::vec(proptest::num::f64::ANY, 14)) {
        let (start, end) = (Point::new(v[0], v[1]), Point::new(v[2], v[3]));
        let mut line = CrossingCounter::new(start, end, Anchor::Center);
        line.update(&tracked(&[(1, BBox::new(v[4], v[5], v[6], v[7]))]), v[8]);
        line.update(&tracked(&[(1, BBox::new(v[9], v[10], v[11], v[12]))]), v[13]);
    }
}
