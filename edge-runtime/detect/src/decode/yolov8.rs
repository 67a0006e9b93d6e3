//! The YOLOv8 layout: one column per box, `cx cy w h [objectness] class…` in input pixels, without
//! anchors.
//!
//! Exports have `1 × (4 + classes) × boxes`, or transposed; the number of classes decides. From the
//! ONNX example in ultralytics/ultralytics `examples/YOLOv8-ONNXRuntime` (layout only).

use super::error::DecodeError;
use super::request::{Request, around, best_of, sigmoid};
use crate::detection::RawDetection;
use crate::network::Tensor;

/// Contents of a column besides the box and the class scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Column {
    /// Whether objectness follows the box.
    pub has_objectness: bool,
    /// Whether scores still need a sigmoid.
    pub sigmoid: bool,
    /// Number of values after the classes: mask coefficients or keypoints.
    pub more: usize,
}

/// The columns of a tensor in either layout.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns<'a> {
    data: &'a [f32],
    /// Number of columns.
    pub(super) number: usize,
    /// Stride from one field to the next, and from one column to the next.
    steps: [usize; 2],
    /// Fields before the classes.
    head: usize,
    classes: usize,
}

impl<'a> Columns<'a> {
    /// Reads the columns of `tensor`.
    ///
    /// # Errors
    /// [`DecodeError`]: another shape.
    pub(super) fn of(
        request: &Request<'_>,
        family: &'static str,
        tensor: &Tensor<'a>,
        column: Column,
    ) -> Result<Self, DecodeError> {
        let head = 4 + usize::from(column.has_objectness);
        let fields = head + request.classes + column.more;
        let (number, steps) = match *tensor.shape {
            [1, f, n] if f == fields => (n, [n, 1]),
            [1, n, f] if f == fields => (n, [1, fields]),
            _ => (0, [0, 0]),
        };
        if steps[0] == 0 || number.checked_mul(fields) != Some(tensor.data.len()) {
            return Err(request.shape_error(
                family,
                tensor,
                format!("1x{fields}xN or 1xNx{fields}"),
            ));
        }
        Ok(Self {
            data: tensor.data,
            number,
            steps,
            head,
            classes: request.classes,
        })
    }

    fn field(&self, column: usize, field: usize) -> f32 {
        let place = column * self.steps[1] + field * self.steps[0];
        self.data.get(place).copied().unwrap_or(f32::NAN)
    }

    /// The values after the classes of one column.
    pub(super) fn more(&self, column: usize, number: usize) -> impl Iterator<Item = f32> + '_ {
        let first = self.head + self.classes;
        (first..first + number).map(move |field| self.field(column, field))
    }
}

/// Decodes one picture from the first of `tensors` outputs; appends boxes with their columns to
/// `out`.
///
/// # Errors
/// [`DecodeError`]: another number of tensors, or another shape.
pub fn decode(
    request: &Request<'_>,
    family: &'static str,
    tensors: usize,
    column: Column,
    out: &mut Vec<RawDetection>,
) -> Result<(), DecodeError> {
    let first = request.outputs.first();
    let Some(tensor) = first.filter(|_| request.outputs.len() == tensors) else {
        return Err(DecodeError::Count {
            family,
            found: request.outputs.len(),
            expected: tensors,
        });
    };
    let columns = Columns::of(request, family, tensor, column)?;
    let activate = |x: f32| if column.sigmoid { sigmoid(x) } else { x };
    for i in 0..columns.number {
        let field = |f: usize| columns.field(i, f);
        let objectness = if column.has_objectness {
            activate(field(4))
        } else {
            1.0
        };
        if !request.passes(objectness) {
            continue;
        }
        let scores = columns.head..columns.head + request.classes;
        let Some((class_id, score)) = best_of(scores.map(field)) else {
            continue;
        };
        let score = objectness * activate(score);
        if request.passes(score) {
            let corners = around(field(0), field(1), field(2), field(3));
            request.push_column(out, corners, score, class_id, i);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decode::testing::{near, request, tensor};

    const BOXES: usize = 9;

    fn decoded(shape: &[usize], data: &[f32], objectness: bool) -> Vec<RawDetection> {
        let outputs = [tensor(shape, data)];
        let mut out = Vec::new();
        let column = Column {
            has_objectness: objectness,
            ..Column::default()
        };
        decode(
            &request(&outputs, 64, 2, 0.25),
            "yolov8",
            1,
            column,
            &mut out,
        )
        .expect("right shape");
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
            "yolov8",
            1,
            Column::default(),
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

    #[test]
    fn column_without_a_class_score_gives_no_box_at_any_confidence() {
        let row = [30.0, 20.0, 10.0, 8.0, f32::NAN, f32::NAN];
        let outputs = [tensor(&[1, 6, 1], &row)];
        let column = Column {
            sigmoid: true,
            ..Column::default()
        };
        let mut out = Vec::new();
        let request = request(&outputs, 64, 2, 0.0);
        decode(&request, "yolov8", 1, column, &mut out).expect("right shape");
        assert!(out.is_empty());
    }
}
