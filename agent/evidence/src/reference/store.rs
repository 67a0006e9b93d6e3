//! Sets of reference pictures as files: `NAME/SHA256.json` beside `NAME/SHA256.img`.
//!
//! - A picture is in its set once its `.json` is on stable storage; the `.img` comes before it.
//! - Removing deletes the `.json` first. An `.img` without one is a leftover, which the next
//!   opening deletes, and the next removal in its set.
//! - Readers never wait for the disk; one change at a time does.
//! - At most [`MAX_SETS`] sets, [`MAX_PICTURES`] in a set and [`MAX_BYTES`] of all; a further
//!   picture is refused.
//! - A damaged `.json` is skipped and logged: its picture has to be added again.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::rule::is_set_name;
use watchkeeper_contract::time::Wall;
use watchkeeper_store::chain::Hash;
use watchkeeper_store::durable::{replace, sync_folder};
use watchkeeper_store::private_folder::make_private;

use crate::picture::{self, PictureError};

/// Folder of all sets below the state folder.
pub const FOLDER: &str = "references";
/// Most sets of a box.
pub const MAX_SETS: usize = 64;
/// Most pictures of a set.
pub const MAX_PICTURES: usize = 200;
/// Most bytes of all pictures.
pub const MAX_BYTES: u64 = 512 << 20;
/// Most numbers of an embedding.
const MAX_NUMBERS: usize = 8192;
/// Longest name of a file that is kept, in characters.
const MAX_FILE_NAME: usize = 120;

/// An embedding with the model that computed it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredVector {
    pub model: String,
    /// Digest of model and preparation; only those of one digest are comparable.
    pub digest: String,
    pub vector: Vec<f32>,
}

/// A reference picture and its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReferencePicture {
    /// Name of the file that it came from, or of its event.
    pub file: String,
    pub sha256: String,
    pub bytes: u64,
    pub added: Wall,
    /// Record of the event whose picture it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<EventSeq>,
    /// Absent until it is computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vector: Option<StoredVector>,
}

/// Sets by name, each in the order in which its pictures were added.
pub type Sets = BTreeMap<String, Vec<Arc<ReferencePicture>>>;

/// Why a set can't be changed or read.
#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    #[error("{0:?} is not a valid name of a set; use 1 to 40 of a-z, 0-9, '-' and '_'")]
    Name(String),
    #[error("there is no reference set {name}; there are {known}")]
    UnknownSet { name: String, known: String },
    #[error("{set} has no picture {wanted:?}; `watchkeeper reference show {set}` lists them")]
    UnknownPicture { set: String, wanted: String },
    #[error("{wanted:?} fits several pictures of {set}; name one by more of its SHA-256")]
    Ambiguous { set: String, wanted: String },
    #[error("there are {MAX_SETS} reference sets; remove one first")]
    TooManySets,
    #[error("{0} has {MAX_PICTURES} pictures; remove one first, or use another set")]
    TooManyPictures(String),
    #[error("reference pictures have {MAX_BYTES} bytes at most; remove some first")]
    TooManyBytes,
    #[error(transparent)]
    Picture(#[from] PictureError),
    #[error("the reference sets could not be read at the agent's start: {0}")]
    Closed(String),
    #[error("{}: the stored picture is damaged or missing; remove it and add it again", .0.display())]
    Damaged(PathBuf),
    #[error(
        "the embedding by {model} has {numbers} numbers; 1 to {MAX_NUMBERS} finite ones are kept; \
         set agent.references.model to another model"
    )]
    Embedding { model: String, numbers: usize },
    #[error(
        "nothing was changed: the audit log can't be written: {0}; free space on its disk, or \
         correct the permissions of its folder"
    )]
    Audit(io::Error),
    #[error("{}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// All sets of a box. One process changes them.
#[derive(Debug)]
pub struct ReferenceStore {
    folder: PathBuf,
    /// Held by a change until it is on stable storage.
    changes: Mutex<()>,
    /// Never held while a file is read or written.
    sets: Mutex<Sets>,
}

