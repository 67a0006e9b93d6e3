//! Semantic segmentation: the class of each pixel, bilinearly sampled from the network's grid.
//!
//! Scores are computed per cell, because a picture has far more pixels. Where all four cells around
//! a pixel agree, the pixel takes their class; only at borders the scores of all classes are
//! interpolated.

use std::collections::BTreeMap;

use watchkeeper_models::manifest::ClassScores;
use watchkeeper_vision::mask::Bitmap;

use super::error::DecodeError;
use super::lattice::{Between, Lattice};
use super::request::{Request, best, to_scores};
use crate::letterbox::Letterbox;

const FAMILY: &str = "segments";
/// Bound of the cells of all masks of one picture, one byte each.
const MAX_CELLS: usize = 1 << 28;

/// The pixels of one class.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    pub class_id: usize,
    pub mask: Bitmap,
    /// Mean score of its pixels, `0.0..=1.0`.
    pub confidence: f32,
}

/// The network's tensor: `1 × classes × rows × columns`.
#[derive(Debug, Clone, Copy)]
pub struct Grid<'a> {
    classes: usize,
    rows: usize,
    columns: usize,
    data: &'a [f32],
}

impl<'a> Grid<'a> {
    /// Reads the tensor of a request.
    ///
    /// # Errors
    /// [`DecodeError`]: not one tensor, or one of another shape.
    pub fn of(request: &Request<'a>) -> Result<Self, DecodeError> {
        let [tensor] = request.tensors::<1>(FAMILY)?;
        let grid = match *tensor.shape {
            [1, classes, rows, columns] if classes == request.classes => Some((rows, columns)),
            _ => None,
        };
        let grid = grid.filter(|(rows, columns)| *rows > 0 && *columns > 0);
        let count = |(rows, columns): (usize, usize)| {
            rows.checked_mul(columns)?.checked_mul(request.classes)
        };
        match grid {
            Some((rows, columns)) if count((rows, columns)) == Some(tensor.data.len()) => {
                Ok(Self {
                    classes: request.classes,
                    rows,
                    columns,
                    data: tensor.data,
                })
            }
            _ => {
                let expected = format!("1x{}xHxW", request.classes);
                Err(request.shape_error(FAMILY, tensor, expected))
            }
        }
    }

    /// The scores of all classes, cell by cell, `0.0..=1.0`.
    fn scores(&self, scores: ClassScores) -> Vec<f32> {
        let places = self.rows * self.columns;
        let mut out = Vec::with_capacity(self.data.len());
        for place in 0..places {
            let from = out.len();
            let here = self.data.iter().skip(place).step_by(places);
            out.extend(here.take(self.classes));
            to_scores(&mut out[from..], scores);
        }
        out
    }
}

/// Parameters of a segmentation.
#[derive(Clone, Copy)]
pub struct SegmentParams<'a> {
    /// Function that turns logits into scores.
    pub scores: ClassScores,
    /// Lowest score of a pixel that belongs to a segment.
    pub confidence: f32,
    /// Whether a class may form a segment; the background and unused classes may not.
    pub is_something: &'a dyn Fn(usize) -> bool,
    /// The picture's place in the input.
    pub place: &'a Letterbox,
}

/// Decodes the segments, by rising class id. Clears `out` first. When they exceed the bound of
/// cells, those with the most pixels remain.
///
/// # Errors
/// As [`Grid::of`].
pub fn decode(
    request: &Request<'_>,
    params: &SegmentParams<'_>,
    out: &mut Vec<Segment>,
) -> Result<(), DecodeError> {
    out.clear();
    let grid = Grid::of(request)?;
    let scores = grid.scores(params.scores);
    let map = Map::new(&grid, &scores, request, params);
    let pixels: Vec<Option<(usize, f32)>> = map.pixels().collect();
    let mut shown: BTreeMap<usize, (usize, f64)> = BTreeMap::new();
    for (class, score) in pixels.iter().flatten() {
        let (count, sum) = shown.entry(*class).or_default();
        *count += 1;
        *sum += f64::from(*score);
    }
    let mut largest: Vec<(usize, usize, f64)> = shown
        .into_iter()
        .map(|(class, (count, sum))| (class, count, sum))
        .collect();
    largest.sort_by_key(|(_, count, _)| std::cmp::Reverse(*count));
    largest.truncate((MAX_CELLS / pixels.len().max(1)).max(1));
    largest.sort_by_key(|(class, ..)| *class);
    let width = params.place.source_width as usize;
    let size = [params.place.source_width, params.place.source_height];
    for (class_id, count, sum) in largest {
        let is_it = |x: usize, y: usize| {
            let pixel = pixels.get(y * width + x);
            pixel.is_some_and(|p| p.is_some_and(|(class, _)| class == class_id))
        };
        let confidence = (sum / count as f64) as f32;
        out.push(Segment {
            class_id,
            mask: Bitmap::from_fn(size, is_it),
            confidence,
        });
    }
    Ok(())
}

/// Sampling of the grid at the pixels of the picture.
struct Map<'a> {
    grid: &'a Grid<'a>,
    scores: &'a [f32],
    best: Vec<Option<(usize, f32)>>,
    params: &'a SegmentParams<'a>,
    lattice: Lattice,
}

impl<'a> Map<'a> {
    fn new(
        grid: &'a Grid<'a>,
        scores: &'a [f32],
        request: &Request<'_>,
        params: &'a SegmentParams<'a>,
    ) -> Self {
        Self {
            grid,
            scores,
            best: scores.chunks_exact(grid.classes).map(best).collect(),
            params,
            lattice: Lattice::over(
                params.place,
                [request.width, request.height],
                [grid.columns, grid.rows],
            ),
        }
    }

