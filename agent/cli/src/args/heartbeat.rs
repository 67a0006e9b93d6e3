//! Arguments of `watchkeeper heartbeat`.

use clap::Subcommand;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub(crate) enum HeartbeatAction {
    /// Show whether the heartbeat runs.
    Status,
    /// Pause checks and looks at frames until they are resumed, over restarts too.
    Pause,
    /// Resume checks and looks at frames.
    Resume,
}
