//! Stitches two overlapping pictures.

use image::{ImageBuffer, Rgb, RgbImage, imageops};
use watchkeeper_vision::imaging::warp::Perspective;
use watchkeeper_vision::imaging::{align, sift};
use watchkeeper_vision::numbers::average;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::sift_points;
use crate::workflow::blocks::common::sift_points::Found;
use crate::workflow::values::image::Pixels;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/stitch_images@v1",
    summary: "Stitches two overlapping pictures into one; null if they have nothing in common.",
    properties: &[
        Property::data("image1", &[Kind::Image]).about("the first picture"),
        Property::data("image2", &[Kind::Image]).about("the second picture"),
        Property::value_or("max_allowed_reprojection_error", NUMBER, Or::Int(3))
            .about("maximum distance in pixels between matching keypoints")
            .kinds(&[Kind::FloatZeroToOne])
            .nullable(),
        Property::integer("count_of_best_matches_per_query_descriptor", 2)
            .about("number of candidate matches per keypoint, 2 or more")
            .nullable(),
    ],
    outputs: &[Output::new("stitched_image", &[Kind::Image])],
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("transformation")
}];

const MAX_PIXELS: f64 = 16e6;
/// Ratio test: a match counts if its distance is below this share of the second nearest.
const RATIO: f64 = 0.75;

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let [one, other] = [call.image(arg!("image1"))?, call.image(arg!("image2"))?];
    let within = call.number(arg!("max_allowed_reprojection_error"))?.abs();
    let looked_at = call.integer(arg!("count_of_best_matches_per_query_descriptor"))?;
    if looked_at == 0 {
        return Err(
            "count_of_best_matches_per_query_descriptor is 0 and has to be 2 or more".to_owned(),
        );
    }
    let found = [sift_points::find(one)?, sift_points::find(other)?];
    // A single candidate has no second nearest.
    let enough = looked_at.unsigned_abs() > 1;
    let Some(pixels) = enough
        .then(|| joined([one, other], &found, within))
        .flatten()
    else {
        return Ok(());
    };
    let mut out = ImageValue::new(pixels, VideoMeta::clone(&one.meta));
    out.id = Arc::from(format!("{} + {}", one.id, other.id));
    call.finish(out)
}

/// Returns the matching keypoints of both pictures.
fn matching_points(found: &[Found; 2]) -> Vec<(Point, Point)> {
    let rows = found.each_ref().map(|found| {
        let row = |(_, d): &(_, sift::Descriptor)| d.map(f32::from);
        found.iter().map(row).collect::<Vec<[f32; 128]>>()
    });
    let place = |found: &Found, i: usize| found.get(i).map(|(k, _)| k.point());
    let pair = |[i, j]: [usize; 2]| Some((place(&found[0], i)?, place(&found[1], j)?));
    let matches = sift::good_matches(&rows[0], &rows[1], RATIO);
    matches.into_iter().filter_map(pair).collect()
}

