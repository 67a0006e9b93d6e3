//! Jobs: work on what was seen, as a plan of named steps.
//!
//! Owns the language of [`plan`]s with their check and repair, their [`run`] as a graph, and the
//! [`tools`] on pictures. Owns a [`planner`] for plain English, and the plans that are kept for
//! later requests ([`template_store`]).
//!
//! - A plan is data from outside, from a file, a template or a language model. It is checked whole,
//!   and all its faults are reported together. Nothing of an invalid plan is run.
//! - A tool writes below the job's output folder only, which was empty when the job began.
//! - A step that is recorded as done is never run again, also after `kill -9` and a power cut. One
//!   that was interrupted is run again, and what it left is replaced.
//!
//! Not here: the command line, language models, the runtime's API.

mod addresses;
pub mod answer_cache;
mod cameras;
pub mod plan;
pub mod planner;
pub mod run;
mod spelling;
mod target;
pub mod template_store;
pub mod tool;
pub mod tools;

/// Formats a number with its noun, such as `1 step`, `3 steps` or `2 entries`.
pub fn counted<N: std::fmt::Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    match noun.strip_suffix('y') {
        _ if number == N::from(1) => format!("1 {noun}"),
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{number} {stem}ies"),
        _ => format!("{number} {noun}s"),
    }
}

pub use addresses::{absent_folders, check_addresses};
pub use cameras::{CameraNames, KnownNames, MAX_NAME_WORDS, is_same_noun};
pub use plan::{Fault, Plan, Step};
pub use target::{Target, TargetError};
pub use tool::{Tool, Toolbox};
