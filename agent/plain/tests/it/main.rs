//! The language from outside: what it understands, asks and proposes, and that a proposal runs.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod answers;
mod apart;
mod changes;
mod contradictions;
mod corrections;
mod doubt;
mod ends;
mod language;
mod looks;
mod meant;
mod mishearing;
mod numbers;
mod owners;
mod refusals;
mod runs;
mod safety;
mod states;
mod support;
mod talks;
mod templates;
mod which;
