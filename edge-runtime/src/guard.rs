//! The crash-loop guard: one deployed pipeline must not take a box out of service.
//!
//! A pipeline may kill the process: a model that uses up the memory, a stream that crashes a
//! decoder. The service manager restarts it to die again. The guard counts such deaths and holds
//! pipelines back.
//!
//! ```text
//!  Starting ──(a minute passes)──► Healthy          died while Starting, same boot of the machine: one early death
//!    │                              │              died while Healthy, or the machine restarted:  none
//!    └───────(asked to stop)────────┴──► Stopped   three early deaths: hold what is new since Healthy, else everything
//! ```
//!
//! - Sans-IO: [`CrashLoopGuard`] takes the last [`Record`] and the time, and says what to hold.
//!   [`GuardFile`] keeps the record outside the store, whose opening may be what fails.
//! - A pipeline that ran unchanged for a minute is not held for the deaths of another.
//! - A hold lasts over restarts until a user resumes, replaces, deletes or edits the pipeline.
//!   Where nothing was changed, the pipelines are tried again after 10 minutes, doubling with each
//!   hold to a day; a start begins the wait again.
//! - A power cut never holds anything.
//! - A record of a newer version is refused: ignoring it would run what was held.

mod file;
mod fingerprint;
mod policy;
mod record;

pub use file::GuardFile;
pub use fingerprint::fingerprint;
pub use policy::{CrashLoopGuard, EARLY};
pub use record::{Held, Record, Stage};

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests;
