//! A Kalman filter of one coordinate with position and velocity.
//!
//! No input makes a function panic; values that are not finite stay so.

use serde::{Deserialize, Serialize};

/// Position and velocity with their 2×2 covariance, in any unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Axis {
    pub(super) position: f64,
    pub(super) velocity: f64,
    /// Variance of the position.
    pp: f64,
    /// Covariance of position and velocity.
    pv: f64,
    /// Variance of the velocity.
    vv: f64,
}

impl Axis {
    /// Starts at rest, with the standard deviations of position and velocity.
    pub(super) fn new(position: f64, position_std: f64, velocity_std: f64) -> Self {
        Self {
            position,
            velocity: 0.0,
            pp: position_std * position_std,
            pv: 0.0,
            vv: velocity_std * velocity_std,
        }
    }

    /// Predicts over `dt`; the standard deviations are the process noise of that time.
    pub(super) fn advance(&mut self, dt: f64, position_std: f64, velocity_std: f64) {
        self.position += self.velocity * dt;
        self.pp += 2.0 * self.pv * dt + self.vv * dt * dt + position_std * position_std;
        self.pv += self.vv * dt;
        self.vv += velocity_std * velocity_std;
    }

    /// Difference of a measurement and the prediction, in its standard deviations.
    pub(super) fn innovation(&self, measured: f64, measurement_std: f64) -> f64 {
        let variance = self.pp + measurement_std * measurement_std;
        (measured - self.position) / variance.sqrt()
    }

    /// Corrects by a measurement with its standard deviation.
    pub(super) fn correct(&mut self, measured: f64, measurement_std: f64) {
        let innovation_variance = self.pp + measurement_std * measurement_std;
        let gain_p = self.pp / innovation_variance;
        let gain_v = self.pv / innovation_variance;
        let innovation = measured - self.position;
        self.position += gain_p * innovation;
        self.velocity += gain_v * innovation;
        let (pp, pv) = (self.pp, self.pv);
        self.pp -= gain_p * pp;
        self.pv -= gain_p * pv;
        self.vv -= gain_v * pv;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by hand from the matrix form.
    #[test]
    fn the_numbers_are_those_of_the_matrix_form() {
        let mut a = Axis::new(5.0, 2.0, 1.25);
        a.advance(1.0, 1.0, 0.125);
        assert!((a.pp - (4.0 + 1.5625 + 1.0)).abs() < 1e-12);
        assert!((a.pv - 1.5625).abs() < 1e-12);
        assert!((a.vv - (1.5625 + 0.015_625)).abs() < 1e-12);
        a.correct(6.0, 1.0);
        let s = 6.5625 + 1.0;
        assert!((a.position - (5.0 + 6.5625 / s)).abs() < 1e-12);
        assert!((a.velocity - 1.5625 / s).abs() < 1e-12);
        assert!((a.vv - (1.578_125 - 1.5625 * 1.5625 / s)).abs() < 1e-12);
    }

    #[test]
    fn without_noise_two_short_steps_are_one_long_one() {
        let mut short = Axis::new(0.0, 1.0, 2.0);
        short.velocity = 3.0;
        let mut long = short;
        short.advance(0.25, 0.0, 0.0);
        short.advance(0.25, 0.0, 0.0);
        long.advance(0.5, 0.0, 0.0);
        assert!((short.position - long.position).abs() < 1e-12);
        assert!((short.pp - long.pp).abs() < 1e-12);
    }
}
