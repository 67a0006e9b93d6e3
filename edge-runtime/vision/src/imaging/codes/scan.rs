//! Scan lines over a picture, as dark and light samples.
//!
//! - The number of lines and of samples has a bound, so the work for one picture has one.
//! - A sample is dark where the sharpened line is below a threshold from its surroundings. So light
//!   that falls off along the code, and blur of the width of a bar, change no edge.
//! - Decoding is in [`bars`](super::bars).

use std::ops::Range;

use image::GrayImage;

use crate::geometry::Point;

/// Maximum number of scan lines along the rows or the columns.
pub(super) const MAX_LINES: u32 = 40;

/// Maximum number of scan lines along a diagonal.
pub(super) const MAX_DIAGONALS: u32 = 20;

/// Maximum number of samples of one line; on longer lines they lie further apart.
const MAX_SAMPLES: f64 = 2048.0;

/// Distance of two samples in pixels at the finest scale. In the hard EAN-13 pictures a module has
/// 1.5 pixels, and a coarser distance moves edges.
pub(super) const FINE: f64 = 1.0 / 3.0;

/// Samples in a block; a threshold comes from a block and its neighbours.
pub(super) const BLOCK: usize = 72;

/// Least number of samples in a block.
pub(super) const MIN_BLOCK: usize = 24;

/// Least difference of dark and light in a sharpened line.
const MIN_CONTRAST: f32 = 12.0;

/// Least number of bars and spaces of a code.
const MIN_RUNS: usize = 20;

/// Number of bars and spaces over which the mean width is taken.
const NEAR: usize = 12;

/// A quiet zone is at least this many mean widths: four modules of EAN-13, the densest code.
const QUIET: f64 = 2.5;

/// No bar or space within a code has this many mean widths.
const BREAK: f64 = 6.0;

/// A straight line over a picture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    origin: Point,
    step: Point,
    samples: usize,
}

impl Line {
    /// Distance of two samples in pixels.
    pub(super) fn pace(&self) -> f64 {
        self.step.x.hypot(self.step.y)
    }

    /// The place of a sample in the picture.
    pub(super) fn at(&self, sample: f64) -> Point {
        Point::new(
            self.origin.x + self.step.x * sample,
            self.origin.y + self.step.y * sample,
        )
    }
}

/// At most `count` parallel lines at an angle in radians, evenly spaced over a picture, with
/// samples at least `pace` pixels apart.
pub(super) fn lines(grey: &GrayImage, angle: f64, count: u32, pace: f64) -> Vec<Line> {
    let [width, height] = [grey.width(), grey.height()].map(f64::from);
    if width < 2.0 || height < 2.0 {
        return Vec::new();
    }
    let (sin, cos) = angle.sin_cos();
    let along = width * cos.abs() + height * sin.abs();
    let across = width * sin.abs() + height * cos.abs();
    let pace = pace.max(along / MAX_SAMPLES);
    let count = count.min(across as u32 / 2);
    let line = |n: u32| {
        let offset = ((f64::from(n) + 0.5) / f64::from(count) - 0.5) * across;
        let middle = Point::new(
            (width - 1.0) / 2.0 - offset * sin,
            (height - 1.0) / 2.0 + offset * cos,
        );
        let [from, to] = inside(middle, [cos, sin], [width, height])?;
        // Half a step from the border: a pixel next to it has as many samples as any other.
        let from = from + pace / 2.0;
        let samples = ((to - from) / pace).max(0.0) as usize;
        (samples >= 2 * MIN_RUNS).then(|| Line {
            origin: Point::new(middle.x + from * cos, middle.y + from * sin),
            step: Point::new(pace * cos, pace * sin),
            samples,
        })
    };
    (0..count).filter_map(line).collect()
}

