//! How long a request to the runtime is waited for, and a command of which it is a part: every figure in one place, with its reason.
//!
//! Invariant: no request waits for the runtime without one of these. Not here: how long `watchkeeper run` waits for the processes and the
//! video that it has begun itself, over many requests.

use std::time::Duration;

/// The deadlines of a client and of the commands that are carried out through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// Of an ordinary answer. The runtime only looks something up for it.
    pub answer: Duration,
    /// Of an answer before which models may be loaded, a camera opened or the end of a pipeline waited for. The runtime gives one
    /// network two minutes and the end of a pipeline 40 s.
    pub slow_answer: Duration,
    /// Longest silence in a stream. The runtime sends a comment at least every 15 s, so three missing ones mean that it hangs.
    pub stream_silence: Duration,
    /// For how long a command tries again while the runtime is away or too busy, counted from the first attempt that failed for it, and
    /// anew from the first that broke half-way: a restart takes seconds. What comes behind the command gets its turn then.
    pub away: Duration,
    /// For how long a command that was begun and whose answer did not come, within [`Self::slow_answer`] or because the connection broke
    /// and [`Self::away`] is over, asks what became of it. The runtime goes on
    /// with what it has begun, whoever waits for it; two minutes are the longest step it may have begun last.
    pub aftermath: Duration,
}

impl Deadlines {
    /// Those of every box.
    pub const USUAL: Self = Self {
        answer: Duration::from_secs(10),
        slow_answer: Duration::from_secs(180),
        stream_silence: Duration::from_secs(45),
        away: Duration::from_secs(30),
        aftermath: Duration::from_secs(120),
    };
}
