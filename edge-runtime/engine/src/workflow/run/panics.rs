//! Blocks that panic: their step fails, and one that keeps panicking is run rarely.
//!
//! - A suspension doubles with each further panic, up to 64 s; one good call ends the count.

use std::any::Any;
use std::time::Duration;

/// Maximum characters of a panic message in an error.
const MAX_PANIC_MESSAGE: usize = 200;

/// Panics in a row after which a block is suspended, so that the log is not flooded every frame.
const MAX_PANICS_IN_A_ROW: u32 = 3;
/// The longest suspension is two to the power of this, in seconds.
const MAX_SUSPENSION_EXPONENT: u32 = 6;

/// Panics of a step's block.
#[derive(Debug, Default)]
pub(super) struct Panics {
    /// Since the last call without panic.
    pub(super) in_a_row: u32,
    /// Until then the block is not run, and fails with the last message.
    pub(super) suspended_until: Duration,
    pub(super) message: String,
}

impl Panics {
    /// Counts a panic and returns the step's error.
    pub(super) fn note(&mut self, now: Duration, panic: &(dyn Any + Send)) -> String {
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.message = panic_message(panic);
        if let Some(over @ 1..) = self.in_a_row.checked_sub(MAX_PANICS_IN_A_ROW) {
            let pause = Duration::from_secs(1 << over.min(MAX_SUSPENSION_EXPONENT));
            self.suspended_until = now.saturating_add(pause);
            self.message.push_str(&format!(
                "; it panicked {} times in a row, next try in {} s",
                self.in_a_row,
                pause.as_secs()
            ));
        }
        self.message.clone()
    }
}

/// The error of a step whose block panicked.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let said: String = said
        .unwrap_or("no message")
        .chars()
        .take(MAX_PANIC_MESSAGE)
        .collect();
    format!("internal error, please report it; the step's state was reset: {said}")
}