/// The part of a line through `middle` that lies inside a picture, as distances from `middle`.
fn inside(middle: Point, direction: [f64; 2], size: [f64; 2]) -> Option<[f64; 2]> {
    let mut part = [f64::NEG_INFINITY, f64::INFINITY];
    for ((at, step), side) in [middle.x, middle.y].into_iter().zip(direction).zip(size) {
        let last = side - 1.0;
        if step.abs() < 1e-9 {
            if !(0.0..=last).contains(&at) {
                return None;
            }
            continue;
        }
        let (a, b) = (-at / step, (last - at) / step);
        part = [part[0].max(a.min(b)), part[1].min(a.max(b))];
    }
    (part[0] < part[1]).then_some(part)
}

/// The samples of a line, true for dark; `block` samples have one threshold.
pub(super) fn dark_samples(grey: &GrayImage, line: &Line, block: usize) -> Vec<bool> {
    let pixel = (1.0 / line.pace()).round().max(1.0) as usize;
    threshold(&sharpen(&light(grey, line), pixel), block)
}

/// Light of each sample, interpolated between four pixels.
fn light(grey: &GrayImage, line: &Line) -> Vec<f32> {
    let (width, raw) = (grey.width() as usize, grey.as_raw());
    let [right, bottom] = [grey.width(), grey.height()].map(|n| n as f32 - 1.001);
    let pixel = |at: usize| f32::from(raw.get(at).copied().unwrap_or(0));
    let sample = |i: usize| {
        let place = line.at(i as f64);
        let x = (place.x as f32).clamp(0.0, right);
        let y = (place.y as f32).clamp(0.0, bottom);
        // Not `fract`, which is a call on a processor without SSE4.1.
        let (column, row) = (x as usize, y as usize);
        let (dx, dy) = (x - column as f32, y - row as f32);
        let at = row * width + column;
        let above = pixel(at) * (1.0 - dx) + pixel(at + 1) * dx;
        let below = pixel(at + width) * (1.0 - dx) + pixel(at + width + 1) * dx;
        above * (1.0 - dy) + below * dy
    };
    (0..line.samples).map(sample).collect()
}

/// Takes the samples `radius` to both sides away from the threefold sample.
fn sharpen(light: &[f32], radius: usize) -> Vec<f32> {
    let last = light.len().saturating_sub(1);
    let at = |i: usize| light.get(i.min(last)).copied().unwrap_or(0.0);
    let sharp = |i: usize| 3.0 * at(i) - at(i.saturating_sub(radius)) - at(i + radius);
    (0..light.len()).map(sharp).collect()
}

/// Compares each sample with a threshold from its block and the two beside it: between the middle
/// of their extremes and their mean.
///
/// Exposure and ink make all bars thinner or thicker than the spaces. The mean moves with them, so
/// thin bars get a threshold nearer to light: upca-2 of ZXing has twice the readings of the middle
/// alone. The mean alone fails beside a wide quiet zone.
fn threshold(light: &[f32], block: usize) -> Vec<bool> {
    let blocks: Vec<Block> = light.chunks(block).map(Block::of).collect();
    let mut dark = Vec::with_capacity(light.len());
    for (n, block) in light.chunks(block).enumerate() {
        let near = blocks.iter().take(n + 2).skip(n.saturating_sub(1));
        let Some(near) = near.copied().reduce(Block::join) else {
            continue;
        };
        let is_flat = near.most - near.least <= MIN_CONTRAST;
        let threshold = near.least.midpoint(near.most).midpoint(near.mean());
        dark.extend(block.iter().map(|v| !is_flat && *v < threshold));
    }
    dark
}

/// The samples of a part of a line, summed up.
#[derive(Debug, Clone, Copy)]
struct Block {
    least: f32,
    most: f32,
    sum: f32,
    samples: f32,
}

impl Block {
    fn of(light: &[f32]) -> Self {
        let one = |v: &f32| Self {
            least: *v,
            most: *v,
            sum: *v,
            samples: 1.0,
        };
        let none = Self {
            least: f32::INFINITY,
            most: f32::NEG_INFINITY,
            sum: 0.0,
            samples: 0.0,
        };
        light.iter().map(one).fold(none, Self::join)
    }

