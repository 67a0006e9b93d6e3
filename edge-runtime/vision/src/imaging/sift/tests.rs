//! Keypoints of a turned and enlarged picture, and matches.

use std::cmp::Ordering;

use super::*;

/// Blobs of several sizes, rotated by `degrees` around the centre.
fn blobs(degrees: f32, size: usize) -> Plane {
    let spots = [
        (30.0, 34.0, 5.0, 150.0),
        (66.0, 40.0, 8.0, 90.0),
        (44.0, 70.0, 3.5, 200.0),
        (72.0, 76.0, 6.0, 120.0),
        (58.0, 58.0, 4.0, 60.0),
    ];
    let (sine, cosine) = degrees.to_radians().sin_cos();
    let scale = 100.0 / real(signed(size));
    Plane::from_fn(size, size, |x, y| {
        let [dx, dy] = [x, y].map(|n| (real(signed(n)) + 0.5) * scale - 50.0);
        let (x, y) = (
            50.0 + dx * cosine + dy * sine,
            50.0 - dx * sine + dy * cosine,
        );
        let light = spots.iter().map(|(cx, cy, r, height)| {
            let (dx, dy) = (x - cx, (y - cy) * 1.3);
            height * (-(dx * dx + dy * dy) / (2.0 * r * r)).exp()
        });
        u8::try_from(whole(light.sum::<f32>().min(255.0))).unwrap_or(255)
    })
}

fn rows(found: &[(Keypoint, Descriptor)]) -> Vec<Vec<f32>> {
    let row = |(_, d): &(Keypoint, Descriptor)| d.iter().map(|v| f32::from(*v)).collect();
    found.iter().map(row).collect()
}

#[test]
fn points_are_found_in_turned_and_enlarged_picture() {
    let (upright, turned) = (features(&blobs(0.0, 100)), features(&blobs(30.0, 150)));
    assert!(upright.len() >= 5, "{}", upright.len());
    let [ours, theirs] = [&upright, &turned].map(|found| rows(found));
    let good = good_matches(&ours, &theirs, 0.8);
    let (sine, cosine) = 30_f32.to_radians().sin_cos();
    let is_right = |[i, j]: &&[usize; 2]| {
        let [x, y] = upright[*i].0.place.map(|n| n + 0.5 - 50.0);
        let wanted = [x * cosine - y * sine, x * sine + y * cosine].map(|n| n * 1.5 + 74.5);
        let place = turned[*j].0.place;
        (place[0] - wanted[0]).hypot(place[1] - wanted[1]) < 2.5
    };
    let right = good.iter().filter(is_right).count();
    assert!(right >= 4 && right * 2 > good.len(), "{right} of {good:?}");
}

#[test]
fn points_come_sorted_and_each_once() {
    let found = features(&blobs(10.0, 120));
    let is_before = |w: &[(Keypoint, Descriptor)]| order(&w[0].0, &w[1].0) == Ordering::Less;
    assert!(found.windows(2).all(is_before));
}

#[test]
fn a_flat_a_tiny_and_a_huge_picture_have_no_points() {
    for (width, height) in [(0, 0), (1, 1), (3, 50), (64, 64), (2048, 2048)] {
        assert!(features(&Plane::from_fn(width, height, |_, _| 77)).is_empty());
    }
}

#[test]
fn a_match_has_to_be_much_nearer_than_the_next() {
    let [a, b, c, d] = [[0.0_f32; 4], [10.0; 4], [0.5; 4], [10.0, 10.0, 10.0, 9.0]];
    assert_eq!(good_matches(&[&a, &b], &[&c, &b], 0.7), [[0, 0], [1, 1]]);
    assert_eq!(good_matches(&[&a, &b], &[&d, &b], 0.7), [[1, 1]]);
    assert!(good_matches(&[&a], &[&a, &b], 0.7).is_empty());
}
