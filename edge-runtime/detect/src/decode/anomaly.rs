//! Anomaly score of a picture, and its anomaly map.

use super::depth::{self, DepthMap};
use super::error::DecodeError;
use super::request::Request;
use crate::letterbox::Letterbox;

const FAMILY: &str = "anomaly";

/// Anomaly score and map, in units of the model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Anomaly {
    /// Finite; higher is more unusual.
    pub score: f32,
    /// Score from which a picture is anomalous.
    pub threshold: f32,
    /// Margin over the threshold at which an anomaly is fairly certain; over 0.
    pub deviation: f32,
    /// Anomaly scores over the whole picture; finite.
    pub map: DepthMap,
}

/// Checks the shapes of the tensors, not their values.
///
/// # Errors
/// [`DecodeError`]: not two tensors, or one of another shape.
pub fn check(request: &Request<'_>) -> Result<(), DecodeError> {
    parts(request).map(|_| ())
}

/// The score, and the request for the map.
fn parts<'a>(request: &Request<'a>) -> Result<(f32, Request<'a>), DecodeError> {
    let [score, map] = request.tensors::<2>(FAMILY)?;
    let &[number] = score.data else {
        return Err(request.shape_error(FAMILY, score, "1".to_owned()));
    };
    let of_map = Request {
        outputs: std::slice::from_ref(map),
        ..*request
    };
    depth::grid(&of_map).map_err(|e| e.of(FAMILY))?;
    Ok((number, of_map))
}

/// Decodes the score, and the part of the map that shows the picture.
///
/// # Errors
/// As [`check`], or a value is not finite.
pub fn decode(request: &Request<'_>, place: &Letterbox) -> Result<(f32, DepthMap), DecodeError> {
    let (score, of_map) = parts(request)?;
    let map = depth::decode(&of_map, place)?;
    let [first, second] = request.tensors::<2>(FAMILY)?;
    let none = |name: &str| DecodeError::NoNumber {
        family: FAMILY,
        name: name.to_owned(),
    };
    if !score.is_finite() {
        return Err(none(first.name));
    }
    if !map.data.iter().all(|n| n.is_finite()) {
        return Err(none(second.name));
    }
    Ok((score, map))
}

#[cfg(test)]
mod tests {
    use watchkeeper_models::manifest::{Fit, Placement};

    use super::*;
    use crate::decode::testing::{request, tensor};
    use crate::testing::input;

    /// Decodes a picture that fills the upper half of an input of 8x8.
    fn decoded(score: (&[usize], &[f32]), map: &[f32]) -> Result<(f32, DepthMap), DecodeError> {
        let outputs = [tensor(score.0, score.1), tensor(&[1, 1, 2, 2], map)];
        let fit = Fit::Letterbox {
            placement: Placement::TopLeft,
            pad: 0,
        };
        let place = Letterbox::fit(100, 50, &input(8, 8, fit)).expect("not empty");
        decode(&request(&outputs, 8, 0, 0.0), &place)
    }

    #[test]
    fn a_score_comes_with_the_map_of_the_picture_alone() {
        for shape in [&[1][..], &[1, 1], &[]] {
            let (score, map) = decoded((shape, &[0.7]), &[1.0, 2.0, 3.0, 4.0]).expect("fits");
            assert_eq!((score, map.size, map.data), (0.7, [1, 2], vec![1.0, 2.0]));
        }
    }

    #[test]
    fn what_is_no_score_or_no_number_is_refused() {
        let map = [0.0; 4];
        assert!(decoded((&[1, 2], &[0.1, 0.2]), &map).is_err());
        assert!(decoded((&[1], &[f32::NAN]), &map).is_err());
        let said = decoded((&[1], &[0.5]), &[0.0, f32::INFINITY, 0.0, 0.0]);
        assert!(
            said.expect_err("refused")
                .to_string()
                .contains("NaN or infinity")
        );
        assert!(decoded((&[1], &[0.5]), &[0.0; 3]).is_err());
    }
}
