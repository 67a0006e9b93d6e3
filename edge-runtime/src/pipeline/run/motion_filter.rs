//! Decides by motion whether a frame is worth running the detector.
//!
//! A coarse grid of luma, [`CELL_SAMPLES`]² samples per cell, hides sensor noise. It is compared
//! with a running mean, which follows slow light (a first-order background after Wren et al.,
//! Pfinder, 1997). Where nearly every cell changed, it is the light if one gain and one offset
//! explain the change. Otherwise something is in front of the camera.
//!
//! - Sans-IO: a luma plane and its time go in, a decision comes out.
//! - The filter never stays closed for longer than `refresh_s`, so a wrong decision costs seconds.

use watchkeeper_vision::frame::{Picture, PixelFormat};

/// Cells across and down. 16 by 9 pixels of a 1080p picture's 120 fit a person 30 m from a usual
/// lens.
const GRID: (usize, usize) = (32, 18);

/// Samples across and down in one cell.
const CELL_SAMPLES: usize = 4;

/// Grey levels by which a cell must differ to count as moved; above the averaged noise at night.
const CELL_DELTA: f32 = 6.0;

/// Share of cells above which a change may be the light.
const GLOBAL_SHARE: f32 = 0.8;

/// Gains that light and exposure cause between two frames. An object in front of the camera is
/// unrelated to what was there before, so its gain is near 0.
const LIGHT_GAIN: std::ops::RangeInclusive<f32> = 0.3..=3.0;

/// Variance of the cells, in grey levels squared, below which no gain can be estimated.
const FLAT: f32 = CELL_DELTA * CELL_DELTA;

/// Weight of a new frame in the mean, when it shows no motion.
const LEARNING: f32 = 0.05;

/// Decides whether the detector runs.
#[derive(Debug, Clone)]
pub(crate) struct MotionFilter {
    refresh_s: f64,
    mean: Vec<f32>,
    now: Vec<f32>,
    last_run_s: Option<f64>,
    /// Keeps the filter open for a moment after motion, so that one still frame does not cut a
    /// track.
    open_until_s: f64,
}

/// Seconds for which the filter stays open after the last motion.
const LINGER_S: f64 = 1.0;

impl MotionFilter {
    /// Creates a filter that opens at least every `refresh_s` seconds.
    pub(crate) fn new(refresh_s: f64) -> Self {
        Self {
            refresh_s: if refresh_s.is_finite() {
                refresh_s.max(0.0)
            } else {
                0.0
            },
            mean: Vec::new(),
            now: Vec::with_capacity(GRID.0 * GRID.1),
            last_run_s: None,
            open_until_s: f64::NEG_INFINITY,
        }
    }

    /// Whether the frame with this picture at `time_s` (source time) should be processed.
    pub(crate) fn admit(&mut self, picture: &Picture, time_s: f64) -> bool {
        coarse_luma(picture, &mut self.now);
        let moved = if self.mean.len() == self.now.len() {
            let cells = self.now.len().max(1) as f32;
            let changed = changed(&self.mean, &self.now, (1.0, 0.0));
            let is_light = changed as f32 / cells > GLOBAL_SHARE && is_light(&self.mean, &self.now);
            let rate = if is_light { 1.0 } else { LEARNING };
            for (mean, now) in self.mean.iter_mut().zip(&self.now) {
                *mean += (*now - *mean) * rate;
            }
            changed > 0 && !is_light
        } else {
            self.mean.clone_from(&self.now);
            true
        };
        if moved {
            self.open_until_s = time_s + LINGER_S;
        }
        let due = self
            .last_run_s
            .is_none_or(|last| time_s - last >= self.refresh_s || time_s < last);
        let run = due || time_s <= self.open_until_s;
        if run {
            self.last_run_s = Some(time_s);
        }
        run
    }
}

