//! The zoo: built-in manifests and those of users in a models folder, with the files that are here.
//!
//! A models folder holds for a model `NAME`: `NAME.onnx`, and its checksum in `NAME.onnx.sha256`
//! (the format of `sha256sum`). It holds `NAME.toml` when the model is the user's own, and further
//! files that the manifest names, such as a vocabulary.
//!
//! - A name means one manifest: the user's own before a built-in one, that of an earlier folder
//!   before that of a later one. New files are stored in the first folder.
//! - A bad manifest of a user does not affect the others.
//! - A file placed by `pull` or `add` had the right checksum, or one that the user trusted. A crash
//!   leaves no file under a name or checksum that is not its own.
//! - Files that others put here, or change, are used unchanged; only [`Zoo::verify`] reads them in
//!   full.

mod add;
mod error;
mod resolved;
#[cfg(test)]
mod tests;
mod verify;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use watchkeeper_contract::model::{ModelInfo, ModelState};
use watchkeeper_contract::problem::nearest_few;

use crate::digest::{self, Sha256Sum};
use crate::download;
use crate::manifest::Manifest;
use crate::onnx;
use crate::package;
use crate::raw::{MAX_FILE, ManifestError, read_small};

pub use add::NetworkProbe;
pub use error::ZooError;
pub use resolved::Resolved;
pub use verify::{ChecksumSource, Verified};

use resolved::{is_whole, unreadable, whole};

/// Largest file that is read to tell whether it is a whole ONNX model.
const MAX_CHECKED: u64 = 256 << 20;

/// Name of the built-in detector, which needs no file.
pub const MOTION: &str = "motion";
/// Names of the default models: the first whose file is here is used.
pub const PREFERRED: [&str; 2] = ["yolox-nano", "ssd-mobilenet-v2"];

/// Files of manifests with their texts.
macro_rules! manifests {
    ($($name:literal),* $(,)?) => {
        [$((
            concat!("zoo/", $name, ".toml"),
            include_str!(concat!("../zoo/", $name, ".toml")),
        )),*]
    };
}

const BUILTIN: [(&str, &str); 14] = manifests![
    "clip-vit-b-16",
    "clip-vit-b-32",
    "mobilenet-v2-features",
    "nanodet-m",
    "pp-ocr-v4",
    "rf-detr-nano",
    "sam2-hiera-tiny",
    "ssd-mobilenet-v2",
    "yolov8n",
    "yolov8n-pose",
    "yolov8n-seg",
    "yolox-nano",
    "yolox-s",
    "yolox-tiny",
];

/// Manifests by name, and the folders where files are.
#[derive(Debug)]
pub struct Zoo {
    dirs: Vec<PathBuf>,
    entries: BTreeMap<String, Arc<Manifest>>,
    problems: Vec<ManifestError>,
}

impl Zoo {
    /// Makes the built-in zoo, without a folder for files.
    pub fn builtin() -> Self {
        let entries = BUILTIN
            .iter()
            .map(|(file, text)| {
                let manifest = Manifest::parse(Path::new(file), text)
                    .expect("manifests in the program are checked by its tests");
                (manifest.name.clone(), Arc::new(manifest))
            })
            .collect();
        Self {
            dirs: Vec::new(),
            entries,
            problems: Vec::new(),
        }
    }

    /// Makes a zoo of the built-in models and those in this folder, which need not exist.
    #[must_use]
    pub fn with_dir(dir: impl Into<PathBuf>) -> Self {
        Self::with_dirs([dir.into()])
    }

    /// Makes a zoo of the built-in models and those in these folders, which need not exist; the
    /// first folder with a model wins.
    #[must_use]
    pub fn with_dirs(dirs: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut zoo = Self::builtin();
        zoo.dirs = dirs.into_iter().collect();
        // The first folder is read last, so it wins.
        for path in zoo.dirs.iter().rev().flat_map(|dir| manifests_in(dir)) {
            match Manifest::read(&path) {
                Ok(manifest) => {
                    zoo.entries
                        .insert(manifest.name.clone(), Arc::new(manifest));
                }
                Err(problem) => zoo.problems.push(problem),
            }
        }
        zoo
    }

    /// Returns the errors of the folders' manifests.
    pub fn problems(&self) -> &[ManifestError] {
        &self.problems
    }

    pub fn manifest(&self, name: &str) -> Option<&Arc<Manifest>> {
        self.entries.get(name)
    }

    /// Returns every manifest, by name.
    pub fn manifests(&self) -> impl Iterator<Item = &Arc<Manifest>> {
        self.entries.values()
    }

    /// Returns the path of this model's file, or where it would be put.
    pub fn file_of(&self, name: &str) -> Option<PathBuf> {
        let file = |dir: &PathBuf| dir.join(format!("{name}.onnx"));
        let mut files = self.dirs.iter().map(file);
        files
            .find(|file| file.is_file())
            .or_else(|| self.dirs.first().map(file))
    }

    /// Finds manifest and file by name in the zoo, or by a manifest beside the file (`model.toml`
    /// for `model.onnx`). Else by the checksum of a known export, or in the folder of a package.
    ///
    /// # Errors
    /// [`ZooError`], one sentence with the remedy.
    pub fn resolve(&self, name_or_path: &str) -> Result<Resolved, ZooError> {
        if let Some(manifest) = self.answering(name_or_path) {
            return match self.file_of(&manifest.name).filter(|path| path.is_file()) {
                Some(path) => whole(Resolved {
                    manifest: manifest.clone(),
                    path,
                }),
                None => Err(absent(manifest)),
            };
        }
        let path = Path::new(name_or_path);
        let is_network = path.extension().is_some_and(|e| e == "onnx" || e == "rten");
        let like_a_path = name_or_path.starts_with(['/', '.']) || is_network;
        if like_a_path || path.exists() {
            whole(self.resolve_path(path)?)
        } else {
            Err(self.unknown(name_or_path))
        }
    }

