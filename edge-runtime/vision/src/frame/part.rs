//! A part of a picture as a separate picture, in the memory of the whole.
//!
//! - No pixel is copied; the part keeps the planes of the whole alive.
//! - Its upper left corner has even coordinates, so that half-size planes are cut alike.

use std::sync::Arc;

use super::{Picture, PixelFormat, Plane, Planes};

impl Picture {
    /// Returns the part of this size whose upper left corner is at `left`, `top`, rounded down to
    /// even numbers. `None` unless it lies in the picture and has an area.
    pub fn part(&self, [left, top]: [u32; 2], [width, height]: [u32; 2]) -> Option<Self> {
        let [left, top] = [left & !1, top & !1];
        let is_inside = |start: u32, side: u32, whole: u32| {
            side > 0 && start.checked_add(side).is_some_and(|end| end <= whole)
        };
        if !is_inside(left, width, self.width) || !is_inside(top, height, self.height) {
            return None;
        }
        let planes = PartPlanes {
            whole: Arc::clone(&self.planes),
            corner: [left as usize, top as usize],
            format: self.format,
        };
        Some(Self {
            width,
            height,
            planes: Arc::new(planes),
            ..self.clone()
        })
    }
}

/// The planes of a picture, from the corner of a part on.
struct PartPlanes {
    whole: Arc<dyn Planes>,
    /// Upper left corner of the part, even.
    corner: [usize; 2],
    format: PixelFormat,
}

impl Planes for PartPlanes {
    fn plane(&self, index: usize) -> Plane<'_> {
        let plane = self.whole.plane(index);
        let [left, top] = self.corner;
        // Divisor of the corner, and bytes of a column.
        let (shrunk, column) = match (self.format, index) {
            (PixelFormat::Rgb, _) => (1, 3),
            (PixelFormat::I420 | PixelFormat::Nv12, 0) => (1, 1),
            (PixelFormat::I420, _) => (2, 1),
            (PixelFormat::Nv12, _) => (2, 2),
        };
        let start = top / shrunk * plane.stride + left / shrunk * column;
        Plane {
            data: plane.data.get(start..).unwrap_or_default(),
            stride: plane.stride,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::picture;
    use super::*;

    /// A picture whose samples name their place; rows are padded.
    fn whole(format: PixelFormat, [width, height]: [usize; 2]) -> Picture {
        let plane = |width: usize, height: usize, bytes: usize| {
            let stride = width * bytes + 3;
            let rows = 0..height;
            let data = rows.flat_map(|y| (0..stride).map(move |x| (y * 16 + x / bytes) as u8));
            (data.collect::<Vec<u8>>(), stride)
        };
        let half = [width.div_ceil(2), height.div_ceil(2)];
        let planes = match format {
            PixelFormat::Rgb => vec![plane(width, height, 3)],
            PixelFormat::Nv12 => vec![plane(width, height, 1), plane(half[0], half[1], 2)],
            PixelFormat::I420 => vec![
                plane(width, height, 1),
                plane(half[0], half[1], 1),
                plane(half[0], half[1], 1),
            ],
        };
        picture(width as u32, height as u32, format, planes)
    }

    #[test]
    fn part_outside_or_without_area_is_refused() {
        let whole = whole(PixelFormat::Rgb, [8, 6]);
        assert!(whole.part([0, 0], [8, 6]).is_some());
        for (corner, size) in [
            ([2, 0], [7, 6]),
            ([0, 2], [8, 5]),
            ([0, 0], [0, 6]),
            ([u32::MAX, 0], [2, 2]),
        ] {
            assert!(whole.part(corner, size).is_none(), "{corner:?} {size:?}");
        }
    }

    proptest! {
        #[test]
        fn part_shows_the_pixels_of_the_whole(
            format in prop_oneof![Just(PixelFormat::Rgb), Just(PixelFormat::I420), Just(PixelFormat::Nv12)],
            corner in (0_u32..8, 0_u32..6),
            size in (1_u32..6, 1_u32..6),
        ) {
            let whole = whole(format, [16, 12]);
            let part = whole.part(corner.into(), size.into()).unwrap();
            let [left, top] = [corner.0 & !1, corner.1 & !1];
            for y in 0..size.1 {
                for x in 0..size.0 {
                    let column = if format == PixelFormat::Rgb { 3 } else { 1 };
                    let luma = part.planes.plane(0);
                    let at = y as usize * luma.stride + x as usize * column;
                    prop_assert_eq!(luma.data[at], ((top + y) * 16 + left + x) as u8);
                    if format != PixelFormat::Rgb {
                        let bytes = if format == PixelFormat::Nv12 { 2 } else { 1 };
                        let chroma = part.planes.plane(1);
                        let at = y as usize / 2 * chroma.stride + x as usize / 2 * bytes;
                        let expected = (top / 2 + y / 2) * 16 + left / 2 + x / 2;
                        prop_assert_eq!(chroma.data[at], expected as u8);
                    }
                }
            }
        }
    }
}
