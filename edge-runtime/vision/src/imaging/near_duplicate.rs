//! Recognises near duplicates: pictures of one moment, or one picture after a change of size,
//! light, sharpness or compression, or cropped by a tenth.
//!
//! - [`Thumbnail`] keeps a picture in a fixed number of bytes, whatever its size.
//! - A turned or mirrored picture is another one.

use image::imageops::{crop_imm, thumbnail};
use image::{GrayImage, Luma};
use serde::{Deserialize, Serialize};

use crate::shrink::image_within;

const SIDE: u32 = 64;

/// Side in pixels of the views that are compared.
const VIEW_SIDE: u32 = 32;

/// Side of a crop in a thumbnail, in pixels: nine tenths.
const CROP_SIDE: u32 = 58;

/// The smallest similarity of near duplicates. In the test data, that of unlike pictures is at most
/// 0.31. That of near duplicates is at least 0.36, and of all but three pairs of 150 at least 0.7.
pub const SIMILAR: f64 = 0.4;

/// Side in pixels of what a [`Sketch`] is made of.
const SKETCH_SIDE: u32 = 16;
/// Value of 1 in a [`Sketch`]; a typical one is a twentieth of that.
const SKETCH_SCALE: f32 = 1024.0;

/// The smallest correlation of the sketches of near duplicates. In the test data, that of near
/// duplicates is at least 0.48. Of the others whose hashes are near, 90 % have at most 0.19.
pub const ALIKE: f64 = 0.2;

/// Stored form of a picture: 64 x 64 grey pixels, whatever its aspect ratio.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Thumbnail {
    pixels: Vec<u8>,
}

impl Thumbnail {
    pub fn of(grey: &GrayImage) -> Self {
        let pixels = thumbnail(grey, SIDE, SIDE).into_raw();
        Self { pixels }
    }

    /// Pixels of the thumbnail. A damaged file of a saved state is a black picture.
    fn picture(&self) -> GrayImage {
        let pixels = GrayImage::from_raw(SIDE, SIDE, self.pixels.clone());
        pixels.unwrap_or_else(|| GrayImage::from_pixel(SIDE, SIDE, Luma([0])))
    }

    /// Prepares the comparison with others.
    pub fn views(&self) -> Views {
        let pixels = self.picture();
        let view = |x: u32, y: u32, side: u32| {
            let part = crop_imm(&pixels, x, y, side, side).to_image();
            edges(&image_within(&part, VIEW_SIDE))
        };
        let rest = SIDE - CROP_SIDE;
        let places = [0, rest / 2, rest];
        let crops = places
            .iter()
            .flat_map(|y| places.map(|x| view(x, *y, CROP_SIDE)));
        Views {
            whole: view(0, 0, SIDE),
            crops: crops.collect(),
        }
    }
}

/// The coarse edges of a picture in few bytes: they distinguish unlike pictures fast.
#[derive(Debug, Clone)]
pub struct Sketch {
    values: Vec<i8>,
}

impl Sketch {
    pub fn of(thumbnail: &Thumbnail) -> Self {
        let values = edges(&image_within(&thumbnail.picture(), SKETCH_SIDE)).into_iter();
        let values = values.map(|v| (v * SKETCH_SCALE).clamp(-127.0, 127.0) as i8);
        Self {
            values: values.collect(),
        }
    }

    /// Correlation with another picture, from -1 to 1. That of near duplicates is at least
    /// [`ALIKE`].
    pub fn similarity(&self, other: &Self) -> f64 {
        let pairs = self.values.iter().zip(&other.values);
        let sum: i32 = pairs.map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
        f64::from(sum) / f64::from(SKETCH_SCALE * SKETCH_SCALE)
    }
}

/// The edges of a picture, and those of nine crops of it.
#[derive(Debug, Clone)]
pub struct Views {
    whole: Vec<f32>,
    crops: Vec<Vec<f32>>,
}

impl Views {
    /// Similarity to another picture, from 0 to 1: the highest correlation of one whole picture
    /// with the other or a crop of it. Pictures without edges have 0.
    pub fn similarity(&self, other: &Self) -> f64 {
        let ours = self.crops.iter().map(|crop| (crop, &other.whole));
        let theirs = other.crops.iter().map(|crop| (crop, &self.whole));
        let pairs = ours.chain(theirs).chain([(&self.whole, &other.whole)]);
        let best = pairs.map(|(a, b)| product(a, b)).fold(0.0, f32::max);
        f64::from(best).min(1.0)
    }
}

