//! Masks and keypoints of detections.
//!
//! - [`Shapes::read`] copies the values of the remaining boxes while the outputs are lent;
//!   [`Shapes::shape`] computes the shape later.
//! - No value panics, and no point has a coordinate that is not finite.
//! - A mask lies within its box.

use watchkeeper_models::Manifest;
use watchkeeper_models::manifest::DecodeKind;
use watchkeeper_vision::detections::Keypoint;
use watchkeeper_vision::geometry::{BBox, Point};
use watchkeeper_vision::mask::Bitmap;

use super::error::DecodeError;
use super::request::{Request, sigmoid};
use super::yolov8::{Column, Columns};
use crate::detection::RawDetection;
use crate::letterbox::Letterbox;
use crate::network::Tensor;

/// Bound of a mask's sides in pixels. Prototypes are far coarser; this limits the cost of a box
/// over a whole large picture.
const MAX_SIDE: u32 = 512;

/// Mask or keypoints of a detection, in pixels of the picture.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// Outline of the mask's part with the most corners; empty for an empty mask.
    Outline(Vec<Point>),
    Keypoints(Vec<Keypoint>),
}

/// Values read for the boxes of one picture; reuses its memory.
#[derive(Debug, Default)]
pub struct Shapes {
    /// Values of the boxes, one box after another.
    numbers: Vec<f32>,
    per_box: usize,
    /// Prototypes, one after another, row by row.
    prototypes: Vec<f32>,
    /// Rows and columns of a prototype.
    grid: [usize; 2],
}