/// Combines both pictures on demand; `None` if no transformation is found.
fn joined(
    images: [&Arc<ImageValue>; 2],
    found: &[Found; 2],
    within: f64,
) -> Option<Arc<dyn Pixels>> {
    let mut pairs = matching_points(found);
    let middle = |found: &Found| average(found.iter().map(|(k, _)| k.point().x));
    // The picture whose keypoints lie further to the right stays unchanged.
    let [moving, still] = if middle(&found[0]) < middle(&found[1]) {
        images
    } else {
        pairs.iter_mut().for_each(|(p, q)| std::mem::swap(p, q));
        let [one, other] = images;
        [other, one]
    };
    let homography = align::estimate_homography(&pairs, within)?;
    let ([w1, h1], [w2, h2]) = (still.size().map(f64::from), moving.size().map(f64::from));
    let corners = [(0.0, 0.0), (0.0, h2), (w2, h2), (w2, 0.0)];
    let corners = corners.map(|(x, y)| homography.apply(Point::new(x, y)));
    let least =
        |of: fn(&Point) -> f64| corners.iter().map(of).fold(f64::INFINITY, f64::min).trunc();
    let most = |of: fn(&Point) -> f64| {
        corners
            .iter()
            .map(of)
            .fold(f64::NEG_INFINITY, f64::max)
            .trunc()
    };
    let (left, top) = (least(|p| p.x), least(|p| p.y));
    let (right, bottom) = (most(|p| p.x).max(w1), most(|p| p.y).max(h1));
    let [width, height] = [right - left, bottom - top];
    if !(width >= 1.0 && height >= 1.0 && width * height <= MAX_PIXELS) {
        return None;
    }
    let shift = [(-left).max(0.0), (-top).max(0.0)];
    let size = [width as u32, height as u32];
    let moved = homography.then(&Perspective::moved(shift[0], shift[1]));
    let is_within = shift[0] + w1 <= width && shift[1] + h1 <= height;
    let corner = is_within.then(|| shift.map(|n| n as i64));
    let (moving, still) = (Arc::clone(&moving.pixels), Arc::clone(&still.pixels));
    Some(lazy(size, move || {
        let warped = moved.warp(&moving.rgb(), size).data;
        let mut out = RgbImage::from_raw(size[0], size[1], warped).unwrap_or_default();
        let still = still.rgb();
        let whole = ImageBuffer::<Rgb<u8>, _>::from_raw(still.width, still.height, &*still.data);
        if let Some(([x, y], whole)) = corner.zip(whole) {
            imageops::replace(&mut out, &whole, x, y);
        }
        imaging::pixels(out)
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::super::super::tests::bench::{Bench, picture};
    use super::super::super::{RgbPixels, Value};
    use super::{Arc, Kind, average};

    /// A window of a wall with blobs, shifted to the right.
    fn wall(from: u32) -> Value {
        window(from, 120)
    }

    fn window(from: u32, width: u32) -> Value {
        picture(1, [width, 90], move |x, y| {
            let (x, y) = (f64::from(x + from), f64::from(y));
            let light: f64 = (0..40_u32)
                .map(|i| {
                    let (cx, cy) = (f64::from(i * 67 % 220), f64::from(i * 41 % 90));
                    let r = 2.5 + f64::from(i % 4);
                    let (dx, dy) = (x - cx, (y - cy) * (1.0 + f64::from(i % 3) * 0.3));
                    (60.0 + f64::from(i * 13 % 90)) * (-(dx * dx + dy * dy) / (2.0 * r * r)).exp()
                })
                .sum();
            [light.min(255.0) as u8; 3]
        })
    }

    fn bench(extra: &Json) -> Bench {
        let mut step = json!({"type": "roboflow_core/stitch_images@v1", "image1": "$inputs.a", "image2": "$inputs.b"});
        for (key, value) in extra.as_object().unwrap() {
            step[key] = value.clone();
        }
        Bench::new(step, &[("a", Kind::Image), ("b", Kind::Image)])
    }

    fn stitched(extra: &Json, second: Value) -> Result<Json, String> {
        bench(extra).feed(&[("a", wall(0)), ("b", second)])
    }

    fn pixels(image: Option<Value>) -> Arc<RgbPixels> {
        match image {
            Some(Value::Image(image)) => image.pixels.rgb(),
            other => panic!("{other:?} is no picture"),
        }
    }

    #[test]
    fn stitched_picture_shows_both_windows() {
        let mut bench = bench(&json!({}));
        bench.feed(&[("a", wall(0)), ("b", wall(50))]).unwrap();
        let joined = pixels(bench.value("stitched_image"));
        let wall = pixels(Some(window(0, 170)));
        let light = |of: &RgbPixels, x: usize, y: usize| {
            let byte = of.data.get((y * of.width as usize + x) * 3);
            f64::from(byte.copied().unwrap_or(0))
        };
        let inner = (10..80).flat_map(|y| (10..160).map(move |x| (x, y)));
        let apart = average(inner.map(|(x, y)| (light(&joined, x, y) - light(&wall, x, y)).abs()));
        assert!(apart < 3.0, "{apart}");
    }

    #[test]
    fn two_windows_of_a_wall_are_stitched() {
        let out = stitched(&json!({}), wall(50)).unwrap();
        let size = ["width", "height"].map(|side| out["stitched_image"][side].as_i64().unwrap());
        assert!(
            (size[0] - 170).abs() <= 2 && (size[1] - 90).abs() <= 2,
            "{size:?}"
        );
    }

    #[test]
    fn pictures_with_nothing_in_common_give_null() {
        let flat = picture(1, [120, 90], |_, _| [90; 3]);
        assert_eq!(
            stitched(&json!({}), flat).unwrap()["stitched_image"],
            json!(null)
        );
        let one = json!({"count_of_best_matches_per_query_descriptor": 1});
        assert_eq!(
            stitched(&one, wall(50)).unwrap()["stitched_image"],
            json!(null)
        );
        let none = json!({"count_of_best_matches_per_query_descriptor": 0});
        assert!(stitched(&none, wall(50)).is_err());
    }
}
