//! Morphology: dilation, erosion, opening, closing. Serra, "Image analysis and mathematical
//! morphology", 1982.
//!
//! A plane keeps its size; pixels beyond the border do not count.

use super::Plane;

/// Structuring element: offsets to the right and down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel(Vec<(i64, i64)>);

impl Kernel {
    /// A square; the centre of an even one is right of its middle.
    pub fn square(side: usize) -> Self {
        let side = i64::try_from(side).unwrap_or(0);
        let range = || -(side / 2)..side - side / 2;
        Self(range().flat_map(|y| range().map(move |x| (x, y))).collect())
    }

    /// An ellipse in a square, as OpenCV draws it.
    pub fn ellipse(side: usize) -> Self {
        let middle = i64::try_from(side / 2).unwrap_or(0);
        let side = i64::try_from(side).unwrap_or(0);
        let radius = middle as f64;
        let row = |y: i64| {
            let dy = (y - middle) as f64;
            let reach = if radius > 0.0 {
                (radius * (1.0 - dy * dy / (radius * radius)).max(0.0).sqrt()).round_ties_even()
                    as i64
            } else {
                0
            };
            let columns = (middle - reach).max(0)..(middle + reach + 1).min(side);
            columns.map(move |x| (x - middle, y - middle))
        };
        Self((0..side).flat_map(row).collect())
    }

    fn is_rectangle(&self) -> Option<[std::ops::RangeInclusive<i64>; 2]> {
        let xs = self.0.iter().map(|o| o.0);
        let ys = self.0.iter().map(|o| o.1);
        let x = xs.clone().min()?..=xs.max()?;
        let y = ys.clone().min()?..=ys.max()?;
        let count = |r: &std::ops::RangeInclusive<i64>| r.end() - r.start() + 1;
        let all = i64::try_from(self.0.len()).ok()?;
        (count(&x) * count(&y) == all).then_some([x, y])
    }
}

/// The maximum around each pixel.
pub fn dilate(plane: &Plane, kernel: &Kernel) -> Plane {
    extreme(plane, kernel, u8::max)
}

/// The minimum around each pixel.
pub fn erode(plane: &Plane, kernel: &Kernel) -> Plane {
    extreme(plane, kernel, u8::min)
}

/// Erosion, then dilation: removes specks.
pub fn open(plane: &Plane, kernel: &Kernel) -> Plane {
    dilate(&erode(plane, kernel), kernel)
}

/// Dilation, then erosion: closes gaps.
pub fn close(plane: &Plane, kernel: &Kernel) -> Plane {
    erode(&dilate(plane, kernel), kernel)
}

pub fn above(one: &Plane, other: &Plane) -> Plane {
    let each = one.data.iter().zip(&other.data);
    Plane {
        data: each.map(|(a, b)| a.saturating_sub(*b)).collect(),
        ..*one
    }
}

fn extreme(plane: &Plane, kernel: &Kernel, better: fn(u8, u8) -> u8) -> Plane {
    if let Some([across, down]) = kernel.is_rectangle() {
        // A rectangle separates into rows and columns.
        let rows = around(plane, &across.map(|x| (x, 0)).collect::<Vec<_>>(), better);
        return around(&rows, &down.map(|y| (0, y)).collect::<Vec<_>>(), better);
    }
    around(plane, &kernel.0, better)
}

fn around(plane: &Plane, offsets: &[(i64, i64)], better: fn(u8, u8) -> u8) -> Plane {
    Plane::from_fn(plane.width, plane.height, |x, y| {
        let at = |(dx, dy): &(i64, i64)| {
            let x = usize::try_from(i64::try_from(x).ok()? + dx)
                .ok()
                .filter(|x| *x < plane.width)?;
            let y = usize::try_from(i64::try_from(y).ok()? + dy)
                .ok()
                .filter(|y| *y < plane.height)?;
            plane.data.get(y * plane.width + x).copied()
        };
        offsets.iter().filter_map(at).reduce(better).unwrap_or(0)
    })
}

#[cfg(test)]
mod tests {
    use super::{Kernel, Plane, close, dilate, erode, open};

    fn plane(text: &str) -> Plane {
        let rows: Vec<&str> = text.split_whitespace().collect();
        let data = rows
            .iter()
            .flat_map(|row| row.bytes().map(|b| if b == b'#' { 255 } else { 0 }));
        Plane {
            width: rows[0].len(),
            height: rows.len(),
            data: data.collect(),
        }
    }

    #[test]
    fn specks_go_and_gaps_close() {
        let square = Kernel::square(3);
        let shape = plane("##### ##### ##### .....  ....#");
        assert_eq!(
            open(&shape, &square),
            plane("##### ##### ##### ..... .....")
        );
        let gap = plane("##.## ##.## ##.## ##.## ##.##");
        assert_eq!(close(&gap, &square), plane("##### ##### ##### ##### #####"));
    }

    #[test]
    fn an_even_kernel_reaches_farther_up_and_left() {
        let dot = plane("..... ..... ..#.. ..... .....");
        assert_eq!(
            dilate(&dot, &Kernel::square(2)),
            plane("..... ..... ..##. ..##. .....")
        );
        assert_eq!(
            erode(&plane("### ### ###"), &Kernel::square(2)),
            plane("### ### ###")
        );
    }

    #[test]
    fn a_small_ellipse_is_a_cross() {
        let dot = plane("..... ..... ..#.. ..... .....");
        assert_eq!(
            dilate(&dot, &Kernel::ellipse(3)),
            plane("..... ..#.. .###. ..#.. .....")
        );
    }
}
