//! Finds a template in pictures.

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/template_matching@v1",
    summary: "Finds regions of a picture that match a template.",
    properties: &[
        IMAGE,
        Property::data("template", &[Kind::Image])
            .about("the small picture to look for")
            .alias(&["templates"]),
        Property::number("matching_threshold", 0.8).about("minimum similarity, up to 1"),
        Property::boolean("apply_nms", true).about("whether to drop overlapping matches"),
        Property::share("nms_threshold", 0.5).about("overlap above which two matches are the same"),
    ],
    outputs: &[
        Output::new("predictions", &[Kind::ObjectDetection]),
        Output::new("number_of_matches", &[Kind::Integer]),
    ],
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("classical_computer_vision")
}];

/// Maximum multiplications per picture.
const MAX_WORK: u64 = 20_000_000_000;
const MAX_MATCHES: usize = 10_000;

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("image"))?;
    let template = call.image(arg!("template"))?;
    let (size, small) = (image.size(), template.size());
    if small.contains(&0) || small[0] > size[0] || small[1] > size[1] {
        return Err(format!(
            "a template of {small:?} pixels is larger than the picture of {size:?}"
        ));
    }
    let area = |[w, h]: [u32; 2]| u64::from(w) * u64::from(h);
    if area(size).saturating_mul(area(small)) > MAX_WORK {
        return Err(
            "picture and template are too large; make both smaller with image_preprocessing"
                .to_owned(),
        );
    }
    let (rgb, template) = (image.pixels.rgb(), template.pixels.rgb());
    let whole = Plane::from(&imaging::grey(&rgb));
    let part = Plane::from(&imaging::grey(&template));
    let threshold = call.number(arg!("matching_threshold"))?;
    let places = alike(&whole, &part, threshold);
    if places.len() > MAX_MATCHES {
        return Err(format!(
            "more than {MAX_MATCHES} regions match the template; raise matching_threshold"
        ));
    }
    let [w, h] = small.map(f64::from);
    let mut boxes: Vec<BBox> = places
        .iter()
        .map(|(x, y)| BBox::new(*x, *y, x + w, y + h))
        .collect();
    if call.boolean(arg!("apply_nms"))? {
        boxes = apart(&boxes, call.number(arg!("nms_threshold"))?);
    }
    let mut found = Detections::none(size);
    for bbox in boxes {
        found.boxes.push(Detection::new(
            bbox,
            1.0,
            0,
            "template_match",
            call.new_id(),
        ));
    }
    image.stamp(&mut found);
    call.put(1, found.boxes.len());
    call.finish(found)
}

/// Positions where the normalised cross-correlation with a template is at least the threshold.
/// Lewis, "Fast normalized cross-correlation", 1995.
fn alike(whole: &Plane, part: &Plane, threshold: f64) -> Vec<(f64, f64)> {
    let count = part.data.len() as f64;
    let mean = part.data.iter().map(|v| f64::from(*v)).sum::<f64>() / count;
    let weights: Vec<f64> = part.data.iter().map(|v| f64::from(*v) - mean).collect();
    let energy: f64 = weights.iter().map(|w| w * w).sum();
    let mut places = Vec::new();
    for y in 0..=whole.height - part.height {
        for x in 0..=whole.width - part.width {
            let (mut product, mut sum, mut squares) = (0.0, 0.0, 0.0);
            for (row, weights) in weights.chunks_exact(part.width).enumerate() {
                let from = (y + row) * whole.width + x;
                let values = whole.data.get(from..from + part.width).unwrap_or_default();
                for (v, w) in values.iter().zip(weights) {
                    let v = f64::from(*v);
                    product += v * w;
                    sum += v;
                    squares += v * v;
                }
            }
            let spread = (squares - sum * sum / count).max(0.0);
            let norm = (spread * energy).sqrt();
            // A template without contrast matches everything; a region without contrast matches
            // nothing else.
            let likeness = match norm > 1e-6 {
                true => product / norm,
                false if energy > 1e-6 => 0.0,
                false => 1.0,
            };
            if likeness >= threshold {
                places.push((x as f64, y as f64));
            }
        }
    }
    places
}

/// Drops boxes that overlap by more than `most`; the last stays. The order is kept.
fn apart(boxes: &[BBox], most: f64) -> Vec<BBox> {
    let mut kept: Vec<BBox> = Vec::new();
    for b in boxes.iter().rev() {
        if kept.iter().all(|k| k.iou(b) <= most) {
            kept.push(*b);
        }
    }
    kept.reverse();
    kept
}
