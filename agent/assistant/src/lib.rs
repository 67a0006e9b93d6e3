//! The assistant: requests in plain words become proposals, and a confirmed proposal becomes a change of what runs.
//!
//! - [`proposal`]: what is offered, its checks and its difference to what runs; sans-IO.
//! - [`session`]: one user's conversation, around it the runtime, the trace and the language model.
//! - [`setup_agent`]: a language model with tools works on what the rules did not understand.
//! - [`blueprint`]: the jobs of a language model and their limits; [`router`] chooses one.
//! - [`permissions`], [`redact`], [`trace`], [`notes`], [`llm`], [`active`]: what those share.
//!
//! Invariants:
//! - Nothing acts before a person's yes, or an auto-approval that the owner configured.
//! - Text from outside reaches a language model in tool results only, and secrets never do.
//!
//! Not here: what words mean (`watchkeeper-plain`), terminals (`watchkeeper-cli`), HTTP (`watchkeeper-agent`).

pub mod active;
pub mod blueprint;
pub mod failure;
pub mod llm;
pub mod moment;
pub mod notes;
pub mod permissions;
pub mod proposal;
pub mod redact;
pub mod router;
pub mod session;
pub mod setup_agent;
pub mod trace;
pub mod wording;
