//! The names that users gave cameras, for queries in plain words.

use std::time::Duration;

use tokio::time::timeout;
use watchkeeper_archive::words::CameraNames;
use watchkeeper_client::RuntimeClient;

/// Longest time for the answer of the runtime, which knows the names.
const NAMES_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the names of cameras beside their IDs; none where the runtime gives no answer.
pub(super) async fn camera_names(runtime: &RuntimeClient) -> CameraNames {
    let sources = timeout(NAMES_TIMEOUT, runtime.sources()).await;
    let named = sources
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|source| {
            let name = source.spec.name?.as_str().to_lowercase();
            Some((name, source.spec.id.as_str().to_lowercase()))
        });
    named.collect()
}
