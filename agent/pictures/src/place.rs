//! Places on Earth and their distances.

use serde::{Deserialize, Serialize};

/// Mean radius of Earth in metres (IUGG).
const RADIUS_M: f64 = 6_371_008.8;

/// A place on Earth in degrees (WGS 84).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    pub latitude: f64,
    pub longitude: f64,
}

/// The distance of two places in metres, on a sphere.
pub(crate) fn distance_m(a: Place, b: Place) -> f64 {
    let half = |from: f64, to: f64| ((to - from).to_radians() / 2.0).sin().powi(2);
    let across = half(a.longitude, b.longitude)
        * a.latitude.to_radians().cos()
        * b.latitude.to_radians().cos();
    let chord = half(a.latitude, b.latitude) + across;
    2.0 * RADIUS_M * chord.sqrt().min(1.0).asin()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_degree_of_latitude_is_111_km() {
        let place = |latitude, longitude| Place {
            latitude,
            longitude,
        };
        let metres = distance_m(place(50.0, 8.0), place(51.0, 8.0));
        assert!((metres - 111_195.0).abs() < 10.0, "{metres}");
        let across = distance_m(place(0.0, 179.5), place(0.0, -179.5));
        assert!((across - 111_195.0).abs() < 10.0, "{across}");
    }
}
