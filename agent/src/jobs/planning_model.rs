//! The language model that plans requests for jobs.

use tokio::runtime::Handle;
use watchkeeper_assistant::jobs::OpenModel;

/// The language model of the agent, and the loop of its connections.
pub(super) struct PlanningModel {
    /// `None`: no language model is configured.
    pub(super) open: Option<OpenModel>,
    pub(super) handle: Handle,
}

impl std::fmt::Debug for PlanningModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlanningModel").finish_non_exhaustive()
    }
}
