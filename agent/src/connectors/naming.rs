//! Names of files and objects, and of the steps that begin them.
//!
//! Invariant: a name follows from the effect, so one that is done again after a crash finds what it began.

use jiff::Timestamp;
use watchkeeper_contract::spool::SpooledEffect;
use xxhash_rust::xxh3::xxh3_128;

/// `<prefix>_<yyyy_mm_dd_hh_mm_ss>_<number>.<extension>`, in UTC.
pub(super) fn stamped(prefix: &str, at_ms: i64, number: u64, extension: &str) -> String {
    let at = Timestamp::from_millisecond(at_ms).unwrap_or(Timestamp::UNIX_EPOCH);
    let stamp = at.strftime("%Y_%m_%d_%H_%M_%S");
    format!("{prefix}_{stamp}_{number}.{extension}")
}

/// What stands for the step of an effect in the store: names of steps may be longer than its keys.
pub(super) fn step_key(spooled: &SpooledEffect) -> [u8; 16] {
    let step = format!("{}\0{}", spooled.pipeline, spooled.step);
    xxh3_128(step.as_bytes()).to_be_bytes()
}
