//! Compares two pictures by SIFT keypoints.

use image::{RgbImage, imageops};
use watchkeeper_vision::imaging::sift::good_matches;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::sift_points;
use crate::workflow::blocks::common::sift_points::Found;

const ENOUGH: Property =
    Property::count("good_matches_threshold", 50).about("minimum number of matches");
const RATIO: (&str, &str) = (
    "ratio_threshold",
    "ratio test: a match counts if its distance is below this share of the second nearest",
);
const COUNT: Output = Output::new("good_matches_count", &[Kind::Integer]);
const MATCH: Output = Output::new("images_match", &[Kind::Boolean]);

const BASE: Manifest = Manifest {
    summary: "Compares two pictures by matching keypoints (SIFT).",
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("classical_computer_vision")
};

pub(super) const BLOCKS: &[Manifest] = &[
    BASE.version(
        "roboflow_core/sift_comparison@v1",
        &[
            Property::data("descriptor_1", &[Kind::NumpyArray])
                .about("keypoints of the first picture"),
            Property::data("descriptor_2", &[Kind::NumpyArray]).about("points of the other"),
            ENOUGH,
            Property::value_or(RATIO.0, NUMBER, Or::Float(0.7))
                .about(RATIO.1)
                .kinds(&[Kind::Integer]),
        ],
        &[COUNT, MATCH],
    ),
    BASE.version(
        "roboflow_core/sift_comparison@v2",
        &[
            Property::data("input_1", &[Kind::Image, Kind::NumpyArray])
                .about("the first picture, or its keypoints"),
            Property::data("input_2", &[Kind::Image, Kind::NumpyArray])
                .about("the second picture, or its keypoints"),
            ENOUGH,
            Property::value_or(RATIO.0, NUMBER, Or::Float(0.7))
                .about(RATIO.1)
                .kinds(&[Kind::FloatZeroToOne]),
            Property::one_of("matcher", &["FlannBasedMatcher", "BFMatcher"])
                .without_effect("kept for compatibility: matches are exact"),
            Property::boolean("visualize", false).about("whether to draw keypoints and matches"),
        ],
        &[
            COUNT,
            MATCH,
            Output::new("keypoints_1", &[Kind::ImageKeypoints]),
            Output::new("descriptors_1", &[Kind::NumpyArray]),
            Output::new("keypoints_2", &[Kind::ImageKeypoints]),
            Output::new("descriptors_2", &[Kind::NumpyArray]),
            Output::new("visualization_1", &[Kind::Image]),
            Output::new("visualization_2", &[Kind::Image]),
            Output::new("visualization_matches", &[Kind::Image]),
        ],
    ),
];

/// Maximum pairs of keypoints to compare.
const MAX_PAIRS: usize = 25_000_000;
/// Width of a drawn match in pixels.
const LINE: f64 = 1.0;

/// One side of the comparison: a picture with its keypoints, or descriptors.
struct Side<'a> {
    seen: Option<(&'a Arc<ImageValue>, Found)>,
    descriptors: Value,
}

impl<'a> Side<'a> {
    fn from_value(value: &'a Value) -> Result<Self, String> {
        let seen = match value {
            Value::Image(image) => Some((image, sift_points::find(image)?)),
            Value::Array(_) | Value::Null => None,
            other => {
                return Err(format!(
                    "a picture or an array expected, got {}",
                    other.what()
                ));
            }
        };
        let descriptors = seen
            .as_ref()
            .map(|(_, found)| sift_points::descriptors(found));
        Ok(Self {
            descriptors: descriptors.unwrap_or_else(|| value.clone()),
            seen,
        })
    }

