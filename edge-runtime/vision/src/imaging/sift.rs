//! SIFT: scale- and rotation-invariant keypoints and their descriptors.
//!
//! Lowe, "Distinctive image features from scale-invariant keypoints", 2004, with OpenCV's
//! constants, rounding and single precision, so that thresholds tuned there mean the same here.
//!
//! - A pure function of pixels; keypoints are sorted and unique.
//! - One octave is in memory at a time.

mod descriptor;
mod field;
mod keypoint;
mod octave;

use self::field::{Field, real, signed, whole};
use self::keypoint::order;
use self::octave::{BLURS, LAYERS, Octave, SIGMA};
use super::Plane;

pub use descriptor::Descriptor;
pub use keypoint::Keypoint;

/// Bound of a picture's pixels; each takes some 200 bytes during detection.
pub const MAX_PIXELS: usize = 1 << 21;
const CAMERA_SIGMA: f32 = 0.5;

/// Keypoints and descriptors of a picture; none above [`MAX_PIXELS`].
pub fn features(grey: &Plane) -> Vec<(Keypoint, Descriptor)> {
    let side = grey.width.min(grey.height);
    if side == 0 || grey.data.len() > MAX_PIXELS || grey.data.len() != grey.width * grey.height {
        return Vec::new();
    }
    // Each octave has half the size of the previous one; the last is about four pixels high.
    let octaves = whole(real(signed(2 * side)).log2() - 2.0) + 1;
    let first_blur = (SIGMA * SIGMA - CAMERA_SIGMA * CAMERA_SIGMA * 4.0).max(0.01);
    let mut first = Field::doubled(grey).blurred(first_blur.sqrt());
    let blurs = blurs();
    let mut found = Vec::new();
    for octave in 0..octaves.clamp(0, 30) {
        let mut layers = vec![first];
        for sigma in &blurs {
            let next = layers.last().map(|last| last.blurred(*sigma));
            layers.extend(next);
        }
        let differences = layers.windows(2).map(|pair| pair[1].minus(&pair[0]));
        let octave = Octave {
            number: i32::try_from(octave).unwrap_or(0),
            differences: differences.collect(),
            layers,
        };
        octave.find(&mut found);
        first = octave.layers[LAYERS].halved();
    }
    found.sort_by(|(a, _), (b, _)| order(a, b));
    found.dedup_by(|(a, _), (b, _)| (a.place, a.size, a.angle) == (b.place, b.size, b.angle));
    found
}

/// The blur from each layer of an octave to the next.
fn blurs() -> [f32; BLURS - 1] {
    let layers = f64::from(real(signed(LAYERS)));
    let mut place = 0.0;
    [(); BLURS - 1].map(|()| {
        let before = 2_f64.powf(place / layers) * f64::from(SIGMA);
        let after = before * 2_f64.powf(1.0 / layers);
        place += 1.0;

        (after * after - before * before).sqrt() as f32
    })
}

/// Matches that pass Lowe's ratio test: the nearest descriptor is closer than `ratio` times the
/// second nearest. None when either list has fewer than two.
pub fn good_matches<R: AsRef<[f32]>>(ours: &[R], theirs: &[R], ratio: f64) -> Vec<[usize; 2]> {
    if ours.len() < 2 || theirs.len() < 2 {
        return Vec::new();
    }
    let distance = |a: &[f32], b: &[f32]| {
        let squares = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b));
        f64::from(squares.sum::<f32>()).sqrt()
    };
    let mut good = Vec::new();
    for (i, one) in ours.iter().enumerate() {
        let (mut nearest, mut next, mut which) = (f64::INFINITY, f64::INFINITY, 0);
        for (j, other) in theirs.iter().enumerate() {
            let far = distance(one.as_ref(), other.as_ref());
            if far < nearest {
                (nearest, next, which) = (far, nearest, j);
            } else if far < next {
                next = far;
            }
        }
        if nearest < ratio * next {
            good.push([i, which]);
        }
    }
    good
}

#[cfg(test)]
mod tests;
