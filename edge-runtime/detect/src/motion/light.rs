//! Global illumination: the effect of automatic exposure, white balance, clouds and lamps on all
//! cells.
//!
//! The estimate is one gain and two chroma shifts between background and present picture. The gain
//! scales chroma too: more exposure makes colours stronger, which grey cells don't show. Medians
//! over cells that were background in the last frame are robust against moving objects. Up to half
//! of the samples may be wrong (Huber, "Robust Statistics", 1981).

/// Global difference between the present picture and the background.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Light {
    pub(super) gain: f32,
    pub(super) du: f32,
    pub(super) dv: f32,
}

impl Light {
    pub(super) const SAME: Self = Self {
        gain: 1.0,
        du: 0.0,
        dv: 0.0,
    };
}

/// Bound of the samples: the median of 4096 has a sixtieth of the noise of one.
const MAX_SAMPLES: usize = 4096;
/// Luma below which a ratio is meaningless.
const MIN_LUMA: f32 = 12.0;
/// Median luma above which the steps of objects have their usual size.
const USUAL_LUMA: f32 = 40.0;
/// Highest luma of black: privacy masks and bars, which do not make a night.
const BLACK: f32 = 1.0;
/// Smallest factor on the steps: noise of coding stays below one and a half grey levels.
const MIN_STEP_SCALE: f32 = 0.16;
/// Fewest samples of an estimate.
const MIN_SAMPLES: usize = 32;

/// Estimator of the illumination; holds only its scratch memory.
#[derive(Debug, Default)]
pub(super) struct Estimator(Vec<f32>);

/// Planes of one picture: luma, blue difference, red difference.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planes<'a> {
    pub(super) y: &'a [f32],
    pub(super) u: &'a [f32],
    pub(super) v: &'a [f32],
}

impl Estimator {
    /// Estimates the illumination of `now` against `back`, over cells for which `usable` is true;
    /// [`Light::SAME`] when too few are.
    pub(super) fn estimate(
        &mut self,
        now: Planes<'_>,
        back: Planes<'_>,
        usable: impl Fn(usize) -> bool,
    ) -> Light {
        // An odd step shares no factor with usual widths, so that samples cover all columns.
        let step = (now.y.len() / MAX_SAMPLES).max(1) | 1;
        let all = (0..now.y.len()).step_by(step);
        let samples = || all.clone().filter(|&i| usable(i) && back.y[i] > MIN_LUMA);
        let gain = self.median(samples().map(|i| now.y[i] / back.y[i]));
        let Some(gain) = gain.map(|gain| gain.clamp(0.2, 5.0)) else {
            return Light::SAME;
        };
        let mut shift = |now: &[f32], back: &[f32]| {
            let shift = self.median(samples().map(|i| now[i] - gain * back[i]));
            shift.unwrap_or_default()
        };
        Light {
            gain,
            du: shift(now.u, back.u),
            dv: shift(now.v, back.v),
        }
    }

    /// Factor on the steps of objects over a background with this luma, at most 1: contrast falls
    /// with the light. Too few samples that are not black give 1.
    pub(super) fn step_scale(&mut self, back: &[f32], light: Light) -> f32 {
        let step = (back.len() / MAX_SAMPLES).max(1) | 1;
        let lit = back.iter().step_by(step).copied().filter(|&y| y > BLACK);
        let median = self.median(lit);
        median.map_or(1.0, |median| {
            (median * light.gain / USUAL_LUMA).clamp(MIN_STEP_SCALE, 1.0)
        })
    }

    /// The median of at least [`MIN_SAMPLES`] values.
    fn median(&mut self, values: impl Iterator<Item = f32>) -> Option<f32> {
        let Self(scratch) = self;
        scratch.clear();
        scratch.extend(values);
        let middle = scratch.len() / 2;
        (scratch.len() >= MIN_SAMPLES)
            .then(|| *scratch.select_nth_unstable_by(middle, f32::total_cmp).1)
    }
}
