//! A thermal model of a box: a heat sink of first order, and a chip above it.
//!
//! - The chip is warmer than the sink by its power times a resistance, without delay.
//! - Every constant is an argument, so a test draws them at random.

use std::time::Duration;

use watchkeeper_board::units::Celsius;
use watchkeeper_contract::pipeline::Priority;

use crate::load::{Grant, Level};

/// A pipeline of the simulated box.
#[derive(Debug, Clone, Copy)]
pub(super) struct SimulatedPipeline {
    pub(super) priority: Priority,
    /// Looks a second without a limit.
    pub(super) usual_fps: f64,
    /// Energy of one look in joules.
    pub(super) look_j: f64,
    /// Power of decoding in watts, while it is not paused.
    pub(super) decode_w: f64,
}

impl SimulatedPipeline {
    /// Looks a second under `grant`.
    #[must_use]
    pub(super) fn looks(&self, grant: Grant) -> f64 {
        match grant {
            Grant {
                is_paused: true, ..
            } => 0.0,
            Grant { max_fps, .. } => max_fps.unwrap_or(f64::INFINITY).min(self.usual_fps),
        }
    }
}

/// A box that heats and cools.
#[derive(Debug, Clone)]
pub(super) struct SimulatedBox {
    pub(super) pipelines: Vec<SimulatedPipeline>,
    pub(super) idle_w: f64,
    /// Power of clips, while they are made.
    pub(super) clips_w: f64,
    /// Kelvin a watt between sink and air.
    pub(super) sink_k_per_w: f64,
    /// Kelvin a watt between chip and sink.
    pub(super) chip_k_per_w: f64,
    /// Time constant of the sink.
    pub(super) time_constant: Duration,
    pub(super) sink: Celsius,
}

impl SimulatedBox {
    /// Watts at a level, where `activity` (0 to 1) of the looks need the detector.
    #[must_use]
    pub(super) fn power(&self, level: Level, activity: f64) -> f64 {
        let pipelines = self.pipelines.iter().map(|pipeline| {
            let grant = level.grant(pipeline.priority, pipeline.usual_fps);
            let decode = if grant.is_paused {
                0.0
            } else {
                pipeline.decode_w
            };
            decode + pipeline.looks(grant) * pipeline.look_j * activity
        });
        let may_clip = level.grant(Priority::High, 0.0).may_clip;
        let clips = if may_clip { self.clips_w } else { 0.0 };
        self.idle_w + pipelines.sum::<f64>() + clips
    }

    /// Temperature of the chip at `watts`.
    #[must_use]
    pub(super) fn chip(&self, watts: f64) -> Celsius {
        Celsius(self.sink.0 + watts * self.chip_k_per_w)
    }

    /// Temperature that the chip reaches at `watts` in air of `ambient`.
    #[must_use]
    pub(super) fn equilibrium(&self, watts: f64, ambient: Celsius) -> Celsius {
        Celsius(ambient.0 + watts * (self.sink_k_per_w + self.chip_k_per_w))
    }

    /// Lets `passed` pass at `watts` in air of `ambient`.
    pub(super) fn advance(&mut self, passed: Duration, watts: f64, ambient: Celsius) {
        let target = ambient.0 + watts * self.sink_k_per_w;
        // A trapezoid in place of the exponential, whose bits differ between machines.
        let half = passed.as_secs_f64() / self.time_constant.as_secs_f64() / 2.0;
        let decay = (1.0 - half) / (1.0 + half);
        self.sink.0 = target + (self.sink.0 - target) * decay;
    }
}