    /// Returns the manifest of this name, or one that stands for it; of several, one whose file is
    /// here.
    fn answering(&self, name: &str) -> Option<&Arc<Manifest>> {
        let stands = |m: &&Arc<Manifest>| m.stands_for.iter().any(|other| other == name);
        let is_here = |m: &&Arc<Manifest>| self.file_of(&m.name).is_some_and(|f| f.is_file());
        self.entries
            .get(name)
            .or_else(|| self.manifests().filter(stands).find(is_here))
            .or_else(|| self.manifests().find(stands))
    }

    fn resolve_path(&self, path: &Path) -> Result<Resolved, ZooError> {
        let meta = fs::metadata(path).map_err(|source| unreadable(path, source))?;
        if meta.is_dir() && package::is_package(path) {
            let (manifest, path) = package::read(path)?;
            return Ok(Resolved {
                manifest: Arc::new(manifest),
                path,
            });
        }
        if !meta.is_file() {
            return Err(unreadable(path, io::Error::other("not a file")));
        }
        let beside = path.with_extension("toml");
        let manifest = if beside.is_file() {
            Arc::new(Manifest::read(&beside)?)
        } else {
            let sum = digest::of_unchanged_file(path).map_err(|source| unreadable(path, source))?;
            let Some(known) = self.recognise(sum) else {
                let is_onnx = path.extension().is_some_and(|e| e == "onnx");
                let path = path.to_owned();
                let is_damaged = if is_onnx && meta.len() <= MAX_CHECKED {
                    !onnx::is_whole(fs::read(&path).map_err(|source| unreadable(&path, source))?)
                } else {
                    false
                };
                return Err(match is_damaged {
                    true => ZooError::NotOnnx { path },
                    false => ZooError::Unrecognised {
                        path,
                        sha256: sum,
                        manifest: beside,
                    },
                });
            };
            Arc::clone(known)
        };
        Ok(Resolved {
            manifest,
            path: path.to_owned(),
        })
    }

    /// Returns the model of which a file with this checksum is a known export.
    pub fn recognise(&self, sum: Sha256Sum) -> Option<&Arc<Manifest>> {
        self.entries
            .values()
            .find(|manifest| manifest.known_file(sum).is_some())
    }

    /// Makes the error for an unknown name, with similar ones.
    pub fn unknown(&self, name: &str) -> ZooError {
        let names = self.entries.keys().map(String::as_str).chain([MOTION]);
        ZooError::Unknown {
            name: name.to_owned(),
            nearest: nearest_few(name, names, 2)
                .into_iter()
                .map(str::to_owned)
                .collect(),
        }
    }

    /// Makes the error for a model whose file is not here, with its remedy. A name may be one that
    /// a model stands for.
    pub fn absence(&self, name: &str) -> ZooError {
        match self.answering(name) {
            Some(manifest) => absent(manifest),
            None => self.unknown(name),
        }
    }

    /// Lists every model by name, the built-in motion detector first. Reads no file in full, so
    /// there are no digests.
    pub fn list(&self) -> Vec<ModelInfo> {
        let motion = ModelInfo {
            name: MOTION.to_owned(),
            task: "motion-detection".to_owned(),
            state: ModelState::Builtin,
            sha256: None,
            digest: None,
            makes_embeddings: false,
            licence: None,
            input: None,
            labels: vec![MOTION.to_owned()],
            stands_for: Vec::new(),
            backend: None,
            measured: None,
        };
        let models = self.entries.values().map(|manifest| {
            let file = self.file_of(&manifest.name);
            let file = file.filter(|path| is_whole(manifest, path));
            ModelInfo {
                name: manifest.name.clone(),
                task: manifest.task.name().to_owned(),
                sha256: (file.as_deref())
                    .and_then(|file| download::recorded_sum(file).ok().flatten())
                    .map(|sum| sum.to_string()),
                digest: None,
                makes_embeddings: manifest.makes_embeddings(),
                state: match file {
                    Some(path) => ModelState::Present {
                        path: path.display().to_string(),
                    },
                    None => ModelState::Absent,
                },
                licence: manifest.licence.as_ref().map(|l| l.spdx.clone()),
                input: Some([manifest.input.width, manifest.input.height]),
                labels: manifest.labels.iter().map(|l| l.to_string()).collect(),
                stands_for: manifest.stands_for.clone(),
                backend: None,
                measured: None,
            }
        });
        std::iter::once(motion).chain(models).collect()
    }
}

/// Reads the text of a manifest.
fn read_text(path: &Path) -> Result<String, ZooError> {
    read_small(path, MAX_FILE).map_err(|source| unreadable(path, source))
}

fn manifests_in(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "toml") && path.is_file())
        .collect();
    paths.sort();
    paths
}

fn absent(manifest: &Manifest) -> ZooError {
    let name = manifest.name.clone();
    let remedy = if manifest.url().is_some() {
        format!("`watchkeeper models pull {name}` fetches it")
    } else {
        format!(
            "it has no published file: export one and run `watchkeeper models add FILE --like {name}`"
        )
    };
    ZooError::Absent { name, remedy }
}
