//! The cost of each stage of a frame in wall time, and of all in processor time.
//!
//! - It has a fixed size: sums since the first frame, and the current frame.
//! - Processor time covers everything on the thread from the first frame on, and runs of networks
//!   on other threads that it asked for.
//! - All calls come from one thread, because [`own_time`] reads the clock of its caller.

use std::collections::BTreeMap;
use std::time::Duration;

use watchkeeper_detect::worker_time;

use crate::clock;

/// The stages of one frame, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Scaling, colour and layout for the network.
    Preprocess,
    /// The network, or the background model of the motion detector.
    Infer,
    /// Decoding and suppression.
    Postprocess,
    /// The other steps of the workflow: tracking, lines, zones.
    Workflow,
    /// Visits, rules, decisions.
    Heuristics,
    /// Drawing, encoding and handing over results.
    Output,
}

impl Stage {
    pub const ALL: [Self; 6] = [
        Self::Preprocess,
        Self::Infer,
        Self::Postprocess,
        Self::Workflow,
        Self::Heuristics,
        Self::Output,
    ];

    /// Name in results and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Preprocess => "preprocess",
            Self::Infer => "infer",
            Self::Postprocess => "postprocess",
            Self::Workflow => "workflow",
            Self::Heuristics => "heuristics",
            Self::Output => "output",
        }
    }
}

/// Processor time of the calling thread and of the runs of networks that it asked for.
pub fn own_time() -> Duration {
    clock::thread_time() + worker_time()
}

/// Time spent by stage.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StageTimes {
    frame: [Duration; Stage::ALL.len()],
    sums: [Duration; Stage::ALL.len()],
    frames: u64,
    /// [`own_time`] when the first frame began.
    began: Option<Duration>,
    /// [`own_time`] from then to the end of the latest frame.
    processor_time: Duration,
}

impl StageTimes {
    /// Begins a frame on the thread that calls [`Self::frame_done`].
    pub(crate) fn begin_frame(&mut self) {
        self.began.get_or_insert_with(own_time);
    }

    /// Adds time to a stage of the current frame.
    pub(crate) fn add(&mut self, stage: Stage, spent: Duration) {
        if let Some(sum) = self.frame.get_mut(stage as usize) {
            *sum += spent;
        }
    }

    /// Ends the current frame and returns what each stage of it cost.
    pub(crate) fn frame_done(&mut self) -> impl Iterator<Item = (Stage, Duration)> {
        let frame = std::mem::take(&mut self.frame);
        for (sum, spent) in self.sums.iter_mut().zip(&frame) {
            *sum += *spent;
        }
        self.frames += 1;
        let began = self.began.unwrap_or_default();
        self.processor_time = own_time().saturating_sub(began);
        Stage::ALL.into_iter().zip(frame)
    }

    /// Processor time from the first frame to the latest one, in seconds.
    pub(crate) fn processor_s(&self) -> f64 {
        self.processor_time.as_secs_f64()
    }

    /// Mean milliseconds per frame of each stage; empty before the first frame.
    pub(crate) fn means_ms(&self) -> BTreeMap<String, f64> {
        if self.frames == 0 {
            return BTreeMap::new();
        }
        Stage::ALL
            .iter()
            .zip(&self.sums)
            .map(|(stage, sum)| {
                let mean = sum.as_secs_f64() * 1e3 / self.frames as f64;
                (stage.name().to_owned(), mean)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_include_frames_that_skipped_a_stage() {
        let mut times = StageTimes::default();
        times.add(Stage::Infer, Duration::from_millis(10));
        let infer = |times: &mut StageTimes| {
            let mut spent = times.frame_done();
            spent.find(|(stage, _)| *stage == Stage::Infer)
        };
        let first = Some((Stage::Infer, Duration::from_millis(10)));
        assert_eq!(infer(&mut times), first);
        assert_eq!(infer(&mut times), Some((Stage::Infer, Duration::ZERO)));
        let infer = times.means_ms().get("infer").copied();
        assert_eq!(infer, Some(5.0));
    }

    #[test]
    fn means_are_empty_before_first_frame() {
        assert!(StageTimes::default().means_ms().is_empty());
    }
}
