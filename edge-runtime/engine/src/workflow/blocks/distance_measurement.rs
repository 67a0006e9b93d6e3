//! Measures the gap between two objects.

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/distance_measurement@v1",
    summary: "Measures the gap between two objects, in pixels and in centimetres.",
    properties: &[
        Property::data("predictions", BOXES).about("the detections"),
        Property::literal("object_1_class_name", Shape::Text).about("class of one object"),
        Property::literal("object_2_class_name", Shape::Text).about("class of the other"),
        Property::literal("reference_axis", Shape::Choice(&["horizontal", "vertical"]))
            .about("whether to measure horizontally or vertically"),
        Property::literal(
            "calibration_method",
            Shape::Choice(&["reference object", "pixel to centimeter"]),
        )
        .about("whether the scale is known from an object of known size or from a ratio"),
        Property::text("reference_object_class_name", "reference-object")
            .about("class of the object of known size"),
        Property::value_or("reference_width", POSITIVE, Or::Float(2.5))
            .about("width of that object in centimetres"),
        Property::value_or("reference_height", POSITIVE, Or::Float(2.5))
            .about("height of that object in centimetres"),
        Property::value_or("pixel_ratio", POSITIVE, Or::Float(100.0))
            .about("pixels per centimetre"),
    ],
    outputs: &[
        Output::new("distance_cm", &[Kind::Integer]),
        Output::new("distance_pixel", &[Kind::Integer]),
    ],
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("classical_computer_vision")
}];

/// A box in whole pixels.
#[derive(Debug, Clone, Copy)]
struct Whole {
    low: [i64; 2],
    high: [i64; 2],
}

impl Whole {
    fn from_bbox(b: &BBox) -> Self {
        let whole = |x: f64, y: f64| [x.round_ties_even() as i64, y.round_ties_even() as i64];
        Self {
            low: whole(b.x1, b.y1),
            high: whole(b.x2, b.y2),
        }
    }

    /// Pixels between two boxes along an axis; `None` if they touch or overlap along it.
    fn gap(&self, other: &Self, axis: usize) -> i64 {
        let apart = |i: usize| self.high[i] < other.low[i] || other.high[i] < self.low[i];
        let meet = self.low[axis] < other.high[axis] && self.high[axis] > other.low[axis];
        if meet || !(apart(0) || apart(1)) {
            return 0;
        }
        let gap = if other.low[axis] > self.high[axis] {
            other.low[axis].saturating_sub(self.high[axis])
        } else {
            self.low[axis].saturating_sub(other.high[axis])
        };
        gap.saturating_abs()
    }
}

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let all = call.detections(arg!("predictions"))?;
    let class_1 = call.text(arg!("object_1_class_name"))?;
    let class_2 = call.text(arg!("object_2_class_name"))?;
    let axis = usize::from(call.text(arg!("reference_axis"))? == "vertical");
    // The last of each class before both are found, as in the peer.
    let (mut one, mut two) = (None, None);
    for d in &all.boxes {
        if &*d.class == class_1 {
            one = Some(Whole::from_bbox(&d.bbox));
        } else if &*d.class == class_2 {
            two = Some(Whole::from_bbox(&d.bbox));
        }
        if one.is_some() && two.is_some() {
            break;
        }
    }
    let (Some(one), Some(two)) = (one, two) else {
        return Err(format!(
            "there is no {class_1:?} or no {class_2:?} among the detections"
        ));
    };
    let pixels = one.gap(&two, axis);
    if pixels == 0 {
        return call.finish_all((0_i64, 0_i64));
    }
    let ratio = if call.text(arg!("calibration_method"))? == "reference object" {
        let class = call.text(arg!("reference_object_class_name"))?;
        let reference = all.boxes.iter().find(|d| &*d.class == class);
        let reference =
            reference.ok_or_else(|| format!("there is no {class:?} among the detections"))?;
        let width = call.number(arg!("reference_width"))?;
        let height = call.number(arg!("reference_height"))?;
        if !(width > 0.0 && height > 0.0) {
            return Err("reference_width and reference_height must be above 0".to_owned());
        }
        let Whole { low, high } = Whole::from_bbox(&reference.bbox);
        let side = |i: usize| {
            Value::Int((high[i].saturating_sub(low[i])).saturating_abs())
                .as_f64()
                .unwrap_or(0.0)
        };
        f64::midpoint(side(0) / width, side(1) / height)
    } else {
        call.number(arg!("pixel_ratio"))?
    };
    if ratio.is_nan() || ratio <= 0.0 {
        return Err(format!("pixel_ratio is {ratio} and must be above 0"));
    }
    call.finish_all((Value::Int(pixels).as_f64().unwrap_or(0.0) / ratio, pixels))
}
