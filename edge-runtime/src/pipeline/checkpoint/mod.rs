//! Checkpoints of pipelines: `<state>/states/<id>.state`, rewritten every [`CHECKPOINT_INTERVAL`]
//! and soon after a new event.
//!
//! - A checkpoint belongs to one deployed pipeline: replacing or deleting the pipeline removes it.
//!   After the end of a watch only the end is recorded, after a failure only the elapsed time.
//! - A run that was replaced can't write any more.
//! - A damaged, foreign or newer file is ignored; the pipeline starts from zero.
//! - Saving never blocks a pipeline: only its newest state is queued.
//! - [`CheckpointStore::remove`] returns once the file is off the disk, or says why it is not. A
//!   failed removal is retried, and the file is not read before it succeeds.
//!
//! Files, not the journal's store: state rewritten every few seconds would make the store grow at
//! the expense of events.

mod checkpointer;
mod file;
pub mod pauses;
mod store;
pub mod views;
mod write_queue;

pub use self::checkpointer::{CHECKPOINT_INTERVAL, Checkpointer};
pub use self::file::CheckpointData;
pub use self::store::{CheckpointStore, RestoredCheckpoint, Resume};

#[cfg(test)]
mod tests;
