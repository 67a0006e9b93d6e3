//! The heartbeat: every so many minutes a look at cameras, pipelines, recent events, what could not be told and what was spent; and a word where something
//! deserves one.
//!
//! Map: [`look`] what is looked at, [`rhythm`] how many events each hour of each camera usually has, [`finding`] what may be found, [`judge`] which of
//! it is news, [`on_disk`] what of that survives a restart, [`talk`] what a model is asked about it, [`gather`] and [`asker`] the parts that do I/O. All
//! but those two are sans-IO.
//!
//! Invariants:
//! - whether anything is worth a word is decided here, by numbers; a model is asked once about what was found, without tools, and only adds words: what
//!   was found is told with or without them;
//! - the same is told once, until it changes or was gone in between, over restarts too;
//! - where nothing is found nothing is told, and no model is asked.

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
