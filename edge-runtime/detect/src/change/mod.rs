//! The change of a running network's back end, in the background.
//!
//! - [`ChangingNetwork`] serves. It takes over an agreed candidate between two frames. It returns
//!   to the former back end when the candidate fails on a frame that the former one can run.
//! - [`ChangeTask`] builds a candidate and runs it on golden frames, on its own thread. It never
//!   holds the lock of the serving network.
//! - [`BackendChange`] decides, without I/O: a candidate serves only after enough golden frames
//!   agree ([`Comparison`]); one of int8, after few boxes changed over all frames ([`Counted`]).
//! - A golden frame is what the serving network got and returned. One is held at a time, and at
//!   most one is taken in each [`ChangePolicy::interval`].
//!
//! Not here: which back ends are candidates ([`backend`](super::backend)), threads, checks in a
//! child process and reports ([`ChangeHost`], which the runtime implements).

mod agreement;
mod count;
mod golden;
mod link;
mod serving;
mod state;
mod task;
#[cfg(test)]
mod tests;

pub use self::agreement::Comparison;
pub(crate) use self::count::ChangeCount;
pub use self::count::Counted;
pub(crate) use self::golden::GoldenFrame;
pub use self::serving::{ChangingNetwork, Reload};
pub use self::state::{BackendChange, ChangeInput, ChangePolicy};
pub use self::task::{Build, Candidate, ChangeHost, ChangeParts, ChangeReporter, ChangeTask};
