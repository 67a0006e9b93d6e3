//! What a check is about: everything that decides whether a model loads.
//!
//! - Checksums go in, a [`Key`] comes out; nothing is read.
//! - Paths are not part of it, so a copy of a checked file is not checked again.

use serde::Serialize;
use watchkeeper_models::model_check::{MAX_CPU_SECONDS, limits};

use crate::pipeline::inference::kept_files::Key;
use crate::pipeline::inference::settings::ModelSettings;

/// One model that is loaded: the one asked for, or one that its manifest names.
#[derive(Debug, Serialize)]
pub(super) struct CheckedModel {
    /// Checked manifest of the model.
    pub(super) manifest: String,
    /// Checksums of its network, of its other files in the order of the manifest, and of its
    /// network of int8 where that may run.
    pub(super) sums: Vec<String>,
}

/// Everything that decides the result of a check.
#[derive(Debug, Serialize)]
pub(super) struct Subject {
    program: String,
    backend: String,
    /// The library of ONNX Runtime, with its size and time.
    library: String,
    threads: Option<usize>,
    max_bytes: Option<u64>,
    max_cpu_seconds: u64,
    models: Vec<CheckedModel>,
}

impl Subject {
    /// Describes a check of `models` with these settings by this program.
    pub(super) fn new(
        program: String,
        settings: &ModelSettings,
        models: Vec<CheckedModel>,
    ) -> Self {
        Self {
            program,
            backend: settings.backend_stamp(),
            library: settings.library_stamp(),
            threads: settings.threads,
            max_bytes: limits::max_bytes(),
            max_cpu_seconds: MAX_CPU_SECONDS,
            models,
        }
    }

    pub(super) fn key(&self) -> Key {
        // Writing strings and numbers as JSON does not fail.
        let text = serde_json::to_vec(self).unwrap_or_default();
        Key::of(&text)
    }
}

#[cfg(test)]
mod tests {
    use watchkeeper_models::Sha256Sum;

    use super::*;

    fn subject() -> Subject {
        Subject {
            program: "1".to_owned(),
            backend: "Rten".to_owned(),
            library: String::new(),
            threads: None,
            max_bytes: Some(1 << 30),
            max_cpu_seconds: 60,
            models: vec![CheckedModel {
                manifest: "a".to_owned(),
                sums: [&b"network"[..], b"part"]
                    .map(|b| Sha256Sum::of(b).to_string())
                    .into(),
            }],
        }
    }

    #[test]
    fn everything_that_decides_the_result_changes_the_key() {
        let model = |manifest: &str, sums: &[&[u8]]| CheckedModel {
            manifest: manifest.to_owned(),
            sums: sums
                .iter()
                .map(|bytes| Sha256Sum::of(bytes).to_string())
                .collect(),
        };
        let others = [
            Subject {
                program: "2".to_owned(),
                ..subject()
            },
            Subject {
                backend: "Ort".to_owned(),
                ..subject()
            },
            Subject {
                library: "a".to_owned(),
                ..subject()
            },
            Subject {
                threads: Some(1),
                ..subject()
            },
            Subject {
                max_bytes: None,
                ..subject()
            },
            Subject {
                max_cpu_seconds: 61,
                ..subject()
            },
            Subject {
                models: vec![model("b", &[b"network", b"part"])],
                ..subject()
            },
            Subject {
                models: vec![model("a", &[b"other", b"part"])],
                ..subject()
            },
            Subject {
                models: vec![model("a", &[b"network", b"other"])],
                ..subject()
            },
            Subject {
                models: vec![model("a", &[b"network", b"part"]), model("f", &[b"faces"])],
                ..subject()
            },
        ];
        let mut keys: Vec<Key> = others.iter().map(Subject::key).collect();
        keys.push(subject().key());
        let all = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), all);
        assert_eq!(subject().key(), subject().key());
        assert_eq!(subject().key().to_string().len(), 32);
    }
}
