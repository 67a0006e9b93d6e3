//! The extent of a bar code along its bars, which no scan line shows.

use image::GrayImage;

use crate::geometry::{BBox, Point};
use crate::outline;

/// Share of a row's pixels that may differ from the row in which a bar code was read.
const UNLIKE: f64 = 0.1;

/// The bounding box of a bar code from the ends of the lines that read it. It is grown over the
/// rows or columns that have the bars of the outermost of these lines.
pub(super) fn of(grey: &GrayImage, lines: &[[Point; 2]]) -> BBox {
    let mut bbox = outline::around(lines.as_flattened());
    let pixel = |x: u32, y: u32| grey.get_pixel_checked(x, y).map_or(0, |p| p.0[0]);
    let (width, height) = grey.dimensions();
    let rows = lines.iter().filter(|[a, b]| (a.y - b.y).abs() < 0.5);
    for [a, b] in outermost(rows, |line| line[0].y) {
        let [top, bottom] = alike(pixel, [width, height], [a.x, b.x], a.y);
        (bbox.y1, bbox.y2) = (top.min(bbox.y1), bottom.max(bbox.y2));
    }
    let columns = lines.iter().filter(|[a, b]| (a.x - b.x).abs() < 0.5);
    for [a, b] in outermost(columns, |line| line[0].x) {
        let [left, right] = alike(|y, x| pixel(x, y), [height, width], [a.y, b.y], a.x);
        (bbox.x1, bbox.x2) = (left.min(bbox.x1), right.max(bbox.x2));
    }
    bbox
}

/// The first and the last line; none without lines.
fn outermost<'a>(
    lines: impl Iterator<Item = &'a [Point; 2]> + Clone,
    place: impl Fn(&[Point; 2]) -> f64,
) -> impl Iterator<Item = &'a [Point; 2]> {
    let order = |a: &&[Point; 2], b: &&[Point; 2]| place(a).total_cmp(&place(b));
    let first = lines.clone().min_by(order);
    first.into_iter().chain(lines.max_by(order))
}

/// The first and last row in which a bar code has the bars of row `y`. `pixel` returns the pixel at
/// a column and row of the picture.
fn alike(
    pixel: impl Fn(u32, u32) -> u8,
    [width, height]: [u32; 2],
    ends: [f64; 2],
    y: f64,
) -> [f64; 2] {
    if width == 0 || height == 0 {
        return [y, y];
    }
    let [from, to, row] = [
        ends[0].min(ends[1]).clamp(0.0, f64::from(width - 1)) as u32,
        ends[0].max(ends[1]).clamp(0.0, f64::from(width - 1)) as u32,
        y.round().clamp(0.0, f64::from(height - 1)) as u32,
    ];
    // The threshold lies midway between the darkest and the lightest pixel of the row.
    let bars = |y: u32| {
        let line = || (from..=to).map(|x| pixel(x, y));
        let (dark, light) = (line().min().unwrap_or(0), line().max().unwrap_or(0));
        let between = dark.midpoint(light);
        line().map(|v| v > between).collect::<Vec<bool>>()
    };
    let model = bars(row);
    let is_alike = |y: &u32| {
        let unlike = bars(*y).iter().zip(&model).filter(|(a, b)| a != b).count();
        let share = unlike as f64 / model.len().max(1) as f64;
        share <= UNLIKE
    };
    let top = (0..row).rev().take_while(is_alike).last().unwrap_or(row);
    let bottom = (row + 1..height).take_while(is_alike).last().unwrap_or(row);
    [f64::from(top), f64::from(bottom)]
}
