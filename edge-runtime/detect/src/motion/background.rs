//! Background model: the appearance of each cell without objects.
//!
//! - Each cell has three layers: background, candidate and former background. They are a codebook
//!   with times of last use (Kim, Chalidabhongse, Harwood and Davis, "Real-time
//!   foreground-background segmentation using codebook model", 2005).
//! - The candidate becomes background once it was seen [`TRUST`] times as long as the background,
//!   or for the time of absorption. So the ghosts of people in the first picture soon disappear,
//!   even under an object. An object on a background that was seen for [`Absorb::other`] gets the
//!   whole time. When a parked car leaves, the former background is recognised at once.
//! - Thresholds follow each cell's noise. They rise where foreground keeps turning out to be
//!   nothing, such as leaves (Hofmann, Tiefenbacher and Rigoll, "The pixel-based adaptive
//!   segmenter", 2012). In dark pictures the fixed part of a threshold falls with the light.
//! - Layers are stored in the illumination of the first picture; the present one is applied on
//!   comparison and removed on learning.

use super::cells::{BACK, FORE, GHOST, MOVED, NOTHING, OBJECT, SHADOW};
use super::light::{Light, Planes};
use super::shadow;

/// Smallest luma step (of 255) of an object in usual light; coding changes flat surfaces by less.
const LUMA_STEP: f32 = 9.0;
/// Smallest chroma step of an object in usual light, summed over both differences.
const CHROMA_STEP: f32 = 9.0;
/// Mean absolute deviations of noise that a step must exceed in addition.
const NOISE_FACTOR: f32 = 3.0;
/// Share of an illumination change that a cell may not follow, because highlights clip and cameras
/// bend their tone curve.
const LIGHT_ERROR: f32 = 0.4;
/// Initial noise of a cell.
const NOISE_START: f32 = 1.5;
/// Bound of the factor by which feedback raises a threshold.
const MAX_LIFT: f32 = 3.0;
/// Time constant in seconds with which the background follows slow change.
const FOLLOW_S: f32 = 8.0;
/// Shortest lifetime of a candidate in seconds: longer than a fast car covers a cell.
const MIN_CANDIDATE_S: f32 = 0.3;
/// Lifetime of a candidate that replaces the background, in lifetimes of the background.
const TRUST: f32 = 2.0;
/// Value of an empty layer.
const EMPTY: f32 = f32::MIN;

/// Times of absorption in seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Absorb {
    /// Cells of an object that moved and stopped here.
    pub(super) object: f32,
    /// Cells that differ but never belonged to a moving object.
    pub(super) other: f32,
}

/// The present picture, and its illumination relative to the background.
#[derive(Clone, Copy)]
pub(super) struct Present<'a> {
    pub(super) planes: Planes<'a>,
    pub(super) light: Light,
}

impl Present<'_> {
    /// A cell in the illumination of the background.
    fn relit(self, i: usize) -> [f32; 3] {
        let Self { planes, light } = self;
        [
            planes.y[i] / light.gain,
            (planes.u[i] - light.du) / light.gain,
            (planes.v[i] - light.dv) / light.gain,
        ]
    }
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
            plane.resize(cells, EMPTY);
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

#[derive(Debug, Default)]
pub(super) struct Background {
    back: Layer,
    candidate: Layer,
    former: Layer,
    /// Mean absolute deviation of luma while the cell is background.
    noise: Vec<f32>,
    /// Factor of feedback on the thresholds, `1.0..=MAX_LIFT`.
    lift: Vec<f32>,
    /// Lifetime of the background: seconds for which it was seen, up to the time of absorption.
    seen: Vec<f32>,
    /// Seconds for which the candidate has been seen without interruption.
    age: Vec<f32>,
    /// Factor on the smallest steps and the initial noise, from [`Estimator::step_scale`](super::light::Estimator::step_scale).
    step_scale: f32,
}

impl Background {
    /// Drops all layers and takes `now` as background.
    pub(super) fn reset(&mut self, now: Planes<'_>) {
        let cells = now.y.len();
        for layer in [&mut self.back, &mut self.candidate, &mut self.former] {
            layer.resize(cells);
        }
        self.back.y.copy_from_slice(now.y);
        self.back.u.copy_from_slice(now.u);
        self.back.v.copy_from_slice(now.v);
        for (plane, value) in [
            (&mut self.noise, NOISE_START * self.step_scale),
            (&mut self.lift, 1.0),
            (&mut self.seen, 0.0),
            (&mut self.age, 0.0),
        ] {
            plane.clear();
            plane.resize(cells, value);
        }
    }

