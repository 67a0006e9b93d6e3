//! The one clock of a pipeline: source time that only goes forward.
//!
//! A source's presentation times are monotonic over its own reconnects, but a source that is replaced under a running
//! pipeline starts at zero again. Invariant: the times given out never go back; a step is as long as the source says, or,
//! where the source began anew or another process saw the last frame, as long as it took until its frame arrived. The wall clock has no part in it.

use std::time::{Duration, Instant};

use watchkeeper_vision::frame::Frame;
use watchkeeper_vision::track::Cadence;

/// Source time over whatever the source does.
#[derive(Debug, Default)]
pub(super) struct SourceClock {
    now: Duration,
    last: Option<(Duration, Instant)>,
    /// How long it was dark before this process looked, and when that was.
    dark: Option<(Duration, Instant)>,
    cadence: Cadence,
}

impl SourceClock {
    /// The time of the next frame; the first one is at its own time.
    pub(super) fn advance(&mut self, frame: &Frame) -> Duration {
        let step = match self.last.replace((frame.pts, frame.arrived)) {
            None => match self.dark.take() {
                None => frame.pts,
                Some((away, since)) => away + frame.arrived.saturating_duration_since(since),
            },
            Some((pts, _)) if frame.pts >= pts => frame.pts - pts,
            // Played faster or slower than it was taken, the arrival of a recording says nothing.
            Some(_) if frame.recorded => {
                Duration::from_secs_f64(self.cadence.usual_s().unwrap_or(0.0))
            }
            Some((_, arrived)) => frame.arrived.saturating_duration_since(arrived),
        };
        self.now = self.now.saturating_add(step);
        self.now
    }

    /// Goes on from `now`, the time of the last frame that another process saw, `away` ago.
    pub(super) fn go_on(&mut self, now: Duration, away: Duration) {
        self.now = now;
        self.dark = Some((away, Instant::now()));
    }

    /// The time of the last frame.
    pub(super) fn now(&self) -> Duration {
        self.now
    }

    /// The same; before the first frame, what time it is at `at` by what another process saw.
    pub(super) fn reached(&self, at: Instant) -> Duration {
        let dark = self
            .dark
            .map(|(away, since)| away.saturating_add(at.saturating_duration_since(since)));
        self.now.saturating_add(dark.unwrap_or_default())
    }

    /// Notes that the frame at [`advance`](Self::advance)'s latest time is being processed.
    pub(super) fn processed(&mut self) {
        self.cadence.next(self.now.as_secs_f64());
    }

    /// Frames per second that this pipeline gets to see, to a tenth, once that is known.
    pub(super) fn fps(&self) -> Option<f64> {
        self.cadence.fps().map(|fps| (fps * 10.0).round() / 10.0)
    }
}
