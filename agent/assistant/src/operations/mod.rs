//! Operations on the archive that a user types or a language model asks for.
//!
//! - [`operation`]: what is done. [`grammar`] reads it from words, [`manual`] from JSON.
//! - [`proposed_action`]: what waits for a yes.
//! - [`trajectory`]: the steps of a session with their rewards; [`recorded_archive`] records them.
//!
//! Invariants:
//! - Every step of a session goes through [`recorded_archive`], also those of tools.
//! - A model's ingest, and any destruction, waits for a yes.
//!
//! Not here: the verbs (`watchkeeper-archive`), who confirms ([`crate::session`]).

pub mod grammar;
pub mod manual;
pub mod operation;
pub mod proposed_action;
pub mod recorded_archive;
pub mod trajectory;
