//! SSD: offsets from fixed anchors, and for each a logit of each class and of "nothing".
//!
//! - Anchors are those of `SsdAnchorsCalculator` in google-ai-edge/mediapipe, and of
//!   `create_ssd_anchors` in TensorFlow's Object Detection API. They go level after level, row by
//!   row, three a cell in the first level and six in the others.
//! - `y = offset / 10 * height + row`, `h = exp(offset / 5) * height` of the anchor.
//! - Scores are sigmoids of shifted logits. An anchor has its best class only, as in
//!   `TensorsToDetectionsCalculator`.

use super::error::DecodeError;
use super::request::{Request, around, best, cells, sigmoid};
use crate::detection::RawDetection;

const FAMILY: &str = "ssd";
/// Side of the smallest anchors, in the first level, in parts of the input.
const SMALLEST: f32 = 0.1;
/// Units of the offsets: position and size.
const UNITS: [f32; 2] = [10.0, 5.0];
/// Columns before the classes: "nothing".
const NOTHING: usize = 1;

/// Decodes one picture; appends boxes to `out`. The outputs are the offsets, then the logits.
///
/// # Errors
/// [`DecodeError`]: not two tensors, or one of another shape.
pub fn decode(
    request: &Request<'_>,
    strides: &[u32],
    scales: [f32; 2],
    shift: f32,
    out: &mut Vec<RawDetection>,
) -> Result<(), DecodeError> {
    let [offsets, logits] = request.tensors::<2>(FAMILY)?;
    let levels: Vec<_> = (0..strides.len())
        .map(|level| sizes(level, strides.len(), scales))
        .collect();
    let grid = |stride: &u32| [request.height, request.width].map(|side| cells(side, *stride));
    let total = strides.iter().map(grid).zip(&levels);
    let total = total.map(|([rows, columns], sizes)| rows * columns * sizes.len());
    let total = total.sum();
    let mut offsets = request.rows(FAMILY, offsets, total, 4)?;
    let mut logits = request.rows(FAMILY, logits, total, NOTHING + request.classes)?;
    let (width, height) = (request.width as f32, request.height as f32);
    for ([rows, columns], sizes) in strides.iter().map(grid).zip(&levels) {
        for cell in 0..rows * columns {
            let x = ((cell % columns) as f32 + 0.5) / columns as f32;
            let y = ((cell / columns) as f32 + 0.5) / rows as f32;
            let anchors = sizes.iter().zip(&mut offsets).zip(&mut logits);
            for (([w, h], offset), logits) in anchors {
                let Some((class_id, logit)) = best(&logits[NOTHING..]) else {
                    continue;
                };
                let score = sigmoid(logit + shift);
                if !request.passes(score) {
                    continue;
                }
                let corners = around(
                    (offset[1] / UNITS[0] * w + x) * width,
                    (offset[0] / UNITS[0] * h + y) * height,
                    (offset[3] / UNITS[1]).exp() * w * width,
                    (offset[2] / UNITS[1]).exp() * h * height,
                );
                request.push(out, corners, score, class_id);
            }
        }
    }
    Ok(())
}

