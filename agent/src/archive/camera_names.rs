//! The names that users gave cameras, for queries in plain words.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::timeout;
use watchkeeper_archive::words::CameraNames;
use watchkeeper_client::RuntimeClient;

/// Longest time for the answer of the runtime, which knows the names.
const NAMES_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the names of cameras with their IDs; none if the runtime gives no answer. A name that
/// two cameras have means neither, and one that is another's ID means that camera.
pub(super) async fn camera_names(runtime: &RuntimeClient) -> CameraNames {
    let sources = timeout(NAMES_TIMEOUT, runtime.sources()).await;
    let (mut names, mut shared) = (CameraNames::new(), BTreeSet::new());
    for source in sources.into_iter().flatten().flatten() {
        let id = source.spec.id.as_str().to_lowercase();
        shared.insert(id.clone());
        let name = source.spec.name.map(|name| name.as_str().to_lowercase());
        if let Some(name) = name.filter(|name| *name != id)
            && names.insert(name.clone(), id).is_some()
        {
            shared.insert(name);
        }
    }
    names.retain(|name, _| !shared.contains(name));
    names
}
