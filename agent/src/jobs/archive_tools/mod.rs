//! Tools of jobs on the archive: `archive_query` and `archive_ingest`.
//!
//! - `client`: the archive over the agent's socket, in the agent too. A step has a thread and an
//!   event loop of its own, and the archive's connections belong to the agent's.
//! - An agent that does not answer is not a fault of the plan: the step is tried again.
//! - What is in the archive already with this content stays unchanged. So a step that is done again
//!   after a kill enters nothing twice.
//! - No tool destroys, protects or lifts a protection.

mod client;
mod ingest;
mod query;

use std::path::PathBuf;
use std::sync::Arc;

use watchkeeper_jobs::Toolbox;

/// Adds the tools, which reach the archive at the socket of the agent.
pub(super) fn add(tools: &mut Toolbox, agent_socket: PathBuf) {
    tools.add(Arc::new(query::ArchiveQuery::new(agent_socket.clone())));
    tools.add(Arc::new(ingest::ArchiveIngest::new(agent_socket)));
}

#[cfg(test)]
mod tests {
    use crate::jobs::{ToolSetup, toolbox};

    #[test]
    fn language_model_plans_no_step_that_writes_to_archive() {
        let tools = toolbox(&ToolSetup::default());
        assert!(tools.get("archive_ingest").is_some());
        let usable = tools.for_models();
        assert!(usable.get("archive_ingest").is_none());
        assert!(usable.get("archive_query").is_some());
    }
}
