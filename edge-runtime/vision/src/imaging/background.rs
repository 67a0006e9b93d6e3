//! Background subtraction by a mixture of Gaussians per pixel.
//!
//! - Zivkovic and van der Heijden, "Efficient adaptive density estimation per image pixel for the
//!   task of background subtraction", 2006, with the constants of OpenCV's MOG2.
//! - A shadow is the background with less light (Prati et al., "Detecting moving shadows", 2003).
//! - A pixel has at most [`MODES`] Gaussians.

use crate::rgb::RgbPixels;

use super::Plane;

/// Bound of a pixel's Gaussians.
const MODES: usize = 5;
/// Share of time for which the background must be visible.
const BACKGROUND: f32 = 0.9;
/// Squared distance in standard deviations beyond which a colour begins a new Gaussian.
const NEW_MODE: f32 = 9.0;
const VARIANCE_FIRST: f32 = 15.0;
const VARIANCE_LEAST: f32 = 4.0;
const VARIANCE_MOST: f32 = 75.0;
/// Evidence that a Gaussian needs to remain.
const COMPLEXITY: f32 = 0.05;
/// Smallest share of light in a shadow.
const SHADOW_LIGHT: f32 = 0.5;
pub const SHADOW: u8 = 127;
pub const FOREGROUND: u8 = 255;

#[derive(Debug, Clone, Copy, Default)]
struct Mode {
    weight: f32,
    variance: f32,
    mean: [f32; 3],
}

#[derive(Debug, Clone, Copy, Default)]
struct Pixel {
    modes: [Mode; MODES],
    count: usize,
}

#[derive(Debug, Clone)]
pub struct Background {
    pixels: Vec<Pixel>,
    size: [u32; 2],
    frames: u32,
}

impl Background {
    /// An empty model for pictures of this size.
    pub fn new(size: [u32; 2]) -> Self {
        Self {
            pixels: vec![Pixel::default(); size[0] as usize * size[1] as usize],
            size,
            frames: 0,
        }
    }

    pub const fn size(&self) -> [u32; 2] {
        self.size
    }

    /// Classifies a picture and learns from it: 0 for background, [`SHADOW`] or [`FOREGROUND`].
    /// `history` is the memory in frames, `threshold` the squared distance in standard deviations
    /// of background.
    pub fn look(&mut self, picture: &RgbPixels, history: u32, threshold: f32) -> Plane {
        self.frames = self.frames.saturating_add(1);
        let rate = 1.0 / self.frames.saturating_mul(2).min(history.max(1)) as f32;
        let each = self.pixels.iter_mut().zip(picture.data.chunks_exact(3));
        let data = each.map(|(pixel, rgb)| {
            let color = [f32::from(rgb[0]), f32::from(rgb[1]), f32::from(rgb[2])];
            pixel.look(color, rate, threshold)
        });
        Plane {
            width: picture.width as usize,
            height: picture.height as usize,
            data: data.collect(),
        }
    }
}

fn squared(a: &[f32; 3], b: &[f32; 3]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

impl Pixel {
    fn look(&mut self, color: [f32; 3], rate: f32, threshold: f32) -> u8 {
        let prune = -rate * COMPLEXITY;
        let (mut is_background, mut fits) = (false, false);
        let mut total = 0.0;
        let mut mode = 0;
        while mode < self.count {
            let mut weight = (1.0 - rate) * self.modes[mode].weight + prune;
            let mut place = mode;
            if !fits {
                let here = &mut self.modes[mode];
                let distance = squared(&here.mean, &color);
                is_background |= total < BACKGROUND && distance < threshold * here.variance;
                if distance < NEW_MODE * here.variance {
                    fits = true;
                    weight += rate;
                    let step = rate / weight;
                    for (mean, c) in here.mean.iter_mut().zip(&color) {
                        *mean -= step * (*mean - c);
                    }
                    let variance = here.variance + step * (distance - here.variance);
                    here.variance = variance.clamp(VARIANCE_LEAST, VARIANCE_MOST);
                    // Sorted by falling weight.
                    while place > 0 && weight >= self.modes[place - 1].weight {
                        self.modes.swap(place, place - 1);
                        place -= 1;
                    }
                }
            }
            if weight < -prune {
                weight = 0.0;
                self.count -= 1;
            }
            self.modes[place].weight = weight;
            total += weight;
            mode += 1;
        }
        if total.abs() > f32::EPSILON {
            for mode in &mut self.modes[..self.count] {
                mode.weight /= total;
            }
        }
        if !fits {
            self.begin(color, rate);
        }
        if is_background {
            0
        } else if self.is_shadow(&color, threshold) {
            SHADOW
        } else {
            FOREGROUND
        }
    }

    /// Begins a Gaussian at a colour; replaces the lightest when full.
    fn begin(&mut self, color: [f32; 3], rate: f32) {
        if self.count < MODES {
            self.count += 1;
        }
        let mut place = self.count - 1;
        let weight = if self.count == 1 { 1.0 } else { rate };
        if self.count > 1 {
            for mode in &mut self.modes[..place] {
                mode.weight *= 1.0 - rate;
            }
        }
        self.modes[place] = Mode {
            weight,
            variance: VARIANCE_FIRST,
            mean: color,
        };
        while place > 0 && rate >= self.modes[place - 1].weight {
            self.modes.swap(place, place - 1);
            place -= 1;
        }
    }

    /// Whether a colour is the background with less light.
    fn is_shadow(&self, color: &[f32; 3], threshold: f32) -> bool {
        let mut total = 0.0;
        for mode in &self.modes[..self.count] {
            let dot = |a: &[f32; 3], b: &[f32; 3]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
            let (part, whole) = (dot(color, &mode.mean), dot(&mode.mean, &mode.mean));
            if whole == 0.0 {
                return false;
            }
            if part <= whole && part >= SHADOW_LIGHT * whole {
                let light = part / whole;
                let shaded = mode.mean.map(|m| m * light);
                if squared(&shaded, color) < threshold * mode.variance * light * light {
                    return true;
                }
            }
            total += mode.weight;
            if total > BACKGROUND {
                return false;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::{Background, FOREGROUND, RgbPixels, SHADOW};

    fn picture(colors: [[u8; 3]; 4]) -> RgbPixels {
        RgbPixels {
            width: 4,
            height: 1,
            data: colors.concat(),
        }
    }

    #[test]
    fn what_moves_stands_out_and_a_shadow_is_told_apart() {
        let street = [[120, 110, 100]; 4];
        let mut background = Background::new([4, 1]);
        for _ in 0..100 {
            background.look(&picture(street), 100, 16.0);
        }
        let mut now = street;
        now[1] = [230, 20, 20];
        now[2] = [84, 77, 70];
        let seen = background.look(&picture(now), 100, 16.0);
        assert_eq!(seen.data, [0, FOREGROUND, SHADOW, 0]);
    }

    #[test]
    fn what_stays_becomes_background() {
        let mut background = Background::new([4, 1]);
        for _ in 0..100 {
            background.look(&picture([[10, 10, 10]; 4]), 100, 16.0);
        }
        let parked = picture([[200, 10, 10]; 4]);
        assert_eq!(background.look(&parked, 100, 16.0).data, [FOREGROUND; 4]);
        let looks = (0..300).map(|_| background.look(&parked, 100, 16.0).data);
        assert_eq!(looks.last().map(|d| d[0]), Some(0));
    }
}
