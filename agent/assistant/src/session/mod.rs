//! Sessions: text of a user or program in, reply out, with the runtime, trace and LLM around it.
//! - [`user_session`]: one session; handles a text with the current state of the runtime.
//! - `llm_fallback`, [`rewording`], [`setup_runner`]: an LLM where the rules do not understand.
//! - `trial_runner`: runs the trial of a proposal before it is shown.
//! - `answering`, `apply`, `note_keeping`, `pictures`: deliver a reply, apply a confirmed proposal,
//!   save a note or the pictures of events.
//! - `narrowing_proposal`: proposes to narrow rules by the answers of people.
//! - [`short_command`]: slash commands; [`progress`]: events of a session; [`secrets`]: hides
//!   passwords and keys.
//!
//! Invariants:
//! - Only [`Session::deliver`](user_session::Session::deliver) changes what the box does, for a
//!   proposal confirmed by a user or auto-approval.
//! - An ingest in a person's own words changes the archive; any other change of it needs a yes.
//! - Terminal and API receive the same events: one shows text, the other JSON.
//! - Passwords and keys are removed from a text before anything else happens. An operation on the
//!   archive is the exception: it stores and shows its parameters as they were given.

mod agents;
mod answering;
mod apply;
mod hint;
mod llm_fallback;
mod narrowing_proposal;
mod note_keeping;
mod operations;
mod pictures;
pub mod progress;
mod reply_trace;
pub mod rewording;
pub mod secrets;
pub mod setup_runner;
pub mod short_command;
mod sub_agents;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod testing;
mod trial_runner;
pub mod user_session;
