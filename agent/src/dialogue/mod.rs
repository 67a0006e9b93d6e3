//! The shell around the assistant, for whoever speaks with it: a person at a terminal ([`crate::cli`]), a program over HTTP ([`crate::api`]).
//!
//! Map: [`assist`] asks the runtime how things are and has a text heard; `by_model` asks a model where the rules did not understand it; `answering` tells what came of it, `carrying_out` does what was confirmed, `remembering` keeps a person's words; `trying` looks at what the rules propose before it is shown; [`short`] are the short commands; [`rewording`] and
//! [`working`] are the two ways in which a model helps, [`crate::coordinator`] chooses; [`told`] is what is said meanwhile, in the form that programs read.
//!
//! Invariants:
//! - the only requests that change what the box does are made by [`Assist::tell`](assist::Assist::tell), for an offer that a yes was said to, by a person or beforehand by the owner's policy;
//! - whoever listens is told the same: a terminal shows of it what a person reads, a program gets the objects;
//! - what a person says is heard without passwords and keys ([`secrets`]), before anything else is done with it.

mod answering;
pub mod assist;
mod by_model;
mod carrying_out;
mod remembering;
pub mod rewording;
pub mod secrets;
pub mod short;
pub mod told;
mod trying;
pub mod working;
