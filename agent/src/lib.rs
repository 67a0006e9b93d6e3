//! The daemon `watchkeeper-agent`: carries events from the runtime's journal to users and fleets,
//! and commands back.
//!
//! - [`run`]: the event loop that connects the parts. [`status`]: the agent's own state.
//! - [`fleet`]: the MQTT session, the outbox, commands. [`notify`]: notification channels.
//! - [`review_links`]: links that answer a review. [`heartbeat`]: checks of the box.
//! - [`connectors`]: effects that workflows request outside the box.
//! - [`second_opinion`]: a language model judges escalated events. [`evidence`]: chains of sources.
//! - [`references`]: pictures that chains compare with. [`embedding`]: embeddings by the runtime.
//! - [`archive`]: what the agent's archive ingests, and events that enter by themselves.
//! - [`jobs`]: plans that organise pictures, submitted or due by a schedule.
//! - [`api`]: HTTP for programs: conversations, proposals, costs. [`agent_socket`]: its socket.
//! - Only this crate knows MQTT. It never touches a pixel, and uses the runtime's contract only.
//! - Not here: requests in plain words (`watchkeeper-assistant`), command line (`watchkeeper-cli`).

pub mod agent_socket;
pub mod api;
mod archive;
mod background;
pub mod connectors;
mod data_question;
pub mod embedding;
mod evidence;
#[cfg(test)]
#[path = "../tests/it/mqtt_document/example.rs"]
mod example;
pub mod fleet;
mod future_slot;
pub mod heartbeat;
pub mod jobs;
mod journal_tail;
mod log_limiter;
mod model_access;
mod notify;
pub mod program;
mod record_assessment;
mod references;
mod review_links;
pub mod run;
pub mod second_opinion;
pub mod status;
mod stored_cursor;
mod stored_records;
