//! Process noise that suits the stream: innovations of a right filter are uncorrelated (Mehra, "On
//! the identification of variances and adaptive Kalman filtering", 1970).
//!
//! - Innovations that repeat their sign are a filter that lags: objects turn more than it expects,
//!   as from a car, and the noise grows. Alternating ones are a filter that follows the detector's
//!   jitter, as of people before a standing camera, and the noise shrinks.
//! - One factor for all tracks of a stream: no single track is seen often enough.
//! - Pure; the factor is bounded.

use serde::{Deserialize, Serialize};

/// Change of the logarithm per second and correlation, and its bound per frame.
const RATE: f64 = 2.0;
const MAX_RATE: f64 = 0.3;
/// Correlation of a right filter. Over 0, because a detector's errors last: what hides a part of
/// an object hides it in the next frame too.
const EXPECTED: f64 = 0.1;
/// Bound of one product of innovations, so that one wrong box changes little.
const MAX_PRODUCT: f64 = 4.0;
/// Bounds of the factor.
const BOUNDS: (f64, f64) = (0.25, 2.5);

/// Factor on the deviations of the process noise.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Drift {
    factor: f64,
    // Of the present frame.
    #[serde(skip)]
    sum: f64,
    #[serde(skip)]
    count: f64,
}

impl Default for Drift {
    fn default() -> Self {
        Self {
            factor: 1.0,
            sum: 0.0,
            count: 0.0,
        }
    }
}

impl Drift {
    pub(super) fn factor(&self) -> f64 {
        self.factor
    }

    /// Adds successive innovations of a track, in standard deviations.
    pub(super) fn add(&mut self, before: [f64; 2], now: [f64; 2]) {
        for (a, b) in before.into_iter().zip(now) {
            let product = a * b;
            if product.is_finite() {
                self.sum += product.clamp(-MAX_PRODUCT, MAX_PRODUCT);
                self.count += 1.0;
            }
        }
    }

    /// Ends a frame of `dt` seconds.
    pub(super) fn learn(&mut self, dt: f64) {
        let (sum, n) = (self.sum, self.count / 2.0);
        (self.sum, self.count) = (0.0, 0.0);
        if n > 0.0 {
            let weight = (RATE * dt).min(MAX_RATE) * n / (n + 1.0);
            let change = weight * (sum / (2.0 * n) - EXPECTED);
            self.factor = (self.factor * change.exp()).clamp(BOUNDS.0, BOUNDS.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learnt(innovations: impl Iterator<Item = f64>) -> f64 {
        let mut drift = Drift::default();
        let mut before = 0.0;
        for now in innovations {
            drift.add([before; 2], [now; 2]);
            drift.learn(1.0 / 30.0);
            before = now;
        }
        drift.factor()
    }

    #[test]
    fn filter_that_lags_gets_more_noise_and_one_that_jitters_less() {
        let lags = (0..300).map(|n| if n / 10 % 2 == 0 { 1.0 } else { -1.0 });
        let jitters = (0..300).map(|n| if n % 2 == 0 { 1.0 } else { -1.0 });
        assert!(learnt(lags) > 1.5);
        assert!(learnt(jitters) < 0.5);
    }

    #[test]
    fn factor_stays_in_bounds_whatever_the_innovations() {
        for wild in [f64::NAN, f64::INFINITY, -1e300, 1e300] {
            let factor = learnt((0..100).map(|n| if n % 3 == 0 { wild } else { -1.0 }));
            assert!((0.25..=2.5).contains(&factor), "{wild}: {factor}");
        }
    }
}
