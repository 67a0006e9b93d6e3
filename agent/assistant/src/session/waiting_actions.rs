//! Actions that were shown and wait for a yes.

use jiff::{SignedDuration, Timestamp};

use crate::operations::proposed_action::ProposedAction;
use crate::proposal::conversation::CONFIRM_TIMEOUT_S;

/// Actions that were shown and wait for a yes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WaitingActions {
    pub(super) actions: Vec<ProposedAction>,
    /// Time at which they were shown.
    pub(super) at: Timestamp,
}

impl WaitingActions {
    /// Whether a yes at `now` still counts.
    pub(super) fn is_fresh(&self, now: Timestamp) -> bool {
        let age = now.duration_since(self.at);
        age >= SignedDuration::ZERO && age.as_secs() <= CONFIRM_TIMEOUT_S
    }
}
