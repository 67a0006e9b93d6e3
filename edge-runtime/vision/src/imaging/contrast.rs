//! Contrast: stretching, equalisation and adaptive equalisation.
//!
//! The number of values does not change.

use super::Plane;

/// Truncates to a byte and clamps to its range.
pub fn truncated(value: f64) -> u8 {
    value.clamp(0.0, 255.0) as u8
}

/// Stretches the range `low..=high` over all bytes.
pub fn stretched(data: &[u8], low: f64, high: f64) -> Vec<u8> {
    if high <= low {
        return data.to_vec();
    }
    let spread = |v: &u8| truncated((f64::from(*v).clamp(low, high) - low) / (high - low) * 255.0);
    data.iter().map(spread).collect()
}

/// Histogram equalisation. The cumulative shares are those of 256 bins between the smallest and the
/// largest value, interpolated between bin centres.
pub fn equalised(data: &[u8]) -> Vec<u8> {
    let (Some(least), Some(largest)) = (data.iter().min(), data.iter().max()) else {
        return Vec::new();
    };
    // A range of one value extends by half a unit on both sides.
    let (low, range) = match f64::from(largest - least) / 255.0 {
        0.0 => (f64::from(*least) / 255.0 - 0.5, 1.0),
        range => (f64::from(*least) / 255.0, range),
    };
    let place = |v: u8| (f64::from(v) / 255.0 - low) * 256.0 / range;
    let mut counts = [0_u32; 256];
    for v in data {
        counts[usize::from(truncated(place(*v)))] += 1;
    }
    let all = counts.iter().map(|c| f64::from(*c)).sum::<f64>();
    let mut so_far = 0.0;
    let shares = counts.map(|c| {
        so_far += f64::from(c);
        so_far / all
    });
    let lightness = |v: u8| {
        // Counted from the centre of the first bin.
        let at = (place(v) - 0.5).clamp(0.0, 255.0);
        let step = truncated(at);
        let share = |step: u8| shares[usize::from(step)];
        let rest = at - f64::from(step);
        let mixed = share(step) * (1.0 - rest) + share(step.saturating_add(1)) * rest;
        truncated(mixed * 255.0)
    };
    let table: Vec<u8> = (0..=255).map(lightness).collect();
    data.iter().map(|v| table[usize::from(*v)]).collect()
}

/// Contrast limited adaptive histogram equalisation (CLAHE): equalises `pieces` × `pieces` tiles
/// and interpolates between them. Zuiderveld, "Contrast limited adaptive histogram equalization",
/// 1994. `limit` is the largest share of one value in a tile.
pub fn adaptive(plane: &Plane, pieces: usize, limit: f64) -> Plane {
    let (width, height) = (plane.width, plane.height);
    if width == 0 || height == 0 {
        return plane.clone();
    }
    let pieces = pieces.max(1);
    let (across, down) = (width.div_ceil(pieces), height.div_ceil(pieces));
    let tables: Vec<[f64; 256]> = (0..pieces * pieces)
        .map(|i| {
            table(
                plane,
                (i % pieces) * across,
                (i / pieces) * down,
                across,
                down,
                limit,
            )
        })
        .collect();
    let place = |n: usize, size: usize| (n as f64 + 0.5) / size as f64 - 0.5;
    Plane::from_fn(width, height, |x, y| {
        let v = usize::from(plane.data.get(y * width + x).copied().unwrap_or(0));
        let (px, py) = (place(x, across), place(y, down));
        let of = |column: f64, row: f64| {
            let clamp = |n: f64| n.clamp(0.0, (pieces - 1) as f64) as usize;
            tables
                .get(clamp(row) * pieces + clamp(column))
                .map_or(0.0, |t| t[v])
        };
        let (fx, fy) = (px - px.floor(), py - py.floor());
        let (x0, y0) = (px.floor(), py.floor());
        let top = of(x0, y0) * (1.0 - fx) + of(x0 + 1.0, y0) * fx;
        let bottom = of(x0, y0 + 1.0) * (1.0 - fx) + of(x0 + 1.0, y0 + 1.0) * fx;
        super::filter::byte(top * (1.0 - fy) + bottom * fy)
    })
}

fn table(
    plane: &Plane,
    x0: usize,
    y0: usize,
    across: usize,
    down: usize,
    limit: f64,
) -> [f64; 256] {
    let mut counts = [0.0_f64; 256];
    let mut all = 0.0;
    for y in y0..(y0 + down).min(plane.height) {
        for x in x0..(x0 + across).min(plane.width) {
            if let Some(v) = plane.data.get(y * plane.width + x) {
                counts[usize::from(*v)] += 1.0;
                all += 1.0;
            }
        }
    }
    let most = (limit * all).max(1.0);
    let excess: f64 = counts.iter().map(|c| (c - most).max(0.0)).sum();
    let mut so_far = 0.0;
    counts.map(|c| {
        so_far += c.min(most) + excess / 256.0;
        if all > 0.0 { so_far / all * 255.0 } else { 0.0 }
    })
}
