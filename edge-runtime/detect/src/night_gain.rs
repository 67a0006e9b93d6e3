//! A gamma curve before a network, for frames that are too dark for it.
//!
//! - The median luma of a sample decides, with hysteresis, so that a flicker of light does not
//!   switch it. Frames of normal light reach the network as they are.
//! - Black samples do not count: they are privacy masks, bars or nothing at all. A frame with few
//!   others leaves the gain unchanged.
//! - Only the network sees the raised picture; events, videos and snapshots show what was filmed.
//!
//! | median luma, 0 to 255 | gain |
//! |---|---|
//! | below 10 | on |
//! | 10 to 14 | as before |
//! | above 14 | off |
//!
//! Networks see well in lesser darkness; there the curve costs precision (docs/design/0042).

use watchkeeper_vision::frame::{Colorimetry, Picture, PixelFormat};

/// Median luma below which the gain is switched on.
const ON_BELOW: u8 = 10;
/// Median luma above which the gain is switched off.
const OFF_ABOVE: u8 = 14;
/// Median luma that the curve aims at.
const TARGET: f32 = 20.0;
/// Lowest exponent of the curve: a lower one raises noise more than objects.
const MIN_GAMMA: f32 = 0.5;
/// Change of the exponent that is worth another curve.
const GAMMA_STEP: f32 = 0.08;
/// Sampled points along a row, and rows.
const SAMPLES: [u32; 2] = [40, 30];
/// Highest luma that counts as black.
const BLACK: u8 = 1;
/// Share of the samples that must not be black.
const MIN_LIT: usize = 8;

/// The gain of one view: remembers whether it is on.
#[derive(Debug, Clone, Default)]
pub struct NightGain {
    curve: Option<Gamma>,
}

/// A gamma curve, `255 * (value / 255) ^ exponent`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gamma {
    exponent: f32,
}

impl NightGain {
    /// Returns the curve for the next picture of the view; `None` for normal light.
    pub fn observe(&mut self, picture: &Picture) -> Option<Gamma> {
        // A frame that is all but black decides nothing: a share of lit samples that wavers does
        // not switch the gain.
        if let Some(median) = median_luma(picture) {
            self.curve = next(self.curve, median);
        }
        self.curve
    }
}

impl Gamma {
    /// Returns the curve for samples of one byte: `zero` and `span` are black and the distance to
    /// white.
    pub(crate) fn table(self, zero: u8, span: u8) -> [u8; 256] {
        let (zero, span) = (f32::from(zero), f32::from(span));
        std::array::from_fn(|value| {
            let level = ((value as f32 - zero) / span).max(0.0);
            // Values above white stay above it.
            let raised = if level < 1.0 {
                level.powf(self.exponent)
            } else {
                level
            };
            (raised * span + zero).round().clamp(0.0, 255.0) as u8
        })
    }
}

/// Returns the curve after a picture with this median luma.
fn next(before: Option<Gamma>, median: u8) -> Option<Gamma> {
    let is_on = median < ON_BELOW || (before.is_some() && median <= OFF_ABOVE);
    is_on.then(|| {
        let level = f32::from(median.max(1)) / 255.0;
        let exponent = ((TARGET / 255.0).ln() / level.ln()).clamp(MIN_GAMMA, 1.0);
        let is_near = |curve: &Gamma| (curve.exponent - exponent).abs() < GAMMA_STEP;
        before.filter(is_near).unwrap_or(Gamma { exponent })
    })
}

/// Black and the distance to white of luma samples.
pub(crate) fn luma_range(format: PixelFormat, color: Colorimetry) -> (u8, u8) {
    match format {
        PixelFormat::I420 | PixelFormat::Nv12 if !color.full_range => (16, 219),
        PixelFormat::I420 | PixelFormat::Nv12 | PixelFormat::Rgb => (0, 255),
    }
}

