//! The command with a fake runtime.

mod doctor;
mod newer_runtime;
mod refusals;

/// Shared with the tests of the daemon; this crate uses a part of it.
#[allow(dead_code, reason = "the tests of the daemon use the rest")]
#[path = "../../../tests/it/support"]
mod support {
    #[path = "fake_runtime.rs"]
    pub(crate) mod fake_runtime;
}
