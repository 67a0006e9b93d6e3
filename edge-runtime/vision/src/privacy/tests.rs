//! What a mask hides, what it leaves, and pictures of all layouts and sizes.

use proptest::prelude::*;

use super::*;
use crate::frame::testing;

const FORMATS: [PixelFormat; 3] = [PixelFormat::Rgb, PixelFormat::I420, PixelFormat::Nv12];

/// Points tried along each side of a pixel.
const TRIES: u32 = 5;

fn region() -> impl Strategy<Value = Region> {
    // Corners on the edges and level sides are the special cases.
    let fraction = prop_oneof![
        4 => 0.0..=1.0_f64,
        1 => prop::sample::select(vec![0.0, 0.25, 0.5, 1.0]),
    ];
    prop::collection::vec([fraction.clone(), fraction], 3..9)
}

/// Whether the winding number of the region around a point is not 0, by the sum of angles.
fn holds(region: &Region, x: f64, y: f64) -> bool {
    let next = region.iter().cycle().skip(1);
    let turns = region.iter().zip(next).map(|(a, b)| {
        let ([ax, ay], [bx, by]) = ([a[0] - x, a[1] - y], [b[0] - x, b[1] - y]);
        (ax * by - ay * bx).atan2(ax * bx + ay * by)
    });
    turns.sum::<f64>().abs() > std::f64::consts::PI
}

/// Whether some point of the pixel is inside the region.
fn shows_inside(region: &Region, size: [u32; 2], x: u32, y: u32) -> bool {
    let at = |pixel: u32, n: u32, side: u32| {
        let within = (f64::from(n) + 0.5) / f64::from(TRIES);
        (f64::from(pixel) + within) / f64::from(side)
    };
    (0..TRIES * TRIES).any(|n| holds(region, at(x, n % TRIES, size[0]), at(y, n / TRIES, size[1])))
}

/// A picture of this layout, as a camera makes it: a chroma sample mixes three pixels around.
fn picture(size: [u32; 2], format: PixelFormat, rgb: impl Fn(u32, u32) -> [u8; 3]) -> Picture {
    let [width, height] = size;
    let pixels = || (0..height).flat_map(move |y| (0..width).map(move |x| (x, y)));
    if format == PixelFormat::Rgb {
        let data = pixels().flat_map(|(x, y)| rgb(x, y)).collect();
        return testing::picture(width, height, format, vec![(data, width as usize * 3)]);
    }
    let luma = pixels().map(|(x, y)| rgb(x, y)[1]).collect();
    let mixed = |cx: u32, cy: u32, channel: usize| {
        let around = (0..16).map(|n| {
            let x = (2 * cx + n % 4).saturating_sub(1).min(width - 1);
            let y = (2 * cy + n / 4).saturating_sub(1).min(height - 1);
            u32::from(rgb(x, y)[channel])
        });
        (around.sum::<u32>() / 16) as u8
    };
    let (half_w, half_h) = (width.div_ceil(2), height.div_ceil(2));
    let cells = || (0..half_h).flat_map(move |y| (0..half_w).map(move |x| (x, y)));
    let whole = (luma, width as usize);
    let planes = if format == PixelFormat::Nv12 {
        let both = cells().flat_map(|(x, y)| [mixed(x, y, 0), mixed(x, y, 2)]);
        vec![whole, (both.collect(), half_w as usize * 2)]
    } else {
        let one = |channel| cells().map(|(x, y)| mixed(x, y, channel)).collect();
        vec![whole, (one(0), half_w as usize), (one(2), half_w as usize)]
    };
    testing::picture(width, height, format, planes)
}

fn samples(picture: &Picture) -> Vec<Vec<u8>> {
    (0..3)
        .map(|n| picture.planes.plane(n).data.to_vec())
        .collect()
}

fn noise(x: u32, y: u32) -> [u8; 3] {
    [31, 57, 91].map(|n| (x * n + y * (n + 6) + x * y) as u8)
}

