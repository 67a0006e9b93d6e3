//! Timeouts of requests to the runtime and of commands made of them, each with its reason.
//!
//! - Invariant: every request has one of these deadlines.
//! - Not here: the timeouts of `watchkeeper run` for its processes and its video, over many
//!   requests.

use std::time::Duration;

/// Timeouts of a client and of commands that use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// Deadline of an ordinary answer, which the runtime only looks up.
    pub answer: Duration,
    /// Deadline of an answer that may load models, open a camera or wait for the end of a pipeline.
    /// The runtime allows 2 min for a network and 40 s for the end of a pipeline.
    pub slow_answer: Duration,
    /// Idle timeout of a stream. The runtime sends a comment every 15 s: without three it hangs.
    pub stream_silence: Duration,
    /// How long a command retries while the runtime is unreachable or busy. A restart takes
    /// seconds.
    ///
    /// It counts from the first failed attempt, and again from the first that broke during the
    /// answer.
    pub away: Duration,
    /// How long a started command without an answer polls for its effect.
    ///
    /// It counts from the end of [`Self::slow_answer`] or [`Self::away`]. The runtime finishes what
    /// it started; its longest step takes 2 min.
    pub aftermath: Duration,
}

impl Deadlines {
    /// Timeouts of a box.
    pub const USUAL: Self = Self {
        answer: Duration::from_secs(10),
        slow_answer: Duration::from_secs(180),
        stream_silence: Duration::from_secs(45),
        away: Duration::from_secs(30),
        aftermath: Duration::from_secs(120),
    };
}
