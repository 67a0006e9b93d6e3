//! Rotates pictures until their edges are vertical or horizontal.

use image::imageops;
use watchkeeper_vision::imaging::{skew, warp};

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/auto_rotate_on_edges@v1",
    summary: "Rotates a picture until most of its edges are vertical or horizontal.",
    properties: &[
        IMAGE,
        Property::choice("target_orientation", &names_of(&ORIENTATIONS), "vertical")
            .about("target direction of the edges; either is the nearer one"),
        Property::number("skip_below_degrees", 0.4)
            .about("degrees of tilt below which the picture is unchanged"),
        Property::number("max_correction_degrees", 90.0)
            .about("degrees of tilt above which the picture is unchanged"),
        Property::count("internal_resolution", 1000)
            .about("pixels of the longer side when looking for edges"),
    ],
    outputs: &[
        Output::new("image", &[Kind::Image]),
        Output::new("angle", &[Kind::Float]),
    ],
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("classical_computer_vision")
}];

/// Degrees of the direction across upright edges, and the degrees after which it repeats. Across a
/// vertical edge the brightness changes from left to right.
const ORIENTATIONS: [(&str, (f64, f64)); 3] = [
    ("vertical", (0.0, 180.0)),
    ("horizontal", (90.0, 180.0)),
    ("either", (0.0, 90.0)),
];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("image"))?;
    let (level, period) = call.choice(arg!("target_orientation"), &ORIENTATIONS)?;
    let least = call.number(arg!("skip_below_degrees"))?;
    let most = call.number(arg!("max_correction_degrees"))?;
    let side = call.integer_in(arg!("internal_resolution"), 1..=u32::MAX.into())?;
    let across = skew::across_edges(&small(&image.pixels.rgb(), side));
    let tilt = across.map(|angle| {
        let angle = (angle - level).rem_euclid(period);
        if angle > period / 2.0 {
            angle - period
        } else {
            angle
        }
    });
    match tilt.filter(|tilt| (least..=most).contains(&tilt.abs())) {
        Some(tilt) => {
            let size = turned_size(image.size(), tilt);
            let upright = image.changed(size, move |pixels| turned(pixels, tilt, size));
            call.put(0, upright);
            call.put(1, tilt);
        }
        None => {
            call.put(0, call.arg(arg!("image")).clone());
            call.put(1, 0.0);
        }
    }
    Ok(())
}

/// Brightness of a picture whose longer side is at most `side`.
fn small(pixels: &super::super::RgbPixels, side: u32) -> Plane {
    let grey = imaging::grey(pixels);
    let (width, height) = grey.dimensions();
    let longer = width.max(height);
    if longer <= side {
        return Plane::from(&grey);
    }
    let scale = f64::from(side) / f64::from(longer);
    let scaled = |n: u32| ((f64::from(n) * scale).round() as u32).max(1);
    Plane::from(&imageops::thumbnail(&grey, scaled(width), scaled(height)))
}

/// Size of the picture that holds a rotated one.
fn turned_size([width, height]: [u32; 2], degrees: f64) -> [u32; 2] {
    let (sine, cosine) = degrees.to_radians().sin_cos();
    let (sine, cosine) = (sine.abs(), cosine.abs());
    let [w, h] = [width, height].map(f64::from);
    let whole = |n: f64| (n as u32).max(1);
    [whole(h * sine + w * cosine), whole(h * cosine + w * sine)]
}

/// Rotates a picture anticlockwise; uncovered pixels are black.
fn turned(
    pixels: &super::super::RgbPixels,
    degrees: f64,
    size: [u32; 2],
) -> super::super::RgbPixels {
    let (sine, cosine) = degrees.to_radians().sin_cos();
    let middle = [pixels.width / 2, pixels.height / 2].map(f64::from);
    let new_middle = size.map(|n| f64::from(n) / 2.0);
    warp::sampled(pixels, size, |p| {
        let (dx, dy) = (p.x - new_middle[0], p.y - new_middle[1]);
        Point::new(
            middle[0] + cosine * dx - sine * dy,
            middle[1] + sine * dx + cosine * dy,
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::super::super::tests::bench::{Bench, picture};
    use super::Kind;

    /// Rotates stripes tilted clockwise by so many degrees from vertical.
    fn stripes(tilt: f64, extra: &Json) -> (f64, [u64; 2]) {
        let mut step =
            json!({"type": "roboflow_core/auto_rotate_on_edges@v1", "image": "$inputs.image"});
        for (key, value) in extra.as_object().unwrap() {
            step[key] = value.clone();
        }
        let (sine, cosine) = tilt.to_radians().sin_cos();
        let frame = picture(1, [160, 120], |x, y| {
            let along = f64::from(x) * cosine + f64::from(y) * sine;
            let light = 125.0 + 95.0 * (along * std::f64::consts::TAU / 20.0).sin();
            [light as u8; 3]
        });
        let mut bench = Bench::new(step, &[("image", Kind::Image)]);
        let out = bench.feed(&[("image", frame)]).unwrap();
        let size = ["width", "height"].map(|side| out["image"][side].as_u64().unwrap());
        (out["angle"].as_f64().unwrap(), size)
    }

    #[test]
    fn tilted_stripes_are_rotated() {
        let (angle, [width, height]) = stripes(10.0, &json!({}));
        assert!((angle - 10.0).abs() < 2.0, "{angle}");
        assert!(width > 170 && height > 140, "{width}x{height}");
        let (angle, _) = stripes(10.0, &json!({"target_orientation": "horizontal"}));
        assert!((angle + 80.0).abs() < 2.0, "{angle}");
        let (angle, _) = stripes(70.0, &json!({"target_orientation": "either"}));
        assert!((angle + 20.0).abs() < 2.0, "{angle}");
    }

    #[test]
    fn straight_or_far_tilted_picture_is_unchanged() {
        assert_eq!(stripes(0.0, &json!({})), (0.0, [160, 120]));
        let most = json!({"max_correction_degrees": 5});
        assert_eq!(stripes(10.0, &most), (0.0, [160, 120]));
    }
}
