//! The shell around the assistant, for whoever speaks with it: a person at a terminal (`watchkeeper-cli`), a program over HTTP (`watchkeeper-agent`).
//!
//! Map: [`user_session`] asks the runtime how things are and has a text heard; `llm_fallback` asks a model where the rules did not understand it; `answering` tells what came of it, `apply` does what was confirmed, `note_keeping` keeps a person's words; `trial_runner` looks at what the rules propose before it is shown; [`short_command`] are the short commands; [`rewording`] and
//! [`setup_runner`] are the two ways in which a model helps, [`crate::router`] chooses; [`progress`] is what is said meanwhile, in the form that programs read.
//!
//! Invariants:
//! - the only requests that change what the box does are made by [`Session::tell`](user_session::Session::tell), for an offer that a yes was said to, by a person or beforehand by the owner's policy;
//! - whoever listens is told the same: a terminal shows of it what a person reads, a program gets the objects;
//! - what a person says is heard without passwords and keys ([`secrets`]), before anything else is done with it.

mod answering;
mod apply;
mod llm_fallback;
mod note_keeping;
pub mod progress;
pub mod rewording;
pub mod secrets;
pub mod setup_runner;
pub mod short_command;
mod trial_runner;
pub mod user_session;
