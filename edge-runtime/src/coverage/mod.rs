//! Coverage: when each pipeline watched, and what it could report then.
//!
//! Owns the spans of all pipelines, and the key that signs a statement about them.
//!
//! - A span covers only frames that were looked at. It covers no time in which frames were missing,
//!   the picture showed nothing, or a step failed on which a rule depends.
//! - A stored span never claims more than that. After a kill or a power cut the last
//!   [`ledger::SAVE_INTERVAL`] may be missing from it.
//! - Times are those of the wall clock. A clock that is set ends the span.
//! - Watching never waits for the disk.
//!
//! Not here: what a question needs to be answered (the agent), which events there were (`journal`).

mod file;
pub mod ledger;
mod recorder;
mod signing;
mod span;

pub use self::ledger::CoverageLedger;
pub use self::recorder::CoverageRecorder;
pub use self::signing::{SigningError, SigningKey};
pub use self::span::Sight;
