//! The daemon `watchkeeper-agent`: carries events from the runtime's journal to people and fleets, and commands back.
//!
//! - [`run`]: the loop in which the parts below meet the world.
//! - [`fleet`]: the MQTT session, the outbox of what waits to be sent, the commands that come back.
//! - [`notify`]: notification channels for people. [`connectors`]: effects that workflows request outside the box.
//! - [`second_opinion`]: a language model judges escalated events. [`heartbeat`]: checks of the box itself.
//! - [`api`]: HTTP for programs: conversations, proposals, costs. [`status`]: the agent's own state.
//!
//! Invariants:
//! - Only this crate knows MQTT. It never touches a pixel and depends on the runtime's contract, not on its code.
//!
//! Not here: requests in plain words (`watchkeeper-assistant`), the command line (`watchkeeper-cli`).

pub mod api;
pub mod connectors;
#[cfg(test)]
#[path = "../tests/it/mqtt_document/example.rs"]
mod example;
pub mod fleet;
pub mod heartbeat;
pub mod log_limiter;
pub mod notify;
pub mod program;
pub mod run;
pub mod second_opinion;
pub mod status;
