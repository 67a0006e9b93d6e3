//! Names of files and objects, and store keys of steps.
//!
//! Invariant: a name follows from the effect, so a retry after a crash finds what it started.

use jiff::Timestamp;
use watchkeeper_contract::spool::SpooledEffect;
use xxhash_rust::xxh3::xxh3_128;

/// `<prefix>_<yyyy_mm_dd_hh_mm_ss>_<number>.<extension>`, in UTC.
pub(super) fn stamped(prefix: &str, at_ms: i64, number: u64, extension: &str) -> String {
    let at = Timestamp::from_millisecond(at_ms).unwrap_or(Timestamp::UNIX_EPOCH);
    let stamp = at.strftime("%Y_%m_%d_%H_%M_%S");
    format!("{prefix}_{stamp}_{number}.{extension}")
}

/// Store key of the step of an effect. A hash, because step names may exceed a key's length.
pub(super) fn step_key(spooled: &SpooledEffect) -> [u8; 16] {
    let step = format!("{}\0{}", spooled.pipeline, spooled.step);
    xxh3_128(step.as_bytes()).to_be_bytes()
}