fn product(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Differences to the right and down, as a vector of length 1.
///
/// The square root keeps one strong edge from outweighing all others.
fn edges(view: &GrayImage) -> Vec<f32> {
    let side = view.width();
    let last = side.saturating_sub(1);
    let at = |x: u32, y: u32| {
        let pixel = view.get_pixel_checked(x, y);
        pixel.map_or(0.0, |p| f32::from(p.0[0]))
    };
    let root = |difference: f32| difference.abs().sqrt().copysign(difference);
    let mut out = Vec::new();
    for (x, y) in (0..side).flat_map(|y| (0..side).map(move |x| (x, y))) {
        let is_border = |n: u32| n == 0 || n == last;
        let across = if is_border(x) {
            0.0
        } else {
            at(x + 1, y) - at(x - 1, y)
        };
        let down = if is_border(y) {
            0.0
        } else {
            at(x, y + 1) - at(x, y - 1)
        };
        out.extend([root(across), root(down)]);
    }
    let mean = out.iter().sum::<f32>() / (2 * side * side) as f32;
    out.iter_mut().for_each(|v| *v -= mean);
    let length = product(&out, &out).sqrt();
    if length > f32::EPSILON {
        out.iter_mut().for_each(|v| *v /= length);
    }
    out
}

#[cfg(test)]
mod tests {
    use image::imageops::{FilterType, blur, crop_imm, flip_horizontal, resize};
    use image::{GrayImage, Luma};
    use proptest::prelude::*;

    use super::{SIMILAR, Thumbnail};

    fn similarity(a: &GrayImage, b: &GrayImage) -> f64 {
        let [a, b] = [a, b].map(|picture| Thumbnail::of(picture).views());
        a.similarity(&b)
    }

    /// Soft blobs at random places.
    fn scene(seed: u64) -> GrayImage {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut picture = GrayImage::from_pixel(320, 240, Luma([90]));
        for _ in 0..40 {
            let [x, y, size] = [300, 220, 60].map(|n| random.u32(0..n));
            let level = random.u8(..);
            for (y, x) in
                (y..(y + size).min(240)).flat_map(|y| (x..(x + size).min(320)).map(move |x| (y, x)))
            {
                picture.put_pixel(x, y, Luma([level]));
            }
        }
        picture
    }

    fn relit(picture: &GrayImage, light: impl Fn(u8) -> u8) -> GrayImage {
        let mut out = picture.clone();
        out.pixels_mut().for_each(|p| p.0[0] = light(p.0[0]));
        out
    }

    #[test]
    fn mirrored_picture_is_another() {
        let picture = scene(1);
        assert!(similarity(&picture, &flip_horizontal(&picture)) < SIMILAR);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

        #[test]
        fn changed_picture_is_a_near_duplicate(seed: u64, left in 0_u32..32, top in 0_u32..24) {
            let picture = scene(seed);
            for (name, changed) in [
                ("half", resize(&picture, 160, 120, FilterType::Triangle)),
                ("wide", resize(&picture, 640, 300, FilterType::Triangle)),
                ("blur", blur(&picture, 2.0)),
                ("dark", relit(&picture, |v| v / 2)),
                ("bright", relit(&picture, |v| v.saturating_add(40))),
                ("crop", crop_imm(&picture, left, top, 288, 216).to_image()),
            ] {
                let similar = similarity(&picture, &changed);
                prop_assert!(similar >= SIMILAR, "{name}: {similar}");
                prop_assert!((similar - similarity(&changed, &picture)).abs() < 1e-6);
            }
        }

        #[test]
        fn other_picture_is_not(seed: u64, other: u64) {
            prop_assume!(seed != other);
            let picture = scene(seed);
            prop_assert!(similarity(&picture, &scene(other)) < SIMILAR);
        }

        #[test]
        fn any_pictures_compare(width in 0_u32..90, height in 0_u32..90, seed: u64) {
            let mut random = fastrand::Rng::with_seed(seed);
            let picture = GrayImage::from_fn(width, height, |_, _| Luma([random.u8(..)]));
            let plain = GrayImage::from_pixel(width, height, Luma([7]));
            prop_assert!((0.0..=1.0).contains(&similarity(&picture, &scene(seed))));
            prop_assert!(similarity(&plain, &plain).abs() < 1e-6);
        }
    }
}
