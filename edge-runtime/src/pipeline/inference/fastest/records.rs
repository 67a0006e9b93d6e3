//! Measurements on the disk: one file each, `<state>/backend-times/KEY.json`.
//!
//! - A file that can't be read counts as missing.
//! - A measurement that the disk refuses is lost: the model is measured again.

use std::num::NonZeroUsize;
use std::path::Path;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::backend::MeasuredModel;

use crate::pipeline::inference::kept_files::{KeptFiles, Key};

/// Name of the folder in the state folder.
const FOLDER: &str = "backend-times";

/// Most files that are kept.
const MAX_RECORDS: usize = 64;

/// Contents of a file.
#[derive(Debug, Serialize, Deserialize)]
struct RecordFile {
    /// Further identity of the measurement.
    stamp: String,
    #[serde(flatten)]
    measured: Measurement,
}

/// A measurement of one model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::pipeline::inference) struct Measurement {
    #[serde(flatten)]
    pub(super) model: MeasuredModel,
    /// Threads that the network had on ONNX Runtime.
    #[serde(default)]
    pub(super) ort_threads: Option<NonZeroUsize>,
    /// Whether ONNX Runtime took over from rten on this box, and served on.
    #[serde(default)]
    pub(super) has_ort_agreed: bool,
}

/// The measurements of this box.
#[derive(Debug)]
pub(super) struct Records(KeptFiles);

impl Records {
    pub(super) fn new(state_dir: &Path) -> Self {
        Self(KeptFiles::new(state_dir.join(FOLDER), MAX_RECORDS))
    }

    pub(super) fn get(&self, key: &Key) -> Option<Measurement> {
        Some(self.0.read::<RecordFile>(key).ok()?.measured)
    }

    /// Returns the measurement of a network that is opened, and makes it the listed one of its
    /// model.
    pub(super) fn use_for_opening(&self, key: &Key) -> Option<Measurement> {
        let measured = self.get(key)?;
        if let Err(error) = self.0.renew(key) {
            tracing::debug!(%key, %error, "an older measurement of the model stays listed");
        }
        Some(measured)
    }

    pub(super) fn put(&self, key: &Key, stamp: &str, measured: Measurement) {
        let stamp = stamp.to_owned();
        if let Err(error) = self.0.write(key, &RecordFile { stamp, measured }) {
            let path = self.0.path(key);
            tracing::warn!(path = %path.display(), %error, "the measurement can't be stored");
        }
    }

    /// Keeps whether ONNX Runtime may serve a measured network from the start.
    pub(super) fn set_agreement(&self, key: &Key, has_ort_agreed: bool) {
        if let Ok(mut kept) = self.0.read::<RecordFile>(key)
            && kept.measured.has_ort_agreed != has_ort_agreed
        {
            kept.measured.has_ort_agreed = has_ort_agreed;
            self.put(key, &kept.stamp, kept.measured);
        }
    }

    /// Lists the measurements under `stamp`, by model. Of a model whose file was replaced, only the
    /// one that was measured or applied last counts.
    pub(super) fn list(&self, stamp: &str) -> Vec<MeasuredModel> {
        let kept = self.0.read_all::<RecordFile>();
        let kept = kept.filter(|kept| kept.stamp == stamp);
        let mut measured: Vec<_> = kept.map(|kept| kept.measured.model).collect();
        measured.sort_by(|a, b| a.model.cmp(&b.model));
        measured.dedup_by(|older, newer| older.model == newer.model);
        measured
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that can't set up has failed")]
mod tests {
    use watchkeeper_models::Sha256Sum;

    use super::*;
    use crate::pipeline::inference::fastest::key_of;

    fn measured(model: &str) -> Measurement {
        let infer_ms = [("rten".to_owned(), 1.5), ("ort".to_owned(), 2.0)].into();
        Measurement {
            model: MeasuredModel {
                model: model.to_owned(),
                fastest: "rten".to_owned(),
                infer_ms,
            },
            ort_threads: NonZeroUsize::new(2),
            has_ort_agreed: false,
        }
    }

    #[test]
    fn record_outlasts_the_process_and_applies_under_its_stamp_only() {
        let state = tempfile::tempdir().unwrap();
        let key = |stamp: &str| key_of(&Sha256Sum::of(b"network"), stamp);
        Records::new(state.path()).put(&key("one"), "one", measured("m"));
        let records = Records::new(state.path());
        assert_eq!(records.get(&key("one")), Some(measured("m")));
        assert_eq!(records.get(&key("two")), None);
        assert_eq!(records.list("one"), [measured("m").model]);
        assert_eq!(records.list("two"), []);
    }

    #[test]
    fn list_has_the_measurement_that_was_made_or_applied_last() {
        let state = tempfile::tempdir().unwrap();
        let records = Records::new(state.path());
        let key = |file: &[u8]| key_of(&Sha256Sum::of(file), "one");
        for (n, file) in [&b"a"[..], b"b", b"c"].into_iter().enumerate() {
            let key = key(file);
            let mut newer = measured("m");
            newer.model.fastest = n.to_string();
            records.put(&key, "one", newer);
            let written = std::fs::File::options()
                .append(true)
                .open(records.0.path(&key));
            let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(n as u64);
            written.unwrap().set_modified(at).unwrap();
        }
        let listed = || {
            let models = records.list("one").into_iter();
            models.map(|model| model.fastest).collect::<Vec<_>>()
        };
        assert_eq!(listed(), ["2"]);
        assert!(records.use_for_opening(&key(b"a")).is_some(), "restored");
        assert_eq!(listed(), ["0"]);
    }
}
