//! Handlers of the agent's events: `impl Agent` blocks, one file per concern.
//!
//! - `outbox`: stores and publishes. `journal`: turns records into messages.
//! - `session`: the link with the broker. `presence`: retained topics.
//! - `commands`, `heartbeat`, `runtime_status`, `agent_status`: one core each.
//! - `disk`: a disk that refuses. `shutdown`: the last messages before the exit.

mod agent_status;
mod commands;
mod disk;
mod heartbeat;
mod journal;
mod outbox;
mod presence;
mod runtime_status;
mod session;
mod shutdown;
