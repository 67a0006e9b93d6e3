//! Resizes, rotates or flips pictures.

use image::imageops::{self, FilterType};
use image::{Rgb, RgbImage};

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::picture_filter;
use crate::workflow::values::image::Packed;

/// Maximum side of a resulting picture in pixels.
const MAX_SIDE: u32 = 16_384;

type Flip = fn(&RgbImage) -> RgbImage;

const FLIPS: [(&str, Flip); 3] = [
    ("vertical", imageops::flip_vertical),
    ("horizontal", imageops::flip_horizontal),
    ("both", imageops::rotate180),
];

#[derive(Debug, Clone, Copy)]
enum Operation {
    Resize,
    Rotate,
    Flip,
}

const TASKS: [(&str, Operation); 3] = [
    ("resize", Operation::Resize),
    ("rotate", Operation::Rotate),
    ("flip", Operation::Flip),
];

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/image_preprocessing@v1",
    summary: "Resizes, rotates or flips a picture.",
    properties: &[
        IMAGE.about("the picture to change"),
        Property::literal("task_type", Shape::Choice(&names_of(&TASKS))).about("the operation"),
        Property::count("width", 640).about("width in pixels, to resize"),
        Property::count("height", 640).about("height in pixels, to resize"),
        Property::integer("rotation_degrees", 90)
            .about("degrees to rotate counter-clockwise, -360 to 360"),
        Property::choice("flip_type", &names_of(&FLIPS), "vertical").about("direction of the flip"),
    ],
    build: |_| Ok(Box::new(run)),
    ..picture_filter::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("image"))?;
    let task = call.choice(arg!("task_type"), &TASKS)?;
    let rgb = image.pixels.rgb();
    let picture = RgbImage::from_raw(rgb.width, rgb.height, rgb.data.clone())
        .ok_or("the picture has no pixels")?;
    let changed = match task {
        Operation::Resize => {
            let [now_width, now_height] = image.size().map(i64::from);
            // An omitted side keeps the aspect ratio.
            let follow = |open: i64, given: i64, now: i64| open.saturating_mul(given) / now.max(1);
            let given_width = call.optional(arg!("width"), Call::integer)?;
            let given_height = call.optional(arg!("height"), Call::integer)?;
            let asked = given_height.unwrap_or(now_height);
            let width = given_width.unwrap_or(follow(now_width, asked, now_height));
            let height = given_height.unwrap_or(follow(now_height, width, now_width));
            let side = |n: i64, name: &str| {
                let n = u32::try_from(n).ok().filter(|n| (1..=MAX_SIDE).contains(n));
                n.ok_or_else(|| format!("{name} has to be from 1 to {MAX_SIDE} pixels"))
            };
            let (width, height) = (side(width, "width")?, side(height, "height")?);
            imageops::resize(&picture, width, height, FilterType::Triangle)
        }
        Operation::Rotate => {
            let degrees = call.integer_in(arg!("rotation_degrees"), -360..=360)?;
            turn(&picture, degrees)
        }
        Operation::Flip => call.choice(arg!("flip_type"), &FLIPS)?(&picture),
    };
    let pixels = Arc::new(imaging::pixels(changed));
    call.finish(image.with_pixels(Arc::new(Packed(pixels))))
}

/// Rotates counter-clockwise on a canvas that holds the whole picture; uncovered corners are black.
fn turn(picture: &RgbImage, degrees: i64) -> RgbImage {
    match (-degrees).rem_euclid(360) {
        0 => return picture.clone(),
        90 => return imageops::rotate90(picture),
        180 => return imageops::rotate180(picture),
        270 => return imageops::rotate270(picture),
        _ => {}
    }
    let angle = (-degrees as f64).to_radians();
    let (sin, cos) = angle.sin_cos();
    let (w, h) = (f64::from(picture.width()), f64::from(picture.height()));
    let width = (h * sin.abs() + w * cos.abs()) as u32;
    let height = (h * cos.abs() + w * sin.abs()) as u32;
    RgbImage::from_fn(width, height, |x, y| {
        // Original position of this pixel's centre.
        let dx = f64::from(x) + 0.5 - f64::from(width) / 2.0;
        let dy = f64::from(y) + 0.5 - f64::from(height) / 2.0;
        let from = [
            dx * cos + dy * sin + w / 2.0 - 0.5,
            dy * cos - dx * sin + h / 2.0 - 0.5,
        ];
        let sample = imageops::interpolate_bilinear(picture, from[0] as f32, from[1] as f32);
        sample.unwrap_or(Rgb([0, 0, 0]))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::super::super::Value;
    use super::super::super::tests::bench::{Bench, picture};
    use super::Kind;

    /// Size and first pixel of the result for a picture whose left half is white.
    fn changed(extra: &Json) -> Result<(u32, u32, u8), String> {
        let mut step =
            json!({"type": "roboflow_core/image_preprocessing@v1", "image": "$inputs.image"});
        for (key, value) in extra.as_object().unwrap() {
            step[key] = value.clone();
        }
        let mut bench = Bench::new(step, &[("image", Kind::Image)]);
        let frame = picture(1, [8, 4], |x, _| [if x < 4 { 255 } else { 0 }; 3]);
        bench.feed(&[("image", frame)])?;
        let Some(Value::Image(image)) = bench.value("image") else {
            panic!("no picture");
        };
        let rgb = image.pixels.rgb();
        Ok((rgb.width, rgb.height, rgb.data[0]))
    }

    #[test]
    fn picture_is_resized_rotated_and_flipped() {
        let size = json!({"task_type": "resize", "width": 16, "height": 2});
        assert_eq!(changed(&size), Ok((16, 2, 255)));
        assert_eq!(changed(&json!({"task_type": "rotate"})), Ok((4, 8, 0)));
        let back = json!({"task_type": "rotate", "rotation_degrees": -90});
        assert_eq!(changed(&back), Ok((4, 8, 255)));
        let mirrored = json!({"task_type": "flip", "flip_type": "horizontal"});
        assert_eq!(changed(&mirrored), Ok((8, 4, 0)));
        assert_eq!(changed(&json!({"task_type": "flip"})), Ok((8, 4, 255)));
    }

    #[test]
    fn rotation_keeps_the_whole_picture() {
        let turned = json!({"task_type": "rotate", "rotation_degrees": 45});
        assert_eq!(changed(&turned), Ok((8, 8, 0)));
    }

    #[test]
    fn invalid_sizes_and_angles_are_refused() {
        let why = Bench::refusal(json!({
            "type": "roboflow_core/image_preprocessing@v1", "image": "$inputs.image", "task_type": "resize", "width": 0
        }));
        assert!(why.contains("width"), "{why}");
        assert!(changed(&json!({"task_type": "resize", "width": 1_000_000_000})).is_err());
        assert!(changed(&json!({"task_type": "rotate", "rotation_degrees": 400})).is_err());
    }
}
