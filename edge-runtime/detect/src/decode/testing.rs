//! Tensors for tests.

use watchkeeper_vision::geometry::BBox;

use super::request::Request;
use crate::network::Tensor;

pub(crate) fn request<'a>(
    outputs: &'a [Tensor<'a>],
    side: u32,
    classes: usize,
    confidence: f32,
) -> Request<'a> {
    Request {
        width: side,
        height: side,
        classes,
        confidence,
        outputs,
    }
}

pub(crate) fn tensor<'a>(shape: &'a [usize], data: &'a [f32]) -> Tensor<'a> {
    Tensor {
        name: "out",
        shape,
        data,
    }
}

/// Whether two boxes are equal up to rounding.
pub(crate) fn near(a: &BBox, b: [f64; 4], tolerance: f64) -> bool {
    [a.x1 - b[0], a.y1 - b[1], a.x2 - b[2], a.y2 - b[3]]
        .iter()
        .all(|d| d.abs() <= tolerance)
}