    fn rows(&self) -> Vec<&[f32]> {
        let Value::Array(array) = &self.descriptors else {
            return Vec::new();
        };
        match Array::shape(array) {
            [_, width] if *width > 0 => array.data().chunks_exact(*width).collect(),
            _ => Vec::new(),
        }
    }
}

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let sides = [
        Side::from_value(call.arg(arg!("descriptor_1" | "input_1")))?,
        Side::from_value(call.arg(arg!("descriptor_2" | "input_2")))?,
    ];
    let enough = call.integer(arg!("good_matches_threshold"))?;
    let ratio = call.number(arg!("ratio_threshold"))?;
    let [ours, theirs] = [sides[0].rows(), sides[1].rows()];
    if ours.len().saturating_mul(theirs.len()) > MAX_PAIRS {
        return Err(format!(
            "{} and {} keypoints are too many to compare; make the pictures smaller with \
             image_preprocessing",
            ours.len(),
            theirs.len()
        ));
    }
    let good = good_matches(&ours, &theirs, ratio);
    let could = ours.len() > 1 && theirs.len() > 1;
    let count = i64::try_from(good.len()).unwrap_or(i64::MAX);
    call.put(0, count);
    call.put(1, could && count >= enough);
    if call.out.len() <= 2 {
        return Ok(());
    }
    let is_drawn = call.boolean(arg!("visualize"))?;
    for (number, side) in sides.iter().enumerate() {
        if let Some((image, found)) = &side.seen {
            call.put(2 + 2 * number, sift_points::list(found));
            if is_drawn {
                call.put(6 + number, sift_points::drawn(image, found));
            }
        }
        call.put(3 + 2 * number, side.descriptors.clone());
    }
    if let [Some((left, ours)), Some((right, theirs))] = sides.each_ref().map(|s| s.seen.as_ref())
        && is_drawn
        && could
    {
        let place = |found: &Found, i: usize| found.get(i).map(|(k, _)| k.point());
        let ends = |[i, j]: &[usize; 2]| Some((place(ours, *i)?, place(theirs, *j)?));
        let lines: Vec<_> = good.iter().filter_map(ends).collect();
        call.put(8, beside(left, right, lines));
    }
    Ok(())
}

/// Both pictures side by side, with a line for each match.
fn beside(left: &ImageValue, right: &Arc<ImageValue>, lines: Vec<(Point, Point)>) -> ImageValue {
    let ([width, height], [more, other]) = (left.size(), right.size());
    let size = [width.saturating_add(more), height.max(other)];
    let right = Arc::clone(right);
    left.changed(size, move |pixels| {
        let mut both = RgbImage::new(size[0], size[1]);
        imageops::replace(&mut both, &imaging::picture(pixels), 0, 0);
        let other = imaging::picture(&right.pixels.rgb());
        imageops::replace(&mut both, &other, pixels.width.into(), 0);
        let mut out = imaging::pixels(both);
        let mut canvas = Canvas::on(&mut out);
        for (from, to) in &lines {
            let to = Point::new(to.x + f64::from(pixels.width), to.y);
            canvas.segment(*from, to, Color::new(0, 255, 0), LINE, 1.0);
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::super::super::Value;
    use super::super::super::tests::bench::{Bench, picture};
    use super::Kind;

    /// Blobs of several sizes, shifted.
    fn blobs(dx: f64, dy: f64) -> Value {
        let spots = [
            (20.0, 24.0, 4.0),
            (50.0, 30.0, 6.0),
            (34.0, 54.0, 3.0),
            (60.0, 62.0, 5.0),
        ];
        picture(1, [90, 90], move |x, y| {
            let light = spots.map(|(cx, cy, r)| {
                let (ax, ay) = (f64::from(x) - cx - dx, (f64::from(y) - cy - dy) * 1.4);
                (-(ax * ax + ay * ay) / (2.0 * r * r)).exp() * 40.0 * r
            });
            [light.iter().sum::<f64>().min(255.0) as u8; 3]
        })
    }

    fn compared(extra: &Json, second: Value) -> Json {
        let mut step = json!({"type": "roboflow_core/sift_comparison@v2", "input_1": "$inputs.a",
            "input_2": "$inputs.b", "good_matches_threshold": 4});
        for (key, value) in extra.as_object().unwrap() {
            step[key] = value.clone();
        }
        let mut bench = Bench::new(step, &[("a", Kind::Image), ("b", Kind::Image)]);
        bench
            .feed(&[("a", blobs(0.0, 0.0)), ("b", second)])
            .unwrap()
    }

    #[test]
    fn moved_picture_matches_and_empty_one_does_not() {
        let moved = compared(&json!({}), blobs(7.0, -5.0));
        assert_eq!(moved["images_match"], json!(true), "{moved}");
        let empty = compared(&json!({}), picture(1, [90, 90], |_, _| [90; 3]));
        assert_eq!(empty["images_match"], json!(false));
        assert_eq!(empty["good_matches_count"], json!(0));
        assert_eq!(empty["descriptors_2"], json!(null));
        assert_eq!(empty["visualization_matches"], json!(null));
    }

    #[test]
    fn matches_are_drawn_on_both_pictures_if_requested() {
        let drawn = compared(&json!({"visualize": true}), blobs(7.0, -5.0));
        assert_eq!(drawn["visualization_matches"]["width"], json!(180));
        assert_eq!(drawn["visualization_1"]["width"], json!(90));
    }
}
