//! The names that users gave cameras, for queries in plain words.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::timeout;
use watchkeeper_archive::words::CameraNames;
use watchkeeper_client::RuntimeClient;

/// Longest time for the answer of the runtime, which knows the names.
const NAMES_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the names of cameras with their IDs; none if the runtime gives no answer. A name that
/// two cameras have means neither.
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
    let (mut names, mut shared) = (CameraNames::new(), BTreeSet::new());
    for (name, id) in named {
        if names.insert(name.clone(), id).is_some() {
            shared.insert(name);
        }
    }
    names.retain(|name, _| !shared.contains(name));
    names
}
