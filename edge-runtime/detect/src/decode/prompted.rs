//! Masks of promptable segmentation: the best of the masks that a network proposes.
//!
//! A pixel belongs to a mask where its bilinearly sampled value is not negative.

use watchkeeper_models::manifest::Cover;
use watchkeeper_vision::mask::Bitmap;

use super::error::DecodeError;
use super::lattice::Lattice;
use super::request::{Request, best};
use crate::letterbox::Letterbox;
use crate::network::Tensor;

const FAMILY: &str = "masks";
const FEATURES: &str = "features";
/// Networks with four masks return the one of an unambiguous prompt first, then those of an
/// ambiguous one.
const AMBIGUOUS_MASKS: usize = 4;

#[derive(Debug, Clone, PartialEq)]
pub struct PromptedMask {
    pub mask: Bitmap,
    /// The network's estimate of the mask's quality, about `0.0..=1.0`.
    pub confidence: f32,
}

/// Checks the number of the encoder's outputs, and that none is empty.
///
/// # Errors
/// [`DecodeError`]: the number differs, or one is empty.
pub fn features(outputs: &[Tensor<'_>], expected: usize) -> Result<(), DecodeError> {
    if outputs.len() != expected {
        return Err(DecodeError::Count {
            family: FEATURES,
            found: outputs.len(),
            expected,
        });
    }
    match outputs.iter().find(|t| t.data.is_empty()) {
        None => Ok(()),
        Some(empty) => Err(DecodeError::Shape {
            family: FEATURES,
            name: empty.name.to_owned(),
            found: empty.shape.to_vec(),
            expected: "numbers".to_owned(),
            classes: 0,
        }),
    }
}

/// Decodes the best mask of one prompt. The tensors are `1 × masks × rows × columns`, then `1 ×
/// masks` scores; further ones are ignored. Of four masks, the first is for an unambiguous prompt
/// and the others for an ambiguous one: `several` selects. Of another number all compete.
///
/// # Errors
/// [`DecodeError`]: fewer than two tensors, one of another shape, masks of the wrong size, or only
/// NaN scores.
pub fn decode(
    request: &Request<'_>,
    cover: Cover,
    place: &Letterbox,
    several: bool,
) -> Result<PromptedMask, DecodeError> {
    let [masks, scores, ..] = request.outputs else {
        return Err(DecodeError::Count {
            family: FAMILY,
            found: request.outputs.len(),
            expected: 2,
        });
    };
    let (number, rows, columns) = match *masks.shape {
        [1, number, rows, columns] => (number, rows, columns),
        _ => (0, 0, 0),
    };
    let size = [place.source_width, place.source_height];
    let fits = match cover {
        Cover::Input => rows > 0 && columns > 0,
        Cover::Picture => [columns, rows] == size.map(|side| side as usize),
    };
    let cells = rows.checked_mul(columns);
    let cells = cells.filter(|c| fits && c.checked_mul(number) == Some(masks.data.len()));
    let Some(cells) = cells.filter(|_| number > 0) else {
        let expected = match cover {
            Cover::Input => "1xNxHxW".to_owned(),
            Cover::Picture => format!("1xNx{}x{}", size[1], size[0]),
        };
        return Err(request.shape_error(FAMILY, masks, expected));
    };
    if !matches!(*scores.shape, [1, n] | [n] if n == number) || scores.data.len() != number {
        return Err(request.shape_error(FAMILY, scores, format!("1x{number}")));
    }
    let chosen = match number {
        AMBIGUOUS_MASKS if several => 1..number,
        AMBIGUOUS_MASKS => 0..1,
        _ => 0..number,
    };
    let first = chosen.start;
    let (index, confidence) =
        best(scores.data.get(chosen).unwrap_or_default()).ok_or_else(|| DecodeError::NoNumber {
            family: FAMILY,
            name: scores.name.to_owned(),
        })?;
    let from = (first + index) * cells;
    let grid = masks.data.get(from..from + cells).unwrap_or_default();
    let mask = match cover {
        Cover::Picture => {
            let at = |x: usize, y: usize| grid.get(y * columns + x).is_some_and(|n| *n >= 0.0);
            Bitmap::from_fn(size, at)
        }
        Cover::Input => over_input(request, grid, [rows, columns], place),
    };
    Ok(PromptedMask { mask, confidence })
}

/// Samples a mask over the whole input at the pixels of the picture.
fn over_input(
    request: &Request<'_>,
    grid: &[f32],
    [rows, columns]: [usize; 2],
    place: &Letterbox,
) -> Bitmap {
    let input = [request.width, request.height];
    let Lattice { across, down } = Lattice::over(place, input, [columns, rows]);
    let at = |row: usize, column: usize| {
        let number = grid.get(row * columns + column);
        number.copied().unwrap_or(f32::NEG_INFINITY)
    };
    Bitmap::from_fn([place.source_width, place.source_height], |x, y| {
        let (Some(x), Some(y)) = (across.get(x), down.get(y)) else {
            return false;
        };
        let along = |row: usize| at(row, x.low) * (1.0 - x.share) + at(row, x.high) * x.share;
        along(y.low) * (1.0 - y.share) + along(y.high) * y.share >= 0.0
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use watchkeeper_models::manifest::Fit;

    use super::*;
    use crate::decode::testing::{request, tensor};
    use crate::testing::input;

    /// Decodes a picture of 8x4 that fills an input of 8x8.
    fn decoded(
        masks: (&[usize], &[f32]),
        scores: &[f32],
        cover: Cover,
        several: bool,
    ) -> Result<PromptedMask, DecodeError> {
        let shape = [1, scores.len()];
        let outputs = [tensor(masks.0, masks.1), tensor(&shape, scores)];
        let place = Letterbox::fit(8, 4, &input(8, 8, Fit::Stretch)).expect("not empty");
        decode(&request(&outputs, 8, 0, 0.0), cover, &place, several)
    }

    /// `number` masks of 2x2 cells: `one` covers the left half, the others nothing.
    fn left_of(number: usize, one: usize) -> Vec<f32> {
        let of = |mask| {
            if mask == one {
                [3.0, -3.0, 3.0, -3.0]
            } else {
                [-1.0; 4]
            }
        };
        (0..number).flat_map(of).collect()
    }

    #[test]
    fn the_best_mask_is_stretched_over_the_picture() {
        let data = left_of(3, 1);
        let found = decoded((&[1, 3, 2, 2], &data), &[0.2, 0.9, 0.3], Cover::Input, true);
        let found = found.expect("fits");
        assert!((found.confidence - 0.9).abs() < 1e-6);
        assert_eq!(found.mask.size(), [8, 4]);
        let columns: Vec<usize> = (0..8).filter(|x| found.mask.at(*x, 3)).collect();
        assert_eq!(columns, [0, 1, 2, 3]);
    }

    #[test]
    fn first_of_four_masks_is_for_an_unambiguous_prompt() {
        let data = left_of(4, 0);
        let scores = [0.5, 0.9, 0.1, 0.1];
        let pixels = |several| {
            let found = decoded((&[1, 4, 2, 2], &data), &scores, Cover::Input, several);
            found.expect("fits").mask.count()
        };
        assert_eq!((pixels(false), pixels(true)), (16, 0));
    }

    #[test]
    fn masks_of_the_picture_have_its_size() {
        let data: Vec<f32> = (0..32)
            .map(|i| if i % 8 == 7 { 0.0 } else { -0.1 })
            .collect();
        let found = decoded((&[1, 1, 4, 8], &data), &[0.4], Cover::Picture, true);
        assert_eq!(found.expect("fits").mask.count(), 4);
        let turned = decoded((&[1, 1, 8, 4], &data), &[0.4], Cover::Picture, true);
        let said = turned.expect_err("refused").to_string();
        assert!(
            said.contains("1x1x8x4") && said.contains("1xNx4x8"),
            "{said}"
        );
    }

    #[test]
    fn what_says_of_no_mask_how_good_it_is_is_refused() {
        let data = left_of(2, 0);
        for scores in [&[f32::NAN, f32::NAN][..], &[0.5], &[]] {
            assert!(decoded((&[1, 2, 2, 2], &data), scores, Cover::Input, true).is_err());
        }
        assert!(decoded((&[1, 0, 2, 2], &[]), &[], Cover::Input, true).is_err());
        assert!(features(&[tensor(&[1, 0], &[])], 1).is_err());
        assert!(features(&[tensor(&[1, 1], &[0.0])], 2).is_err());
    }

    proptest! {
        #[test]
        fn whatever_the_numbers_are_a_mask_is_as_large_as_the_picture(
            data in prop::collection::vec(prop_oneof![-9.0f32..9.0, prop::num::f32::ANY], 4 * 6),
            scores in prop::collection::vec(prop_oneof![0.0f32..1.0, prop::num::f32::ANY], 4),
            several in any::<bool>(),
        ) {
            if let Ok(found) = decoded((&[1, 4, 2, 3], &data), &scores, Cover::Input, several) {
                prop_assert_eq!(found.mask.size(), [8, 4]);
                prop_assert!(!found.confidence.is_nan());
            }
        }
    }
}
