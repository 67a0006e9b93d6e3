//! Light of the whole picture: what automatic exposure, white balance, clouds and lamps do to every cell at once.
//!
//! Owns the estimate of one gain and two chroma shifts between the background and the present picture. Medians over
//! cells that were background in the last frame are used, so things that move do not pull them (a median stands up to
//! half of the samples being wrong; Huber, "Robust Statistics", 1981).

/// How the present picture differs from the background as a whole.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Light {
    /// Factor on luma.
    pub(super) gain: f32,
    /// Added to the blue difference.
    pub(super) du: f32,
    /// Added to the red difference.
    pub(super) dv: f32,
}

impl Light {
    /// No difference.
    pub(super) const SAME: Self = Self {
        gain: 1.0,
        du: 0.0,
        dv: 0.0,
    };
}

/// Samples taken at most: the median of 4096 is good to a sixtieth of the noise of one.
const SAMPLES: usize = 4096;
/// Luma below which a ratio says nothing.
const DARK: f32 = 12.0;
/// Fewer samples than this say nothing.
const FEW: usize = 32;

/// The estimator; holds only its scratch memory.
#[derive(Debug, Default)]
pub(super) struct Estimator {
    ratio: Vec<f32>,
    du: Vec<f32>,
    dv: Vec<f32>,
}

/// Three planes of one picture: luma, blue difference, red difference.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planes<'a> {
    pub(super) y: &'a [f32],
    pub(super) u: &'a [f32],
    pub(super) v: &'a [f32],
}

impl Estimator {
    /// The light of `now` against `back`, over cells for which `usable` is true; [`Light::SAME`] when too few are.
    pub(super) fn estimate(
        &mut self,
        now: Planes<'_>,
        back: Planes<'_>,
        usable: impl Fn(usize) -> bool,
    ) -> Light {
        for scratch in [&mut self.ratio, &mut self.du, &mut self.dv] {
            scratch.clear();
        }
        // A step that shares no factor with usual widths, so that samples spread over columns too.
        let step = (now.y.len() / SAMPLES).max(1) | 1;
        for i in (0..now.y.len()).step_by(step) {
            if usable(i) && back.y[i] > DARK {
                self.ratio.push(now.y[i] / back.y[i]);
                self.du.push(now.u[i] - back.u[i]);
                self.dv.push(now.v[i] - back.v[i]);
            }
        }
        if self.ratio.len() < FEW {
            return Light::SAME;
        }
        Light {
            gain: median(&mut self.ratio).clamp(0.2, 5.0),
            du: median(&mut self.du),
            dv: median(&mut self.dv),
        }
    }
}

fn median(values: &mut [f32]) -> f32 {
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f32::total_cmp).1
}
