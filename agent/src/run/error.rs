//! Why the agent stops with an error.

use tokio::task::JoinError;
use watchkeeper_store::StoreError;

/// A failure after which the agent must exit; the service manager restarts it.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The store rejected a read or a write.
    #[error("outbox: the store failed: {0}")]
    Store(#[from] StoreError),
    /// The thread that writes the store panicked.
    #[error("outbox: the store's writer thread died: {0}")]
    Writer(#[from] JoinError),
    /// The task that executes effects ended by itself.
    #[error("connectors: the task that executes effects died")]
    Connectors,
    /// The task that runs chains ended by itself.
    #[error("chains: the task that asks the sources of events died")]
    Chains,
    /// A task that notifies a channel ended by itself.
    #[error("channels: the task of a notification channel died")]
    Channel,
    /// The thread of the API ended by itself.
    #[error("api: the thread that serves the agent's API died")]
    Api,
    /// The system refused to create the thread of the API.
    #[error("api: can't create the thread that serves the agent's API: {0}")]
    ApiThread(std::io::Error),
    /// The thread of schedules ended by itself.
    #[error("jobs: the thread that starts scheduled jobs died")]
    Scheduler,
    /// The system refused to create the thread of schedules.
    #[error("jobs: can't create the thread that starts scheduled jobs: {0}")]
    SchedulerThread(std::io::Error),
}
