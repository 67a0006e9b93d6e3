//! Scores of a picture's quality, each from 0 (bad) to 1 (good).

use image::GrayImage;
use serde::{Deserialize, Serialize};
use watchkeeper_vision::imaging::quality::Quality;

use crate::noise;

/// Luma levels that count as clipped: black up to the first, white from the second.
const CLIPPED: [u8; 2] = [3, 252];

/// Share of clipped pixels at which exposure has the score 0.
const WORST_CLIPPED: f64 = 0.5;

/// Range of the mean luma, from 0 to 1, of a well exposed picture.
const WELL_EXPOSED: [f64; 2] = [0.25, 0.7];

/// Standard deviation of luma from which contrast has the score 1. A picture with a flat histogram
/// has 0.29.
const FULL_CONTRAST: f64 = 0.2;

/// Standard deviation of noise in grey levels at which the score is 0.
const WORST_NOISE: f64 = 20.0;

/// Least sharpness of a picture that is not blurred. Real blurred ones of the test data have at
/// most 0.20, and copies that were blurred or moved at most 0.30. Of 220 sharp ones 2 have less.
pub const SHARP: f64 = 0.35;

/// Share of each trait in the overall score. Sharpness comes first: light can be corrected, blur
/// can't.
const WEIGHTS: [(Trait, f64); 4] = [
    (Trait::Sharpness, 0.55),
    (Trait::Exposure, 0.2),
    (Trait::Contrast, 0.15),
    (Trait::Noise, 0.1),
];

/// A trait of quality by which pictures are ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trait {
    /// Weighted mean of the others.
    Overall,
    Sharpness,
    Exposure,
    Contrast,
    Noise,
    /// Mean luma; no part of the quality.
    Brightness,
    /// Share of pixels that are clipped to white; no part of the quality.
    Highlights,
}

/// Scores of one picture.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scores {
    /// Grows with the steepness of edges.
    pub sharpness: f64,
    /// Falls with clipped pixels, and with a mean that is dark or bright.
    pub exposure: f64,
    /// Grows with the standard deviation of luma.
    pub contrast: f64,
    /// Falls with noise in flat areas: 1 is a picture without noise.
    pub noise: f64,
    /// Weighted mean of the others.
    pub overall: f64,
    /// Mean luma, from 0 (black) to 1 (white). Results of earlier versions lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brightness: Option<f64>,
    /// Share of pixels that are clipped to white, from 0 to 1. Results of earlier versions lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highlights: Option<f64>,
}

impl Scores {
    /// Scores a picture by itself, for noise, and by its small version, for all else.
    pub fn of(grey: &GrayImage, small: &GrayImage) -> Self {
        let quality = Quality::of(small);
        let mut scores = Self {
            sharpness: quality.sharpness,
            exposure: exposure(small, quality.brightness),
            contrast: (quality.contrast / FULL_CONTRAST).min(1.0),
            noise: (1.0 - noise::deviation(grey) / WORST_NOISE).max(0.0),
            overall: 0.0,
            brightness: Some(rounded(quality.brightness)),
            highlights: Some(rounded(share(small, |level| level >= CLIPPED[1]))),
        };
        let weighted = WEIGHTS.map(|(part, weight)| weight * scores.get(part).unwrap_or_default());
        scores.overall = weighted.iter().sum();
        for score in [
            &mut scores.sharpness,
            &mut scores.exposure,
            &mut scores.contrast,
            &mut scores.noise,
            &mut scores.overall,
        ] {
            *score = rounded(*score);
        }
        scores
    }

    pub const fn get(&self, part: Trait) -> Option<f64> {
        match part {
            Trait::Overall => Some(self.overall),
            Trait::Sharpness => Some(self.sharpness),
            Trait::Exposure => Some(self.exposure),
            Trait::Contrast => Some(self.contrast),
            Trait::Noise => Some(self.noise),
            Trait::Brightness => self.brightness,
            Trait::Highlights => self.highlights,
        }
    }