/// Median luma of the samples that are not black, 0 to 255; `None` if too few are not.
fn median_luma(picture: &Picture) -> Option<u8> {
    let plane = picture.planes.plane(0);
    let (zero, span) = luma_range(picture.format, picture.color);
    let mut counts = [0_usize; 256];
    let mut lit = 0;
    for row in 0..SAMPLES[1] {
        for column in 0..SAMPLES[0] {
            let x = middle(column, SAMPLES[0], picture.width);
            let y = middle(row, SAMPLES[1], picture.height);
            let luma = match picture.format {
                PixelFormat::Rgb => {
                    let at = y * plane.stride + x * 3;
                    let pixel = plane.data.get(at..at + 3)?;
                    let [r, g, b] = [pixel[0], pixel[1], pixel[2]].map(u32::from);
                    ((77 * r + 150 * g + 29 * b) >> 8) as u8
                }
                PixelFormat::I420 | PixelFormat::Nv12 => {
                    let sample = *plane.data.get(y * plane.stride + x)?;
                    let level = u32::from(sample.saturating_sub(zero)) * 255 / u32::from(span);
                    level.min(255) as u8
                }
            };
            if luma > BLACK {
                counts[usize::from(luma)] += 1;
                lit += 1;
            }
        }
    }
    if lit * MIN_LIT < (SAMPLES[0] * SAMPLES[1]) as usize {
        return None;
    }
    let mut below = 0;
    let median = counts.iter().position(|count| {
        below += count;
        below * 2 >= lit
    });
    median.and_then(|median| u8::try_from(median).ok())
}

/// The middle of part `index` of `count` equal parts of a side.
fn middle(index: u32, count: u32, side: u32) -> usize {
    let at = u64::from(2 * index + 1) * u64::from(side) / u64::from(2 * count);
    usize::try_from(at).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{picture, rgb_frame};

    fn grey(level: u8) -> Picture {
        rgb_frame(64, 48, [level; 3]).picture
    }

    #[test]
    fn gain_follows_the_light_with_hysteresis() {
        let mut gain = NightGain::default();
        let mut is_on = |level| gain.observe(&grey(level)).is_some();
        assert!(!is_on(120) && !is_on(12), "not yet dark");
        assert!(is_on(6) && is_on(12), "still dark");
        assert!(!is_on(20) && !is_on(12), "light again");
    }

    #[test]
    fn black_pixels_do_not_make_a_night() {
        let mut half = grey(120);
        let lit = [[120_u8; 3].repeat(64 * 20), [0; 3].repeat(64 * 28)].concat();
        half.planes = rgb_picture(lit).planes;
        assert_eq!(NightGain::default().observe(&half), None);
        assert_eq!(NightGain::default().observe(&grey(0)), None);
    }

    fn rgb_picture(data: Vec<u8>) -> Picture {
        picture(64, 48, PixelFormat::Rgb, vec![(data, 64 * 3)])
    }

    #[test]
    fn luma_of_video_range_is_measured_from_its_black() {
        let mut dark = picture(
            64,
            48,
            PixelFormat::Nv12,
            vec![(vec![34; 64 * 48], 64), (vec![128; 64 * 24], 64)],
        );
        assert_eq!(median_luma(&dark), Some(34));
        dark.color.full_range = false;
        assert_eq!(median_luma(&dark), Some(20));
    }

    #[test]
    fn picture_of_short_planes_or_no_size_has_no_gain() {
        let short = picture(64, 48, PixelFormat::Nv12, vec![(vec![9; 100], 64)]);
        let none = picture(0, 0, PixelFormat::Rgb, vec![]);
        for picture in [short, none] {
            assert_eq!(NightGain::default().observe(&picture), None);
        }
    }

    proptest! {
        #[test]
        fn curve_never_darkens_and_keeps_the_order(median in 0_u8..ON_BELOW, video: bool) {
            let (zero, span) = if video { (16, 219) } else { (0, 255) };
            let table = next(None, median).map(|curve| curve.table(zero, span));
            let table = table.unwrap_or([0; 256]);
            for value in usize::from(zero)..256 {
                prop_assert!(usize::from(table[value]) >= value);
                prop_assert!(value == usize::from(zero) || table[value] >= table[value - 1]);
            }
        }

        #[test]
        fn small_changes_of_light_keep_the_curve(median in 4_u8..ON_BELOW) {
            let curve = next(None, median);
            prop_assert_eq!(next(curve, median + 1), curve);
        }
    }
}