impl Shapes {
    /// Copies the values of `boxes`, which [`super::decode`] returned. Copies nothing for families
    /// without masks and keypoints.
    ///
    /// # Errors
    /// [`DecodeError`]: the tensors are not of that family.
    pub fn read(
        &mut self,
        manifest: &Manifest,
        outputs: &[Tensor<'_>],
        boxes: &[RawDetection],
    ) -> Result<(), DecodeError> {
        self.numbers.clear();
        self.per_box = 0;
        let request = Request::of(manifest, outputs, 0.0);
        let family = manifest.decode.kind.name();
        let (tensor, more) = match &manifest.decode.kind {
            DecodeKind::Yolov8Seg { coefficients } => {
                let [columns, prototypes] = request.tensors::<2>(family)?;
                self.take_prototypes(&request, family, prototypes, *coefficients as usize)?;
                (columns, *coefficients as usize)
            }
            DecodeKind::Yolov8Pose { .. } => {
                let [columns] = request.tensors::<1>(family)?;
                (columns, numbers_behind(&manifest.decode.kind))
            }
            _ => return Ok(()),
        };
        let column = Column {
            more,
            ..Column::default()
        };
        let columns = Columns::of(&request, family, tensor, column)?;
        self.per_box = more;
        for found in boxes {
            self.numbers.extend(columns.more(found.column, more));
        }
        Ok(())
    }

    fn take_prototypes(
        &mut self,
        request: &Request<'_>,
        family: &'static str,
        tensor: &Tensor<'_>,
        number: usize,
    ) -> Result<(), DecodeError> {
        let shape_error = || request.shape_error(family, tensor, format!("1x{number}xHxW"));
        let grid = match *tensor.shape {
            [1, n, rows, columns] if n == number && rows > 0 && columns > 0 => [rows, columns],
            _ => return Err(shape_error()),
        };
        let cells = grid[0].checked_mul(grid[1]);
        if cells.and_then(|cells| cells.checked_mul(number)) != Some(tensor.data.len()) {
            return Err(shape_error());
        }
        self.grid = grid;
        self.prototypes.clear();
        self.prototypes.extend_from_slice(tensor.data);
        Ok(())
    }

    /// The shape of the box at `index` of those that were read; `None` for families without shapes.
    /// `bbox` is its box in the picture, and `place` the picture's place in the input.
    #[must_use]
    pub fn shape(
        &self,
        manifest: &Manifest,
        index: usize,
        bbox: &BBox,
        place: &Letterbox,
    ) -> Option<Shape> {
        let first = index.checked_mul(self.per_box)?;
        let numbers = self.numbers.get(first..)?.get(..self.per_box)?;
        match &manifest.decode.kind {
            DecodeKind::Yolov8Seg { .. } => {
                let input = [manifest.input.width, manifest.input.height].map(f64::from);
                Some(Shape::Outline(self.outline(numbers, bbox, place, input)))
            }
            DecodeKind::Yolov8Pose {
                keypoints,
                has_visibility,
            } => {
                let width = if *has_visibility { 3 } else { 2 };
                let points = keypoints.iter().zip(numbers.chunks_exact(width));
                let points = points.enumerate().filter_map(|(id, (name, numbers))| {
                    let [x, y] = [numbers.first()?, numbers.get(1)?].map(|v| f64::from(*v));
                    let score = numbers.get(2).map_or(1.0, |score| f64::from(*score));
                    let at = place.point_to_source(Point::new(x, y));
                    (at.x.is_finite() && at.y.is_finite() && score.is_finite()).then(|| Keypoint {
                        at,
                        confidence: score.clamp(0.0, 1.0),
                        class_id: i64::try_from(id).unwrap_or(i64::MAX),
                        class: name.clone(),
                    })
                });
                Some(Shape::Keypoints(points.collect()))
            }
            _ => None,
        }
    }

    /// The outline of a mask: the sigmoid of the weighted sum of prototypes, sampled bilinearly,
    /// cropped to the box and cut at one half. Bolya et al., "YOLACT", ICCV 2019, 3.2.
    fn outline(
        &self,
        weights: &[f32],
        bbox: &BBox,
        place: &Letterbox,
        input: [f64; 2],
    ) -> Vec<Point> {
        let picture = [place.source_width, place.source_height].map(f64::from);
        let bbox = bbox.clip(picture[0], picture[1]);
        let (left, top) = (bbox.x1.floor(), bbox.y1.floor());
        let [width, height] = [bbox.x2.ceil() - left, bbox.y2.ceil() - top].map(|side| side as u32);
        if width == 0 || height == 0 {
            return Vec::new();
        }
        let [rows, columns] = self.grid;
        let cell = [input[0] / columns as f64, input[1] / rows as f64];
        // Pixels of the picture between two samples.
        let step = width.max(height).div_ceil(MAX_SIDE);
        // Maps a sample of the box to coordinates between cell centres.
        let among = |x: usize, y: usize| {
            let middle = |start: f64, n: usize| start + n as f64 * f64::from(step) + 0.5;
            let p = place.point_to_input(Point::new(middle(left, x), middle(top, y)));
            let last = [columns, rows].map(|n| (n - 1) as f64);
            [
                (p.x / cell[0] - 0.5).clamp(0.0, last[0]),
                (p.y / cell[1] - 0.5).clamp(0.0, last[1]),
            ]
        };
        let size = [width, height].map(|side| side.div_ceil(step));
        let from = among(0, 0).map(|v| v.floor() as usize);
        let to = among(size[0] as usize - 1, size[1] as usize - 1).map(|v| v.ceil() as usize);
        let patch_width = to[0] - from[0] + 1;
        let patch = self.activations(weights, from, [patch_width, to[1] - from[1] + 1]);
        let mask = Bitmap::from_fn(size, |x, y| {
            let at = among(x, y);
            let low = at.map(|v| v.floor() as usize);
            let high = [(low[0] + 1).min(to[0]), (low[1] + 1).min(to[1])];
            let [fx, fy] = [at[0] - at[0].floor(), at[1] - at[1].floor()];
            let value = |column: usize, row: usize| {
                f64::from(patch[(row - from[1]) * patch_width + (column - from[0])])
            };
            let upper = value(low[0], low[1]) * (1.0 - fx) + value(high[0], low[1]) * fx;
            let lower = value(low[0], high[1]) * (1.0 - fx) + value(high[0], high[1]) * fx;
            upper * (1.0 - fy) + lower * fy > 0.5
        });
        let outline = mask.longest_outline().unwrap_or_default();
        let to_picture = |p: Point| {
            let step = f64::from(step);
            Point::new(left + p.x * step, top + p.y * step)
        };
        outline.into_iter().map(to_picture).collect()
    }
}

impl Shapes {
    /// Sigmoid of the weighted sum of prototypes, over the cells of `size` from `from`.
    fn activations(
        &self,
        weights: &[f32],
        from: [usize; 2],
        [width, height]: [usize; 2],
    ) -> Vec<f32> {
        let [rows, columns] = self.grid;
        let mut patch = vec![0.0f32; width * height];
        let prototypes = self.prototypes.chunks_exact(rows * columns);
        for (weight, prototype) in weights.iter().zip(prototypes) {
            for (line, row) in patch.chunks_exact_mut(width).zip(from[1]..) {
                let start = row * columns + from[0];
                for (sum, value) in line.iter_mut().zip(&prototype[start..start + width]) {
                    *sum += weight * value;
                }
            }
        }
        patch.iter_mut().for_each(|v| *v = sigmoid(*v));
        patch
    }
}

/// Number of values after the class scores of each box.
pub(super) fn numbers_behind(kind: &DecodeKind) -> usize {
    match kind {
        DecodeKind::Yolov8Seg { coefficients } => *coefficients as usize,
        DecodeKind::Yolov8Pose {
            keypoints,
            has_visibility,
        } => keypoints.len() * if *has_visibility { 3 } else { 2 },
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::decode::{decode, testing::tensor};

    /// A network of 64x64 pixels with two classes.
    fn manifest(task: &str, decode: &str) -> Manifest {
        let text = format!(
            "name = \"m\"\ntask = \"{task}\"\nconfidence = 0.5\nlabels = [\"a\", \"b\"]\n[input]\nwidth = 64\nheight = 64\n\
             layout = \"nchw\"\ncolour = \"rgb\"\ndtype = \"f32\"\nfit = \"letterbox\"\nplacement = \"top-left\"\npad = 114\n\
             [decode]\n{decode}\n"
        );
        Manifest::parse(Path::new("m.toml"), &text).expect("a good manifest")
    }

    fn seg() -> Manifest {
        manifest(
            "instance-segmentation",
            "kind = \"yolov8-seg\"\ncoefficients = 2",
        )
    }

    /// Shapes of all boxes, for a picture of 128x64 in the input of 64x64.
    fn shapes(manifest: &Manifest, outputs: &[Tensor<'_>]) -> Vec<(BBox, Shape)> {
        let place = Letterbox::fit(128, 64, &manifest.input).expect("not empty");
        let (mut boxes, mut shapes) = (Vec::new(), Shapes::default());
        decode(manifest, manifest.classes(), outputs, 0.5, &mut boxes).expect("fits");
        shapes.read(manifest, outputs, &boxes).expect("fits");
        let shape = |(i, found): (usize, &RawDetection)| {
            let bbox = place.to_source(&found.bbox);
            (
                bbox,
                shapes
                    .shape(manifest, i, &bbox, &place)
                    .expect("one for each"),
            )
        };
        boxes.iter().enumerate().map(shape).collect()
    }

    #[test]
    fn mask_is_weighted_sum_of_prototypes_within_its_box() {
        let manifest = seg();
        // Prototype 0 covers the left half of the input, prototype 1 the upper half; 16x16 cells of
        // 4 pixels.
        let mut prototypes = vec![-4.0; 2 * 256];
        for cell in 0..256 {
            if cell % 16 < 8 {
                prototypes[cell] = 4.0;
            }
            if cell / 16 < 8 {
                prototypes[256 + cell] = 4.0;
            }
        }
        // Two boxes of x 8..56, y 8..24 of the input: one takes prototype 0, one its complement.
        let columns = [
            [32.0, 16.0, 48.0, 16.0, 0.9, 0.0, 1.0, 0.0],
            [32.0, 16.0, 48.0, 16.0, 0.0, 0.8, -1.0, 0.0],
        ]
        .concat();
        let outputs = [
            tensor(&[1, 2, 8], &columns),
            tensor(&[1, 2, 16, 16], &prototypes),
        ];
        let found = shapes(&manifest, &outputs);
        let spans: Vec<[f64; 4]> = found
            .iter()
            .map(|(_, shape)| {
                let Shape::Outline(points) = shape else {
                    panic!("{shape:?}");
                };
                let bounds = |of: fn(&Point) -> f64| {
                    let all = points.iter().map(of);
                    (
                        all.clone().fold(f64::MAX, f64::min),
                        all.fold(f64::MIN, f64::max),
                    )
                };
                let ((x1, x2), (y1, y2)) = (bounds(|p| p.x), bounds(|p| p.y));
                [x1, y1, x2, y2]
            })
            .collect();
        // The picture is twice the input: the box is x 16..112, y 16..48, and its middle x 64.
        assert_eq!(spans, [[16.0, 16.0, 63.0, 47.0], [64.0, 16.0, 111.0, 47.0]]);
    }

    #[test]
    fn points_come_in_pixels_of_the_picture_with_their_names() {
        let manifest = manifest(
            "keypoint-detection",
            "kind = \"yolov8-pose\"\nkeypoints = [\"nose\", \"tail\"]",
        );
        let column = [
            32.0,
            16.0,
            8.0,
            8.0,
            0.9,
            0.0,
            10.0,
            5.0,
            0.75,
            f32::NAN,
            5.0,
            0.5,
        ];
        let found = shapes(&manifest, &[tensor(&[1, 12, 1], &column)]);
        let Shape::Keypoints(points) = &found[0].1 else {
            panic!("{found:?}");
        };
        // A keypoint with NaN is dropped; the others keep their class ids.
        assert_eq!(points.len(), 1);
        assert_eq!((&*points[0].class, points[0].class_id), ("nose", 0));
        assert_eq!(
            (points[0].at, points[0].confidence),
            (Point::new(20.0, 10.0), 0.75)
        );
    }

    #[test]
    fn prototypes_of_another_number_are_refused() {
        let (columns, prototypes) = ([0.0; 8], [0.0; 48]);
        for shape in [&[1, 3, 4, 4][..], &[1, 2, 4, 4], &[2, 16], &[1, 2, 0, 4]] {
            let outputs = [tensor(&[1, 8, 1], &columns), tensor(shape, &prototypes)];
            let refused = Shapes::default().read(&seg(), &outputs, &[]);
            assert!(refused.is_err(), "{shape:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_the_numbers_are_a_mask_lies_within_its_box(
            columns in prop::collection::vec(prop_oneof![-100.0f32..100.0, prop::num::f32::ANY], 3 * 8),
            prototypes in prop::collection::vec(prop_oneof![-5.0f32..5.0, prop::num::f32::ANY], 2 * 6),
        ) {
            let outputs = [tensor(&[1, 8, 3], &columns), tensor(&[1, 2, 2, 3], &prototypes)];
            for (bbox, shape) in shapes(&seg(), &outputs) {
                let Shape::Outline(points) = shape else { unreachable!() };
                let inside = |p: &Point| {
                    p.x >= bbox.x1.floor() && p.x <= bbox.x2.ceil() && p.y >= bbox.y1.floor() && p.y <= bbox.y2.ceil()
                };
                prop_assert!(points.iter().all(inside), "{bbox:?} {points:?}");
            }
        }
    }
}
