//! Camera motion estimated from boxes alone.
//!
//! When a camera turns, all objects deviate alike from their predictions; the median deviation is
//! the camera's, and independent objects do not change it. Few objects are weak evidence, so the
//! median of `n` counts `n / (n + 1)`.
//!
//! - Pure; results are finite.
//! - No allocation once it has seen as many objects.

/// Fewest objects that must agree; two may walk together.
const FEWEST: usize = 3;

/// Collects movements of objects and computes their common part, in any unit.
#[derive(Debug, Clone, Default)]
pub(super) struct Common {
    movements: Vec<[f64; 2]>,
    scratch: Vec<f64>,
}

impl Common {
    pub(super) fn clear(&mut self) {
        self.movements.clear();
    }

    pub(super) fn add(&mut self, movement: [f64; 2]) {
        if movement.iter().all(|m| m.is_finite()) {
            self.movements.push(movement);
        }
    }

    /// The common movement, reduced for few objects; `None` with too few.
    pub(super) fn shift(&mut self) -> Option<[f64; 2]> {
        let n = self.movements.len();
        if n < FEWEST {
            return None;
        }
        let k = n as f64 / (n as f64 + 1.0);
        Some([k * self.median(|m| m[0])?, k * self.median(|m| m[1])?])
    }

    /// The common movement, reduced where objects disagree: the expected velocity of a new object.
    pub(super) fn habit(&mut self) -> [f64; 2] {
        let Some([x, y]) = self.shift() else {
            return [0.0, 0.0];
        };
        let spread = self.median(|m| (m[0] - x).hypot(m[1] - y));
        let (common, own) = (x * x + y * y, spread.map_or(0.0, |s| s * s));
        let k = common / (common + own);
        if k.is_finite() {
            [k * x, k * y]
        } else {
            [0.0, 0.0]
        }
    }

    /// The middle value; of an even number the upper.
    fn median(&mut self, of: impl Fn(&[f64; 2]) -> f64) -> Option<f64> {
        self.scratch.clear();
        self.scratch.extend(self.movements.iter().map(of));
        let middle = self.scratch.len() / 2;
        if self.scratch.is_empty() {
            return None;
        }
        let (_, median, _) = self.scratch.select_nth_unstable_by(middle, f64::total_cmp);
        Some(*median)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(movements: &[[f64; 2]]) -> Common {
        let mut c = Common::default();
        movements.iter().for_each(|&m| c.add(m));
        c
    }

    #[test]
    fn one_that_goes_its_own_way_does_not_move_the_camera() {
        let mut c = of(&[[10.0, 0.0], [10.0, 0.0], [-300.0, 80.0]]);
        assert_eq!(c.shift(), Some([7.5, 0.0]));
    }

    #[test]
    fn two_objects_are_no_camera() {
        assert_eq!(of(&[[10.0, 0.0], [10.0, 0.0]]).shift(), None);
    }

    #[test]
    fn new_object_follows_camera_but_not_some_objects() {
        let [x, _] = of(&[[40.0, 0.0]; 8]).habit();
        assert!(x > 30.0, "{x}");
        let [x, _] = of(&[[40.0, 0.0], [-40.0, 0.0], [5.0, 30.0], [0.0, -30.0]]).habit();
        assert!(x.abs() < 5.0, "{x}");
    }

    #[test]
    fn what_is_not_finite_is_left_out() {
        let mut c = of(&[[f64::NAN, 0.0], [0.0, f64::INFINITY], [1.0, 1.0]]);
        assert_eq!(c.shift(), None);
    }
}
