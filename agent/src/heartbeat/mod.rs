//! The heartbeat: a periodic check of cameras, pipelines, reviews, delivery and budget.
//!
//! - [`input`]: what a check reads. [`finding`]: results.
//! - [`judge`]: which findings are news. [`on_disk`]: the stored state.
//! - [`prompt`]: the question for the language model.
//! - [`look`]: which frames a model looks at, and what it reports.
//! - [`gather`], [`asker`], [`looker`]: the only parts with I/O.
//!
//! Invariants:
//! - Numbers decide what is reported. A model is asked once, without tools, and only adds words.
//! - A finding is reported once, until it changes or was gone in between, over restarts too.
//! - Without a finding, nothing is reported and no model is asked about findings.
//! - What a model says about a frame is an observation; it reports nothing and changes nothing.

pub mod asker;
pub mod finding;
pub mod gather;
pub mod input;
pub mod judge;
pub mod look;
pub(crate) mod looker;
pub mod on_disk;
pub mod prompt;

pub use finding::Finding;
pub use input::CheckInput;
pub use judge::State;
