//! NanoDet: for each level a tensor of class scores and one of box sides. Each side is a
//! distribution over `reg_max + 1` bins; its mean, times the stride, is the distance from the
//! cell's point.
//!
//! From `GFLHead` in RangiLyu/nanodet (Generalised Focal Loss, arXiv 2006.04388); sides are left,
//! top, right, bottom.

use watchkeeper_models::manifest::CellPoint;

use super::error::DecodeError;
use super::request::{Request, best, cells, mean_bin, sigmoid};
use crate::detection::RawDetection;

const FAMILY: &str = "nanodet";

/// Decodes one picture; appends boxes to `out`. The outputs are the class tensors of all strides,
/// then the box tensors.
///
/// # Errors
/// [`DecodeError`]: not two tensors per stride, or one of another shape.
pub fn decode(
    request: &Request<'_>,
    strides: &[u32],
    reg_max: u32,
    cell: CellPoint,
    with_sigmoid: bool,
    out: &mut Vec<RawDetection>,
) -> Result<(), DecodeError> {
    let levels = strides.len();
    if request.outputs.len() != 2 * levels {
        return Err(DecodeError::Count {
            family: FAMILY,
            found: request.outputs.len(),
            expected: 2 * levels,
        });
    }
    let (classes, sides) = request.outputs.split_at(levels);
    let bins = reg_max as usize + 1;
    for ((stride, classes), sides) in strides.iter().zip(classes).zip(sides) {
        let (height, width) = (
            cells(request.height, *stride),
            cells(request.width, *stride),
        );
        let scores = request.rows(FAMILY, classes, height * width, request.classes)?;
        let sides = request.rows(FAMILY, sides, height * width, 4 * bins)?;
        let step = *stride as f32;
        let offset = match cell {
            CellPoint::Corner => 0.0,
            CellPoint::PixelCentre => (step - 1.0) / 2.0,
            CellPoint::CellCentre => step / 2.0,
        };
        for (i, (scores, sides)) in scores.zip(sides).enumerate() {
            let Some((class_id, score)) = best(scores) else {
                continue;
            };
            let score = if with_sigmoid { sigmoid(score) } else { score };
            if !request.passes(score) {
                continue;
            }
            let x = (i % width) as f32 * step + offset;
            let y = (i / width) as f32 * step + offset;
            let distance = |side: usize| mean_bin(&sides[side * bins..][..bins]) * step;
            let corners = [
                x - distance(0),
                y - distance(1),
                x + distance(2),
                y + distance(3),
            ];
            request.push(out, corners, score, class_id);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decode::testing::{near, request, tensor};

    #[test]
    fn certain_bins_give_their_distance_in_strides() {
        // One level of 2x2 cells of 32 pixels, one class, bins 0..=7; the lower right cell has a
        // box.
        let scores = [0.0, 0.0, 0.0, 0.9];
        let mut sides = vec![0.0; 4 * 32];
        for (side, bin) in [(0, 1), (1, 0), (2, 1), (3, 1)] {
            sides[3 * 32 + side * 8 + bin] = 100.0;
        }
        let (a, b) = ([1, 4, 1], [1, 4, 32]);
        let outputs = [tensor(&a, &scores), tensor(&b, &sides)];
        let mut out = Vec::new();
        let point = CellPoint::PixelCentre;
        decode(
            &request(&outputs, 64, 1, 0.3),
            &[32],
            7,
            point,
            false,
            &mut out,
        )
        .expect("right shape");
        assert_eq!(out.len(), 1);
        let centre = 32.0 + 15.5;
        let corners = [centre - 32.0, centre, centre + 32.0, centre + 32.0];
        assert!(near(&out[0].bbox, corners, 1e-3), "{:?}", out[0]);
    }

    #[test]
    fn missing_tensor_is_refused() {
        let error = decode(
            &request(&[], 64, 1, 0.3),
            &[32],
            7,
            CellPoint::Corner,
            false,
            &mut Vec::new(),
        );
        assert!(matches!(error, Err(DecodeError::Count { expected: 2, .. })));
    }

    proptest! {
        #[test]
        fn mean_lies_within_the_bins_and_ignores_a_common_shift(
            logits in prop::collection::vec(-20.0f32..20.0, 2..17),
            shift in -50.0f32..50.0,
        ) {
            let mean = mean_bin(&logits);
            prop_assert!((0.0..=(logits.len() - 1) as f32).contains(&mean));
            let shifted: Vec<_> = logits.iter().map(|l| l + shift).collect();
            prop_assert!((mean - mean_bin(&shifted)).abs() < 1e-3);
        }
    }
}
