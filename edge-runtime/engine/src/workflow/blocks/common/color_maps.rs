//! Maps of numbers over a picture: resampled to its pixels, and coloured by a scale.

use watchkeeper_vision::draw::Color;

use crate::workflow::values::value::Array;

/// A colour of a scale: position from 0 to 1, red, green and blue, opacity.
pub(crate) type Stop = (f64, [u8; 3], f64);

const ROBOFLOW: &[Stop] = &[
    (0.0, [255, 214, 0], 0.0),
    (0.25, [255, 214, 0], 0.55),
    (0.5, [255, 122, 0], 0.85),
    (1.0, [220, 30, 30], 1.0),
];
const JET: &[Stop] = &[
    (0.0, [0, 0, 128], 1.0),
    (0.125, [0, 0, 255], 1.0),
    (0.375, [0, 255, 255], 1.0),
    (0.625, [255, 255, 0], 1.0),
    (0.875, [255, 0, 0], 1.0),
    (1.0, [128, 0, 0], 1.0),
];
const HOT: &[Stop] = &[
    (0.0, [0, 0, 0], 1.0),
    (0.375, [255, 0, 0], 1.0),
    (0.75, [255, 255, 0], 1.0),
    (1.0, [255, 255, 255], 1.0),
];
pub(crate) const VIRIDIS: &[Stop] = &[
    (0.0, [68, 1, 84], 1.0),
    (0.25, [59, 82, 139], 1.0),
    (0.5, [33, 145, 140], 1.0),
    (0.75, [94, 201, 98], 1.0),
    (1.0, [253, 231, 37], 1.0),
];
const INFERNO: &[Stop] = &[
    (0.0, [0, 0, 4], 1.0),
    (0.25, [87, 16, 110], 1.0),
    (0.5, [188, 55, 84], 1.0),
    (0.75, [249, 142, 9], 1.0),
    (1.0, [252, 255, 164], 1.0),
];
const TURBO: &[Stop] = &[
    (0.0, [48, 18, 59], 1.0),
    (0.125, [70, 107, 227], 1.0),
    (0.25, [40, 187, 236], 1.0),
    (0.5, [164, 252, 60], 1.0),
    (0.75, [251, 126, 33], 1.0),
    (1.0, [122, 4, 3], 1.0),
];

pub(crate) const COLOR_MAPS: [(&str, &[Stop]); 6] = [
    ("ROBOFLOW", ROBOFLOW),
    ("JET", JET),
    ("TURBO", TURBO),
    ("INFERNO", INFERNO),
    ("VIRIDIS", VIRIDIS),
    ("HOT", HOT),
];

/// Returns the colour at a position of a scale, interpolated between its stops.
pub(crate) fn color_at(stops: &[Stop], place: f64) -> (Color, f64) {
    let place = place.clamp(0.0, 1.0);
    let pair = stops.windows(2).find(|pair| place <= pair[1].0);
    let Some([(from, a, faint), (to, b, strong)]) =
        pair.and_then(|p| <&[Stop; 2]>::try_from(p).ok())
    else {
        return (Color::INK, 0.0);
    };
    let share = (place - from) / (to - from);
    let mixed = |a: u8, b: u8| {
        let exact = f64::from(a) + (f64::from(b) - f64::from(a)) * share;

        exact.round() as u8
    };
    let color = Color::new(mixed(a[0], b[0]), mixed(a[1], b[1]), mixed(a[2], b[2]));
    (color, faint + (strong - faint) * share)
}

/// Resamples rows of numbers to the pixels of a picture, by bilinear interpolation. Fails if they
/// are not rows of numbers.
pub(crate) fn stretched(map: &Array, [width, height]: [u32; 2]) -> Result<Array, String> {
    let &[rows, columns] = map.shape() else {
        return Err(format!(
            "rows of numbers expected, got an array of shape {:?}",
            map.shape()
        ));
    };
    if rows == 0 || columns == 0 {
        return Err("rows of numbers expected, got none".to_owned());
    }
    // The cells around a pixel's centre, and the share of the second.
    let around = |pixel: u32, pixels: u32, cells: usize| {
        let place = (f64::from(pixel) + 0.5) * cells as f64 / f64::from(pixels) - 0.5;
        let place = place.clamp(0.0, (cells - 1) as f64);
        let low = place.floor() as usize;
        (
            low,
            (low + 1).min(cells - 1),
            (place - place.floor()) as f32,
        )
    };
    let across: Vec<_> = (0..width).map(|x| around(x, width, columns)).collect();
    let mut data = Vec::with_capacity(width as usize * height as usize);
    for y in 0..height {
        let (upper, lower, share) = around(y, height, rows);
        let row = |r: usize| {
            map.data()
                .get(r * columns..(r + 1) * columns)
                .unwrap_or_default()
        };
        let (upper, lower) = (row(upper), row(lower));
        for &(left, right, part) in &across {
            let along = |line: &[f32]| {
                let at = |i: usize| line.get(i).copied().unwrap_or_default();
                at(left) * (1.0 - part) + at(right) * part
            };
            data.push(along(upper) * (1.0 - share) + along(lower) * share);
        }
    }
    Array::new(vec![height as usize, width as usize], data)
        .ok_or_else(|| "rows of numbers expected, got too few".to_owned())
}
