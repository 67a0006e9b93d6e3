//! Depth maps, in no known unit.

use super::error::DecodeError;
use super::request::Request;
use crate::letterbox::Letterbox;

const FAMILY: &str = "depth";

/// A map over the whole picture.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DepthMap {
    /// Rows and columns.
    pub size: [usize; 2],
    /// Values in rows, as the network returned them.
    pub data: Vec<f32>,
}

/// Rows, columns and values of the tensor: `1 × rows × columns`, or with a further axis of length
/// 1.
///
/// # Errors
/// [`DecodeError`]: not one tensor, or one of another shape.
pub fn grid<'a>(request: &Request<'a>) -> Result<(usize, usize, &'a [f32]), DecodeError> {
    let [tensor] = request.tensors::<1>(FAMILY)?;
    let (rows, columns) = match *tensor.shape {
        [1, 1, rows, columns] | [1, rows, columns, 1] | [1, rows, columns] | [rows, columns] => {
            (rows, columns)
        }
        _ => (0, 0),
    };
    if rows == 0 || columns == 0 || rows.checked_mul(columns) != Some(tensor.data.len()) {
        return Err(request.shape_error(FAMILY, tensor, "1xHxW".to_owned()));
    }
    Ok((rows, columns, tensor.data))
}

/// Decodes the part of the map that shows the picture.
///
/// # Errors
/// As [`grid`].
pub fn decode(request: &Request<'_>, place: &Letterbox) -> Result<DepthMap, DecodeError> {
    let (rows, columns, data) = grid(request)?;
    let part = |start: u32, length: u32, whole: u32, cells: usize| {
        let cell = cells as f64 / f64::from(whole.max(1));
        let from = ((f64::from(start) * cell).round() as usize).min(cells - 1);
        let to = (f64::from(start + length) * cell).round() as usize;
        from..to.clamp(from + 1, cells)
    };
    let across = part(place.left, place.width, request.width, columns);
    let down = part(place.top, place.height, request.height, rows);
    let size = [down.len(), across.len()];
    let lines = data.chunks_exact(columns).take(down.end).skip(down.start);
    let data = lines.flat_map(|line| line.get(across.clone()).unwrap_or_default());
    Ok(DepthMap {
        size,
        data: data.copied().collect(),
    })
}

#[cfg(test)]
mod tests {
    use watchkeeper_models::manifest::{Fit, Placement};

    use super::*;
    use crate::decode::testing::{request, tensor};
    use crate::testing::input;

    fn decoded(shape: &[usize], data: &[f32]) -> Result<DepthMap, DecodeError> {
        let outputs = [tensor(shape, data)];
        let fit = Fit::Letterbox {
            placement: Placement::TopLeft,
            pad: 0,
        };
        // A picture that fills the upper half of an input of 8x8.
        let place = Letterbox::fit(100, 50, &input(8, 8, fit)).expect("not empty");
        decode(&request(&outputs, 8, 0, 0.0), &place)
    }

    #[test]
    fn what_is_filled_up_is_left_out() {
        let data: Vec<f32> = (0..16_u8).map(f32::from).collect();
        for shape in [&[1, 4, 4][..], &[1, 1, 4, 4], &[1, 4, 4, 1], &[4, 4]] {
            let map = decoded(shape, &data).expect("fits");
            assert_eq!(map.size, [2, 4]);
            assert_eq!(map.data, data[..8]);
        }
        assert_eq!(decoded(&[1, 1, 1], &[3.0]).map(|m| m.data), Ok(vec![3.0]));
    }

    #[test]
    fn another_shape_is_refused() {
        for shape in [&[1, 3, 4, 4][..], &[1, 0, 4], &[16], &[1, 4, 5]] {
            assert!(decoded(shape, &[0.0; 16]).is_err(), "{shape:?}");
        }
    }
}