    fn join(self, other: Self) -> Self {
        Self {
            least: self.least.min(other.least),
            most: self.most.max(other.most),
            sum: self.sum + other.sum,
            samples: self.samples + other.samples,
        }
    }

    fn mean(&self) -> f32 {
        self.sum / self.samples.max(1.0)
    }
}

/// The parts of a line that may hold a code: enough bars and spaces of like width between two quiet
/// zones. The border of the picture counts as one.
pub(super) fn stretches(dark: &[bool]) -> Vec<Range<usize>> {
    let mut edges = vec![0];
    let changes = dark.windows(2).enumerate();
    edges.extend(
        changes
            .filter(|(_, pair)| pair[0] != pair[1])
            .map(|(i, _)| i + 1),
    );
    edges.push(dark.len());
    let runs = Runs { edges };
    let mut found = Vec::new();
    let mut first = 0;
    for run in 1..=runs.count() {
        if run == runs.count() || runs.is_break(run) {
            let last = run.min(runs.count() - 1);
            found.extend(runs.between_quiet_zones(first, last, dark));
            first = run;
        }
    }
    found
}

/// The bars and spaces of a line.
struct Runs {
    /// Run `i` lasts from `edges[i]` to `edges[i + 1]`.
    edges: Vec<usize>,
}

impl Runs {
    fn count(&self) -> usize {
        self.edges.len() - 1
    }

    /// Samples from the start of run `from` to the start of run `to`.
    fn samples(&self, from: usize, to: usize) -> f64 {
        let edge = |run: usize| self.edges.get(run).copied().unwrap_or(0);
        edge(to).saturating_sub(edge(from)) as f64
    }

    fn width(&self, run: usize) -> f64 {
        self.samples(run, run + 1)
    }

    /// Mean width of the runs before a run; infinite if there are none.
    fn mean_before(&self, run: usize) -> f64 {
        let from = run.saturating_sub(NEAR);
        self.samples(from, run) / (run - from) as f64
    }

    /// Mean width of the runs after a run; infinite or NaN if there are none.
    fn mean_after(&self, run: usize) -> f64 {
        let to = (run + 1 + NEAR).min(self.count());
        self.samples(run + 1, to) / (to - (run + 1).min(to)) as f64
    }

    fn is_break(&self, run: usize) -> bool {
        let near = self.mean_before(run).min(self.mean_after(run));
        self.width(run) > BREAK * near
    }

    fn between_quiet_zones(
        &self,
        first: usize,
        last: usize,
        dark: &[bool],
    ) -> Option<Range<usize>> {
        if last < first + MIN_RUNS {
            return None;
        }
        let end = self.count() - 1;
        let is_light =
            |run: usize| self.edges.get(run).and_then(|at| dark.get(*at)) == Some(&false);
        let starts = |run: &usize| {
            *run == 0 || is_light(*run) && self.width(*run) >= QUIET * self.mean_after(*run)
        };
        let ends = |run: &usize| {
            *run == end || is_light(*run) && self.width(*run) >= QUIET * self.mean_before(*run)
        };
        let left = (first..=last).find(starts)?;
        let right = (first..=last).rev().find(ends)?;
        if right < left + MIN_RUNS {
            return None;
        }
        // Ten mean widths are the widest quiet zone that a reader asks for.
        let margin = |mean: f64| (mean * 10.0) as usize;
        let [left_end, right_start] = [self.edges.get(left + 1)?, self.edges.get(right)?];
        let from = left_end.saturating_sub(margin(self.mean_after(left)));
        let to = right_start + margin(self.mean_before(right));
        Some(from.max(*self.edges.get(left)?)..to.min(*self.edges.get(right + 1)?))
    }
}
