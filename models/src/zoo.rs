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

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use watchkeeper_contract::model::{ModelInfo, ModelState};

use crate::digest::{self, Sha256Sum};
use crate::download::{self, PullPlan, Trust};
use crate::manifest::{Manifest, Part};
use crate::package;
use crate::raw::{self, ManifestError};

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

/// What a check of a file against its manifest gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The file.
    pub path: PathBuf,
    /// Its checksum.
    pub sha256: Sha256Sum,
    /// Its size in bytes.
    pub bytes: u64,
    /// What the checksum was compared with.
    pub against: Against,
}

/// What a checksum was compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Against {
    /// A known export in the manifest.
    Manifest,
    /// The sum written down when the file was put here.
    Record,
    /// Nothing: there is no known sum.
    Nothing,
}

/// Whether a file is the network that a manifest, given as TOML, describes; else one sentence.
pub type Opens<'o> = &'o dyn Fn(&Path, &str) -> Result<(), String>;

/// Why a model can't be had.
#[derive(Debug, thiserror::Error)]
pub enum ZooError {
    /// No such name, and no such file.
    #[error("no model `{name}`{}; `watchkeeper models list` shows all{}", did_you_mean(.nearest), may_stand_for(.name))]
    Unknown {
        /// What was asked for.
        name: String,
        /// Names like it, the best first.
        nearest: Vec<String>,
    },
    /// A file that is no network, or not the one that its manifest describes.
    #[error("{path} was not added: {why}")]
    NotOpened {
        /// Which file.
        path: PathBuf,
        /// What opening it said.
        why: String,
    },
    /// Nothing needs to be fetched.
    #[error("`motion` is built in: there is nothing to fetch")]
    BuiltIn,
    /// A known model whose file is not here.
    #[error("model `{name}` is not here yet; {remedy}")]
    Absent {
        /// Which one.
        name: String,
        /// What to do.
        remedy: String,
    },
    /// A file that belongs to a model besides its network is not here.
    #[error("model `{name}` needs {path} too, which is not there; its manifest names the file")]
    PartAbsent {
        /// Which model.
        name: String,
        /// Where the file is looked for.
        path: PathBuf,
    },
    /// A file that belongs to a model is another one than its manifest means.
    #[error("{path} has sha256 {found}, and manifest `{name}` means the file with {expected}")]
    PartOther {
        /// Which model.
        name: String,
        /// The file.
        path: PathBuf,
        /// Its checksum.
        found: Sha256Sum,
        /// The one in the manifest.
        expected: Sha256Sum,
    },
    /// Another file has the name that a file of this model would have.
    #[error(
        "{path} is another file than the one that belongs to `{name}`; give that one another name, in the manifest too"
    )]
    PartTaken {
        /// Which model.
        name: String,
        /// The file that is there.
        path: PathBuf,
    },
    /// A file is where one of a model would be put, and nothing tells whether it is that one.
    #[error(
        "{path} is here already, and nothing says whether it is the file that belongs to `{name}`; write its sha256 into the manifest, or move it away"
    )]
    PartUnknown {
        /// Which model.
        name: String,
        /// The file that is there.
        path: PathBuf,
    },
    /// A file that belongs to one model has the name of another one's network.
    #[error(
        "the file {file} of `{name}` would be the network of the model `{other}`; give it another name, in the manifest too"
    )]
    PartIsNetwork {
        /// Which model.
        name: String,
        /// The file.
        file: String,
        /// Whose network has that name.
        other: String,
    },
    /// The path leads nowhere.
    #[error("no model file {path}: {source}")]
    File {
        /// Which path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file that no manifest describes.
    #[error(
        "{path} is none of the known exports (sha256 {sha256}); describe it in {manifest}, or name its layout with \
         `watchkeeper models add {path} --like NAME`"
    )]
    Unrecognised {
        /// The file.
        path: PathBuf,
        /// Its checksum.
        sha256: Sha256Sum,
        /// Where a manifest would be looked for.
        manifest: PathBuf,
    },
    /// The manifest can't be used.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The file is not what it was.
    #[error(
        "{path} has sha256 {found}, expected {expected}; remove it and `watchkeeper models pull {name}` again"
    )]
    Changed {
        /// Which model.
        name: String,
        /// The file.
        path: PathBuf,
        /// Its checksum now.
        found: Sha256Sum,
        /// A checksum it should have.
        expected: Sha256Sum,
    },
    /// Nobody publishes the file.
    #[error(
        "nobody publishes a file of `{name}`; export one and `watchkeeper models add FILE --like {name} --name {name}`"
    )]
    NotPublished {
        /// Which model.
        name: String,
    },
    /// Nobody publishes a file that belongs to the model besides its network.
    #[error("nobody publishes {path}, which belongs to `{name}`; put it there and pull again")]
    PartNotPublished {
        /// Which model.
        name: String,
        /// Where it is looked for.
        path: PathBuf,
    },
    /// A name that can't be a file's.
    #[error("`{name}` can't name a model, allowed: 1 to 64 of a-z, 0-9, `-`, `_` and `.`")]
    BadName {
        /// The name.
        name: String,
    },
    /// The name is that of a model whose files are known, and this is none of them.
    #[error(
        "`{name}` is a model whose files are known, and {path} is none of them; give it a name of its own with `--name`"
    )]
    Taken {
        /// The name.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// There is no models folder to put files into.
    #[error("there is no models folder; set one with `--models-dir`")]
    NoFolder,
    /// The models folder can't be written.
    #[error("can't write {path}: {source}")]
    Write {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

fn did_you_mean(names: &[String]) -> String {
    match names {
        [] => String::new(),
        names => format!(", did you mean `{}`?", names.join("` or `")),
    }
}

/// What makes a model answer to a name that a step made, and that no file can have.
fn may_stand_for(name: &str) -> String {
    if raw::is_name(name) {
        return String::new();
    }
    format!(
        ", and one of yours answers to that name with `stands_for = [{name:?}]` in its manifest"
    )
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

    /// Reads the whole file and compares its checksum with the known exports, or with the one written down when the file
    /// was put here.
    ///
    /// # Errors
    /// [`ZooError`], such as `Changed`.
    pub fn verify(&self, name_or_path: &str) -> Result<Verified, ZooError> {
        let resolved = self.resolve(name_or_path)?;
        verify_parts(&resolved)?;
        let Resolved { manifest, path } = resolved;
        let (sha256, bytes) = digest::of_file(&path).map_err(|source| unreadable(&path, source))?;
        let recorded = download::recorded_sum(&path);
        let against = if manifest.known_file(sha256).is_some() {
            Against::Manifest
        } else if let Some(expected) = recorded {
            if expected != sha256 {
                return Err(ZooError::Changed {
                    name: manifest.name.clone(),
                    path,
                    found: sha256,
                    expected,
                });
            }
            Against::Record
        } else if let Some(expected) = manifest.files.iter().find_map(|f| f.sha256)
            && manifest.files.iter().all(|f| f.sha256.is_some())
        {
            return Err(ZooError::Changed {
                name: manifest.name.clone(),
                path,
                found: sha256,
                expected,
            });
        } else {
            Against::Nothing
        };
        Ok(Verified {
            path,
            sha256,
            bytes,
            against,
        })
    }

    /// What to fetch for this model, its network last: of that a file with a known checksum before one without. `mirror` is the address of a folder
    /// that holds `NAME.onnx`, and the other files under their names, for every model an integrator offers; it takes the place of every published
    /// address, and what comes from it has to be the file that would have been fetched from there. A checksum that the user has from elsewhere is that
    /// of the network.
    ///
    /// A file that nobody publishes may be here already; it is left as it is where it is the one that is meant.
    ///
    /// # Errors
    /// [`ZooError`]: no such model, no folder, or no published file.
    pub fn pull_plan(
        &self,
        name: &str,
        trust: Trust,
        mirror: Option<&str>,
    ) -> Result<Vec<PullPlan>, ZooError> {
        if name == MOTION {
            return Err(ZooError::BuiltIn);
        }
        let manifest = self.entries.get(name).ok_or_else(|| self.unknown(name))?;
        // Into our own folder, also where another one has it: what is there need not be what was asked for.
        let folder = self.dirs.first().ok_or(ZooError::NoFolder)?;
        let mirrored =
            |file: &str| mirror.map(|mirror| format!("{}/{file}", mirror.trim_end_matches('/')));
        let file = manifest
            .files
            .iter()
            .filter(|f| f.url.is_some() || mirror.is_some())
            .min_by_key(|f| f.sha256.is_none());
        let network = format!("{name}.onnx");
        let url = mirrored(&network).or_else(|| file.and_then(|f| f.url.clone()));
        let Some(url) = url else {
            return Err(ZooError::NotPublished {
                name: name.to_owned(),
            });
        };
        self.apart(manifest, name)?;
        let mut plans = Vec::new();
        for part in manifest.parts() {
            let target = folder.join(&part.file);
            let Some(url) = mirrored(&part.file).or_else(|| part.url.clone()) else {
                if !target.is_file() {
                    return Err(ZooError::PartNotPublished {
                        name: name.to_owned(),
                        path: target,
                    });
                }
                let (found, _) =
                    digest::of_file(&target).map_err(|source| unreadable(&target, source))?;
                meant(manifest, part, &target, found)?;
                continue;
            };
            self.may_replace(manifest, part, &target)?;
            plans.push(PullPlan {
                name: name.to_owned(),
                url,
                sha256: part.sha256,
                bytes: part.bytes,
                trust: match trust {
                    Trust::Sum(_) => Trust::KnownOnly,
                    trust => trust,
                },
                target,
            });
        }
        plans.push(PullPlan {
            name: name.to_owned(),
            url,
            sha256: file.and_then(|f| f.sha256),
            bytes: file.and_then(|f| f.bytes),
            trust,
            target: folder.join(network),
        });
        Ok(plans)
    }

    /// Refuses files of a model that would take the place of a network, and a network that would take that of another model's file.
    fn apart(&self, manifest: &Manifest, name: &str) -> Result<(), ZooError> {
        let collides = |name: &str, file: &str, other: &str| ZooError::PartIsNetwork {
            name: name.to_owned(),
            file: file.to_owned(),
            other: other.to_owned(),
        };
        for part in manifest.parts() {
            let network = part.file.strip_suffix(".onnx");
            if let Some(other) =
                network.filter(|other| *other == name || self.entries.contains_key(*other))
            {
                return Err(collides(name, &part.file, other));
            }
        }
        let network = format!("{name}.onnx");
        for (other, manifest) in &self.entries {
            if manifest.parts().any(|part| part.file == network) {
                return Err(collides(other, &network, name));
            }
        }
        Ok(())
    }

    /// Refuses to fetch a file of a model into the place of another one: only what is the same, or was put here for this model alone, gives way.
    fn may_replace(&self, manifest: &Manifest, part: &Part, target: &Path) -> Result<(), ZooError> {
        if !target.exists() {
            return Ok(());
        }
        let (found, _) = digest::of_file(target).map_err(|source| unreadable(target, source))?;
        if part.sha256 == Some(found) {
            return Ok(());
        }
        let others = self.entries.values().filter(|m| m.name != manifest.name);
        let mut others = others.flat_map(|other| other.parts());
        let is_others = others.any(|other| {
            other.file == part.file && (other.sha256.is_none() || other.sha256 != part.sha256)
        });
        if download::recorded_sum(target).is_some() && !is_others {
            return Ok(());
        }
        let (name, path) = (manifest.name.clone(), target.to_owned());
        Err(match part.sha256 {
            Some(_) => ZooError::PartTaken { name, path },
            None => ZooError::PartUnknown { name, path },
        })
    }

    /// Copies a local file into the first models folder and answers the name it has there. The manifest is, in this order: the
    /// one given, that of the model named by `like`, the one beside the file, that of a known export. A manifest from
    /// outside the zoo is copied too.
    ///
    /// The name is `name`, else that of the manifest; but a file that is only laid out like a model, and is none of that model's known files, is
    /// another model: it is named after the file, and gets a manifest of its own.
    ///
    /// `opens` says whether the file is the network that its manifest describes, before anything is written.
    ///
    /// # Errors
    /// [`ZooError`]; nothing is left behind under a final name.
    pub fn add(
        &mut self,
        path: &Path,
        manifest: Option<&Path>,
        like: Option<&str>,
        name: Option<&str>,
        opens: Opens<'_>,
    ) -> Result<Resolved, ZooError> {
        let dir = self.dirs.first().cloned().ok_or(ZooError::NoFolder)?;
        let described = match (manifest, like) {
            (Some(file), _) => Arc::new(Manifest::read(file)?),
            (None, Some(like)) => self
                .entries
                .get(like)
                .cloned()
                .ok_or_else(|| self.unknown(like))?,
            (None, None) => self.resolve_path(path)?.manifest,
        };
        let name = match name {
            Some(name) => name.to_owned(),
            None if like.is_some() => self.name_for(path, &described)?,
            None => described.name.clone(),
        };
        if !raw::is_name(&name) || name == MOTION {
            return Err(ZooError::BadName { name });
        }
        let beside = path.with_extension("toml");
        let text = match (manifest, like) {
            (Some(file), _) => Some(read_text(file)?),
            (None, None) if beside.is_file() => Some(read_text(&beside)?),
            _ if name != described.name => Some(self.text_of(&described.name)?),
            _ => None,
        };
        let (described, text) = match text {
            Some(text) if name != described.name => {
                let own = dir.join(format!("{name}.toml"));
                let text = renamed(&text, &described.name, &name);
                (Arc::new(Manifest::parse(&own, &text)?), Some(text))
            }
            text => (described, text),
        };
        let describing = match &text {
            Some(text) => text.clone(),
            None => self.text_of(&described.name)?,
        };
        opens(path, &describing).map_err(|why| ZooError::NotOpened {
            path: path.to_owned(),
            why,
        })?;
        let write = |path: &Path| {
            let path = path.to_owned();
            move |source| ZooError::Write { path, source }
        };
        fs::create_dir_all(&dir).map_err(write(&dir))?;
        self.apart(&described, &name)?;
        let target = dir.join(format!("{name}.onnx"));
        for part in described.parts() {
            add_part(&described, part, path, &dir)?;
        }
        let part = adding;
        let file = Leftover(part(&target));
        let mut weights = fs::File::open(path).map_err(|source| unreadable(path, source))?;
        fs::File::create(&file.0)
            .and_then(|mut copy| io::copy(&mut weights, &mut copy))
            .map_err(write(&target))?;
        let (sum, _) = digest::of_file(&file.0).map_err(write(&file.0))?;
        if let Some(text) = text {
            // Before the file: a manifest without a file is absent, a file without its manifest would be taken for something else.
            let own = dir.join(format!("{name}.toml"));
            let part = Leftover(part(&own));
            fs::write(&part.0, text).map_err(write(&part.0))?;
            fs::rename(&part.0, &own).map_err(write(&own))?;
            self.entries.insert(name, described.clone());
        }
        download::put_in_place(&file.0, &target, sum).map_err(write(&target))?;
        Ok(Resolved {
            manifest: described,
            path: target,
        })
    }

    /// The name of a file that is laid out as `like` says.
    fn name_for(&self, path: &Path, like: &Manifest) -> Result<String, ZooError> {
        let (sum, _) = digest::of_file(path).map_err(|source| unreadable(path, source))?;
        if like.known_file(sum).is_some() {
            return Ok(like.name.clone());
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let name = name.to_ascii_lowercase();
        let other = self.entries.get(&name);
        if other.is_some_and(|other| other.files.iter().any(|file| file.sha256.is_some())) {
            let path = path.to_owned();
            return Err(ZooError::Taken { name, path });
        }
        Ok(name)
    }

    /// The manifest of this name as it was written.
    fn text_of(&self, name: &str) -> Result<String, ZooError> {
        let is_it = |path: &PathBuf| Manifest::read(path).is_ok_and(|own| own.name == name);
        let mut own = self.dirs.iter().flat_map(|dir| manifests_in(dir));
        if let Some(path) = own.find(is_it) {
            return read_text(&path);
        }
        let is_it = |(file, text): &&(&str, &str)| {
            Manifest::parse(Path::new(file), text).is_ok_and(|own| own.name == name)
        };
        let builtin = BUILTIN.iter().find(is_it);
        builtin
            .map(|(_, text)| (*text).to_owned())
            .ok_or_else(|| self.unknown(name))
    }
}

/// A manifest that was read already, and is not endless.
fn read_text(path: &Path) -> Result<String, ZooError> {
    fs::read_to_string(path).map_err(|source| unreadable(path, source))
}

/// The manifest `text` for another file of the same layout: what it says of the files, their origin and their licence is not true of that one.
fn renamed(text: &str, from: &str, to: &str) -> String {
    let mut table: toml::Table = text.parse().unwrap_or_default();
    for key in ["file", "origin", "licence"] {
        table.remove(key);
    }
    table.insert("name".to_owned(), to.into());
    table.insert("summary".to_owned(), format!("Laid out like {from}").into());
    table.to_string()
}

/// Where a file is written before it gets its name; a name of our own, as a pull of the same model may be writing its part.
fn adding(of: &Path) -> PathBuf {
    of.with_added_extension(format!("{}.adding", std::process::id()))
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

/// Refuses a file that belongs to a model whose checksum is another than in the manifest.
fn meant(manifest: &Manifest, part: &Part, path: &Path, found: Sha256Sum) -> Result<(), ZooError> {
    match part.sha256 {
        Some(expected) if expected != found => Err(ZooError::PartOther {
            name: manifest.name.clone(),
            path: path.to_owned(),
            found,
            expected,
        }),
        _ => Ok(()),
    }
}

/// Compares the files that belong to a model with their checksums: those in the manifest, and those written down when they were put here.
fn verify_parts(resolved: &Resolved) -> Result<(), ZooError> {
    for part in resolved.manifest.parts() {
        let path = resolved.part(part);
        let (found, _) = digest::of_file(&path).map_err(|source| unreadable(&path, source))?;
        meant(&resolved.manifest, part, &path, found)?;
        if let Some(expected) = download::recorded_sum(&path).filter(|sum| *sum != found) {
            return Err(ZooError::Changed {
                name: resolved.manifest.name.clone(),
                path,
                found,
                expected,
            });
        }
    }
    Ok(())
}

/// Copies a file that belongs to a model from beside its network into a models folder, where several models may share it.
fn add_part(manifest: &Manifest, part: &Part, network: &Path, dir: &Path) -> Result<(), ZooError> {
    let (from, target) = (beside(network, part), dir.join(&part.file));
    let is_here = target.is_file();
    if !from.is_file() {
        let name = manifest.name.clone();
        return if is_here {
            let (sum, _) =
                digest::of_file(&target).map_err(|source| unreadable(&target, source))?;
            meant(manifest, part, &target, sum)
        } else {
            Err(ZooError::PartAbsent { name, path: from })
        };
    }
    let (sum, _) = digest::of_file(&from).map_err(|source| unreadable(&from, source))?;
    meant(manifest, part, &from, sum)?;
    if is_here {
        let (there, _) = digest::of_file(&target).map_err(|source| unreadable(&target, source))?;
        return if there == sum {
            Ok(())
        } else {
            Err(ZooError::PartTaken {
                name: manifest.name.clone(),
                path: target,
            })
        };
    }
    let copy = Leftover(adding(&target));
    let write = |source| ZooError::Write {
        path: target.clone(),
        source,
    };
    fs::copy(&from, &copy.0).map_err(write)?;
    download::put_in_place(&copy.0, &target, sum).map_err(write)
}

/// A file that is removed unless it was renamed.
struct Leftover(PathBuf);

impl Drop for Leftover {
    fn drop(&mut self) {
        // Not there is as it should be, and nobody looks at what can't be removed.
        fs::remove_file(&self.0).ok();
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that can't set up has failed")]
    use super::*;

    const OWN: &str = include_str!("../zoo/yolox-nano.toml");

    /// Nothing here runs a network.
    fn opens(_: &Path, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn own(name: &str) -> String {
        let head = OWN.replace("yolox-nano\"", &format!("{name}\""));
        let files = head.find("# The checksum").unwrap();
        let input = head.find("# Values").unwrap();
        format!("{}{}", &head[..files], &head[input..])
    }

    #[test]
    fn every_manifest_in_the_program_is_good_and_carries_its_licence() {
        let zoo = Zoo::builtin();
        assert_eq!(zoo.entries.len(), BUILTIN.len(), "two share a name");
        for manifest in zoo.manifests() {
            assert!(manifest.licence.is_some(), "{}", manifest.name);
            assert!(manifest.origin.is_some(), "{}", manifest.name);
        }
    }

    #[test]
    fn unknown_name_is_answered_with_the_nearest() {
        let message = Zoo::builtin()
            .resolve("yolox_nano")
            .unwrap_err()
            .to_string();
        assert!(message.contains("`yolox-nano`"), "{message}");
        let message = Zoo::builtin().resolve("qqqq").unwrap_err().to_string();
        assert!(!message.contains("did you mean"), "{message}");
    }

    #[test]
    fn absent_model_is_answered_with_the_command_that_fetches_it() {
        let dir = tempfile::tempdir().unwrap();
        let zoo = Zoo::with_dir(dir.path());
        let message = zoo.resolve("yolox-nano").unwrap_err().to_string();
        assert!(
            message.contains("watchkeeper models pull yolox-nano"),
            "{message}"
        );
        let message = zoo.resolve("yolov8n").unwrap_err().to_string();
        assert!(
            message.contains("models add FILE --like yolov8n"),
            "{message}"
        );
    }

    #[test]
    fn unrecognised_file_is_answered_with_its_sum_and_a_way_out() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mine.onnx");
        fs::write(&file, "not a network").unwrap();
        let message = Zoo::builtin()
            .resolve(file.to_str().unwrap())
            .unwrap_err()
            .to_string();
        let sum = digest::of_file(&file).unwrap().0.to_string();
        assert!(
            message.contains(&sum) && message.contains("mine.toml"),
            "{message}"
        );
    }

    #[test]
    fn file_is_described_by_the_manifest_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mine.onnx");
        fs::write(&file, "weights").unwrap();
        fs::write(dir.path().join("mine.toml"), own("mine")).unwrap();
        let resolved = Zoo::builtin().resolve(file.to_str().unwrap()).unwrap();
        assert_eq!(
            (resolved.manifest.name.as_str(), resolved.path),
            ("mine", file)
        );
    }

    #[test]
    fn one_bad_manifest_leaves_the_others_usable() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.toml"), "name = 3").unwrap();
        fs::write(dir.path().join("b.toml"), own("mine")).unwrap();
        let zoo = Zoo::with_dir(dir.path());
        assert_eq!(zoo.problems().len(), 1);
        assert!(zoo.manifest("mine").is_some() && zoo.manifest("yolox-nano").is_some());
    }

    #[test]
    fn files_and_manifests_of_every_folder_are_found_and_those_of_the_first_win() {
        let dir = tempfile::tempdir().unwrap();
        let (mine, box_s) = (dir.path().join("mine"), dir.path().join("box"));
        for folder in [&mine, &box_s] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(box_s.join("a.onnx"), "").unwrap();
        fs::write(box_s.join("a.toml"), own("a")).unwrap();
        fs::write(box_s.join("b.onnx"), "").unwrap();
        fs::write(box_s.join("b.toml"), "name = 3").unwrap();
        fs::write(mine.join("b.onnx"), "").unwrap();
        fs::write(mine.join("b.toml"), own("b")).unwrap();
        let zoo = Zoo::with_dirs([mine.clone(), box_s.clone()]);
        assert_eq!(zoo.resolve("a").unwrap().path, box_s.join("a.onnx"));
        assert_eq!(zoo.resolve("b").unwrap().path, mine.join("b.onnx"));
        let plans = zoo.pull_plan("yolox-nano", Trust::KnownOnly, None).unwrap();
        assert_eq!(plans[0].target, mine.join("yolox-nano.onnx"));
        let listed = zoo.list();
        let a = listed.iter().find(|model| model.name == "a").unwrap();
        assert!(matches!(&a.state, ModelState::Present { path } if path.ends_with("box/a.onnx")));
    }

    #[test]
    fn added_file_is_present_and_a_change_to_it_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("export.onnx");
        fs::write(&outside, "weights").unwrap();
        let mut zoo = Zoo::with_dir(dir.path().join("models"));
        zoo.add(&outside, None, Some("yolov8n"), Some("yolov8n"), &opens)
            .unwrap();
        let listed = zoo
            .list()
            .into_iter()
            .find(|m| m.name == "yolov8n")
            .unwrap();
        let ModelState::Present { path } = listed.state else {
            panic!("{listed:?} is not present");
        };
        assert_eq!(zoo.verify("yolov8n").unwrap().against, Against::Record);
        fs::write(path, "other weights").unwrap();
        assert!(matches!(
            zoo.verify("yolov8n"),
            Err(ZooError::Changed { .. })
        ));
    }

    #[test]
    fn a_file_that_is_only_laid_out_like_a_known_one_is_a_model_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let models = dir.path().join("models");
        for name in ["Mine.onnx", "theirs.onnx"] {
            let outside = dir.path().join(name);
            fs::write(&outside, name).unwrap();
            let mut zoo = Zoo::with_dir(&models);
            zoo.add(&outside, None, Some("yolox-nano"), None, &opens)
                .unwrap();
        }
        let zoo = Zoo::with_dir(&models);
        assert!(zoo.problems().is_empty(), "{:?}", zoo.problems());
        let known = zoo.manifest("yolox-nano").unwrap();
        for name in ["mine", "theirs"] {
            let Resolved { manifest, path } = zoo.resolve(name).unwrap();
            assert_eq!(path, models.join(format!("{name}.onnx")));
            assert_eq!(
                (&manifest.input, &manifest.decode),
                (&known.input, &known.decode)
            );
            assert_eq!(
                (&manifest.labels, &manifest.nms),
                (&known.labels, &known.nms)
            );
            // Nothing is claimed that is true of the known files only.
            assert!(manifest.files.is_empty() && manifest.licence.is_none());
            assert_eq!(zoo.verify(name).unwrap().against, Against::Record);
        }
        assert!(matches!(
            zoo.resolve("yolox-nano"),
            Err(ZooError::Absent { .. })
        ));

        let outside = dir.path().join("yolox-nano.onnx");
        fs::write(&outside, "retrained").unwrap();
        let mut zoo = Zoo::with_dir(&models);
        let refused = zoo
            .add(&outside, None, Some("yolox-nano"), None, &opens)
            .unwrap_err();
        assert!(refused.to_string().contains("--name"), "{refused}");
        zoo.add(&outside, None, Some("mine"), Some("night"), &opens)
            .unwrap();
        assert!(Zoo::with_dir(&models).resolve("night").is_ok());
    }

    #[test]
    fn a_file_that_does_not_open_with_its_manifest_is_not_added() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("mine.onnx");
        fs::write(&outside, "weights").unwrap();
        let models = dir.path().join("models");
        let refused = Zoo::with_dir(&models).add(
            &outside,
            None,
            Some("yolox-nano"),
            None,
            &|path, manifest| {
                assert_eq!(path, outside);
                let described = Manifest::parse(Path::new("mine.toml"), manifest).unwrap();
                Err(format!("{} is cut short", described.name))
            },
        );
        let said = refused.unwrap_err().to_string();
        assert!(
            said.ends_with("mine.onnx was not added: mine is cut short"),
            "{said}"
        );
        assert!(!models.exists());
    }

    #[test]
    fn added_manifest_is_there_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("mine.onnx");
        fs::write(&outside, "weights").unwrap();
        fs::write(dir.path().join("mine.toml"), own("mine")).unwrap();
        let models = dir.path().join("models");
        Zoo::with_dir(&models)
            .add(&outside, None, None, None, &opens)
            .unwrap();
        let resolved = Zoo::with_dir(&models).resolve("mine").unwrap();
        assert_eq!(resolved.path, models.join("mine.onnx"));
    }

    #[test]
    fn an_add_that_fails_half_way_leaves_nothing_that_is_not_what_it_says() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("mine.onnx");
        fs::write(dir.path().join("mine.toml"), own("mine")).unwrap();
        let models = dir.path().join("models");
        let add = |weights: &str| {
            fs::write(&outside, weights).unwrap();
            Zoo::with_dir(&models).add(&outside, None, None, None, &opens)
        };
        add("weights").unwrap();
        // A folder stands where the file goes, so it never comes there.
        let file = models.join("mine.onnx");
        fs::remove_file(&file).unwrap();
        fs::create_dir_all(file.join("full")).unwrap();
        add("other weights").unwrap_err();
        fs::remove_dir_all(&file).unwrap();
        fs::write(&file, "weights").unwrap();
        let verified = Zoo::with_dir(&models).verify("mine").unwrap();
        assert_eq!(verified.against, Against::Nothing);

        let part = models.join("mine.onnx.part");
        fs::write(&part, "of a pull").unwrap();
        add("third weights").unwrap();
        assert_eq!(fs::read_to_string(&part).unwrap(), "of a pull");
        let names = fs::read_dir(&models).unwrap();
        let names: Vec<_> = names.map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names.len(), 4, "{names:?}");
    }

    /// A model with a vocabulary whose text is `merges`, in a folder of its own.
    fn with_parts(folder: &Path, merges: &str) -> PathBuf {
        fs::create_dir_all(folder).unwrap();
        let mut hasher = digest::Hasher::default();
        hasher.update(merges.as_bytes());
        let clip = include_str!("../zoo/clip-vit-b-32.toml");
        let sum = "924691ac288e54409236115652ad4aa250f48203de50a9e4722a6ecd48d6804a";
        let text = clip
            .replace(sum, &hasher.finish().to_string())
            .replace("\"clip-vit-b-32\"", "\"mine\"")
            .replace("clip/ViT-B-32", "clip/RN50");
        fs::write(folder.join("mine.toml"), text).unwrap();
        fs::write(folder.join("mine.onnx"), "pictures").unwrap();
        fs::write(folder.join("clip-vit-b-32-text.onnx"), "texts").unwrap();
        fs::write(folder.join("bpe_simple_vocab_16e6.txt.gz"), merges).unwrap();
        folder.join("mine.onnx")
    }

    #[test]
    fn a_model_answers_to_the_names_it_stands_for_and_is_here_only_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        with_parts(dir.path(), "merges");
        let zoo = Zoo::with_dir(dir.path());
        let resolved = zoo.resolve("clip/RN50").unwrap();
        assert_eq!(resolved.manifest.name, "mine");
        let vocabulary = &resolved.manifest.text.as_ref().unwrap().vocabulary;
        assert_eq!(resolved.read_part(vocabulary, 100).unwrap(), b"merges");
        let large = resolved.read_part(vocabulary, 3).unwrap_err().to_string();
        assert!(large.contains("larger than 3 bytes"), "{large}");
        assert!(zoo.verify("mine").is_ok());

        fs::write(dir.path().join("bpe_simple_vocab_16e6.txt.gz"), "others").unwrap();
        let other = resolved.read_part(vocabulary, 100).unwrap_err().to_string();
        assert!(
            other.contains("manifest `mine` means the file with"),
            "{other}"
        );
        assert!(zoo.verify("mine").is_err());

        fs::remove_file(dir.path().join("clip-vit-b-32-text.onnx")).unwrap();
        let missing = zoo.resolve("clip/RN50").unwrap_err().to_string();
        assert!(
            missing.contains("model `mine` needs") && missing.contains("-text.onnx"),
            "{missing}"
        );
        let listed = zoo.list().into_iter().find(|m| m.name == "mine").unwrap();
        assert_eq!(listed.state, ModelState::Absent);
    }

    #[test]
    fn a_name_that_nothing_stands_for_is_told_with_what_would() {
        let zoo = Zoo::builtin();
        let absent = zoo.resolve("clip/ViT-B-32").unwrap_err().to_string();
        assert!(absent.contains("--like clip-vit-b-32"), "{absent}");
        let unknown = zoo.resolve("clip/RN50").unwrap_err().to_string();
        assert!(
            unknown.contains("stands_for = [\"clip/RN50\"]"),
            "{unknown}"
        );
    }

    #[test]
    fn what_belongs_to_a_model_is_added_with_it_and_never_in_the_place_of_something_else() {
        let dir = tempfile::tempdir().unwrap();
        let models = dir.path().join("models");
        let network = with_parts(&dir.path().join("one"), "merges");
        let mut zoo = Zoo::with_dir(&models);
        zoo.add(&network, None, None, None, &opens).unwrap();
        assert!(Zoo::with_dir(&models).verify("clip/RN50").is_ok());
        // The same again changes nothing; another vocabulary of that name is refused, and so is a model without one.
        zoo.add(&network, None, None, None, &opens).unwrap();
        let other = with_parts(&dir.path().join("two"), "other merges");
        let taken = zoo.add(&other, None, None, Some("theirs"), &opens);
        assert!(
            matches!(taken, Err(ZooError::PartTaken { .. })),
            "{taken:?}"
        );
        let bare = with_parts(&dir.path().join("three"), "merges");
        fs::remove_file(bare.with_file_name("clip-vit-b-32-text.onnx")).unwrap();
        let fresh = dir.path().join("fresh");
        let missing = Zoo::with_dir(&fresh).add(&bare, None, None, None, &opens);
        assert!(
            matches!(missing, Err(ZooError::PartAbsent { .. })),
            "{missing:?}"
        );
        assert!(!fresh.join("mine.onnx").exists() && !fresh.join("mine.toml").exists());
    }

    #[test]
    fn an_endless_manifest_is_refused_and_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let huge = fs::File::create(dir.path().join("huge.toml")).unwrap();
        huge.set_len(1 << 40).unwrap();
        let zoo = Zoo::with_dir(dir.path());
        let problem = zoo.problems()[0].to_string();
        assert!(problem.contains("larger than 1048576 bytes"), "{problem}");
    }

    #[test]
    fn a_pull_has_every_file_of_a_model_and_the_network_last() {
        let dir = tempfile::tempdir().unwrap();
        let zoo = Zoo::with_dir(dir.path());
        let mirror = Some("http://mirror/models/");
        let sum = Trust::Sum("0".repeat(64).parse().unwrap());
        let plans = zoo.pull_plan("pp-ocr-v4", sum, mirror).unwrap();
        let urls: Vec<_> = plans.iter().map(|plan| plan.url.as_str()).collect();
        assert_eq!(
            urls,
            [
                "http://mirror/models/ch_PP-OCRv4_det_infer.onnx",
                "http://mirror/models/pp-ocr-v4.onnx"
            ]
        );
        assert!(
            plans
                .iter()
                .all(|plan| plan.sha256.is_some() && plan.bytes.is_some())
        );
        assert_eq!(plans[0].trust, Trust::KnownOnly, "the sum is the network's");
        let clip = zoo
            .pull_plan("clip-vit-b-32", Trust::FirstUse, mirror)
            .unwrap();
        assert_eq!(clip.len(), 3);
        assert_eq!(clip[2].target, dir.path().join("clip-vit-b-32.onnx"));
    }

    #[test]
    fn a_pull_puts_nothing_in_the_place_of_what_is_not_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let mirror = Some("http://mirror/models/");
        let plan = |name: &str| Zoo::with_dir(dir.path()).pull_plan(name, Trust::FirstUse, mirror);
        let vocabulary = dir.path().join("bpe_simple_vocab_16e6.txt.gz");
        fs::write(&vocabulary, "somebody's own").unwrap();
        let taken = plan("clip-vit-b-32").unwrap_err();
        assert!(matches!(taken, ZooError::PartTaken { .. }), "{taken}");
        assert!(taken.to_string().contains("bpe_simple_vocab"), "{taken}");
        // One that was fetched for it and was damaged since is fetched again.
        let record = dir.path().join("bpe_simple_vocab_16e6.txt.gz.sha256");
        fs::write(&record, format!("{}  vocabulary\n", "0".repeat(64))).unwrap();
        assert_eq!(plan("clip-vit-b-32").unwrap().len(), 3);
        // But not where another model means another file by that name.
        with_parts(dir.path(), "merges");
        let text = dir.path().join("clip-vit-b-32-text.onnx");
        fs::remove_file(&text).unwrap();
        let taken = plan("clip-vit-b-32").unwrap_err();
        assert!(matches!(taken, ZooError::PartTaken { .. }), "{taken}");
        // The same file belongs to whoever names it.
        assert_eq!(plan("mine").unwrap().len(), 3);
        // What nothing is known of is not overwritten either.
        fs::write(&text, "texts").unwrap();
        let unknown = plan("mine").unwrap_err();
        assert!(matches!(unknown, ZooError::PartUnknown { .. }), "{unknown}");
    }

    #[test]
    fn a_file_of_one_model_is_never_the_network_of_another() {
        let dir = tempfile::tempdir().unwrap();
        let network = with_parts(dir.path(), "merges");
        let own = dir.path().join("mine.toml");
        let text = fs::read_to_string(&own).unwrap();
        for other in ["yolox-nano", "mine"] {
            let renamed = text.replace("clip-vit-b-32-text.onnx", &format!("{other}.onnx"));
            fs::write(&own, renamed).unwrap();
            let plan =
                Zoo::with_dir(dir.path()).pull_plan("mine", Trust::FirstUse, Some("http://m"));
            let told = plan.unwrap_err().to_string();
            assert!(told.contains(&format!("of the model `{other}`")), "{told}");
            let mut zoo = Zoo::with_dir(dir.path().join("models"));
            let added = zoo.add(&network, None, None, None, &opens);
            assert!(
                matches!(added, Err(ZooError::PartIsNetwork { .. })),
                "{added:?}"
            );
        }
        // Nor is a network given the name of a file that belongs to a model.
        fs::write(&own, text).unwrap();
        let added = Zoo::with_dir(dir.path().join("models")).add(
            &network,
            None,
            None,
            Some("clip-vit-b-32-text"),
            &opens,
        );
        assert!(
            matches!(added, Err(ZooError::PartIsNetwork { .. })),
            "{added:?}"
        );
    }

    #[test]
    fn pull_prefers_a_file_whose_checksum_is_known() {
        let zoo = Zoo::with_dir("models");
        let plans = zoo.pull_plan("yolox-nano", Trust::KnownOnly, None).unwrap();
        assert!(plans.len() == 1 && plans[0].sha256.is_some());
        let plans = zoo.pull_plan("yolox-s", Trust::KnownOnly, None).unwrap();
        assert!(plans[0].sha256.is_none() && plans[0].url.contains("0.1.1rc0"));
        let none = zoo.pull_plan("yolov8n", Trust::KnownOnly, None);
        assert!(matches!(none, Err(ZooError::NotPublished { .. })));
    }
}
