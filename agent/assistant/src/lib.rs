//! The assistant turns requests in plain words into proposals, and applies the confirmed ones.
//!
//! - [`proposal`]: a change, its checks and its difference to what runs; sans-IO.
//! - [`session`]: one user's conversation; calls the runtime, the trace and the language model.
//! - [`setup_agent`]: a language model with tools works on what the rules did not understand.
//! - [`narrowing`]: narrows a rule by people's answers. [`past`]: answers about past events.
//! - [`blueprint`]: the jobs of a language model and their limits; [`router`] chooses one.
//! - [`jobs`]: plans of jobs by a language model. [`operations`]: of a session on the archive.
//! - [`audit`]: who confirmed what, what was changed and spent; chained by hash.
//! - [`permissions`], [`redact`], [`trace`], [`notes`], [`llm`], [`active`]: what those share.
//! - Nothing changes before a user confirms it, or the operator's auto-approval does.
//! - Text from outside reaches a language model only in tool results. Secrets never reach it.
//! - Not here: the meaning of words (`watchkeeper-plain`), terminals (`watchkeeper-cli`), HTTP
//!   (`watchkeeper-agent`).

pub mod active;
pub mod alerts;
pub mod archive_access;
pub mod audit;
pub mod blueprint;
pub mod failure;
pub mod heartbeat_switch;
pub mod jobs;
mod json_difference;
pub mod lesson;
pub mod llm;
pub mod lookup_access;
pub mod moment;
pub mod narrowing;
pub mod notes;
pub mod operations;
pub mod past;
pub mod permissions;
pub mod proposal;
pub mod redact;
pub mod reviews;
pub mod router;
pub mod session;
pub mod setup_agent;
pub mod trace;
pub mod wording;
