//! Rules to events: what is worth telling, how sure we are, and why.
//!
//! A [`RuleSet`] is made once from what a person wrote and from what the workflow offers; then it takes, frame by frame,
//! the workflow's values that it [`needs`](RuleSet::needs) and gives back changes of events. Each event rests on a chain
//! of [`evidence`] and carries the decision that [`decide`] draws from it.
//!
//! Invariants: an event that began ends exactly once, at the latest when [`RuleSet::finish`] is called; the order of
//! boxes in a frame makes no difference; no input makes it panic; every memory in here is bounded.

mod boxes;
pub mod check;
mod context;
mod crossing;
pub mod decide;
mod derive;
pub mod evidence;
pub mod history;
mod level;
mod life;
pub mod moment;
mod presence;
mod rule;
mod schedule;
mod set;
mod stays;

pub use check::{RuleError, SelectorKind, StepFacts, WorkflowFacts};
pub use derive::{STAY_S, derive};
pub use moment::{Change, Input, LocalTime, Moment, Need, NeedKind};
pub use schedule::is_awake;
pub use set::RuleSet;
