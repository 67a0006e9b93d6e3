//! Y, U, V to R, G, B.
//!
//! Coefficients follow from the matrix's weights of red and blue and the range of the samples
//! (16–235 and 16–240, or 0–255).

use watchkeeper_vision::frame::Colorimetry;

/// The conversion of one matrix and range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct YuvToRgb {
    luma_gain: f32,
    luma_zero: f32,
    red_v: f32,
    green_u: f32,
    green_v: f32,
    blue_u: f32,
}

impl YuvToRgb {
    pub(crate) fn new(color: Colorimetry) -> Self {
        let [red, blue] = color.matrix.red_and_blue().map(|weight| weight as f32);
        let green = 1.0 - red - blue;
        let (luma_gain, luma_zero, chroma_gain) = if color.full_range {
            (1.0, 0.0, 1.0)
        } else {
            (255.0 / 219.0, 16.0, 255.0 / 224.0)
        };
        let (v, u) = (2.0 * (1.0 - red), 2.0 * (1.0 - blue));
        Self {
            luma_gain,
            luma_zero,
            red_v: chroma_gain * v,
            green_u: -chroma_gain * u * blue / green,
            green_v: -chroma_gain * v * red / green,
            blue_u: chroma_gain * u,
        }
    }

    /// Red, green and blue, `0.0..=255.0`, not rounded.
    #[inline]
    pub(crate) fn apply(&self, y: u8, u: u8, v: u8) -> [f32; 3] {
        let y = (f32::from(y) - self.luma_zero) * self.luma_gain;
        let (u, v) = (f32::from(u) - 128.0, f32::from(v) - 128.0);
        [
            (y + self.red_v * v).clamp(0.0, 255.0),
            (y + self.green_u * u + self.green_v * v).clamp(0.0, 255.0),
            (y + self.blue_u * u).clamp(0.0, 255.0),
        ]
    }
}

#[cfg(test)]
mod tests {
    use watchkeeper_vision::frame::ColorMatrix;

    use super::*;

    fn near(color: (ColorMatrix, bool), yuv: [u8; 3], rgb: [f32; 3]) {
        let (matrix, full_range) = color;
        let [y, u, v] = yuv;
        let got = YuvToRgb::new(Colorimetry { matrix, full_range }).apply(y, u, v);
        let same = got.iter().zip(rgb).all(|(a, b)| (a - b).abs() < 1.6);
        assert!(same, "{yuv:?} gave {got:?}, not {rgb:?}");
    }

    #[test]
    fn colour_bars_come_out_as_the_standards_say() {
        // 100 % bars in 8 bits: BT.601 studio red is 81 90 240, BT.709 studio green is 173 42 26,
        // JPEG blue is 29 255 107.
        near(
            (ColorMatrix::Bt601, false),
            [81, 90, 240],
            [255.0, 0.0, 0.0],
        );
        near(
            (ColorMatrix::Bt709, false),
            [173, 42, 26],
            [0.0, 255.0, 0.0],
        );
        near(
            (ColorMatrix::Bt601, true),
            [29, 255, 107],
            [0.0, 0.0, 255.0],
        );
        near((ColorMatrix::Bt709, false), [235, 128, 128], [255.0; 3]);
        near((ColorMatrix::Bt601, false), [16, 128, 128], [0.0; 3]);
    }
}
