//! Measurements on the disk: one file each, `<state>/backend-times/KEY.json`.
//!
//! - A file is replaced whole and synced. One that can't be read counts as missing.
//! - At most [`MAX_RECORDS`] files are kept; the oldest are removed.
//! - A measurement that the disk refuses is lost: the model is measured again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use watchkeeper_contract::backend::MeasuredModel;
use watchkeeper_store::durable;

use super::key::Key;
use crate::pipeline::inference::kept_files::remove_oldest;

/// Name of the folder in the state folder.
const FOLDER: &str = "backend-times";

/// Most files that are kept.
const MAX_RECORDS: usize = 64;

/// Largest file that is read; written ones are smaller.
const MAX_FILE_BYTES: u64 = 16 << 10;

/// Contents of a file.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    /// What else the measurement belongs to.
    stamp: String,
    #[serde(flatten)]
    measured: MeasuredModel,
}

/// The measurements of this box.
#[derive(Debug)]
pub(super) struct Records {
    folder: PathBuf,
}

impl Records {
    pub(super) fn new(state_dir: &Path) -> Self {
        Self {
            folder: state_dir.join(FOLDER),
        }
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.folder.join(format!("{key}.json"))
    }

    pub(super) fn get(&self, key: &Key) -> Option<MeasuredModel> {
        Some(read(&self.path(key)).ok()?.measured)
    }

    pub(super) fn put(&self, key: &Key, stamp: &str, measured: MeasuredModel) {
        let stamp = stamp.to_owned();
        let written = serde_json::to_vec(&Kept { stamp, measured })
            .map_err(io::Error::other)
            .and_then(|bytes| {
                fs::create_dir_all(&self.folder)?;
                remove_oldest(&self.folder, MAX_RECORDS - 1)?;
                durable::replace(&self.path(key), &bytes)
            });
        if let Err(error) = written {
            let path = self.path(key);
            tracing::warn!(path = %path.display(), %error, "the measurement can't be stored");
        }
    }

    /// Lists the measurements under `stamp`, by model.
    pub(super) fn list(&self, stamp: &str) -> Vec<MeasuredModel> {
        let files = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let kept = files.filter_map(|file| read(&file.path()).ok());
        let kept = kept.filter(|kept| kept.stamp == stamp);
        let mut measured: Vec<_> = kept.map(|kept| kept.measured).collect();
        measured.sort_by(|a, b| a.model.cmp(&b.model));
        measured
    }
}

fn read(path: &Path) -> io::Result<Kept> {
    if fs::metadata(path)?.len() > MAX_FILE_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that can't set up has failed")]
mod tests {
    use watchkeeper_models::Sha256Sum;

    use super::*;

    fn measured(model: &str) -> MeasuredModel {
        MeasuredModel {
            model: model.to_owned(),
            fastest: "rten".to_owned(),
            infer_ms: [("rten".to_owned(), 1.5), ("ort".to_owned(), 2.0)].into(),
        }
    }

    #[test]
    fn record_outlasts_the_process_and_applies_under_its_stamp_only() {
        let state = tempfile::tempdir().unwrap();
        let key = |stamp: &str| Key::new(&Sha256Sum::of(b"network"), stamp);
        Records::new(state.path()).put(&key("one"), "one", measured("m"));
        let records = Records::new(state.path());
        assert_eq!(records.get(&key("one")), Some(measured("m")));
        assert_eq!(records.get(&key("two")), None);
        assert_eq!(records.list("one"), [measured("m")]);
        assert_eq!(records.list("two"), []);
    }

    #[test]
    fn damaged_record_counts_as_missing() {
        let state = tempfile::tempdir().unwrap();
        let records = Records::new(state.path());
        let key = Key::new(&Sha256Sum::of(b"network"), "one");
        records.put(&key, "one", measured("m"));
        for damage in ["", "{", &" ".repeat(20 << 10)] {
            fs::write(records.path(&key), damage).unwrap();
            assert_eq!(records.get(&key), None);
            assert_eq!(records.list("one"), []);
        }
    }
}
