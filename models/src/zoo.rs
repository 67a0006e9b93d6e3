//! The zoo: manifests that this program brings and those a user put into a models folder, with the files that are here.
//!
//! A models folder holds, for a model `NAME`: `NAME.onnx`, its checksum in `NAME.onnx.sha256` (the format of
//! `sha256sum`), and `NAME.toml` when the model is the user's own; and the files that the manifest names besides, such as a
//! vocabulary.
//! Invariants: a name stands for one manifest, the user's own before ours, that of an earlier folder before that of a later one; new
//! files go to the first folder; a bad manifest of a user never takes the others
//! down; what `pull` and `add` put here had the right checksum, or one the user trusted, and a crash in the middle of it leaves no
//! file under a name or checksum that is not its own. Files that somebody else puts here, or changes, are taken as they are:
//! only [`Zoo::verify`] reads them in full.

mod add;
mod error;
#[cfg(test)]
mod tests;
mod verify;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use watchkeeper_contract::model::{ModelInfo, ModelState};

use crate::digest::{self, Sha256Sum};
use crate::manifest::{Manifest, Part};
use crate::package;
use crate::raw::ManifestError;

pub use add::Opens;
pub use error::ZooError;
pub use verify::{Against, Verified};

use verify::meant;

/// Name of the detector that is part of the program and needs no file.
pub const MOTION: &str = "motion";
/// Name of the model that is taken where nobody names one and its file is there.
pub const PREFERRED: &str = "yolox-nano";

const BUILTIN: [(&str, &str); 12] = [
    (
        "zoo/clip-vit-b-16.toml",
        include_str!("../zoo/clip-vit-b-16.toml"),
    ),
    (
        "zoo/clip-vit-b-32.toml",
        include_str!("../zoo/clip-vit-b-32.toml"),
    ),
    ("zoo/nanodet-m.toml", include_str!("../zoo/nanodet-m.toml")),
    ("zoo/pp-ocr-v4.toml", include_str!("../zoo/pp-ocr-v4.toml")),
    (
        "zoo/rf-detr-nano.toml",
        include_str!("../zoo/rf-detr-nano.toml"),
    ),
    (
        "zoo/sam2-hiera-tiny.toml",
        include_str!("../zoo/sam2-hiera-tiny.toml"),
    ),
    ("zoo/yolov8n.toml", include_str!("../zoo/yolov8n.toml")),
    (
        "zoo/yolov8n-pose.toml",
        include_str!("../zoo/yolov8n-pose.toml"),
    ),
    (
        "zoo/yolov8n-seg.toml",
        include_str!("../zoo/yolov8n-seg.toml"),
    ),
    (
        "zoo/yolox-nano.toml",
        include_str!("../zoo/yolox-nano.toml"),
    ),
    ("zoo/yolox-s.toml", include_str!("../zoo/yolox-s.toml")),
    (
        "zoo/yolox-tiny.toml",
        include_str!("../zoo/yolox-tiny.toml"),
    ),
];

/// Manifests by name, and the folders where files are.
#[derive(Debug)]
pub struct Zoo {
    dirs: Vec<PathBuf>,
    entries: BTreeMap<String, Arc<Manifest>>,
    problems: Vec<ManifestError>,
}

/// A model ready to be loaded.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// What it is.
    pub manifest: Arc<Manifest>,
    /// Its file.
    pub path: PathBuf,
}

impl Resolved {
    /// Where a file that belongs to the model is.
    #[must_use]
    pub fn part(&self, part: &Part) -> PathBuf {
        beside(&self.path, part)
    }

    /// Reads a file that belongs to the model, and compares it with the checksum in the manifest.
    ///
    /// # Errors
    /// [`ZooError`]: it can't be read, is larger than `most` bytes, or is not the one that was meant.
    pub fn read_part(&self, part: &Part, most: u64) -> Result<Vec<u8>, ZooError> {
        let path = self.part(part);
        let mut bytes = Vec::new();
        fs::File::open(&path)
            .and_then(|file| file.take(most.saturating_add(1)).read_to_end(&mut bytes))
            .map_err(|source| unreadable(&path, source))?;
        if bytes.len() as u64 > most {
            let why = io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("it is larger than {most} bytes"),
            );
            return Err(unreadable(&path, why));
        }
        let mut hasher = digest::Hasher::default();
        hasher.update(&bytes);
        meant(&self.manifest, part, &path, hasher.finish())?;
        Ok(bytes)
    }
}

impl Zoo {
    /// What the program brings, without a folder for files.
    #[must_use]
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

    /// What the program brings and what is in this folder, which need not exist.
    #[must_use]
    pub fn with_dir(dir: impl Into<PathBuf>) -> Self {
        Self::with_dirs([dir.into()])
    }

