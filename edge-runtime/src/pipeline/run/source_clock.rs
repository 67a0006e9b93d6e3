//! The clock of a pipeline: source time that never goes back.
//!
//! - A source's presentation times grow over its own reconnects, but a replaced source starts at
//!   zero.
//! - A step is as long as the source says. After a replacement, a restart of the source or a
//!   restart of the process, it lasts until the next frame arrived.
//! - The wall clock is not used.

use std::time::{Duration, Instant};

use watchkeeper_vision::frame::Frame;
use watchkeeper_vision::track::Cadence;

/// Monotonic source time.
#[derive(Debug, Default)]
pub(super) struct SourceClock {
    now: Duration,
    last: Option<(Duration, Instant)>,
    /// How long nothing was watched before this process started to, and when that was.
    gap: Option<(Duration, Instant)>,
    cadence: Cadence,
}

impl SourceClock {
    /// The time of the next frame; the first one is at its own time.
    pub(super) fn advance(&mut self, frame: &Frame) -> Duration {
        let step = match self.last.replace((frame.pts, frame.arrived)) {
            None => match self.gap.take() {
                None => frame.pts,
                Some((away, since)) => away + frame.arrived.saturating_duration_since(since),
            },
            Some((pts, _)) if frame.pts >= pts => frame.pts - pts,
            // A recording may be played faster or slower than real time, so its arrival says
            // nothing.
            Some(_) if frame.recorded => {
                Duration::from_secs_f64(self.cadence.usual_s().unwrap_or(0.0))
            }
            Some((_, arrived)) => frame.arrived.saturating_duration_since(arrived),
        };
        self.now = self.now.saturating_add(step);
        self.now
    }

    /// Resumes at `now`, the time of the last frame of an earlier process, seen `away` ago.
    pub(super) fn resume(&mut self, now: Duration, away: Duration) {
        self.now = now;
        self.gap = Some((away, Instant::now()));
    }

    /// The time of the last frame.
    pub(super) fn now(&self) -> Duration {
        self.now
    }

    /// Like [`Self::now`]; before the first frame, the time at `at` by what an earlier process saw.
    pub(super) fn reached(&self, at: Instant) -> Duration {
        let gap = self
            .gap
            .map(|(away, since)| away.saturating_add(at.saturating_duration_since(since)));
        self.now.saturating_add(gap.unwrap_or_default())
    }

    /// Records that the latest frame is being processed.
    pub(super) fn processed(&mut self) {
        self.cadence.next(self.now.as_secs_f64());
    }

    /// Frames per second that this pipeline sees, to a tenth, once known.
    pub(super) fn fps(&self) -> Option<f64> {
        self.cadence.fps().map(|fps| (fps * 10.0).round() / 10.0)
    }
}

/// Position of a frame relative to the requested duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopPosition {
    Within,
    /// Exactly at the end.
    Last,
    Beyond,
}

/// Compares `at_s` seconds since the first frame with the end. Half a millisecond allows for time
/// stamps in 90 kHz and 600 Hz ticks.
pub(super) fn stop_position(at_s: f64, stop_after_s: f64) -> StopPosition {
    const NOISE_S: f64 = 5e-4;
    if at_s > stop_after_s + NOISE_S {
        StopPosition::Beyond
    } else if at_s >= stop_after_s - NOISE_S {
        StopPosition::Last
    } else {
        StopPosition::Within
    }
}
