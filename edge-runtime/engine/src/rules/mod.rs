//! Rules: conditions on workflow outputs that make events with evidence and a reason.
//!
//! A [`RuleSet`] is compiled once from the rules and the workflow. Frame by frame it takes the
//! values listed by [`needs`](RuleSet::needs) and returns changes of events, each with its
//! [`evidence`] and the decision made by [`decide`].
//!
//! - Stays in zones are decided once: rules and the counts of a run read the same ones.
//! - An event that began ends exactly once, at the latest in [`RuleSet::finish`].
//! - The order of boxes in a frame makes no difference.
//! - No input makes it panic; all memory is bounded.

mod boxes;
pub mod calibration;
pub mod check;
mod context;
mod crossing;
pub mod decide;
mod derive;
pub mod evidence;
mod facts;
pub mod history;
mod level;
mod life;
pub mod moment;
mod plan;
mod readings;
mod rule;
mod schedule;
mod set;
mod stays;
mod track_rule;

pub use check::RuleError;
pub use derive::{STAY_S, derive};
pub use facts::{SelectorKind, StepFacts, WorkflowFacts};
pub use moment::{Change, FinishReason, LocalTime, Moment, Need, NeedKind, NeedValue};
pub use schedule::is_awake;
pub use set::RuleSet;
