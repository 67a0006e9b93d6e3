//! What each cell looks like when nothing is there.
//!
//! Owns three layers a cell, in the manner of a codebook with a time of last use (Kim, Chalidabhongse, Harwood and
//! Davis, "Real-time foreground-background segmentation using codebook model", 2005): the background, a candidate that
//! is being seen instead of it, and the background that was there before the present one. The candidate takes over once
//! it has been seen as long as the background was, or for the time of absorption; a stopped car becomes background so,
//! and when it leaves, the former background is recognised at once and leaves no ghost. Thresholds follow each cell's
//! own noise, and rise where foreground keeps turning out to be nothing, as leaves do (feedback after Hofmann, Tiefenbacher
//! and Rigoll, "The pixel-based adaptive segmenter", 2012).
//!
//! Invariant: layers are kept in the light of the first picture; the present light is applied to them on comparison and
//! taken off again on learning.

use super::cells::{BACK, FORE, GHOST, MOVED, NOTHING, OBJECT, SHADOW};
use super::light::{Light, Planes};
use super::shadow;

/// Smallest step in luma (of 255) that can be a thing: below lies what coding does to flat surfaces.
const LUMA_STEP: f32 = 9.0;
/// Smallest step in chroma, sum of both differences.
const CHROMA_STEP: f32 = 9.0;
/// Mean absolute deviations of noise that a step must exceed besides.
const NOISE_FACTOR: f32 = 3.0;
/// Share of a change of light that a cell may not follow: highlights clip, and cameras bend their tone curve.
const LIGHT_ERROR: f32 = 0.4;
/// Noise assumed before any is measured.
const NOISE_START: f32 = 1.5;
/// Most that feedback raises a threshold, as a factor on it.
const LIFT_MAX: f32 = 3.0;
/// Seconds over which the background follows slow change.
const FOLLOW: f32 = 8.0;
/// Shortest time that a candidate must be seen, in seconds: longer than a fast car covers a cell.
const SHORTEST: f32 = 0.6;
/// Marks a layer that was never filled.
const NEVER: f32 = f32::MIN;

/// Times of absorption, in seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Absorb {
    /// Cells of a thing that moved here and stopped.
    pub(super) object: f32,
    /// Cells that differ but never moved as a thing.
    pub(super) other: f32,
}

#[derive(Debug, Default)]
struct Layer {
    y: Vec<f32>,
    u: Vec<f32>,
    v: Vec<f32>,
}

impl Layer {
    fn resize(&mut self, cells: usize) {
        for plane in [&mut self.y, &mut self.u, &mut self.v] {
            plane.clear();
            plane.resize(cells, NEVER);
        }
    }

    fn at(&self, i: usize) -> [f32; 3] {
        [self.y[i], self.u[i], self.v[i]]
    }

    fn put(&mut self, i: usize, [y, u, v]: [f32; 3]) {
        self.y[i] = y;
        self.u[i] = u;
        self.v[i] = v;
    }

    fn planes(&self) -> Planes<'_> {
        Planes {
            y: &self.y,
            u: &self.u,
            v: &self.v,
        }
    }
}

/// The model of all cells.
#[derive(Debug, Default)]
pub(super) struct Background {
    back: Layer,
    candidate: Layer,
    former: Layer,
    /// Mean absolute deviation of luma while background.
    noise: Vec<f32>,
    /// Factor on the thresholds from feedback, `1.0..=LIFT_MAX`.
    lift: Vec<f32>,
    /// Seconds for which the background was seen, up to the time of absorption.
    seen: Vec<f32>,
    /// Seconds for which the candidate has been seen without a break.
    age: Vec<f32>,
}

impl Background {
    /// Forgets everything and takes `now` as background.
    pub(super) fn reset(&mut self, now: Planes<'_>) {
        let cells = now.y.len();
        for layer in [&mut self.back, &mut self.candidate, &mut self.former] {
            layer.resize(cells);
        }
        self.back.y.copy_from_slice(now.y);
        self.back.u.copy_from_slice(now.u);
        self.back.v.copy_from_slice(now.v);
        for (plane, value) in [
            (&mut self.noise, NOISE_START),
            (&mut self.lift, 1.0),
            (&mut self.seen, 0.0),
            (&mut self.age, 0.0),
        ] {
            plane.clear();
            plane.resize(cells, value);
        }
    }

    /// Takes `now` as background after an upheaval; the old background is kept as the former one, so that a flash that
    /// ends finds it again.
    pub(super) fn relearn(&mut self, now: Planes<'_>) {
        std::mem::swap(&mut self.back, &mut self.former);
        self.back.y.copy_from_slice(now.y);
        self.back.u.copy_from_slice(now.u);
        self.back.v.copy_from_slice(now.v);
        self.seen.fill(0.0);
        self.age.fill(0.0);
    }

