//! Results of checks: one file each, `<state>/model-checks/KEY.json`.
//!
//! - A file is replaced whole and synced. One that can't be read counts as missing.
//! - At most [`MAX_RESULTS`] files are kept; the oldest are removed.
//! - A result that the disk refuses is kept in memory. Losing it costs one more check.
//! - Deleting a file has its model checked again, also while the daemon runs.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use watchkeeper_config::MODEL_CHECKS;
use watchkeeper_models::model_check::Ending;
use watchkeeper_store::durable;

use super::subject::Key;
use crate::clock;
use crate::pipeline::inference::kept_files::remove_oldest;

/// Most files that are kept; also most results in memory.
const MAX_RESULTS: usize = 256;

/// Largest file that is read; written ones are smaller.
const MAX_FILE_BYTES: u64 = 16 << 10;

/// A result that the file causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CheckResult {
    /// The model was loaded and has run.
    Loaded,
    /// A limit or a crash ended the check.
    Ended(Ending),
}

/// Contents of a file.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    result: CheckResult,
    /// Path of the network, for the reader of the file.
    path: PathBuf,
    /// Time of the check, for the reader of the file.
    at: String,
}

/// The results of this box.
#[derive(Debug)]
pub(super) struct CheckResults {
    folder: PathBuf,
    /// Results that the disk refused.
    unsaved: Mutex<BTreeMap<Key, CheckResult>>,
}

impl CheckResults {
    pub(super) fn new(state_dir: &Path) -> Self {
        Self {
            folder: state_dir.join(MODEL_CHECKS),
            unsaved: Mutex::default(),
        }
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.folder.join(format!("{key}.json"))
    }

    pub(super) fn get(&self, key: &Key) -> Option<CheckResult> {
        let path = self.path(key);
        match read(&path) {
            Ok(result) => return Some(result),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "unreadable; the model is checked again");
            }
        }
        self.unsaved.lock().get(key).copied()
    }

    /// Keeps a result, on the disk if that is possible.
    pub(super) fn put(&self, key: &Key, result: CheckResult, model: &Path) {
        let kept = Kept {
            result,
            path: model.to_owned(),
            at: clock::utc(clock::wall().unix_ms).to_string(),
        };
        let written = serde_json::to_vec(&kept)
            .map_err(io::Error::other)
            .and_then(|bytes| {
                fs::create_dir_all(&self.folder)?;
                remove_oldest(&self.folder, MAX_RESULTS - 1)?;
                durable::replace(&self.path(key), &bytes)
            });
        let mut unsaved = self.unsaved.lock();
        match written {
            Ok(()) => {
                unsaved.remove(key);
            }
            Err(error) => {
                tracing::warn!(
                    path = %self.path(key).display(), %error,
                    "the result of a model's check can't be stored; the next start checks it again"
                );
                if unsaved.len() >= MAX_RESULTS {
                    unsaved.clear();
                }
                unsaved.insert(key.clone(), result);
            }
        }
    }

    /// How a user has a refused model checked again.
    pub(super) fn remedy(&self, key: &Key) -> String {
        if self.unsaved.lock().contains_key(key) {
            "restart watchkeeper-runtime".to_owned()
        } else {
            // The folder of a run is a link to one that outlasts it.
            let path = self.path(key);
            let path = path.canonicalize().unwrap_or(path);
            format!("delete {}", path.display())
        }
    }
}

fn read(path: &Path) -> io::Result<CheckResult> {
    if fs::metadata(path)?.len() > MAX_FILE_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let kept: Kept = serde_json::from_slice(&fs::read(path)?)?;
    Ok(kept.result)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that can't set up has failed")]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn key(n: u64) -> Key {
        Key::of_number(n)
    }

    const CRASH: CheckResult = CheckResult::Ended(Ending::Crash(11));

    #[test]
    fn kept_results_outlast_the_process_until_their_file_is_deleted() {
        let state = tempfile::tempdir().unwrap();
        let results = CheckResults::new(state.path());
        assert_eq!(results.get(&key(1)), None);
        results.put(&key(1), CRASH, Path::new("/m.onnx"));
        results.put(&key(2), CheckResult::Loaded, Path::new("/n.onnx"));
        let restarted = CheckResults::new(state.path());
        assert_eq!(restarted.get(&key(1)), Some(CRASH));
        assert_eq!(restarted.get(&key(2)), Some(CheckResult::Loaded));
        let remedy = results.remedy(&key(1));
        let path = remedy.strip_prefix("delete ").unwrap();
        fs::remove_file(path).unwrap();
        assert_eq!(results.get(&key(1)), None);
    }

    #[test]
    fn damaged_file_counts_as_missing() {
        let state = tempfile::tempdir().unwrap();
        let results = CheckResults::new(state.path());
        results.put(&key(1), CheckResult::Loaded, Path::new("/m.onnx"));
        for damage in ["", "{", "{\"result\":\"loaded\"", &" ".repeat(20 << 10)] {
            fs::write(results.path(&key(1)), damage).unwrap();
            assert_eq!(results.get(&key(1)), None, "{damage:?}");
        }
    }

    #[test]
    fn oldest_results_are_removed() {
        let state = tempfile::tempdir().unwrap();
        let results = CheckResults::new(state.path());
        let most = MAX_RESULTS as u64;
        let folder = state.path().join(MODEL_CHECKS);
        fs::create_dir_all(&folder).unwrap();
        for n in 0..most {
            let file = fs::File::create(results.path(&key(n))).unwrap();
            let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1000 + n);
            file.set_modified(at).unwrap();
        }
        results.put(&key(most), CheckResult::Loaded, Path::new("/m.onnx"));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), MAX_RESULTS);
        assert!(!results.path(&key(0)).exists());
        assert!(results.path(&key(1)).exists());
    }

    #[test]
    fn result_that_the_disk_refuses_is_kept_in_memory() {
        let state = tempfile::tempdir().unwrap();
        fs::write(state.path().join(MODEL_CHECKS), "a file, not a folder").unwrap();
        let results = CheckResults::new(state.path());
        results.put(&key(1), CRASH, Path::new("/m.onnx"));
        assert_eq!(results.get(&key(1)), Some(CRASH));
        assert!(results.remedy(&key(1)).contains("restart"));
    }
}
