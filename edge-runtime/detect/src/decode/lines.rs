//! Lines of text from a probability map: connected cells, and the smallest rotated rectangle around
//! each, expanded by what the network cuts off. See Liao et al., "Real-time Scene Text Detection
//! with Differentiable Binarization", AAAI 2020, 3.5.

use watchkeeper_models::manifest::LineNetwork;
use watchkeeper_vision::geometry::Point;
use watchkeeper_vision::mask::Bitmap;
use watchkeeper_vision::outline::{TurnedRect, around, min_area_rect};

use super::error::DecodeError;
use super::request::Request;
use crate::network::Tensor;

const FAMILY: &str = "lines";
/// Bound of the connected components; more are noise.
const MAX_COMPONENTS: usize = 1000;
/// Shortest side of a component, in cells; thinner ones hold no letters.
const MIN_SIDE: f64 = 3.0;

/// A line of text, in pixels of the input.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Corners in reading order: upper left, upper right, lower right, lower left.
    pub corners: [Point; 4],
    /// Mean probability of the component, `0.0..=1.0`.
    pub score: f32,
}

/// Decodes the lines, the topmost component first. Clears `out` first.
///
/// # Errors
/// [`DecodeError`]: not one tensor, or another shape than `1 × 1 × rows × columns` or `1 × rows ×
/// columns`.
pub fn decode(
    network: &LineNetwork,
    outputs: &[Tensor<'_>],
    out: &mut Vec<Line>,
) -> Result<(), DecodeError> {
    out.clear();
    let request = Request {
        width: network.input.width,
        height: network.input.height,
        classes: 0,
        confidence: network.confidence,
        outputs,
    };
    let [tensor] = request.tensors::<1>(FAMILY)?;
    let (rows, columns) = match *tensor.shape {
        [1, 1, rows, columns] | [1, rows, columns] => (rows, columns),
        _ => (0, 0),
    };
    if rows == 0 || columns == 0 || rows.checked_mul(columns) != Some(tensor.data.len()) {
        return Err(request.shape_error(FAMILY, tensor, "1x1xHxW".to_owned()));
    }
    let at = |x: usize, y: usize| tensor.data.get(y * columns + x).copied().unwrap_or(0.0);
    let side = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let marked = Bitmap::from_fn([side(columns), side(rows)], |x, y| {
        at(x, y) > network.threshold
    });
    let scale = [
        f64::from(network.input.width) / columns as f64,
        f64::from(network.input.height) / rows as f64,
    ];
    for outline in marked.parts().into_iter().take(MAX_COMPONENTS) {
        let Some(rect) = min_area_rect(&outline) else {
            continue;
        };
        // The outline runs through the centres of border cells, so the rectangle is one cell too
        // small.
        let rect = grown(rect, 1.0);
        if rect.width.min(rect.height) < MIN_SIDE {
            continue;
        }
        let score = mean_within(&outline, at);
        if !request.passes(score) {
            continue;
        }
        let perimeter = 2.0 * (rect.width + rect.height);
        let by = rect.width * rect.height * f64::from(network.unclip) / perimeter;
        let corners = grown(rect, 2.0 * by)
            .corners()
            .map(|p| Point::new((p.x + 0.5) * scale[0], (p.y + 0.5) * scale[1]));
        out.push(Line {
            corners: reading(corners),
            score: score.min(1.0),
        });
    }
    Ok(())
}

/// Lengthens both sides of a rectangle.
fn grown(rect: TurnedRect, by: f64) -> TurnedRect {
    TurnedRect {
        width: rect.width + by,
        height: rect.height + by,
        ..rect
    }
}

/// Mean of the values inside an outline and on it; NaN counts as 0.
fn mean_within(outline: &[Point], at: impl Fn(usize, usize) -> f32) -> f32 {
    let span = around(outline);
    let (left, top) = (span.x1 as usize, span.y1 as usize);
    let local: Vec<Point> = outline
        .iter()
        .map(|p| Point::new(p.x - span.x1, p.y - span.y1))
        .collect();
    let size = [span.width() as u32 + 1, span.height() as u32 + 1];
    let inside = Bitmap::fill(&local, size);
    let (mut sum, mut count) = (0.0_f64, 0.0_f64);
    for y in 0..size[1] as usize {
        for x in (0..size[0] as usize).filter(|x| inside.at(*x, y)) {
            let value = at(left + x, top + y);
            sum += if value.is_finite() {
                f64::from(value)
            } else {
                0.0
            };
            count += 1.0;
        }
    }
    if count > 0.0 {
        (sum / count) as f32
    } else {
        0.0
    }
}

/// Height over width from which a line counts as vertical; narrow words stay horizontal.
const VERTICAL_RATIO: f64 = 1.5;

/// Sorts the corners of a rectangle in reading order: from the left, or from the top where the line
/// is vertical.
fn reading(corners: [Point; 4]) -> [Point; 4] {
    let first_by = |value: fn(&Point) -> f64| {
        let mut best = corners[0];
        for corner in corners {
            if value(&corner) < value(&best) {
                best = corner;
            }
        }
        best
    };
    let ordered = [
        first_by(|p| p.x + p.y),
        first_by(|p| p.y - p.x),
        first_by(|p| -p.x - p.y),
        first_by(|p| p.x - p.y),
    ];
    let [a, b, c, d] = ordered;
    let apart = |p: Point, q: Point| (p.x - q.x).hypot(p.y - q.y);
    if apart(a, d) >= VERTICAL_RATIO * apart(a, b) {
        // As PaddleOCR does: the picture of the line is rotated to the left.
        [b, c, d, a]
    } else {
        ordered
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;
    use watchkeeper_models::Manifest;

    use super::*;
    use crate::decode::testing::tensor;

    pub(crate) fn network() -> LineNetwork {
        let input = "width = 32\nheight = 16\nlayout = \"nchw\"\ncolour = \"rgb\"\ndtype = \"f32\"\nfit = \"stretch\"\n";
        let text = format!(
            "name = \"m\"\ntask = \"text-reading\"\nconfidence = 0.5\n[input]\n{input}[decode]\nkind = \"ctc\"\ncharacters = \"ab\"\n\
             blank = \"first\"\nscores = \"plain\"\n[lines]\nfile = \"l.onnx\"\nthreshold = 0.3\nconfidence = 0.6\nunclip = 1.5\n\
             [lines.input]\n{input}"
        );
        let manifest = Manifest::parse(Path::new("m.toml"), &text).expect("a good manifest");
        manifest.lines.expect("lines")
    }

    fn found(shape: &[usize], data: &[f32]) -> Result<Vec<Line>, DecodeError> {
        let mut out = Vec::new();
        decode(&network(), &[tensor(shape, data)], &mut out).map(|()| out)
    }

    fn map(value: impl Fn(usize, usize) -> f32) -> Vec<f32> {
        (0..16 * 32).map(|i| value(i % 32, i / 32)).collect()
    }

    #[test]
    fn likely_text_becomes_a_line_larger_than_its_marks() {
        let two = map(|x, y| match (x, y) {
            (4..=13, 4..=7) => 0.9,
            // Thinner than letters, and too faint.
            (20..=29, 2..=3) => 0.9,
            (20..=29, 8..=12) => 0.5,
            _ => 0.1,
        });
        let lines = found(&[1, 1, 16, 32], &two).expect("fits");
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!((lines[0].score - 0.9).abs() < 1e-6);
        // 10 x 4 cells expand by 40 * 1.5 / 28 on every side, around 9 x 6.
        let by = 40.0 * 1.5 / 28.0;
        let wanted = [
            (4.0 - by, 4.0 - by),
            (14.0 + by, 4.0 - by),
            (14.0 + by, 8.0 + by),
            (4.0 - by, 8.0 + by),
        ];
        for (corner, wanted) in lines[0].corners.iter().zip(wanted) {
            let near = (corner.x - wanted.0).abs() < 1e-6 && (corner.y - wanted.1).abs() < 1e-6;
            assert!(near, "{corner:?} {wanted:?}");
        }
    }

    #[test]
    fn a_line_that_runs_downwards_is_read_from_its_upper_end() {
        let upright =
            map(|x, y| f32::from(u8::from((4..=7).contains(&x) && (2..=13).contains(&y))));
        let lines = found(&[1, 16, 32], &upright).expect("fits");
        let [a, b, ..] = lines[0].corners;
        assert!(a.x > 7.0 && a.y < 2.0, "{a:?}");
        assert!(b.x > 7.0 && b.y > 13.0, "{b:?}");
    }

    #[test]
    fn a_coarse_map_covers_the_whole_input() {
        let lines = found(&[1, 1, 4, 8], &[1.0; 32]).expect("fits");
        let [a, _, c, _] = lines[0].corners;
        // It may exceed the input; the caller clips to the picture.
        assert!(
            a.x <= 0.0 && a.y <= 0.0 && c.x >= 32.0 && c.y >= 16.0,
            "{lines:?}"
        );
    }

    #[test]
    fn another_shape_is_refused() {
        for shape in [&[1, 2, 4, 4][..], &[16, 2], &[1, 1, 0, 32]] {
            assert!(found(shape, &[0.0; 32]).is_err(), "{shape:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_the_numbers_are_corners_are_places(
            data in prop::collection::vec(prop_oneof![0.0f32..1.0, prop::num::f32::ANY], 16 * 32),
        ) {
            for line in found(&[1, 1, 16, 32], &data).expect("fits") {
                prop_assert!(line.corners.iter().all(|p| p.x.is_finite() && p.y.is_finite()), "{:?}", line);
                prop_assert!((0.0..=1.0).contains(&line.score), "{:?}", line);
            }
        }
    }
}
