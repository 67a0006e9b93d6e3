//! The daemon `watchkeeper-agent`: carries events from the runtime's journal to users and fleets,
//! and commands back.
//!
//! - [`run`]: the event loop that connects the parts below.
//! - [`fleet`]: the MQTT session, the outbox, commands. [`notify`]: notification channels.
//! - [`review_links`]: links of notifications that answer a review.
//! - [`connectors`]: effects that workflows request outside the box.
//! - [`second_opinion`]: a language model judges escalated events. [`heartbeat`]: checks of the
//!   box.
//! - [`archive`]: what the agent's archive ingests, and events that enter by themselves.
//! - [`evidence`]: chains of sources that decide about events. [`references`]: pictures that they
//!   compare with. [`embedding`]: embeddings of pictures and texts, by the runtime.
//! - [`jobs`]: plans that organise pictures, submitted or due by a schedule.
//! - [`agent_socket`]: HTTP over the socket of that API.
//! - [`api`]: HTTP for programs: conversations, proposals, costs. [`status`]: the agent's own
//!   state.
//!
//! Invariants:
//! - Only this crate knows MQTT.
//! - It never touches a pixel, and depends on the runtime's contract, not on its code.
//!
//! Not here: requests in plain words (`watchkeeper-assistant`), command line (`watchkeeper-cli`).

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