/// Counts the cells that differ from the previous ones after `gain` and `offset`.
fn changed(before: &[f32], now: &[f32], (gain, offset): (f32, f32)) -> usize {
    let cells = before.iter().zip(now);
    cells
        .filter(|(before, now)| (*before * gain + offset - *now).abs() > CELL_DELTA)
        .count()
}

/// Whether one gain and one offset, by least squares, explain what nearly all cells show now.
fn is_light(before: &[f32], now: &[f32]) -> bool {
    let n = before.len().max(1) as f32;
    let mean = |cells: &[f32]| cells.iter().sum::<f32>() / n;
    let (mean_before, mean_now) = (mean(before), mean(now));
    let (mut variance, mut covariance) = (0.0, 0.0);
    for (before, now) in before.iter().zip(now) {
        variance += (before - mean_before).powi(2) / n;
        covariance += (before - mean_before) * (now - mean_now) / n;
    }
    let gain = if variance < FLAT {
        1.0
    } else {
        covariance / variance
    };
    let unexplained = changed(before, now, (gain, mean_now - gain * mean_before));
    LIGHT_GAIN.contains(&gain) && unexplained as f32 / n <= 1.0 - GLOBAL_SHARE
}

/// Fills `grid` with the mean luma (0–255) of each cell, row by row.
fn coarse_luma(picture: &Picture, grid: &mut Vec<f32>) {
    let plane = picture.planes.plane(0);
    let step = match picture.format {
        PixelFormat::I420 | PixelFormat::Nv12 => 1,
        PixelFormat::Rgb => 3,
    };
    // The green channel stands for luma in RGB.
    let offset = if step == 3 { 1 } else { 0 };
    let (width, height) = (picture.width as usize, picture.height as usize);
    grid.clear();
    for row in 0..GRID.1 {
        for column in 0..GRID.0 {
            let mut sum = 0u32;
            for sy in 0..CELL_SAMPLES {
                let y = sample(row, sy, GRID.1, height);
                for sx in 0..CELL_SAMPLES {
                    let x = sample(column, sx, GRID.0, width);
                    let at = y * plane.stride + x * step + offset;
                    sum += u32::from(plane.data.get(at).copied().unwrap_or(0));
                }
            }
            grid.push(sum as f32 / (CELL_SAMPLES * CELL_SAMPLES) as f32);
        }
    }
}

