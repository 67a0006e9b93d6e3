//! Why the thread of a pipeline ends, as events and coverage spans name it.
//!
//! - Not here: what the thread does then (`thread`).

use watchkeeper_contract::coverage::SpanEnd;
use watchkeeper_engine::rules::FinishReason;

/// Why the thread ends.
pub(super) enum ThreadEnd {
    SourceEnded,
    /// The requested duration has passed.
    TimeOver,
    /// The source can't come back.
    SourceFailed(String),
    Stopped,
}

impl ThreadEnd {
    /// Returns the reason of the events that end with the thread.
    pub(super) fn reason(&self) -> FinishReason {
        match self {
            Self::SourceEnded => FinishReason::SourceEnded,
            Self::TimeOver => FinishReason::TimeOver,
            Self::SourceFailed(_) => FinishReason::SourceFailed,
            Self::Stopped => FinishReason::Stopped,
        }
    }

    pub(super) fn span_end(&self) -> SpanEnd {
        match self {
            Self::SourceEnded | Self::TimeOver => SpanEnd::Finished,
            Self::SourceFailed(_) => SpanEnd::NoFrames,
            Self::Stopped => SpanEnd::Stopped,
        }
    }
}
