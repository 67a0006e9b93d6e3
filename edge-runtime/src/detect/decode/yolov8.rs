//! The YOLOv8 layout: one column a box, `cx cy w h [objectness] class…` in input pixels, without anchors to add.
//!
//! Exports write `1 × (4 + classes) × boxes`; `1 × boxes × (4 + classes)` is read too, told apart by the number of
//! classes. From the ONNX example in ultralytics/ultralytics `examples/YOLOv8-ONNXRuntime` (layout only).

use super::{DecodeError, RawDetection, Request, around, sigmoid};

const FAMILY: &str = "yolov8";

/// Decodes one picture; boxes are added to `out`.
///
/// # Errors
/// [`DecodeError`]: not one tensor, or one of another shape.
pub fn decode(
    request: &Request<'_>,
    has_objectness: bool,
    with_sigmoid: bool,
    out: &mut Vec<RawDetection>,
) -> Result<(), DecodeError> {
    let [tensor] = request.tensors::<1>(FAMILY)?;
    let head = 4 + usize::from(has_objectness);
    let fields = head + request.classes;
    // Distance in the data from one field to the next and from one box to the next.
    let (boxes, field_step, box_step) = match *tensor.shape {
        [1, f, n] if f == fields => (n, n, 1),
        [1, n, f] if f == fields => (n, 1, fields),
        _ => (0, 0, 0),
    };
    if field_step == 0 || boxes.checked_mul(fields) != Some(tensor.data.len()) {
        return Err(request.misshapen(FAMILY, tensor, format!("1x{fields}xN or 1xNx{fields}")));
    }
    let activate = |x: f32| if with_sigmoid { sigmoid(x) } else { x };
    for i in 0..boxes {
        let field = |f: usize| tensor.data[i * box_step + f * field_step];
        let objectness = if has_objectness {
            activate(field(4))
        } else {
            1.0
        };
        if !request.passes(objectness) {
            continue;
        }
        let mut best = (0, f32::NEG_INFINITY);
        for class_id in 0..request.classes {
            let score = field(head + class_id);
            if score > best.1 {
                best = (class_id, score);
            }
        }
        let score = objectness * activate(best.1);
        if score >= request.confidence {
            let corners = around(field(0), field(1), field(2), field(3));
            request.push(out, corners, score, best.0);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::detect::decode::testing::{near, request, tensor};

    const BOXES: usize = 9;

    fn decoded(shape: &[usize], data: &[f32], objectness: bool) -> Vec<RawDetection> {
        let outputs = [tensor(shape, data)];
        let mut out = Vec::new();
        decode(&request(&outputs, 64, 2, 0.25), objectness, false, &mut out).expect("right shape");
        out
    }

    proptest! {
        #[test]
        fn both_orders_of_the_axes_give_the_same_boxes(
            data in prop::collection::vec(0.0f32..1.0, BOXES * 6),
        ) {
            let mut turned = vec![0.0; data.len()];
            for i in 0..BOXES {
                for f in 0..6 {
                    turned[i * 6 + f] = data[f * BOXES + i];
                }
            }
            let fields_first = decoded(&[1, 6, BOXES], &data, false);
            prop_assert_eq!(fields_first, decoded(&[1, BOXES, 6], &turned, false));
        }
    }

    #[test]
    fn a_shape_beyond_all_memory_is_refused() {
        let shape = [1, 6, usize::MAX];
        let outputs = [tensor(&shape, &[])];
        let refused = decode(
            &request(&outputs, 64, 2, 0.25),
            false,
            false,
            &mut Vec::new(),
        );
        assert!(refused.is_err());
    }

    #[test]
    fn centre_and_size_become_corners() {
        let out = decoded(&[1, 6, 1], &[30.0, 20.0, 10.0, 8.0, 0.1, 0.7], false);
        assert_eq!((out.len(), out[0].class_id), (1, 1));
        assert!(near(&out[0].bbox, [25.0, 16.0, 35.0, 24.0], 1e-6));
    }

    #[test]
    fn objectness_weighs_the_class_score() {
        let row = [30.0, 20.0, 10.0, 8.0, 0.5, 0.8, 0.1];
        let out = decoded(&[1, 1, 7], &row, true);
        assert!((out[0].score - 0.4).abs() < 1e-6);
    }

    #[test]
    fn infinite_logits_and_sizes_give_no_box() {
        let row = [f32::NAN, 20.0, f32::INFINITY, 8.0, 0.9, 0.1];
        assert!(decoded(&[1, 6, 1], &row, false).is_empty());
    }
}
