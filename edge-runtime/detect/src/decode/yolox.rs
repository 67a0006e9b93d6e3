//! YOLOX: one row per grid cell, `cx cy w h objectness class…`, level after level, each row by row.
//!
//! `x = (cx + column) * stride`, `w = exp(w) * stride`; objectness and class scores are already
//! `0..=1`. From `demo_postprocess` in Megvii-BaseDetection/YOLOX `yolox/utils/demo_utils.py`.

use super::error::DecodeError;
use super::request::{Request, around, best, cells};
use crate::detection::RawDetection;

const FAMILY: &str = "yolox";
const BOX: usize = 5;

/// Decodes one picture; appends boxes to `out`.
///
/// # Errors
/// [`DecodeError`]: not one tensor, or one of another shape.
pub fn decode(
    request: &Request<'_>,
    strides: &[u32],
    out: &mut Vec<RawDetection>,
) -> Result<(), DecodeError> {
    let [tensor] = request.tensors::<1>(FAMILY)?;
    let grid = |stride: &u32| {
        (
            cells(request.height, *stride),
            cells(request.width, *stride),
            *stride as f32,
        )
    };
    let total = strides.iter().map(grid).map(|(h, w, _)| h * w).sum();
    let mut rows = request.rows(FAMILY, tensor, total, BOX + request.classes)?;
    for (height, width, stride) in strides.iter().map(grid) {
        for gy in 0..height {
            for (gx, row) in (0..width).zip(&mut rows) {
                let objectness = row[4];
                // A class score is at most 1, so objectness alone rejects most cells.
                if !request.passes(objectness) {
                    continue;
                }
                let Some((class_id, class)) = best(&row[BOX..]) else {
                    continue;
                };
                let corners = around(
                    (row[0] + gx as f32) * stride,
                    (row[1] + gy as f32) * stride,
                    row[2].exp() * stride,
                    row[3].exp() * stride,
                );
                request.push(out, corners, objectness * class, class_id);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decode::testing::{near, request, tensor};

    const SIDE: u32 = 64;
    const STRIDES: [u32; 3] = [8, 16, 32];
    const ROWS: usize = 64 + 16 + 4;
    const CLASSES: usize = 3;
    const COLUMNS: usize = BOX + CLASSES;

    /// The output of a network that sees one object.
    fn answer(row: usize, values: [f32; COLUMNS]) -> Vec<f32> {
        let mut data = vec![0.0; ROWS * COLUMNS];
        data[row * COLUMNS..][..COLUMNS].copy_from_slice(&values);
        data
    }

    fn decoded(data: &[f32]) -> Vec<RawDetection> {
        let shape = [1, ROWS, COLUMNS];
        let outputs = [tensor(&shape, data)];
        let mut out = Vec::new();
        decode(&request(&outputs, SIDE, CLASSES, 0.3), &STRIDES, &mut out).expect("shape is right");
        out
    }

    proptest! {
        /// Decoding reverses encoding for any cell.
        #[test]
        fn box_put_into_a_cell_comes_out(
            row in 0..ROWS,
            (dx, dy) in (0.0f32..1.0, 0.0f32..1.0),
            (w, h) in (2.0f32..60.0, 2.0f32..60.0),
            class_id in 0..CLASSES,
        ) {
            let (index, side, stride) = match row {
                0..64 => (row, 8, 8.0f32),
                64..80 => (row - 64, 4, 16.0),
                _ => (row - 80, 2, 32.0),
            };
            let (gx, gy) = ((index % side) as f32, (index / side) as f32);
            let mut values = [dx, dy, (w / stride).ln(), (h / stride).ln(), 0.9, 0.1, 0.1, 0.1];
            values[BOX + class_id] = 0.8;
            let out = decoded(&answer(row, values));
            prop_assert_eq!(out.len(), 1);
            prop_assert_eq!(out[0].class_id, class_id);
            prop_assert!((out[0].score - 0.72).abs() < 1e-5);
            let (cx, cy) = (f64::from((gx + dx) * stride), f64::from((gy + dy) * stride));
            let (w, h) = (f64::from(w) / 2.0, f64::from(h) / 2.0);
            prop_assert!(near(&out[0].bbox, [cx - w, cy - h, cx + w, cy + h], 1e-3));
        }

        #[test]
        fn no_number_makes_it_panic_or_answer_nonsense(
            values in prop::array::uniform8(prop_oneof![
                any::<f32>(), Just(f32::NAN), Just(f32::INFINITY), Just(1e30f32), 0.0f32..2.0,
            ]),
        ) {
            for d in decoded(&answer(7, values)) {
                prop_assert!(d.bbox.width().is_finite() && d.bbox.width() > 0.0);
                prop_assert!((0.0..=1.0).contains(&d.score));
            }
        }
    }

    #[test]
    fn objectness_alone_is_not_enough() {
        assert!(decoded(&answer(0, [0.5, 0.5, 0.0, 0.0, 0.9, 0.3, 0.0, 0.0])).is_empty());
    }

    #[test]
    fn network_with_other_classes_is_refused_with_both_shapes() {
        let shape = [1, ROWS, COLUMNS + 1];
        let data = vec![0.0; ROWS * (COLUMNS + 1)];
        let outputs = [tensor(&shape, &data)];
        let error = decode(
            &request(&outputs, SIDE, CLASSES, 0.3),
            &STRIDES,
            &mut Vec::new(),
        );
        let message = error.expect_err("must be refused").to_string();
        assert!(
            message.contains("1x84x9") && message.contains("1x84x8"),
            "{message}"
        );
    }
}
