//! The dominant direction of a picture's edges.

use super::{Plane, contrast, filter};
use crate::numbers::{deviation, quantile};

/// Spread of lightness below which a picture has no usable edges.
const FLAT: f64 = 3.0;
/// Share of the pixels whose edges are too weak to count.
const WEAK: f64 = 0.8;
/// Distance in standard deviations by which the most frequent direction must exceed the median.
const DISTINCT: f64 = 1.5;
/// Degrees around the most frequent direction that determine the exact one.
const NEAR: f64 = 3.0;

/// The direction across most edges in degrees, 0 to 180, clockwise from "to the right"; `None` when
/// none dominates.
///
/// Directions are counted per degree, weighted with the edge strength, after adaptive equalisation.
pub fn across_edges(plane: &Plane) -> Option<f64> {
    if deviation(plane.data.iter().map(|v| f64::from(*v))) < FLAT {
        return None;
    }
    // OpenCV's clip limit of 3 is three times the share of each of 256 values.
    let even = contrast::adaptive(plane, 8, 3.0 / 256.0);
    let smooth = filter::separable(&even, &filter::gaussian_weights(5));
    let gradients = filter::gradients(&smooth);
    let strengths: Vec<f64> = gradients.iter().map(|[x, y]| x.hypot(*y)).collect();
    let least = share_of(strengths.clone(), WEAK).max(1e-6);
    let strong: Vec<(f64, f64)> = gradients
        .iter()
        .zip(&strengths)
        .filter(|(_, strength)| **strength >= least)
        .map(|([x, y], strength)| (y.atan2(*x).to_degrees().rem_euclid(180.0), *strength))
        .collect();
    if strong.is_empty() {
        return None;
    }
    let peak = most_frequent(&strong)?;
    let near = strong.iter().filter(|(direction, _)| {
        let apart = (direction - peak).abs();
        apart.min(180.0 - apart) <= NEAR
    });
    // Directions 180 degrees apart are equal, so they are averaged at twice the angle.
    let (mut sine, mut cosine) = (0.0, 0.0);
    for (direction, strength) in near {
        let doubled = (2.0 * direction).to_radians();
        sine += strength * doubled.sin();
        cosine += strength * doubled.cos();
    }
    Some(if sine == 0.0 && cosine == 0.0 {
        peak
    } else {
        0.5 * sine.atan2(cosine).to_degrees()
    })
}

/// Centre of the most frequent degree among its neighbours; `None` when it does not dominate.
fn most_frequent(strong: &[(f64, f64)]) -> Option<f64> {
    let mut counts = [0.0_f64; 180];
    for (direction, strength) in strong {
        let degree = (*direction as usize).min(179);
        counts[degree] += strength;
    }
    let smooth: Vec<f64> = (0..180)
        .map(|i| (0..5).map(|d| counts[(i + 178 + d) % 180]).sum::<f64>() / 5.0)
        .collect();
    let (mut peak, mut most) = (0.0, f64::NEG_INFINITY);
    for (middle, count) in (0_u32..).map(|i| f64::from(i) + 0.5).zip(&smooth) {
        if *count > most {
            (peak, most) = (middle, *count);
        }
    }
    let spread = deviation(smooth.iter().copied());
    let distinct = (most - share_of(smooth, 0.5)) / (spread + 1e-9);
    (distinct >= DISTINCT).then_some(peak)
}

/// The quantile `share` of the numbers.
fn share_of(mut numbers: Vec<f64>, share: f64) -> f64 {
    numbers.sort_unstable_by(f64::total_cmp);
    quantile(&numbers, share)
}

#[cfg(test)]
mod tests {
    use super::{Plane, across_edges, filter};

    fn stripes(degrees: f64) -> Plane {
        let (sine, cosine) = degrees.to_radians().sin_cos();
        Plane::from_fn(200, 160, |x, y| {
            let along = x as f64 * cosine + y as f64 * sine;
            let light = 125.0 + 95.0 * (along * std::f64::consts::TAU / 20.0).sin();
            filter::byte(light)
        })
    }

    #[test]
    fn the_direction_across_stripes_is_found() {
        for degrees in [0.0, 7.0, 52.5, 90.0, 140.0] {
            let found = across_edges(&stripes(degrees)).unwrap_or(f64::NAN);
            let apart = (found - degrees).rem_euclid(180.0);
            assert!(apart.min(180.0 - apart) < 1.0, "{degrees}: {found}");
        }
    }

    #[test]
    fn a_flat_picture_has_no_direction() {
        let flat = Plane::from_fn(100, 100, |x, _| if x % 2 == 0 { 100 } else { 102 });
        assert_eq!(across_edges(&flat), None);
    }
}