/// Pixel coordinate of sample `s` in cell `cell` of `cells` over `pixels`.
fn sample(cell: usize, s: usize, cells: usize, pixels: usize) -> usize {
    let steps = cells * CELL_SAMPLES;
    ((cell * CELL_SAMPLES + s) * 2 + 1) * pixels / (steps * 2)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use watchkeeper_vision::frame::{ColorMatrix, Colorimetry, OwnedPlanes};

    fn grey(value: u8, square: Option<(usize, usize, u8)>) -> Picture {
        let (width, height) = (320usize, 180usize);
        let mut luma = vec![value; width * height];
        if let Some((left, top, level)) = square {
            for y in top..top + 20 {
                for x in left..left + 20 {
                    luma[y * width + x] = level;
                }
            }
        }
        let chroma = vec![128; width / 2 * (height / 2)];
        Picture {
            width: width as u32,
            height: height as u32,
            format: PixelFormat::I420,
            color: Colorimetry {
                matrix: ColorMatrix::Bt601,
                full_range: false,
            },
            planes: Arc::new(OwnedPlanes {
                planes: vec![
                    (luma, width),
                    (chroma.clone(), width / 2),
                    (chroma, width / 2),
                ],
            }),
        }
    }

    #[test]
    fn first_frame_is_always_admitted() {
        assert!(MotionFilter::new(5.0).admit(&grey(100, None), 0.0));
    }

    #[test]
    fn still_picture_is_admitted_only_at_the_refresh() {
        let mut filter = MotionFilter::new(5.0);
        let picture = grey(100, None);
        let runs: Vec<u32> = (0..150u32)
            .filter(|n| filter.admit(&picture, f64::from(*n) / 10.0))
            .collect();
        // The first second lingers, then one run each five seconds.
        assert!(runs.contains(&0) && runs.len() < 15, "{runs:?}");
        assert!(runs.iter().any(|n| (60..=61).contains(n)), "{runs:?}");
    }

    #[test]
    fn object_that_enters_opens_the_filter() {
        let mut filter = MotionFilter::new(60.0);
        for n in 0..30 {
            filter.admit(&grey(100, None), f64::from(n) / 10.0);
        }
        assert!(!filter.admit(&grey(100, None), 3.1));
        assert!(filter.admit(&grey(100, Some((100, 60, 200))), 3.2));
    }

    #[test]
    fn change_of_light_does_not_open_the_filter() {
        let mut filter = MotionFilter::new(60.0);
        for n in 0..30 {
            filter.admit(&grey(100, None), f64::from(n) / 10.0);
        }
        for n in 30..40 {
            assert!(
                !filter.admit(&grey(150, None), f64::from(n) / 10.0),
                "frame {n}"
            );
        }
    }

    /// A street: bright sky, a dark wall, a chequered pavement. `light` maps its grey levels.
    fn street(light: impl Fn(f32) -> f32, lorry: Option<u8>) -> Picture {
        let mut picture = grey(0, None);
        let (width, height) = (320, 180);
        let mut luma = Vec::with_capacity(width * height);
        for y in 0..height {
            for x in 0..width {
                let level = match y {
                    0..60 => 170.0,
                    60..120 => 60.0 + x as f32 / 8.0,
                    _ if (x / 20 + y / 20) % 2 == 0 => 90.0,
                    _ => 120.0,
                };
                let hidden = lorry.filter(|_| x >= 20 && y >= 10);
                luma.push(hidden.unwrap_or_else(|| light(level) as u8));
            }
        }
        let chroma = vec![128; width / 2 * (height / 2)];
        picture.planes = Arc::new(OwnedPlanes {
            planes: vec![
                (luma, width),
                (chroma.clone(), width / 2),
                (chroma, width / 2),
            ],
        });
        picture
    }

    /// A filter that has closed over the empty street.
    fn closed() -> MotionFilter {
        let mut filter = MotionFilter::new(60.0);
        for n in 0..30 {
            filter.admit(&street(|level| level, None), f64::from(n) / 10.0);
        }
        assert!(!filter.admit(&street(|level| level, None), 3.1));
        filter
    }

    #[test]
    fn lorry_that_fills_the_picture_opens_the_filter() {
        for paint in [20, 110, 250] {
            let mut filter = closed();
            for n in 0..5 {
                let at = 3.2 + f64::from(n) / 10.0;
                let picture = street(|level| level, Some(paint));
                assert!(filter.admit(&picture, at), "paint {paint}, frame {n}");
            }
            // Long after the lorry has left, the filter is closed again.
            let empty = street(|level| level, None);
            let still = (0..100).filter(|n| filter.admit(&empty, 4.0 + f64::from(*n) / 10.0));
            assert!(still.count() < 60);
        }
    }

    #[test]
    fn exposure_and_clouds_do_not_open_the_filter() {
        for light in [|l: f32| l * 0.6, |l: f32| l * 1.4 + 10.0, |l: f32| l - 40.0] {
            let mut filter = closed();
            for n in 0..10 {
                let at = 3.2 + f64::from(n) / 10.0;
                assert!(!filter.admit(&street(light, None), at), "frame {n}");
            }
        }
    }

    #[test]
    fn picture_without_pixels_is_admitted() {
        let mut filter = MotionFilter::new(1.0);
        let mut picture = grey(0, None);
        picture.width = 0;
        picture.height = 0;
        picture.planes = Arc::new(OwnedPlanes::default());
        assert!(filter.admit(&picture, 0.0));
    }
}
