//! Usual views of cameras: `<state>/views/<source>.json`.
//!
//! - Without them, a restart would take the view of a covered camera for its usual one.
//! - A file belongs to one address and privacy mask; a camera with another one ignores it.
//! - A view counts for [`MAX_AGE`], because light changes; at two boots of the machine only with a
//!   synchronised clock at both.
//! - A file that can't be read or written costs only the comparison with the last run.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::SourceId;
use watchkeeper_store::durable;
use watchkeeper_store::private_folder::make_private;

use super::file::Stamp;
use crate::capture::view::UsualView;

/// Age from which a view is learnt again: as long as a moved camera is shown until its view is the
/// usual one.
const MAX_AGE: Duration = Duration::from_secs(3600);

/// Interval of writing the view of a camera.
const WRITE_INTERVAL: Duration = Duration::from_secs(600);

/// Largest file that is read; written ones have about 20 KiB.
const MAX_FILE_BYTES: u64 = 256 << 10;

/// The usual views of all cameras.
#[derive(Debug)]
pub struct UsualViews {
    folder: PathBuf,
    /// The last view of each camera that was written, and when.
    written: Mutex<BTreeMap<SourceId, (Arc<UsualView>, Instant)>>,
}

/// The content of a file.
#[derive(Serialize, Deserialize)]
struct ViewFile<V> {
    /// Address and privacy mask of the camera.
    shows: String,
    at: Stamp,
    view: V,
}

impl UsualViews {
    /// Views in the state folder `state`.
    #[must_use]
    pub fn new(state: &Path) -> Self {
        Self {
            folder: state.join("views"),
            written: Mutex::default(),
        }
    }

    /// The usual view of a camera that `shows` this address and privacy mask, if it is known.
    pub fn load(&self, source: &SourceId, shows: &str) -> Option<UsualView> {
        let path = self.path(source);
        let file: ViewFile<UsualView> = match read(&path) {
            Ok(file) => file,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!(path = %path.display(), %error, "can't read the usual view of a camera; it is learnt again");
                }
                return None;
            }
        };
        let age = file.at.until(&Stamp::now());
        (file.shows == shows && age.is_some_and(|age| age <= MAX_AGE)).then_some(file.view)
    }

    /// Writes the view of a camera, if that is due; called regularly.
    pub fn save(&self, source: &SourceId, shows: &str, view: &Arc<UsualView>) {
        let is_due = |(last, at): &(Arc<UsualView>, Instant)| {
            !Arc::ptr_eq(last, view) && at.elapsed() >= WRITE_INTERVAL
        };
        if !self.written.lock().get(source).is_none_or(is_due) {
            return;
        }
        let file = ViewFile {
            shows: shows.to_owned(),
            at: Stamp::now(),
            view: &**view,
        };
        let written = serde_json::to_vec(&file)
            .map_err(io::Error::other)
            .and_then(|json| {
                make_private(&self.folder)?;
                durable::replace(&self.path(source), &json)
            });
        if let Err(error) = written {
            tracing::debug!(%source, %error, "can't write the usual view of a camera");
        }
        // A disk that refuses is tried again after the interval too.
        let written = (Arc::clone(view), Instant::now());
        self.written.lock().insert(source.clone(), written);
    }

    /// Deletes the view of a camera that is gone.
    pub fn remove(&self, source: &SourceId) {
        self.written.lock().remove(source);
        match fs::remove_file(self.path(source)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%source, %error, "can't delete the usual view of a camera");
            }
            _ => {}
        }
    }

    fn path(&self, source: &SourceId) -> PathBuf {
        self.folder.join(format!("{source}.json"))
    }
}

fn read(path: &Path) -> io::Result<ViewFile<UsualView>> {
    if fs::metadata(path)?.len() > MAX_FILE_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn view() -> Arc<UsualView> {
        let view = json!({"usual": {"pattern": [0.5], "detail": [0.25]}});
        Arc::new(serde_json::from_value(view).unwrap())
    }

    #[test]
    fn view_is_known_to_the_next_process_for_an_hour() {
        let state = tempfile::tempdir().unwrap();
        let gate = SourceId::new("gate").unwrap();
        let load = |shows: &str| UsualViews::new(state.path()).load(&gate, shows);
        assert_eq!(load("a"), None);
        let views = UsualViews::new(state.path());
        views.save(&gate, "a", &view());
        assert_eq!(load("a"), Some((*view()).clone()));
        assert_eq!(load("another address"), None);

        let path = state.path().join("views/gate.json");
        let mut file: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        for at in ["boot_ms", "wall"] {
            file["at"][at] = match at {
                "boot_ms" => json!(0),
                _ => json!({"unix_ms": 0, "quality": "unsynced"}),
            };
        }
        file["at"]["machine_boot"] = json!("another boot");
        fs::write(&path, file.to_string()).unwrap();
        assert_eq!(load("a"), None, "its age is not known");
        fs::write(&path, "{").unwrap();
        assert_eq!(load("a"), None);
    }

    #[test]
    fn view_is_written_at_once_and_then_each_ten_minutes() {
        let state = tempfile::tempdir().unwrap();
        let gate = SourceId::new("gate").unwrap();
        let views = UsualViews::new(state.path());
        let path = state.path().join("views/gate.json");
        let is_written = || {
            views.save(&gate, "a", &view());
            fs::remove_file(&path).is_ok()
        };
        assert!(is_written());
        assert!(!is_written(), "too soon");
        views.remove(&gate);
        assert!(is_written());
    }
}
