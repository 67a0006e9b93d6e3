//! Alignment of two pictures of one scene from matched points, by RANSAC.
//!
//! Fischler and Bolles, "Random sample consensus", 1981. Equal points give equal results, because
//! the random seed is fixed.

use crate::geometry::Point;
use crate::imaging::warp::Perspective;

/// Bound of the samples, of four pairs each.
const MAX_TRIES: usize = 2000;
/// Probability that at least one sample has only inliers.
const CONFIDENCE: f64 = 0.995;
const SEED: u64 = 1981;
/// Number of refinements with all inliers.
const REFINEMENTS: usize = 3;

/// The homography from the first points to the second with the most inliers, which lie within
/// `within` pixels; `None` with fewer than four inliers.
pub fn estimate_homography(pairs: &[(Point, Point)], within: f64) -> Option<Perspective> {
    if pairs.len() < 4 {
        return None;
    }
    let agreeing = |homography: &Perspective| -> Vec<(Point, Point)> {
        let agrees = |(p, q): &&(Point, Point)| {
            let projected = homography.apply(*p);
            (projected.x - q.x).hypot(projected.y - q.y) <= within
        };
        pairs.iter().filter(agrees).copied().collect()
    };
    let mut rng = fastrand::Rng::with_seed(SEED);
    let (mut best, mut tries, mut needed) = (Vec::new(), 0, MAX_TRIES);
    while tries < needed {
        tries += 1;
        let chosen = rng.choose_multiple(pairs.iter(), 4);
        let [a, b, c, d] = chosen.as_slice() else {
            return None;
        };
        let from = [a.0, b.0, c.0, d.0];
        let Some(homography) = Perspective::between(&from, &[a.1, b.1, c.1, d.1]) else {
            continue;
        };
        let found = agreeing(&homography);
        if found.len() > best.len() {
            best = found;
            needed = tries_for(best.len(), pairs.len()).min(MAX_TRIES);
        }
    }
    let mut homography = Perspective::fitting(&best)?;
    for _ in 0..REFINEMENTS {
        let found = agreeing(&homography);
        if found.len() < best.len() {
            break;
        }
        homography = Perspective::fitting(&found)?;
    }
    Some(homography)
}

/// Number of samples needed for [`CONFIDENCE`], with `good` inliers of `all` pairs.
fn tries_for(good: usize, all: usize) -> usize {
    let share = good as f64 / all as f64;
    let failure = (1.0 - share.powi(4)).max(f64::MIN_POSITIVE);

    ((1.0 - CONFIDENCE).ln() / failure.ln()).ceil().max(1.0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Forty points that moved, and `wrong` outliers.
    fn pairs(wrong: u32) -> Vec<(Point, Point)> {
        let right = (0..40_u32).map(|i| {
            let p = Point::new(f64::from(i * 37 % 200), f64::from(i * 53 % 150));
            (p, Point::new(p.x + 30.0, p.y * 1.02 - 4.0))
        });
        let wrong = (0..wrong).map(|i| {
            let p = Point::new(f64::from(i * 29 % 200), f64::from(i * 61 % 150));
            (
                p,
                Point::new(f64::from(i * 83 % 200), f64::from(i * 97 % 150)),
            )
        });
        right.chain(wrong).collect()
    }

    #[test]
    fn homography_is_found_among_as_many_outliers() {
        for wrong in [0, 20, 40] {
            let projected = estimate_homography(&pairs(wrong), 1.0)
                .unwrap()
                .apply(Point::new(100.0, 50.0));
            assert!((projected.x - 130.0).abs() < 0.2, "{wrong}: {projected:?}");
            assert!((projected.y - 47.0).abs() < 0.2, "{wrong}: {projected:?}");
        }
    }

    #[test]
    fn three_or_equal_points_have_no_homography() {
        assert!(estimate_homography(&pairs(0)[..3], 1.0).is_none());
        let same = vec![(Point::new(1.0, 1.0), Point::new(2.0, 2.0)); 10];
        assert!(estimate_homography(&same, 1.0).is_none());
    }
}
