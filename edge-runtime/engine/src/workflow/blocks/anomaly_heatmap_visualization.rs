//! Draws anomaly maps.

use std::sync::Arc;

use watchkeeper_vision::draw::{Canvas, Color};

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/anomaly_heatmap_visualization@v1",
    summary: "Colours a picture by its anomaly map.",
    properties: &[
        drawing::IMAGE,
        drawing::COPY,
        Property::data(
            "anomaly_map",
            "anomaly scores: rows of numbers in any resolution, scaled to the picture",
            &[Kind::NumpyArray],
        ),
        Property::value(
            "anomaly_threshold",
            "score from which on a region is unusual: the middle of the colours",
            NUMBER,
        ),
        Property::value(
            "color_map",
            "the colours; those of ROBOFLOW are transparent where nothing is unusual",
            Shape::Choice(&["ROBOFLOW", "JET", "TURBO", "INFERNO", "VIRIDIS", "HOT"]),
        )
        .or(Or::Text("ROBOFLOW")),
        Property::share("opacity", "how opaque the colours are, 0 to 1", 0.75),
    ],
    build: |_| Ok(Box::new(run)),
    ..drawing::BASE
}];

/// A colour of a scale: position from 0 to 1, red, green and blue, opacity.
pub(super) type Stop = (f64, [u8; 3], f64);

const ROBOFLOW: &[Stop] = &[
    (0.0, [255, 214, 0], 0.0),
    (0.25, [255, 214, 0], 0.55),
    (0.5, [255, 122, 0], 0.85),
    (1.0, [220, 30, 30], 1.0),
];
const JET: &[Stop] = &[
    (0.0, [0, 0, 128], 1.0),
    (0.125, [0, 0, 255], 1.0),
    (0.375, [0, 255, 255], 1.0),
    (0.625, [255, 255, 0], 1.0),
    (0.875, [255, 0, 0], 1.0),
    (1.0, [128, 0, 0], 1.0),
];
const HOT: &[Stop] = &[
    (0.0, [0, 0, 0], 1.0),
    (0.375, [255, 0, 0], 1.0),
    (0.75, [255, 255, 0], 1.0),
    (1.0, [255, 255, 255], 1.0),
];
pub(super) const VIRIDIS: &[Stop] = &[
    (0.0, [68, 1, 84], 1.0),
    (0.25, [59, 82, 139], 1.0),
    (0.5, [33, 145, 140], 1.0),
    (0.75, [94, 201, 98], 1.0),
    (1.0, [253, 231, 37], 1.0),
];
const INFERNO: &[Stop] = &[
    (0.0, [0, 0, 4], 1.0),
    (0.25, [87, 16, 110], 1.0),
    (0.5, [188, 55, 84], 1.0),
    (0.75, [249, 142, 9], 1.0),
    (1.0, [252, 255, 164], 1.0),
];
const TURBO: &[Stop] = &[
    (0.0, [48, 18, 59], 1.0),
    (0.125, [70, 107, 227], 1.0),
    (0.25, [40, 187, 236], 1.0),
    (0.5, [164, 252, 60], 1.0),
    (0.75, [251, 126, 33], 1.0),
    (1.0, [122, 4, 3], 1.0),
];

/// Returns the colour at a position of a scale, interpolated between its stops.
pub(super) fn color_at(stops: &[Stop], place: f64) -> (Color, f64) {
    let place = place.clamp(0.0, 1.0);
    let pair = stops.windows(2).find(|pair| place <= pair[1].0);
    let Some([(from, a, faint), (to, b, strong)]) =
        pair.and_then(|p| <&[Stop; 2]>::try_from(p).ok())
    else {
        return (Color::INK, 0.0);
    };
    let share = (place - from) / (to - from);
    let mixed = |a: u8, b: u8| {
        let exact = f64::from(a) + (f64::from(b) - f64::from(a)) * share;

        exact.round() as u8
    };
    let color = Color::new(mixed(a[0], b[0]), mixed(a[1], b[1]), mixed(a[2], b[2]));
    (color, faint + (strong - faint) * share)
}

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let Value::Array(map) = call.arg(arg!("anomaly_map")) else {
        return Err(
            "there is no anomaly_map; switch include_anomaly_map on in the step that makes it"
                .to_owned(),
        );
    };
    let &[rows, columns] = map.shape() else {
        return Err(format!(
            "anomaly_map has to be rows of numbers, not an array of shape {:?}",
            map.shape()
        ));
    };
    let threshold = call.number(arg!("anomaly_threshold"), 0.0)?;
    if !threshold.is_finite() {
        return Err(format!(
            "anomaly_threshold is {threshold} and has to be a number"
        ));
    }
    let stops = match call.text(arg!("color_map"))? {
        "ROBOFLOW" => ROBOFLOW,
        "JET" => JET,
        "TURBO" => TURBO,
        "INFERNO" => INFERNO,
        "VIRIDIS" => VIRIDIS,
        "HOT" => HOT,
        other => return Err(format!("{other:?} is not a color_map")),
    };
    let opacity = call.number(arg!("opacity"), 0.75)?;
    let [width, height] = call.image(arg!("image"))?.size();
    let map = Arc::clone(map);
    drawing::put(call, move |canvas: &mut Canvas<'_>| {
        let each = map.data().iter().map(|n| unusual(*n, threshold));
        let unusual: Vec<f64> = each.collect();
        let across: Vec<Between> = (0..width).map(|x| between(x, width, columns)).collect();
        for y in 0..height {
            let down = between(y, height, rows);
            for (x, across) in (0..).zip(&across) {
                let place = mixed(&unusual, columns, [*across, down]);
                let (color, alpha) = color_at(stops, place);
                canvas.blend(x, y.into(), color, alpha * opacity);
            }
        }
    })
}

/// The two cells between which a pixel lies, and the share of the second.
type Between = (usize, usize, f64);

/// Position of a pixel in a row of cells.
fn between(pixel: u32, pixels: u32, numbers: usize) -> Between {
    let last = numbers.saturating_sub(1);
    let (count, end) = (numbers as f64, last as f64);
    let place = ((f64::from(pixel) + 0.5) * count / f64::from(pixels) - 0.5).clamp(0.0, end);
    let first = place as usize;
    (first, (first + 1).min(last), place.fract())
}

/// Maps a score to 0 to 1: one half at the threshold.
fn unusual(number: f32, threshold: f64) -> f64 {
    let value = f64::from(number).max(0.0);
    match threshold > 0.0 {
        // An infinite score is the end of the scale.
        true if value.is_infinite() => 1.0,
        true => value / (value + threshold),
        false => f64::from(u8::from(value > 0.0)),
    }
}

/// Interpolates the score between four cells.
fn mixed(map: &[f64], columns: usize, [x, y]: [Between; 2]) -> f64 {
    let at = |x: usize, y: usize| map.get(y * columns + x).copied().unwrap_or(0.0);
    let row = |y: usize| at(x.0, y) * (1.0 - x.2) + at(x.1, y) * x.2;
    row(y.0) * (1.0 - y.2) + row(y.1) * y.2
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failing test may panic")]
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
        assert!(drawn(&json!({}), Array::row(vec![1.0, 2.0])).is_err());
    }
}
