//! Awaits a future that may be absent.

use std::time::Instant;

/// Waits for the future in `slot` and empties the slot; pending forever while the slot is empty.
///
/// Dropping the returned future loses nothing: the slot keeps the inner future.
pub(crate) async fn take_output<F: Future + Unpin>(slot: &mut Option<F>) -> F::Output {
    match slot {
        Some(future) => {
            let output = future.await;
            *slot = None;
            output
        }
        None => std::future::pending().await,
    }
}

/// Waits until `deadline`; pending forever without one.
pub(crate) async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}