proptest! {
    #[test]
    fn nothing_of_the_inside_remains_at_any_size(
        region in region(),
        size in [1..40_u32, 1..40_u32],
    ) {
        let cover = Cover::new(std::slice::from_ref(&region), size);
        let inside: Vec<bool> = (0..size[0] * size[1])
            .map(|n| shows_inside(&region, size, n % size[0], n / size[0]))
            .collect();
        let is_inside = |x: u32, y: u32| inside[(y * size[0] + x) as usize];
        for format in FORMATS {
            // Two scenes that differ in every pixel inside, and nowhere else.
            let one = picture(size, format, noise);
            let other = picture(size, format, |x, y| {
                if is_inside(x, y) { noise(x, y).map(|v| v ^ 0xff) } else { noise(x, y) }
            });
            let masked = samples(&cover.mask(&one, MaskFill::Black));
            prop_assert_eq!(&masked, &samples(&cover.mask(&other, MaskFill::Black)));
        }
    }

    #[test]
    fn pixels_away_from_the_region_stay(region in region(), size in [1..60_u32, 1..60_u32]) {
        let cover = Cover::new(std::slice::from_ref(&region), size);
        let masked = cover.mask(&picture(size, PixelFormat::Rgb, noise), MaskFill::Black);
        let masked = masked.planes.plane(0).data.to_vec();
        let bounds = |axis: usize| {
            let all = region.iter().map(|corner| corner[axis] * f64::from(size[axis]));
            let (low, high) = (all.clone().fold(f64::MAX, f64::min), all.fold(0.0, f64::max));
            low - 4.0..high + 4.0
        };
        let (columns, rows) = (bounds(0), bounds(1));
        for (n, pixel) in (0_u32..).zip(masked.chunks_exact(3)) {
            let (x, y) = (n % size[0], n / size[0]);
            let is_away = !columns.contains(&f64::from(x)) || !rows.contains(&f64::from(y));
            prop_assert!(!is_away || pixel == noise(x, y), "{x} {y}");
        }
    }

    #[test]
    fn pixelated_square_has_one_colour_and_loses_its_detail(
        region in region(),
        size in [1..80_u32, 1..80_u32],
    ) {
        let cover = Cover::new(std::slice::from_ref(&region), size);
        for format in FORMATS {
            let one = picture(size, format, noise);
            let black = samples(&cover.mask(&picture(size, format, |_, _| [255; 3]), MaskFill::Black));
            let masked = samples(&cover.mask(&one, MaskFill::Pixelate));
            let side = square_cells(size);
            for layout in layouts(&one) {
                let mut colours = std::collections::BTreeMap::new();
                let plane = black[layout.index].chunks_exact(layout.channels);
                for (n, (flag, sample)) in
                    (0_u32..).zip(plane.zip(masked[layout.index].chunks_exact(layout.channels)))
                {
                    // In the black copy of a white picture, only masked samples are black.
                    if flag[0] == 255 {
                        continue;
                    }
                    let square = [n % layout.size[0], n / layout.size[0]]
                        .map(|at| at / (side * layout.per_cell));
                    let colour = colours.entry(square).or_insert_with(|| sample.to_vec());
                    prop_assert_eq!(&colour[..], sample);
                }
            }
        }
    }
}

#[test]
fn masked_picture_keeps_no_padding_of_the_original() {
    let padded: Vec<u8> = (0..4).flat_map(|_| [9, 9, 9, 9, 77, 77]).collect();
    let chroma = |v: u8| (vec![v, v, 77, v, v, 77], 3);
    let planes = vec![(padded, 6), chroma(5), chroma(6)];
    let picture = testing::picture(4, 4, PixelFormat::I420, planes);
    let corner = vec![[0.0, 0.0], [0.1, 0.0], [0.0, 0.1]];
    let masked = Cover::new(&[corner], [4, 4]).mask(&picture, MaskFill::Black);
    assert!(samples(&masked).concat().iter().all(|v| *v != 77));
}

#[test]
fn picture_with_short_planes_or_another_size_becomes_black() {
    let whole = vec![[0.0, 0.0], [0.2, 0.0], [0.0, 0.2]];
    let short = testing::picture(8, 8, PixelFormat::Rgb, vec![(vec![200; 8], 24)]);
    for (picture, size) in [
        (short, [8, 8]),
        (picture([8, 8], PixelFormat::Nv12, noise), [10, 10]),
    ] {
        let masked = Cover::new(std::slice::from_ref(&whole), size).mask(&picture, MaskFill::Black);
        assert_eq!(samples(&masked)[0], vec![0; 8 * 8 * 3]);
    }
}

#[test]
fn share_is_the_masked_part_with_its_margin() {
    let half = vec![[0.0, 0.0], [0.5, 0.0], [0.5, 1.0], [0.0, 1.0]];
    let share = Cover::new(std::slice::from_ref(&half), [1000, 1000]).share();
    assert!((share - 0.502).abs() < 0.003, "{share}");
    let none = Cover::new(&[], [1000, 1000]);
    assert!(none.share() <= 0.0, "{}", none.share());
}

#[test]
fn limited_range_black_is_sixteen() {
    let mut picture = picture([4, 4], PixelFormat::I420, noise);
    picture.color.full_range = false;
    let whole = vec![[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]];
    let masked = samples(&Cover::new(&[whole], [4, 4]).mask(&picture, MaskFill::Black));
    assert_eq!(masked, [vec![16; 16], vec![128; 4], vec![128; 4]]);
}