    /// The background's planes.
    pub(super) fn planes(&self) -> Planes<'_> {
        self.back.planes()
    }

    /// Says of each cell what it is, and by how many times its threshold it differs.
    pub(super) fn classify(
        &mut self,
        now: Planes<'_>,
        light: Light,
        labels: &mut [u8],
        contrast: &mut [f32],
    ) {
        let n = labels.len();
        let (y, u, v) = (&now.y[..n], &now.u[..n], &now.v[..n]);
        let (by, bu, bv) = (&self.back.y[..n], &self.back.u[..n], &self.back.v[..n]);
        let (noise, lift, contrast) = (&self.noise[..n], &self.lift[..n], &mut contrast[..n]);
        let unsure = LIGHT_ERROR * (light.gain - 1.0).abs();
        for i in 0..n {
            let expected = by[i] * light.gain;
            let step = |base: f32| (base + NOISE_FACTOR * noise[i]) * lift[i];
            let dy = (y[i] - expected).abs() / (step(LUMA_STEP) + unsure * expected);
            let dc = (u[i] - bu[i] - light.du).abs() + (v[i] - bv[i] - light.dv).abs();
            let dc = dc / step(CHROMA_STEP);
            contrast[i] = dy.max(dc);
            labels[i] = u8::from(dy.max(dc) > 1.0) << u8::from(dc > 1.0 || y[i] > expected);
        }
        for i in 0..n {
            if labels[i] == BACK {
                continue;
            }
            if self.former.y[i] != NEVER
                && self.alike(i, self.former.at(i), relight(now, i, light), 1.0)
            {
                // What was here before is here again: the thing that covered it has left.
                let old = self.former.at(i);
                self.former.put(i, [NEVER; 3]);
                self.back.put(i, old);
                self.seen[i] = SHORTEST;
                self.age[i] = 0.0;
                labels[i] = BACK;
            } else if labels[i] == SHADOW
                && !shadow::plausible(y[i] / (self.back.y[i] * light.gain))
            {
                labels[i] = FORE;
            }
        }
    }

    fn alike(&self, i: usize, a: [f32; 3], b: [f32; 3], factor: f32) -> bool {
        let slack = NOISE_FACTOR * self.noise[i];
        (a[0] - b[0]).abs() < (LUMA_STEP + slack) * factor
            && (a[1] - b[1]).abs() + (a[2] - b[2]).abs() < (CHROMA_STEP + slack) * factor
    }

    /// Learns from one picture. `held` says of each cell whether it belongs to a thing; `raw` is
    /// what [`Self::classify`] said; `dt` is in seconds.
    pub(super) fn learn(
        &mut self,
        now: Planes<'_>,
        light: Light,
        raw: &[u8],
        held: &[u8],
        dt: f32,
        absorb: Absorb,
    ) {
        let n = raw.len();
        let follow = dt / FOLLOW;
        for i in 0..n {
            if raw[i] == BACK && held[i] == NOTHING {
                let seen = self.seen[i];
                let rate = follow.max(dt / (seen + dt)).min(0.5);
                let [y, u, v] = relight(now, i, light);
                let off = y - self.back.y[i];
                self.back.y[i] += rate * off;
                self.back.u[i] += rate * (u - self.back.u[i]);
                self.back.v[i] += rate * (v - self.back.v[i]);
                self.noise[i] += follow * 2.0 * (off.abs() - self.noise[i]);
                self.lift[i] += follow * (1.0 - self.lift[i]);
                self.seen[i] = (seen + dt).min(absorb.object);
                self.age[i] = (self.age[i] - dt).max(0.0);
            } else if raw[i] != BACK {
                let held = if raw[i] == SHADOW && held[i] == NOTHING {
                    MOVED
                } else {
                    held[i]
                };
                self.doubt(i, relight(now, i, light), held, dt, absorb);
            }
        }
    }

    fn doubt(&mut self, i: usize, now: [f32; 3], held: u8, dt: f32, absorb: Absorb) {
        if held == NOTHING {
            self.lift[i] = (self.lift[i] + dt).min(LIFT_MAX);
        }
        let known = self.candidate.at(i);
        if self.age[i] <= 0.0 || !self.alike(i, known, now, 1.0) {
            self.candidate.put(i, now);
            self.age[i] = dt;
            return;
        }
        let rate = 0.1;
        self.candidate.put(
            i,
            [
                known[0] + rate * (now[0] - known[0]),
                known[1] + rate * (now[1] - known[1]),
                known[2] + rate * (now[2] - known[2]),
            ],
        );
        self.age[i] += dt;
        let limit = match held {
            OBJECT => absorb.object,
            MOVED => absorb.other,
            GHOST => SHORTEST,
            _ => absorb.other.min(2.0 * self.seen[i]).max(SHORTEST),
        };
        if self.age[i] >= limit {
            // Only under a thing that stopped is the old background sure to come back.
            let former = if held == OBJECT {
                self.back.at(i)
            } else {
                [NEVER; 3]
            };
            self.former.put(i, former);
            let new = self.candidate.at(i);
            self.back.put(i, new);
            self.seen[i] = self.age[i];
            self.age[i] = 0.0;
        }
    }
}

/// A cell of the present picture in the light of the background.
fn relight(now: Planes<'_>, i: usize, light: Light) -> [f32; 3] {
    [
        now.y[i] / light.gain,
        now.u[i] - light.du,
        now.v[i] - light.dv,
    ]
}