/// Reads the sets in `folder` without changing anything. No folder means no sets.
///
/// # Errors
/// When the folder can't be read.
pub fn read_sets(folder: &Path) -> io::Result<Sets> {
    let mut sets = Sets::new();
    for entry in entries(folder)? {
        let name = entry
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if !is_set_name(&name) || !entry.is_dir() {
            continue;
        }
        let mut pictures = Vec::new();
        for file in entries(&entry)? {
            if file.extension().is_none_or(|ending| ending != "json") || is_hidden(&file) {
                continue;
            }
            let record = fs::read(&file)?;
            match serde_json::from_slice::<ReferencePicture>(&record) {
                Ok(picture)
                    if file
                        .file_stem()
                        .is_some_and(|stem| stem == &*picture.sha256) =>
                {
                    pictures.push(Arc::new(picture));
                }
                _ => tracing::warn!(file = %file.display(), "references: skipped a damaged record"),
            }
        }
        pictures.sort_by(|a, b| (a.added.unix_ms, &a.sha256).cmp(&(b.added.unix_ms, &b.sha256)));
        if !pictures.is_empty() {
            sets.insert(name, pictures);
        }
    }
    Ok(sets)
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let found = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        found => found?,
    };
    found.map(|entry| entry.map(|entry| entry.path())).collect()
}

/// Whether it is a file that a killed run was writing.
fn is_hidden(file: &Path) -> bool {
    file.file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with('.'))
}

fn at(path: &Path) -> impl Fn(io::Error) -> ReferenceError {
    move |source| ReferenceError::Io {
        path: path.to_owned(),
        source,
    }
}

impl ReferenceStore {
    /// Opens the sets in `folder`, and deletes what a killed run left there. Blocks, as all of it
    /// does.
    ///
    /// # Errors
    /// When the folder can't be read.
    pub fn open(folder: PathBuf) -> Result<Self, ReferenceError> {
        let sets = read_sets(&folder).map_err(at(&folder))?;
        for set in entries(&folder).map_err(at(&folder))? {
            let is_set = set
                .file_name()
                .is_some_and(|name| is_set_name(&name.to_string_lossy()));
            if is_set && set.is_dir() {
                remove_files(&set, is_leftover);
            }
        }
        Ok(Self {
            folder,
            changes: Mutex::default(),
            sets: Mutex::new(sets),
        })
    }

    /// All sets as they are now.
    #[must_use]
    pub fn sets(&self) -> Sets {
        self.sets.lock().clone()
    }

    /// The pictures of one set.
    ///
    /// # Errors
    /// [`ReferenceError::UnknownSet`] with the names that there are.
    pub fn set(&self, name: &str) -> Result<Vec<Arc<ReferencePicture>>, ReferenceError> {
        let sets = self.sets.lock();
        sets.get(name).cloned().ok_or_else(|| unknown(name, &sets))
    }

    /// Adds a picture, durable on return. One that the set has is returned unchanged. `record`
    /// writes the audit log before anything is changed.
    ///
    /// # Errors
    /// If the name, the picture or a bound refuses it, `record`, or the disk.
    pub fn add(
        &self,
        set: &str,
        content: &[u8],
        new: ReferencePicture,
        record: impl FnOnce(&ReferencePicture) -> io::Result<()>,
    ) -> Result<Arc<ReferencePicture>, ReferenceError> {
        if !is_set_name(set) {
            return Err(ReferenceError::Name(set.chars().take(60).collect()));
        }
        picture::check(&[content])?;
        let added = ReferencePicture {
            file: plain(&new.file),
            bytes: content.len() as u64,
            sha256: hash_of(content),
            ..new
        };
        let _change = self.changes.lock();
        if let Some(known) = self.find_or_admit(set, &added)? {
            return Ok(known);
        }
        record(&added).map_err(ReferenceError::Audit)?;
        let folder = self.folder.join(set);
        make_private(&folder).map_err(at(&folder))?;
        for above in [Some(&*self.folder), self.folder.parent()]
            .into_iter()
            .flatten()
        {
            sync_folder(above).map_err(at(above))?;
        }
        let path = folder.join(format!("{}.img", added.sha256));
        replace(&path, content).map_err(at(&path))?;
        self.write(set, &added)?;
        let added = Arc::new(added);
        let mut sets = self.sets.lock();
        sets.entry(set.to_owned())
            .or_default()
            .push(Arc::clone(&added));
        Ok(added)
    }

