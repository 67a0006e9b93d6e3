//! Daylight and sensor: converts the canvas to I420 with a slow drift, slight flicker and noise.

use super::random::Random;
use super::raster::{Canvas, sine};

/// Length of the noise table; a power of two.
const TABLE: usize = 1 << 16;

/// A table of noise, bell-shaped around zero, in 1/256 of a step of luma.
#[derive(Debug)]
pub(super) struct Light {
    noise: Vec<i32>,
    seed: u64,
}

impl Light {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random(seed ^ 0x11_6874);
        let noise = (0..TABLE)
            .map(|_| {
                // The sum of four uniform bytes approximates a bell curve.
                let bits = random.next();
                let sum: i32 = (0..4).map(|i| ((bits >> (i * 8)) & 0xff) as i32).sum();
                (sum - 510) * 3 / 2
            })
            .collect();
        Self { noise, seed }
    }

    /// Planes Y, U and V (BT.601, video range) with their strides; width and height are even.
    pub(super) fn expose(
        &self,
        canvas: &Canvas,
        index: u32,
        seconds: f64,
    ) -> Vec<(Vec<u8>, usize)> {
        let (width, height) = (canvas.width, canvas.height);
        // Clouds drift over within tens of seconds; mains light flickers a little.
        let gain = 1.0 + 0.012 * sine(seconds / 23.0) + 0.004 * sine(seconds * 1.7);
        let gain = (gain * 256.0) as i32;
        let mut offset = Random(self.seed.wrapping_add(u64::from(index)));
        let mut luma = vec![0u8; width * height];
        let (half_w, half_h) = (width / 2, height / 2);
        let (mut blue, mut red) = (vec![128u8; half_w * half_h], vec![128u8; half_w * half_h]);
        let rows = canvas
            .data
            .chunks_exact(width * 3)
            .zip(luma.chunks_exact_mut(width));
        for (rgb, y) in rows {
            let start = (offset.next() as usize) & (TABLE / 2 - 1);
            let noise = self.noise[start..].iter();
            for ((p, y), n) in rgb.chunks_exact(3).zip(y).zip(noise.chain(&self.noise)) {
                // BT.601: 65.738, 129.057 and 25.064 of 256.
                let v = 66 * i32::from(p[0]) + 129 * i32::from(p[1]) + 25 * i32::from(p[2]);
                let v = ((v >> 8) * gain + n + 128) >> 8;
                *y = (v + 16).clamp(16, 235) as u8;
            }
        }
        let pairs = canvas.data.chunks_exact(width * 6);
        let chroma = blue
            .chunks_exact_mut(half_w)
            .zip(red.chunks_exact_mut(half_w));
        for (rows, (blue, red)) in pairs.zip(chroma) {
            let (upper, lower) = rows.split_at(width * 3);
            let quads = upper.chunks_exact(6).zip(lower.chunks_exact(6));
            for ((a, b), (u, v)) in quads.zip(blue.iter_mut().zip(red)) {
                let mean = |c: usize| {
                    let sum = [a[c], a[c + 3], b[c], b[c + 3]]
                        .map(i32::from)
                        .iter()
                        .sum::<i32>();
                    sum / 4
                };
                let (r, g, bl) = (mean(0), mean(1), mean(2));
                *u = (((-38 * r - 74 * g + 112 * bl + 128) >> 8) + 128) as u8;
                *v = (((112 * r - 94 * g - 18 * bl + 128) >> 8) + 128) as u8;
            }
        }
        vec![(luma, width), (blue, half_w), (red, half_w)]
    }
}
