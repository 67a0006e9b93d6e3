//! Bounds of the API, in one place.

use std::time::Duration;

/// Max bytes of a request body with pictures; one such body is read at a time.
pub const MAX_PICTURES_BODY: usize = 32 << 20;

/// Max clients that follow events or wait for effects at a time; one more is refused.
pub const MAX_FOLLOWERS: usize = 32;

/// Max calls of [`Api`](crate::api::Api) in progress; one more is refused with status 429.
///
/// Calls of clients that went away count too. Each may block a thread for as long as a camera
/// takes to answer.
pub const MAX_CALLS: usize = 64;

/// Max calls for health and board in progress; one more waits.
pub(super) const MAX_STATUS_CALLS: usize = 4;

/// Max runs on pictures, dry runs and backtests that run or wait; one more is refused with status
/// 429. One runs at a time, in the order of their requests.
pub(super) const MAX_RUNS: usize = 8;

/// Longest wait of such a run for the others; then it is refused with status 429.
pub const RUN_WAIT: Duration = Duration::from_secs(9);

/// Max files that are sent at a time; one more is refused with status 429.
pub const MAX_TRANSFERS: usize = 64;

/// Max evidence bundles that are made or sent at a time; one more is refused with status 429. Each
/// may hold 16 MiB of records.
pub(super) const MAX_BUNDLES: usize = 2;

/// Max bytes of the request to sign the bundle of a job.
pub(super) const MAX_JOB_BUNDLE_BODY: usize = 8 << 20;

// A backtest replays for less time than a run waits for its turn; drawing its pictures is extra.
const _: () = assert!(crate::backtest::MAX_WALL.as_secs() < RUN_WAIT.as_secs());
