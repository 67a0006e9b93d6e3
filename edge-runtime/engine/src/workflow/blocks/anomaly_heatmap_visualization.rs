//! Draws anomaly maps.

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::color_maps::{COLOR_MAPS, color_at, stretched};
use crate::workflow::blocks::common::drawing;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/anomaly_heatmap_visualization@v1",
    summary: "Colours a picture by its anomaly map.",
    properties: &[
        drawing::IMAGE,
        drawing::COPY,
        Property::data("anomaly_map", &[Kind::NumpyArray])
            .about("anomaly scores: rows of numbers in any resolution, scaled to the picture"),
        Property::value("anomaly_threshold", NUMBER)
            .about("score from which on a region is unusual: the middle of the colours"),
        Property::choice("color_map", &names_of(&COLOR_MAPS), "ROBOFLOW")
            .about("the colours; those of ROBOFLOW are transparent where nothing is unusual"),
        Property::share("opacity", 0.75).about("how opaque the colours are, 0 to 1"),
    ],
    build: |_| Ok(Box::new(run)),
    ..drawing::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let Value::Array(map) = call.arg(arg!("anomaly_map")) else {
        return Err(
            "there is no anomaly_map; switch include_anomaly_map on in the step that makes it"
                .to_owned(),
        );
    };
    if !matches!(map.shape(), [rows, columns] if *rows > 0 && *columns > 0) {
        return Err(format!(
            "anomaly_map has to be rows of numbers, not an array of shape {:?}",
            map.shape()
        ));
    }
    let threshold = call.number(arg!("anomaly_threshold"))?;
    if !threshold.is_finite() {
        return Err(format!(
            "anomaly_threshold is {threshold} and has to be a number"
        ));
    }
    let stops = call.choice(arg!("color_map"), &COLOR_MAPS)?;
    let opacity = call.number(arg!("opacity"))?;
    let size = call.image(arg!("image"))?.size();
    let map = Arc::clone(map);
    drawing::put(call, move |canvas: &mut Canvas<'_>| {
        let each = map.data().iter().map(|n| unusual(*n, threshold));
        let unusual = Array::new(map.shape().to_vec(), each.collect());
        // The shape was checked above.
        let Some(Ok(unusual)) = unusual.map(|map| stretched(&map, size)) else {
            return;
        };
        for (y, row) in (0..).zip(unusual.data().chunks_exact(size[0].max(1) as usize)) {
            for (x, place) in (0..).zip(row) {
                let (color, alpha) = color_at(stops, f64::from(*place));
                canvas.blend(x, y, color, alpha * opacity);
            }
        }
    })
}

/// Maps a score to 0 to 1: one half at the threshold.
fn unusual(score: f32, threshold: f64) -> f32 {
    let value = f64::from(score).max(0.0);
    let share = match threshold > 0.0 {
        // An infinite score is the end of the scale.
        true if value.is_infinite() => 1.0,
        true => value / (value + threshold),
        false => f64::from(u8::from(value > 0.0)),
    };
    share as f32
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::super::super::tests::bench::{Bench, picture};
    use super::super::super::{Array, Value};
    use super::Kind;

    /// The first and the last pixel of a black picture whose right half is unusual.
    fn drawn(extra: &Json, map: Array) -> Result<[[u8; 3]; 2], String> {
        let mut step = json!({"type": "roboflow_core/anomaly_heatmap_visualization@v1", "image": "$inputs.image",
            "anomaly_map": "$inputs.map", "anomaly_threshold": 2.0, "opacity": 1.0});
        for (key, value) in extra.as_object().unwrap() {
            step[key] = value.clone();
        }
        let kinds = [("image", Kind::Image), ("map", Kind::NumpyArray)];
        let mut bench = Bench::new(step, &kinds);
        let image = picture(1, [8, 4], |_, _| [0; 3]);
        bench.feed(&[("image", image), ("map", Value::from(map))])?;
        let Some(Value::Image(image)) = bench.value("image") else {
            panic!("no picture");
        };
        let rgb = image.pixels.rgb();
        let pixel = |i: usize| [rgb.data[3 * i], rgb.data[3 * i + 1], rgb.data[3 * i + 2]];
        Ok([pixel(0), pixel(31)])
    }

    fn halves(left: f32, right: f32) -> Array {
        Array::new(vec![1, 2], vec![left, right]).unwrap()
    }

    #[test]
    fn usual_stays_and_threshold_is_the_middle_colour() {
        let [usual, unusual] = drawn(&json!({}), halves(0.0, 2.0)).unwrap();
        assert_eq!(usual, [0, 0, 0]);
        // 85 % of the middle colour.
        assert!(
            unusual[0].abs_diff(217) < 3 && unusual[1].abs_diff(104) < 3,
            "{unusual:?}"
        );
        let [cold, hot] = drawn(&json!({"color_map": "HOT"}), halves(-1.0, 1e30)).unwrap();
        assert_eq!((cold, hot), ([0, 0, 0], [255, 255, 255]));
    }

    #[test]
    fn threshold_of_zero_makes_any_positive_score_unusual() {
        let none = json!({"anomaly_threshold": 0.0, "color_map": "JET"});
        let [usual, unusual] = drawn(&none, halves(0.0, 0.01)).unwrap();
        assert_eq!((usual, unusual), ([0, 0, 128], [128, 0, 0]));
    }

    #[test]
    fn invalid_map_is_refused() {
        for shape in [vec![0], vec![0, 2], vec![2, 0]] {
            let map = Array::new(shape, Vec::new()).unwrap();
            let refused = drawn(&json!({}), map).unwrap_err();
            assert!(refused.contains("rows of numbers"), "{refused}");
        }
        assert!(drawn(&json!({}), Array::row(vec![1.0, 2.0])).is_err());
    }
}
