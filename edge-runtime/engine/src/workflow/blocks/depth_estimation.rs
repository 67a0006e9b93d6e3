//! Estimates relative depth.

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::color_maps::{VIRIDIS, color_at, stretched};

const MODELS: &[&str] = &[
    "depth-anything-v2/small",
    "depth-anything-v3/small",
    "depth-anything-v3/base",
    "yolo26n-depth-768",
    "yolo26s-depth-768",
    "yolo26m-depth-768",
    "yolo26l-depth-768",
    "yolo26x-depth-768",
];

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/depth_estimation@v1",
    summary: "Estimates the relative depth of a picture.",
    role: Role::OtherModel(Task::Depth),
    properties: &[
        IMAGES,
        Property::choice("model_version", MODELS, "depth-anything-v3/small")
            .about("name of the model"),
    ],
    outputs: &[
        Output::new("image", &[Kind::Image]),
        Output::new("normalized_depth", &[Kind::NumpyArray]),
    ],
    batch: &["images"],
    model: |known| known("model_version"),
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("model")
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("images"))?;
    let model_id = call.text(arg!("model_version"))?;
    let depth = call.host.depth(model_id, image)?;
    let depth = Arc::new(stretched(&normalised(&depth)?, image.size())?);
    let shown = Arc::clone(&depth);
    let size = image.size();
    call.finish_all((
        image.with_pixels(lazy(size, move || colours(&shown, size))),
        Value::Array(depth),
    ))
}

/// Scales the numbers to 0 to 1; non-finite ones become 0.
fn normalised(depth: &Array) -> Result<Array, String> {
    let finite = || depth.data().iter().copied().filter(|d| d.is_finite());
    let least = finite().fold(f32::INFINITY, f32::min);
    let most = finite().fold(f32::NEG_INFINITY, f32::max);
    if !(most > least && (most - least).is_finite()) {
        return Err("the model returned one depth for the whole picture, or no numbers".to_owned());
    }
    let unit = |d: &f32| {
        if d.is_finite() {
            (d - least) / (most - least)
        } else {
            0.0
        }
    };
    let data = depth.data().iter().map(unit).collect();
    Array::new(depth.shape().to_vec(), data).ok_or_else(|| "the depth map is incomplete".to_owned())
}

/// Colours a depth map: dark for low numbers, bright for high ones.
fn colours(depth: &Array, [width, height]: [u32; 2]) -> RgbPixels {
    let mut data = Vec::with_capacity(depth.data().len() * 3);
    for d in depth.data() {
        let (color, _) = color_at(VIRIDIS, f64::from(*d));
        data.extend_from_slice(&[color.r, color.g, color.b]);
    }
    RgbPixels {
        width,
        height,
        data,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::super::tests::bench::{Bench, picture};
    use super::*;

    #[test]
    fn depth_is_scaled_to_the_picture_and_to_one() {
        let step = json!({"type": "roboflow_core/depth_estimation@v1", "images": "$inputs.image"});
        let mut bench = Bench::new(step, &[("image", Kind::Image)]);
        bench
            .feed(&[("image", picture(1, [4, 2], |_, _| [5; 3]))])
            .unwrap();
        // The bench's model returns 3 on the left and 7 on the right.
        let Some(Value::Array(depth)) = bench.value("normalized_depth") else {
            panic!("no depth");
        };
        assert_eq!(depth.shape(), [2, 4]);
        assert_eq!(depth.data(), [0.0, 0.25, 0.75, 1.0, 0.0, 0.25, 0.75, 1.0]);
        let Some(Value::Image(shown)) = bench.value("image") else {
            panic!("no picture");
        };
        let rgb = shown.pixels.rgb();
        assert_eq!(rgb.data[..3], [68, 1, 84]);
        assert_eq!(rgb.data[9..12], [253, 231, 37]);
    }

    #[test]
    fn uniform_depth_is_an_error() {
        for data in [vec![2.0; 4], vec![f32::NAN; 4]] {
            let flat = Array::new(vec![2, 2], data).unwrap();
            assert!(
                normalised(&flat)
                    .unwrap_err()
                    .contains("one depth for the whole picture")
            );
        }
    }

    proptest! {
        #[test]
        fn depth_is_between_zero_and_one_for_any_numbers(
            (rows, columns, data) in (1..5_usize, 1..5_usize).prop_flat_map(|(r, c)| {
                (Just(r), Just(c), prop::collection::vec(prop_oneof![-9.0f32..9.0, prop::num::f32::ANY], r * c))
            }),
            size in [1..9_u32, 1..9_u32],
        ) {
            let depth = Array::new(vec![rows, columns], data).unwrap();
            if let Ok(unit) = normalised(&depth) {
                let whole = stretched(&unit, size).unwrap();
                prop_assert!(whole.data().iter().all(|d| (0.0..=1.0).contains(d)), "{:?}", whole.data());
                prop_assert_eq!(colours(&whole, size).data.len(), 3 * (size[0] * size[1]) as usize);
            }
        }
    }
}
