//! The dominant colour of a picture.
//!
//! Equal pictures give equal colours; the number of rounds is bounded.

use crate::rgb::RgbPixels;

/// The centre of the largest colour cluster (k-means: Lloyd, "Least squares quantization in PCM",
/// 1982). The initial centres come from a generator with a fixed seed. Every `step`-th pixel on
/// each axis is sampled. `None` with fewer pixels than clusters.
pub fn color(pixels: &RgbPixels, step: usize, groups: usize, rounds: usize) -> Option<[u8; 3]> {
    let width = pixels.width as usize;
    let colors: Vec<[f32; 3]> = pixels
        .data
        .chunks_exact(3)
        .enumerate()
        .filter(|(i, _)| (i % width).is_multiple_of(step) && (i / width).is_multiple_of(step))
        .map(|(_, p)| [f32::from(p[0]), f32::from(p[1]), f32::from(p[2])])
        .collect();
    if groups == 0 || colors.len() < groups {
        return None;
    }
    let mut random = fastrand::Rng::with_seed(0);
    let mut middles: Vec<[f32; 3]> = random.choose_multiple(colors.iter().copied(), groups);
    let mut counts = vec![0_usize; groups];
    for _ in 0..rounds.max(1) {
        let mut sums = vec![[0.0_f64; 3]; groups];
        counts.fill(0);
        for color in &colors {
            let nearest = nearest(color, &middles);
            if let (Some(sum), Some(count)) = (sums.get_mut(nearest), counts.get_mut(nearest)) {
                *count += 1;
                for (sum, c) in sum.iter_mut().zip(color) {
                    *sum += f64::from(*c);
                }
            }
        }
        let mut moved = false;
        for ((middle, sum), count) in middles.iter_mut().zip(&sums).zip(&counts) {
            let new = if *count == 0 {
                // An empty cluster takes another colour.
                colors
                    .get(random.usize(..colors.len()))
                    .copied()
                    .unwrap_or_default()
            } else {
                sum.map(|s| (s / *count as f64) as f32)
            };
            let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-8 + 1e-5 * b.abs();
            moved |= !middle.iter().zip(&new).all(near);
            *middle = new;
        }
        if !moved {
            break;
        }
    }
    let largest = (0..groups).rev().max_by_key(|i| counts.get(*i).copied())?;
    middles
        .get(largest)
        .map(|c| c.map(|v| super::filter::byte(f64::from(v))))
}

fn nearest(color: &[f32; 3], middles: &[[f32; 3]]) -> usize {
    let distance = |m: &[f32; 3]| {
        m.iter()
            .zip(color)
            .map(|(a, b)| (a - b).powi(2))
            .sum::<f32>()
    };
    let each = middles.iter().map(distance).enumerate();
    each.min_by(|a, b| a.1.total_cmp(&b.1))
        .map_or(0, |(i, _)| i)
}

#[cfg(test)]
mod tests {
    use super::{RgbPixels, color};

    #[test]
    fn the_colour_that_covers_most_wins() {
        let data = (0..600).flat_map(|i| {
            if i % 5 < 3 {
                [200, 30, 40]
            } else {
                [10, 20, 220]
            }
        });
        let pixels = RgbPixels {
            width: 30,
            height: 20,
            data: data.collect(),
        };
        assert_eq!(color(&pixels, 1, 2, 100), Some([200, 30, 40]));
        assert_eq!(color(&pixels, 1, 4, 100), Some([200, 30, 40]));
        assert_eq!(color(&RgbPixels::default(), 1, 4, 100), None);
    }
}