    /// Returns the picture if the set has it; else checks the bounds.
    fn find_or_admit(
        &self,
        set: &str,
        new: &ReferencePicture,
    ) -> Result<Option<Arc<ReferencePicture>>, ReferenceError> {
        let sets = self.sets.lock();
        let pictures = sets.get(set).map_or(&[][..], Vec::as_slice);
        if let Some(known) = pictures.iter().find(|known| known.sha256 == new.sha256) {
            return Ok(Some(Arc::clone(known)));
        }
        let bytes: u64 = sets.values().flatten().map(|picture| picture.bytes).sum();
        if pictures.is_empty() && sets.len() >= MAX_SETS {
            return Err(ReferenceError::TooManySets);
        }
        if pictures.len() >= MAX_PICTURES {
            return Err(ReferenceError::TooManyPictures(set.to_owned()));
        }
        if bytes + new.bytes > MAX_BYTES {
            return Err(ReferenceError::TooManyBytes);
        }
        Ok(None)
    }

    fn write(&self, set: &str, picture: &ReferencePicture) -> Result<(), ReferenceError> {
        let path = self
            .folder
            .join(set)
            .join(format!("{}.json", picture.sha256));
        // Plain data with finite numbers: serde_json can't fail on it.
        let record = serde_json::to_vec(picture).unwrap_or_default();
        replace(&path, &record).map_err(at(&path))
    }

    /// Reads a picture and compares it with its hash.
    ///
    /// # Errors
    /// [`ReferenceError::Damaged`], also when it is missing, or the disk fails.
    pub fn content(&self, set: &str, sha256: &str) -> Result<Vec<u8>, ReferenceError> {
        let path = self.folder.join(set).join(format!("{sha256}.img"));
        match fs::read(&path) {
            Ok(content) if hash_of(&content) == sha256 => Ok(content),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(&path)(error)),
            _ => Err(ReferenceError::Damaged(path)),
        }
    }

    /// Stores the embedding of a picture. Does nothing if it was removed meanwhile.
    ///
    /// # Errors
    /// [`ReferenceError::Embedding`], or when the disk refuses.
    pub fn save_vector(
        &self,
        set: &str,
        sha256: &str,
        vector: StoredVector,
    ) -> Result<(), ReferenceError> {
        let numbers = vector.vector.len();
        let are_finite = vector.vector.iter().all(|number| number.is_finite());
        if !(1..=MAX_NUMBERS).contains(&numbers) || !are_finite {
            let model = vector.model;
            return Err(ReferenceError::Embedding { model, numbers });
        }
        let _change = self.changes.lock();
        let pictures = self.sets.lock().get(set).cloned().unwrap_or_default();
        let mut numbered = pictures.iter().enumerate();
        let Some((nth, known)) = numbered.find(|(_, known)| known.sha256 == sha256) else {
            return Ok(());
        };
        let changed = ReferencePicture {
            vector: Some(vector),
            ..ReferencePicture::clone(known)
        };
        self.write(set, &changed)?;
        // No other change came between.
        if let Some(place) = self
            .sets
            .lock()
            .get_mut(set)
            .and_then(|all| all.get_mut(nth))
        {
            *place = Arc::new(changed);
        }
        Ok(())
    }

    /// Removes a picture by its file or the first characters of its SHA-256, or the whole set.
    /// `record` writes the audit log before anything is changed. Returns how many were removed.
    ///
    /// # Errors
    /// If there is no such set or picture, if `record` fails, or the disk refuses; what was removed
    /// before stays so.
    pub fn remove(
        &self,
        set: &str,
        wanted: Option<&str>,
        record: impl FnOnce(&[Arc<ReferencePicture>]) -> io::Result<()>,
    ) -> Result<usize, ReferenceError> {
        let _change = self.changes.lock();
        let pictures = self.set(set)?;
        let doomed = match wanted {
            None => pictures,
            Some(wanted) => vec![Arc::clone(find(set, &pictures, wanted)?)],
        };
        record(&doomed).map_err(ReferenceError::Audit)?;
        let folder = self.folder.join(set);
        for picture in &doomed {
            let path = folder.join(format!("{}.json", picture.sha256));
            fs::remove_file(&path).map_err(at(&path))?;
            sync_folder(&folder).map_err(at(&folder))?;
            let mut sets = self.sets.lock();
            if let Some(left) = sets.get_mut(set) {
                left.retain(|other| other.sha256 != picture.sha256);
            }
            sets.retain(|_, pictures| !pictures.is_empty());
        }
        let left = self.sets.lock().get(set).cloned().unwrap_or_default();
        remove_files(&folder, |file| {
            let stem = file.file_stem().unwrap_or_default().to_string_lossy();
            !left.iter().any(|picture| picture.sha256 == stem)
        });
        Ok(doomed.len())
    }
}

