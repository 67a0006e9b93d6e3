//! The heartbeat: a periodic check of cameras, pipelines, event counts, delivery and budget.
//!
//! - [`look`]: what is checked. [`rhythm`]: usual event counts per hour. [`finding`]: what is found.
//! - [`judge`]: which findings are news. [`on_disk`]: the stored state. [`talk`]: the model's question.
//! - [`gather`], [`asker`]: the only parts with I/O.
//!
//! Invariants:
//! - Numbers decide what is reported. A model is asked once, without tools, and only adds words.
//! - A finding is reported once, until it changes or was gone in between, over restarts too.
//! - Without a finding, nothing is reported and no model is asked.

pub mod asker;
pub mod finding;
pub mod gather;
pub mod judge;
pub mod look;
pub mod on_disk;
pub mod rhythm;
pub mod talk;

pub use finding::Finding;
pub use judge::State;
pub use look::Look;