    /// What the program brings and what is in these folders, which need not exist; the first one that has something wins.
    #[must_use]
    pub fn with_dirs(dirs: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut zoo = Self::builtin();
        zoo.dirs = dirs.into_iter().collect();
        // The last word has the first folder.
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

    /// Manifests in the folders that were refused.
    #[must_use]
    pub fn problems(&self) -> &[ManifestError] {
        &self.problems
    }

    /// The manifest of this name.
    #[must_use]
    pub fn manifest(&self, name: &str) -> Option<&Arc<Manifest>> {
        self.entries.get(name)
    }

    /// Every manifest, by name.
    pub fn manifests(&self) -> impl Iterator<Item = &Arc<Manifest>> {
        self.entries.values()
    }

    /// Where the file of this model is, else where it would be put.
    #[must_use]
    pub fn file_of(&self, name: &str) -> Option<PathBuf> {
        let file = |dir: &PathBuf| dir.join(format!("{name}.onnx"));
        let mut files = self.dirs.iter().map(file);
        files
            .find(|file| file.is_file())
            .or_else(|| self.dirs.first().map(file))
    }

    /// Finds manifest and file: by zoo name, by a manifest beside the file (`model.toml` for `model.onnx`), by the
    /// checksum of a known export, or by what is in the folder of a package.
    ///
    /// # Errors
    /// [`ZooError`], one sentence with what to do.
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

    /// The manifest of this name, or one that stands for it: of several one whose file is here.
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
            let (sum, _) = digest::of_file(path).map_err(|source| unreadable(path, source))?;
            self.recognise(sum)
                .cloned()
                .ok_or_else(|| ZooError::Unrecognised {
                    path: path.to_owned(),
                    sha256: sum,
                    manifest: beside,
                })?
        };
        Ok(Resolved {
            manifest,
            path: path.to_owned(),
        })
    }

    /// The model of which a file with this checksum is a known export.
    #[must_use]
    pub fn recognise(&self, sum: Sha256Sum) -> Option<&Arc<Manifest>> {
        self.entries
            .values()
            .find(|manifest| manifest.known_file(sum).is_some())
    }

    /// The error for a name that nothing has, with those like it.
    #[must_use]
    pub fn unknown(&self, name: &str) -> ZooError {
        let names = self.entries.keys().map(String::as_str).chain([MOTION]);
        let mut scored: Vec<_> = names
            .map(|known| (strsim::jaro_winkler(name, known), known))
            .filter(|(score, _)| *score >= 0.75)
            .collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0));
        ZooError::Unknown {
            name: name.to_owned(),
            nearest: scored
                .into_iter()
                .take(2)
                .map(|(_, known)| known.to_owned())
                .collect(),
        }
    }

    /// Every model by name, the built-in motion detector first.
    #[must_use]
    pub fn list(&self) -> Vec<ModelInfo> {
        let motion = ModelInfo {
            name: MOTION.to_owned(),
            task: "motion-detection".to_owned(),
            state: ModelState::Builtin,
            licence: None,
            input: None,
            labels: vec![MOTION.to_owned()],
            stands_for: Vec::new(),
            backend: None,
        };
        let models = self.entries.values().map(|manifest| ModelInfo {
            name: manifest.name.clone(),
            task: manifest.task.name().to_owned(),
            state: match self
                .file_of(&manifest.name)
                .filter(|p| is_whole(manifest, p))
            {
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
        });
        std::iter::once(motion).chain(models).collect()
    }
}

/// A manifest that was read already, and is not endless.
fn read_text(path: &Path) -> Result<String, ZooError> {
    fs::read_to_string(path).map_err(|source| unreadable(path, source))
}

fn beside(network: &Path, part: &Part) -> PathBuf {
    network.with_file_name(&part.file)
}

/// Whether a model's network and every file that belongs to it are here.
fn is_whole(manifest: &Manifest, network: &Path) -> bool {
    network.is_file() && manifest.parts().all(|part| beside(network, part).is_file())
}

/// The same, unless a file that belongs to it is missing.
fn whole(resolved: Resolved) -> Result<Resolved, ZooError> {
    let manifest = Arc::clone(&resolved.manifest);
    let mut parts = manifest.parts();
    let missing = parts.find(|part| !resolved.part(part).is_file());
    match missing.map(|part| resolved.part(part)) {
        Some(path) => Err(ZooError::PartAbsent {
            name: resolved.manifest.name.clone(),
            path,
        }),
        None => Ok(resolved),
    }
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

fn unreadable(path: &Path, source: io::Error) -> ZooError {
    ZooError::File {
        path: path.to_owned(),
        source,
    }
}

fn absent(manifest: &Manifest) -> ZooError {
    let name = manifest.name.clone();
    let remedy = if manifest.files.iter().any(|f| f.url.is_some()) {
        format!("`watchkeeper models pull {name}` fetches it")
    } else {
        format!(
            "nobody publishes a file of it: export one and `watchkeeper models add FILE --like {name}`"
        )
    };
    ZooError::Absent { name, remedy }
}