/// Finds the picture of this file name, or whose SHA-256 begins so.
fn find<'a>(
    set: &str,
    pictures: &'a [Arc<ReferencePicture>],
    wanted: &str,
) -> Result<&'a Arc<ReferencePicture>, ReferenceError> {
    let mut found = pictures.iter().filter(|picture| {
        picture.file == wanted || (wanted.len() >= 4 && picture.sha256.starts_with(wanted))
    });
    let (set, wanted) = (set.to_owned(), wanted.to_owned());
    match (found.next(), found.next()) {
        (Some(picture), None) => Ok(picture),
        (None, _) => Err(ReferenceError::UnknownPicture { set, wanted }),
        (Some(_), Some(_)) => Err(ReferenceError::Ambiguous { set, wanted }),
    }
}

/// Whether a killed run left this file: an `.img` without its `.json`, or one that was being
/// written. The picture of a damaged `.json` does not count.
fn is_leftover(file: &Path) -> bool {
    let has_ending = |wanted: &str| file.extension().is_some_and(|ending| ending == wanted);
    match is_hidden(file) {
        true => has_ending("tmp"),
        false => has_ending("img") && !file.with_extension("json").exists(),
    }
}

/// Deletes the files that are `doomed`, and a folder that is empty then.
fn remove_files(folder: &Path, doomed: impl Fn(&Path) -> bool) {
    let files = entries(folder).unwrap_or_default();
    let mut left = files.len();
    for file in files.into_iter().filter(|file| doomed(file)) {
        match fs::remove_file(&file) {
            Ok(()) => left -= 1,
            Err(error) => {
                tracing::warn!(file = %file.display(), %error, "references: a leftover stays");
            }
        }
    }
    if left == 0
        && let Err(error) = fs::remove_dir(folder)
    {
        tracing::debug!(folder = %folder.display(), %error, "references: an empty folder stays");
    }
}

fn unknown(name: &str, sets: &Sets) -> ReferenceError {
    let known: Vec<&str> = sets.keys().map(String::as_str).collect();
    ReferenceError::UnknownSet {
        name: name.chars().take(60).collect(),
        known: match known.is_empty() {
            true => "none; `watchkeeper reference add NAME FILE` makes one".to_owned(),
            false => known.join(", "),
        },
    }
}

fn hash_of(content: &[u8]) -> String {
    Hash::of(content).to_string()
}

fn plain(name: &str) -> String {
    let plain = name.chars().filter(|c| !c.is_control());
    plain.take(MAX_FILE_NAME).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests;
