//! Awaits a future that may be absent.

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