    /// Describes the scores in one line.
    pub fn explain(&self) -> String {
        let Self {
            sharpness,
            exposure,
            contrast,
            noise,
            overall,
            ..
        } = self;
        format!(
            "{overall:.2}: sharpness {sharpness:.2}, exposure {exposure:.2}, \
             contrast {contrast:.2}, freedom from noise {noise:.2}"
        )
    }
}

/// Rounds to four digits, so that results are short and equal on all machines.
fn rounded(score: f64) -> f64 {
    (score.clamp(0.0, 1.0) * 1e4).round() / 1e4
}

/// The share of pixels whose level is one of these.
fn share(grey: &GrayImage, is_counted: impl Fn(u8) -> bool) -> f64 {
    let counted = grey.as_raw().iter().filter(|level| is_counted(**level));
    counted.count() as f64 / grey.as_raw().len().max(1) as f64
}

fn exposure(grey: &GrayImage, brightness: f64) -> f64 {
    let [black, white] = CLIPPED;
    let clipped = share(grey, |level| level <= black || level >= white);
    let kept = 1.0 - (clipped / WORST_CLIPPED).min(1.0);
    let [dark, bright] = WELL_EXPOSED;
    let level = if brightness < dark {
        brightness / dark
    } else if brightness > bright {
        (1.0 - brightness) / (1.0 - bright)
    } else {
        1.0
    };
    kept * level
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use image::Luma;
    use image::imageops::blur;

    use super::*;

    fn scores(picture: &GrayImage) -> Scores {
        Scores::of(picture, picture)
    }

    /// Squares of 16 pixels in two greys.
    fn board(low: u8, high: u8) -> GrayImage {
        GrayImage::from_fn(256, 256, |x, y| {
            Luma([if (x / 16 + y / 16) % 2 == 0 {
                low
            } else {
                high
            }])
        })
    }

    /// Adds noise of a uniform distribution of `±range`, from a fixed sequence.
    fn noisy(picture: &GrayImage, range: u32) -> GrayImage {
        let mut state = 1_u32;
        let mut noisy = picture.clone();
        for pixel in noisy.pixels_mut() {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let step = i32::try_from((state >> 16) % (2 * range + 1)).unwrap_or(0);
            let value = i32::from(pixel[0]) + step - i32::try_from(range).unwrap_or(0);
            pixel[0] = u8::try_from(value.clamp(0, 255)).unwrap_or(0);
        }
        noisy
    }

    #[test]
    fn good_picture_has_high_scores() {
        let found = scores(&board(60, 190));
        assert!(found.overall > 0.9, "{found:?}");
    }

    #[test]
    fn each_fault_lowers_its_own_score() {
        let good = board(60, 190);
        let base = scores(&good);
        let lower = |picture: &GrayImage, part: Trait| {
            let found = scores(picture);
            let [low, high] = [found, base].map(|scores| scores.get(part).unwrap());
            assert!(low < high - 0.2, "{part:?} {found:?}");
            assert!(found.overall < base.overall, "{part:?} {found:?}");
        };
        lower(&blur(&good, 4.0), Trait::Sharpness);
        lower(&board(0, 20), Trait::Exposure);
        lower(&board(220, 255), Trait::Exposure);
        lower(&board(110, 130), Trait::Contrast);
        lower(&noisy(&good, 25), Trait::Noise);
    }

    #[test]
    fn scores_of_any_picture_are_between_0_and_1() {
        for picture in [
            GrayImage::new(0, 0),
            GrayImage::new(1, 1),
            GrayImage::from_pixel(3, 2, Luma([255])),
            board(0, 255),
            noisy(&board(0, 255), 200),
        ] {
            let found = scores(&picture);
            for (part, _) in WEIGHTS {
                let score = found.get(part).unwrap();
                assert!((0.0..=1.0).contains(&score), "{found:?}");
            }
        }
    }
}
