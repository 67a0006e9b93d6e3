//! How a server scales a picture, and what it then costs.
//!
//! - Sizes are chosen so that the server does not scale. A model answers in pixels of the picture
//!   that it saw, so its boxes need no correction.
//! - Rule (Claude's vision documentation): a token for each 28 × 28 pixels begun. The size is the
//!   largest of the same shape whose sides, rounded up to multiples of 28, meet the tier's limits.

use crate::catalogue::ImageTier;

/// Side in pixels of the square that is one token.
const PATCH: u32 = 28;

impl ImageTier {
    const fn max_edge(self) -> u32 {
        match self {
            Self::Standard => 1_568,
            Self::High => 2_576,
        }
    }

    const fn max_tokens(self) -> u64 {
        match self {
            Self::Standard => 1_568,
            Self::High => 4_784,
        }
    }
}

/// Returns the tokens of an unscaled picture.
const fn patches(width: u32, height: u32) -> u64 {
    width.div_ceil(PATCH) as u64 * height.div_ceil(PATCH) as u64
}

const fn fits(tier: ImageTier, width: u32, height: u32) -> bool {
    let long = if width > height { width } else { height };
    long.div_ceil(PATCH) * PATCH <= tier.max_edge() && patches(width, height) <= tier.max_tokens()
}

/// Returns the tokens of a picture, after any scaling by the server.
pub fn tokens(tier: ImageTier, width: u32, height: u32) -> u64 {
    let (width, height) = unscaled(tier, width, height);
    patches(width, height)
}

/// Returns the largest size of the same shape that the server does not scale, at most the given
/// one.
pub(crate) fn unscaled(tier: ImageTier, width: u32, height: u32) -> (u32, u32) {
    let (width, height) = (width.max(1), height.max(1));
    if fits(tier, width, height) {
        return (width, height);
    }
    let long = width.max(height);
    // The size grows with its long edge: bisection finds the largest that fits.
    let (mut good, mut bad) = (1, long);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        let (w, h) = with_long_edge(width, height, middle);
        if fits(tier, w, h) {
            good = middle;
        } else {
            bad = middle;
        }
    }
    with_long_edge(width, height, good)
}

/// Returns the size of the same shape whose long edge is `long`; the short edge is rounded half to
/// even, at least 1.
pub(super) fn with_long_edge(width: u32, height: u32, long: u32) -> (u32, u32) {
    let scaled = |short: u32, of: u32| {
        let exact = f64::from(short) * f64::from(long) / f64::from(of);
        let rounded = exact.round_ties_even() as u32;
        rounded.max(1)
    };
    if width >= height {
        (long, scaled(height, width))
    } else {
        (scaled(width, height), long)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn published_sizes_cost_the_published_tokens() {
        use ImageTier::{High, Standard};
        for (tier, width, height, cost) in [
            (Standard, 200, 200, 64),
            (Standard, 1000, 1000, 1296),
            (Standard, 1092, 1092, 1521),
            (Standard, 640, 480, 414),
            (Standard, 896, 504, 576),
            (Standard, 1280, 720, 1196),
            (Standard, 1920, 1080, 1560),
            (High, 1920, 1080, 2691),
            (Standard, 3840, 2160, 1560),
            (High, 3840, 2160, 4784),
        ] {
            assert_eq!(
                tokens(tier, width, height),
                cost,
                "{tier:?} {width}x{height}"
            );
        }
    }

    #[test]
    fn published_sizes_are_scaled_as_published() {
        assert_eq!(unscaled(ImageTier::Standard, 1920, 1080), (1456, 819));
        assert_eq!(unscaled(ImageTier::High, 3840, 2160), (2576, 1449));
        assert_eq!(unscaled(ImageTier::Standard, 1075, 1520), (924, 1307));
    }

    proptest! {
        #[test]
        fn unscaled_size_is_stable_and_keeps_its_shape(width in 1_u32..9000, height in 1_u32..9000) {
            for tier in [ImageTier::Standard, ImageTier::High] {
                let (w, h) = unscaled(tier, width, height);
                prop_assert!(w <= width && h <= height);
                prop_assert_eq!(unscaled(tier, w, h), (w, h));
                // The short side is off by half a pixel at most, but never gone.
                let (short, exact) = if width >= height {
                    (h, f64::from(w) * f64::from(height) / f64::from(width))
                } else {
                    (w, f64::from(h) * f64::from(width) / f64::from(height))
                };
                prop_assert!((f64::from(short) - exact).abs() <= 0.5 || short == 1);
            }
        }
    }
}
