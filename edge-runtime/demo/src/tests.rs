//! Tests of the rendered street against its ground truth.

use watchkeeper_vision::geometry::{Anchor, Point};

use super::*;

fn options(text: &str) -> DemoOptions {
    DemoOptions::parse(text).expect("valid options")
}

/// FNV-1a over all planes.
fn checksum(picture: &Picture) -> u64 {
    let bytes = (0..3).flat_map(|i| picture.planes.plane(i).data.iter());
    bytes.fold(0xcbf2_9ce4_8422_2325, |h, b| {
        (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[test]
fn same_options_give_the_same_bytes_on_every_machine() {
    let mut renderer = Renderer::new(&DemoOptions::default());
    let sums = [0, 150, 450].map(|index| checksum(&renderer.frame(index)));
    assert_eq!(sums, GOLDEN, "{sums:#x?}");
}

const GOLDEN: [u64; 3] = [
    0xbb3a_b4c4_1652_f11a,
    0xf230_4a9f_55a3_6044,
    0x4307_4522_8137_4a9e,
];

#[test]
fn another_seed_gives_another_crowd_on_the_same_street() {
    let (a, b) = (truth(&options("?seed=1")), truth(&options("?seed=2")));
    assert_ne!(a.frames, b.frames);
}

#[test]
fn a_larger_picture_shows_the_same_scene() {
    let small = truth(&options("?seconds=20"));
    let large = truth(&options("?seconds=20&width=1280&height=720"));
    assert_eq!(small.objects, large.objects);
    for (s, l) in small
        .frames
        .iter()
        .flatten()
        .zip(large.frames.iter().flatten())
    {
        assert!((s.bbox.x1 * 2.0 - l.bbox.x1).abs() < 1e-6);
    }
}

#[test]
fn figures_never_overlap() {
    for seed in 1..6 {
        let truth = truth(&options(&format!("?seconds=40&seed={seed}")));
        for boxes in &truth.frames {
            for (i, a) in boxes.iter().enumerate() {
                for b in &boxes[i + 1..] {
                    assert!(a.bbox.iou(&b.bbox) <= 0.0, "seed {seed}: {a:?} {b:?}");
                }
            }
        }
    }
}

#[test]
fn street_is_empty_for_a_second_and_busy_later() {
    let truth = truth(&DemoOptions::default());
    assert!(truth.frames[..15].iter().all(Vec::is_empty));
    let people = truth.objects.iter().filter(|k| **k == Kind::Person).count();
    let cars = truth.objects.len() - people;
    assert!(people >= 10 && cars >= 8, "{people} people, {cars} cars");
}

#[test]
fn walker_on_near_pavement_crosses_its_line_once() {
    let truth = truth(&DemoOptions::default());
    let line = (Point::new(320.0, 262.0), Point::new(320.0, 360.0));
    let count = truth.crossings(Kind::Person, line.0, line.1);
    assert!(count.r#in + count.out >= 5, "{count:?}");
    let turned = truth.crossings(Kind::Person, line.1, line.0);
    assert_eq!((count.r#in, count.out), (turned.out, turned.r#in));
}

#[test]
fn car_to_the_right_over_downward_line_counts_in() {
    // The left-hand side of a line drawn downwards is the right of the picture.
    let truth = truth(&DemoOptions::default());
    let near = (Point::new(300.0, 200.0), Point::new(300.0, 256.0));
    let count = truth.crossings(Kind::Car, near.0, near.1);
    assert!(count.r#in > 0, "{count:?}");
}

#[test]
fn person_rests_at_the_bench_for_some_seconds() {
    let truth = truth(&DemoOptions::default());
    let zone = [
        (120.0, 300.0),
        (220.0, 300.0),
        (220.0, 345.0),
        (120.0, 345.0),
    ];
    let zone = zone.map(|(x, y)| Point::new(x, y));
    let visits = truth.visits(Kind::Person, &zone, Anchor::BottomCenter);
    assert!(visits.iter().any(|v| v.dwell_s > 5.0), "{visits:?}");
}

#[test]
fn boxes_lie_on_pixels_that_differ_from_the_empty_street() {
    let options = DemoOptions::default();
    let mut renderer = Renderer::new(&options);
    let empty = renderer.frame(0);
    let truth = truth(&options);
    let (index, boxes) = truth
        .frames
        .iter()
        .enumerate()
        .max_by_key(|(_, boxes)| boxes.len())
        .expect("frames");
    let busy = renderer.frame(index as u32);
    let (before, now) = (empty.planes.plane(0), busy.planes.plane(0));
    for b in boxes {
        let mut differs = 0;
        for y in b.bbox.y1 as usize..b.bbox.y2 as usize {
            for x in b.bbox.x1 as usize..b.bbox.x2 as usize {
                let at = y * now.stride + x;
                differs += usize::from(now.data[at].abs_diff(before.data[at]) > 12);
            }
        }
        let part = differs as f64 / b.bbox.area();
        assert!(part > 0.25, "{b:?}: {part}");
    }
}
