//! Health of a notification channel, as plain data.

use super::queue::Counts;

/// Deliveries of one channel since the agent's start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChannelHealth {
    pub counts: Counts,
    /// Why nothing gets through; absent while it works.
    pub trouble: Option<String>,
}
