//! Health of a notification channel, as plain data.

use super::queue::Counts;

/// Deliveries of one channel since the agent's start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChannelHealth {
    pub counts: Counts,
    /// Reason and remedy while deliveries fail; absent while they succeed.
    pub trouble: Option<String>,
}