/// Returns width and height of a level's anchors, in parts of the input.
fn sizes(level: usize, levels: usize, [first, last]: [f32; 2]) -> Vec<[f32; 2]> {
    let scale = |level: usize| match levels {
        0 | 1 => first,
        _ if level >= levels => 1.0,
        _ => first + (last - first) * level as f32 / (levels - 1) as f32,
    };
    let of = |ratio: f32, scale: f32| [scale * ratio.sqrt(), scale / ratio.sqrt()];
    let own = scale(level);
    if level == 0 {
        return vec![of(1.0, SMALLEST), of(2.0, own), of(0.5, own)];
    }
    let between = (own * scale(level + 1)).sqrt();
    let ratios = [1.0, 2.0, 0.5, 3.0, 0.3333];
    let sizes = ratios.map(|ratio| of(ratio, own));
    sizes.into_iter().chain([of(1.0, between)]).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decode::testing::{near, request, tensor};

    const STRIDES: [u32; 2] = [32, 64];
    /// Anchors of an input of 64 pixels: four cells with three, one with six.
    const ANCHORS: usize = 18;
    const CLASSES: usize = 2;

    fn decoded(offsets: &[f32], logits: &[f32], shift: f32) -> Vec<RawDetection> {
        let (a, b) = ([1, ANCHORS, 4], [1, ANCHORS, NOTHING + CLASSES]);
        let outputs = [tensor(&a, offsets), tensor(&b, logits)];
        let mut out = Vec::new();
        let request = request(&outputs, 64, CLASSES, 0.5);
        decode(&request, &STRIDES, [0.2, 0.95], shift, &mut out).expect("right shapes");
        out
    }

    /// The outputs of a network that sees one object.
    fn answer(anchor: usize, offset: [f32; 4], row: [f32; 3]) -> Vec<RawDetection> {
        shifted(anchor, offset, row, 0.0)
    }

    fn shifted(anchor: usize, offset: [f32; 4], row: [f32; 3], shift: f32) -> Vec<RawDetection> {
        let mut offsets = vec![0.0; ANCHORS * 4];
        let mut logits = vec![-9.0; ANCHORS * 3];
        offsets[anchor * 4..][..4].copy_from_slice(&offset);
        logits[anchor * 3..][..3].copy_from_slice(&row);
        decoded(&offsets, &logits, shift)
    }

    #[test]
    fn offsets_move_and_stretch_their_anchor() {
        // The last cell of the first level, its wide anchor: centre 48, 48, scale 0.2, ratio 2.
        let (w, h) = (0.2 * 2.0_f64.sqrt() * 64.0, 0.2 / 2.0_f64.sqrt() * 64.0);
        let still = answer(10, [0.0; 4], [0.0, -1.0, 2.0]);
        assert_eq!((still.len(), still[0].class_id), (1, 1));
        assert!((still[0].score - 0.8808).abs() < 1e-3);
        let corners = |cx: f64, cy: f64, w: f64, h: f64| {
            [cx - w / 2.0, cy - h / 2.0, cx + w / 2.0, cy + h / 2.0]
        };
        assert!(
            near(&still[0].bbox, corners(48.0, 48.0, w, h), 1e-3),
            "{still:?}"
        );
        let moved = answer(10, [10.0, -10.0, 5.0 * 2.0_f32.ln(), 0.0], [0.0, 2.0, -1.0]);
        let wanted = corners(48.0 - w, 48.0 + h, w, 2.0 * h);
        assert_eq!(moved[0].class_id, 0);
        assert!(near(&moved[0].bbox, wanted, 1e-3), "{moved:?}");
    }

    #[test]
    fn last_level_has_six_anchors_with_one_between_scales() {
        let found = answer(17, [0.0; 4], [0.0, 2.0, 0.0]);
        let side = f64::from((0.95_f32 * 1.0).sqrt()) * 64.0;
        let wanted = [
            32.0 - side / 2.0,
            32.0 - side / 2.0,
            32.0 + side / 2.0,
            32.0 + side / 2.0,
        ];
        assert!(near(&found[0].bbox, wanted, 1e-3), "{found:?}");
    }

    #[test]
    fn shift_moves_scores_and_keeps_boxes() {
        // Below the threshold as it is: sigmoid(-0.5) is 0.38.
        assert!(answer(0, [0.0; 4], [0.0, -0.5, -9.0]).is_empty());
        let found = shifted(0, [0.0; 4], [0.0, -0.5, -9.0], 1.0);
        assert_eq!(found.len(), 1);
        assert!((found[0].score - 0.6225).abs() < 1e-3);
    }

    #[test]
    fn logit_of_nothing_is_no_class() {
        assert!(answer(0, [0.0; 4], [9.0, -1.0, -1.0]).is_empty());
    }

    #[test]
    fn network_with_other_classes_is_refused_with_both_shapes() {
        let (a, b) = ([1, ANCHORS, 4], [1, ANCHORS, 9]);
        let (offsets, logits) = (vec![0.0; ANCHORS * 4], vec![0.0; ANCHORS * 9]);
        let outputs = [tensor(&a, &offsets), tensor(&b, &logits)];
        let request = request(&outputs, 64, CLASSES, 0.5);
        let error = decode(&request, &STRIDES, [0.2, 0.95], 0.0, &mut Vec::new());
        let message = error.expect_err("must be refused").to_string();
        assert!(
            message.contains("1x18x9") && message.contains("1x18x3"),
            "{message}"
        );
    }

    proptest! {
        #[test]
        fn no_number_makes_a_box_that_is_not_finite(
            offset in prop::array::uniform4(prop::num::f32::ANY),
            row in prop::array::uniform3(prop::num::f32::ANY),
            anchor in 0..ANCHORS,
        ) {
            for found in answer(anchor, offset, row) {
                prop_assert!(found.bbox.width().is_finite() && found.bbox.width() > 0.0);
                prop_assert!((0.5..=1.0).contains(&found.score));
            }
        }
    }
}