    /// Takes `now` as background after a scene change. The old background becomes the former one,
    /// so that it is recognised after a flash.
    pub(super) fn relearn(&mut self, now: Planes<'_>) {
        std::mem::swap(&mut self.back, &mut self.former);
        self.back.y.copy_from_slice(now.y);
        self.back.u.copy_from_slice(now.u);
        self.back.v.copy_from_slice(now.v);
        self.seen.fill(0.0);
        self.age.fill(0.0);
    }

    /// Sets the factor on the smallest steps, before [`Self::classify`].
    pub(super) fn set_step_scale(&mut self, scale: f32) {
        self.step_scale = scale;
    }

    pub(super) fn planes(&self) -> Planes<'_> {
        self.back.planes()
    }

    /// Labels each cell and computes its contrast in multiples of its threshold.
    pub(super) fn classify(
        &mut self,
        present: Present<'_>,
        labels: &mut [u8],
        contrast: &mut [f32],
    ) {
        let n = labels.len();
        let Present { planes, light } = present;
        let (y, u, v) = (&planes.y[..n], &planes.u[..n], &planes.v[..n]);
        let (by, bu, bv) = (&self.back.y[..n], &self.back.u[..n], &self.back.v[..n]);
        let (noise, lift, contrast) = (&self.noise[..n], &self.lift[..n], &mut contrast[..n]);
        let unsure = LIGHT_ERROR * (light.gain - 1.0).abs();
        for i in 0..n {
            let expected = by[i] * light.gain;
            let step = |base: f32| (base * self.step_scale + NOISE_FACTOR * noise[i]) * lift[i];
            let dy = (y[i] - expected).abs() / (step(LUMA_STEP) + unsure * expected);
            let (eu, ev) = (bu[i] * light.gain, bv[i] * light.gain);
            let dc = (u[i] - eu - light.du).abs() + (v[i] - ev - light.dv).abs();
            let dc = dc / (step(CHROMA_STEP) + unsure * (eu.abs() + ev.abs()));
            contrast[i] = dy.max(dc);
            labels[i] = u8::from(dy.max(dc) > 1.0) << u8::from(dc > 1.0 || y[i] > expected);
        }
        for i in 0..n {
            if labels[i] == BACK {
                continue;
            }
            if self.former.y[i] != EMPTY && self.is_alike(i, self.former.at(i), present.relit(i)) {
                // The former background is back: the object that covered it has left.
                let old = self.former.at(i);
                self.former.put(i, [EMPTY; 3]);
                self.back.put(i, old);
                self.age[i] = 0.0;
                labels[i] = BACK;
            } else if labels[i] == SHADOW
                && !shadow::is_plausible(y[i] / (self.back.y[i] * light.gain))
            {
                labels[i] = FORE;
            }
        }
    }

    fn is_alike(&self, i: usize, a: [f32; 3], b: [f32; 3]) -> bool {
        let slack = NOISE_FACTOR * self.noise[i];
        (a[0] - b[0]).abs() < LUMA_STEP * self.step_scale + slack
            && (a[1] - b[1]).abs() + (a[2] - b[2]).abs() < CHROMA_STEP * self.step_scale + slack
    }

    /// Learns from one picture. `held` has each cell's object label, `raw` the result of
    /// [`Self::classify`]; `dt` is in seconds.
    pub(super) fn learn(
        &mut self,
        present: Present<'_>,
        raw: &[u8],
        held: &[u8],
        dt: f32,
        absorb: Absorb,
    ) {
        let n = raw.len();
        let follow = dt / FOLLOW_S;
        for i in 0..n {
            if raw[i] == BACK && held[i] == NOTHING {
                let seen = self.seen[i];
                let rate = follow.max(dt / (seen + dt)).min(0.5);
                let [y, u, v] = present.relit(i);
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
                self.learn_candidate(i, present.relit(i), held, dt, absorb);
            }
        }
    }

    fn learn_candidate(&mut self, i: usize, now: [f32; 3], held: u8, dt: f32, absorb: Absorb) {
        if held == NOTHING {
            self.lift[i] = (self.lift[i] + dt).min(MAX_LIFT);
        }
        let known = self.candidate.at(i);
        if self.age[i] <= 0.0 || !self.is_alike(i, known, now) {
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
        let trusted = TRUST * self.seen[i];
        let limit = match held {
            GHOST => 0.0,
            // It came to a background that was known, so it is none, however long it stands.
            OBJECT if self.seen[i] >= absorb.other => absorb.object,
            OBJECT => absorb.object.min(trusted),
            _ => absorb.other.min(trusted),
        };
        if self.age[i] >= limit.max(MIN_CANDIDATE_S) {
            // Only under an object that stopped is the old background certain to return.
            let former = if held == OBJECT {
                self.back.at(i)
            } else {
                [EMPTY; 3]
            };
            self.former.put(i, former);
            let new = self.candidate.at(i);
            self.back.put(i, new);
            self.seen[i] = self.age[i];
            self.age[i] = 0.0;
        }
    }
}
