//! Results of checks: one file each, `<state>/model-checks/KEY.json`.
//!
//! - A file that can't be read counts as missing.
//! - A result that the disk refuses is kept in memory. Losing it costs one more check.
//! - Deleting a file has its model checked again, also while the daemon runs.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use watchkeeper_config::MODEL_CHECKS;
use watchkeeper_models::model_check::Ending;

use crate::clock;
use crate::pipeline::inference::kept_files::{KeptFiles, Key};

/// Most files that are kept; also most results in memory.
const MAX_RESULTS: usize = 256;

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
struct ResultFile {
    result: CheckResult,
    /// Path of the network, for the reader of the file.
    path: PathBuf,
    /// Time of the check, for the reader of the file.
    at: String,
}

/// The results of this box.
#[derive(Debug)]
pub(super) struct CheckResults {
    files: KeptFiles,
    /// Results that the disk refused.
    unsaved: Mutex<BTreeMap<Key, CheckResult>>,
}

impl CheckResults {
    pub(super) fn new(state_dir: &Path) -> Self {
        Self {
            files: KeptFiles::new(state_dir.join(MODEL_CHECKS), MAX_RESULTS),
            unsaved: Mutex::default(),
        }
    }

    pub(super) fn get(&self, key: &Key) -> Option<CheckResult> {
        match self.files.read::<ResultFile>(key) {
            Ok(kept) => return Some(kept.result),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let path = self.files.path(key);
                tracing::warn!(path = %path.display(), %error, "unreadable; the model is checked again");
            }
        }
        self.unsaved.lock().get(key).copied()
    }

    /// Keeps a result, on the disk if that is possible.
    pub(super) fn put(&self, key: &Key, result: CheckResult, model: &Path) {
        let kept = ResultFile {
            result,
            path: model.to_owned(),
            at: clock::utc(clock::wall().unix_ms).to_string(),
        };
        let written = self.files.write(key, &kept);
        let mut unsaved = self.unsaved.lock();
        match written {
            Ok(()) => {
                unsaved.remove(key);
            }
            Err(error) => {
                tracing::warn!(
                    path = %self.files.path(key).display(), %error,
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
            let path = self.files.path(key);
            let path = path.canonicalize().unwrap_or(path);
            format!("delete {}", path.display())
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that can't set up has failed")]
mod tests {
    use std::fs;

    use super::*;

    fn key(n: u8) -> Key {
        Key::of(&[n])
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
    fn result_that_the_disk_refuses_is_kept_in_memory() {
        let state = tempfile::tempdir().unwrap();
        fs::write(state.path().join(MODEL_CHECKS), "a file, not a folder").unwrap();
        let results = CheckResults::new(state.path());
        results.put(&key(1), CRASH, Path::new("/m.onnx"));
        assert_eq!(results.get(&key(1)), Some(CRASH));
        assert!(results.remedy(&key(1)).contains("restart"));
    }
}