    /// Class and score of each pixel, row by row; `None` for none.
    fn pixels(&self) -> impl Iterator<Item = Option<(usize, f32)>> + '_ {
        let Lattice { across, down } = &self.lattice;
        let along = move |y| across.iter().map(move |x| self.pixel(x, y));
        down.iter().flat_map(along)
    }

    fn pixel(&self, x: &Between, y: &Between) -> Option<(usize, f32)> {
        let columns = self.grid.columns;
        let places = [
            (y.low * columns + x.low, (1.0 - y.share) * (1.0 - x.share)),
            (y.low * columns + x.high, (1.0 - y.share) * x.share),
            (y.high * columns + x.low, y.share * (1.0 - x.share)),
            (y.high * columns + x.high, y.share * x.share),
        ];
        let best_at = |i: usize| self.best.get(i).copied().flatten();
        let (class, _) = best_at(places[0].0)?;
        let agree = places
            .iter()
            .all(|(i, _)| best_at(*i).is_some_and(|(other, _)| other == class));
        let weighed = |class: usize| {
            let part = |(i, share): &(usize, f32)| {
                let score = self.scores.get(i * self.grid.classes + class);
                share * score.copied().unwrap_or(0.0)
            };
            places.iter().map(part).sum::<f32>()
        };
        let (class, score) = if agree {
            (class, weighed(class))
        } else {
            let all: Vec<f32> = (0..self.grid.classes).map(weighed).collect();
            best(&all)?
        };
        let is_it = score >= self.params.confidence && (self.params.is_something)(class);
        is_it.then_some((class, score.clamp(0.0, 1.0)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use watchkeeper_models::manifest::{Fit, Placement};

    use super::*;
    use crate::decode::testing::{request, tensor};
    use crate::testing::input;

    /// Decodes a picture of 8x4 that fills the upper half of an input of 8x8.
    fn decoded(
        classes: usize,
        shape: &[usize],
        data: &[f32],
        scores: ClassScores,
        confidence: f32,
    ) -> Result<Vec<Segment>, DecodeError> {
        let outputs = [tensor(shape, data)];
        let fit = Fit::Letterbox {
            placement: Placement::TopLeft,
            pad: 0,
        };
        let place = Letterbox::fit(8, 4, &input(8, 8, fit)).expect("not empty");
        let params = SegmentParams {
            scores,
            confidence,
            is_something: &|class| class > 0,
            place: &place,
        };
        let mut out = Vec::new();
        decode(&request(&outputs, 8, classes, 0.0), &params, &mut out).map(|()| out)
    }

    /// Logits of three classes at 4x4 cells: background on the left, then class 1, then class 2.
    fn thirds() -> Vec<f32> {
        let at = |class: usize, x: usize| match (class, x) {
            (0, 0) | (1, 1 | 2) | (2, 3) => 4.0,
            _ => 0.0,
        };
        (0..48).map(|i| at(i / 16, i % 4)).collect()
    }

    #[test]
    fn each_present_class_has_its_pixels_and_padding_has_none() {
        let found = decoded(3, &[1, 3, 4, 4], &thirds(), ClassScores::Softmax, 0.4).expect("fits");
        let classes: Vec<_> = found.iter().map(|s| s.class_id).collect();
        assert_eq!(classes, [1, 2]);
        let columns = |s: &Segment| (0..8).filter(|x| s.mask.at(*x, 0)).collect::<Vec<_>>();
        assert_eq!(columns(&found[0]), [2, 3, 4, 5]);
        assert_eq!(columns(&found[1]), [6, 7]);
        assert_eq!(found[0].mask.size(), [8, 4]);
        let sure = 4.0_f32.exp() / (4.0_f32.exp() + 2.0);
        assert!(
            found[0].confidence > 0.6 && found[0].confidence <= sure,
            "{}",
            found[0].confidence
        );
    }

    #[test]
    fn a_pixel_that_is_not_sure_enough_belongs_to_nothing() {
        let found = decoded(3, &[1, 3, 4, 4], &thirds(), ClassScores::Softmax, 0.95).expect("fits");
        // Only where all four surrounding cells agree.
        let pixels: usize = found.iter().map(|s| s.mask.count()).sum();
        assert_eq!(pixels, 2 * 4 + 4, "{found:?}");
    }

    #[test]
    fn another_number_of_classes_is_refused_with_both() {
        let refused = decoded(2, &[1, 3, 4, 4], &thirds(), ClassScores::Plain, 0.5);
        let said = refused.expect_err("refused").to_string();
        assert!(
            said.contains("1x3x4x4") && said.contains("1x2xHxW"),
            "{said}"
        );
        assert!(decoded(3, &[1, 3, 0, 4], &[], ClassScores::Plain, 0.5).is_err());
        assert!(decoded(3, &[1, 3, 4, 4], &[0.0; 47], ClassScores::Plain, 0.5).is_err());
    }

    proptest! {
        #[test]
        fn whatever_the_numbers_are_no_pixel_belongs_to_two(
            data in prop::collection::vec(prop_oneof![-9.0f32..9.0, prop::num::f32::ANY], 3 * 6),
            confidence in 0.0f32..1.0,
            scores in prop_oneof![
                Just(ClassScores::Plain), Just(ClassScores::Sigmoid), Just(ClassScores::Softmax),
            ],
        ) {
            let found = decoded(3, &[1, 3, 2, 3], &data, scores, confidence).expect("fits");
            let pixels: usize = found.iter().map(|s| s.mask.count()).sum();
            prop_assert!(pixels <= 32);
            for segment in &found {
                prop_assert!((0.0..=1.0).contains(&segment.confidence), "{}", segment.confidence);
                prop_assert!(segment.class_id > 0 && segment.mask.count() > 0);
            }
        }
    }
}
