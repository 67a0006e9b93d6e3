//! Sets of reference pictures as files: `NAME/SHA256.json` beside `NAME/SHA256.img`.
//!
//! - A picture is in its set once its `.json` is on stable storage; the `.img` comes before it.
//! - Removing deletes the `.json` first. An `.img` without one is a leftover, which the next
//!   change of its set deletes.
//! - At most [`MAX_SETS`] sets, [`MAX_PICTURES`] in a set and [`MAX_BYTES`] of all; a further
//!   picture is refused.
//! - A damaged `.json` is skipped and logged: its picture has to be added again.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

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
/// Most numbers of a vector.
const MAX_NUMBERS: usize = 8192;
/// Longest name of a file that is kept, in characters.
const MAX_FILE_NAME: usize = 120;

/// A vector with the model that computed it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredVector {
    pub model: String,
    /// Digest of model and preparation; only vectors of one digest are comparable.
    pub digest: String,
    pub vector: Vec<f32>,
}

/// What is known of a reference picture.
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
pub type Sets = BTreeMap<String, Vec<ReferencePicture>>;

/// Why a set can't be changed or read.
#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    #[error("{0:?} is no name of a set; use 1 to 40 of a-z, 0-9, '-' and '_'")]
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
    #[error("{}: the stored picture is damaged; remove it and add it again", .0.display())]
    Damaged(PathBuf),
    #[error("{}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// All sets of a box. One process changes them.
#[derive(Debug)]
pub struct ReferenceStore {
    folder: PathBuf,
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
                    pictures.push(picture);
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
    /// Opens the sets in `folder`. Blocks, as all of it does.
    ///
    /// # Errors
    /// When the folder can't be read.
    pub fn open(folder: PathBuf) -> Result<Self, ReferenceError> {
        let sets = read_sets(&folder).map_err(at(&folder))?;
        let sets = Mutex::new(sets);
        Ok(Self { folder, sets })
    }

    /// Ignores poisoning: a change is made on disk first, then here.
    fn lock(&self) -> MutexGuard<'_, Sets> {
        self.sets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All sets as they are now.
    #[must_use]
    pub fn sets(&self) -> Sets {
        self.lock().clone()
    }

    /// The pictures of one set.
    ///
    /// # Errors
    /// [`ReferenceError::UnknownSet`] with the names that there are.
    pub fn set(&self, name: &str) -> Result<Vec<ReferencePicture>, ReferenceError> {
        let sets = self.lock();
        sets.get(name).cloned().ok_or_else(|| unknown(name, &sets))
    }

    /// Adds a picture, durable on return. One that the set has is returned as it is.
    ///
    /// # Errors
    /// If the name, the picture or a bound refuses it, or the disk.
    pub fn add(
        &self,
        set: &str,
        content: &[u8],
        new: ReferencePicture,
    ) -> Result<ReferencePicture, ReferenceError> {
        if !is_set_name(set) {
            return Err(ReferenceError::Name(set.chars().take(60).collect()));
        }
        picture::check(&[content])?;
        let sha256 = hash_of(content);
        let mut sets = self.lock();
        let pictures = sets.get(set).map_or(&[][..], Vec::as_slice);
        if let Some(known) = pictures.iter().find(|known| known.sha256 == sha256) {
            return Ok(known.clone());
        }
        let bytes: u64 = sets.values().flatten().map(|picture| picture.bytes).sum();
        if pictures.is_empty() && sets.len() >= MAX_SETS {
            return Err(ReferenceError::TooManySets);
        }
        if pictures.len() >= MAX_PICTURES {
            return Err(ReferenceError::TooManyPictures(set.to_owned()));
        }
        if bytes + content.len() as u64 > MAX_BYTES {
            return Err(ReferenceError::TooManyBytes);
        }
        let folder = self.folder.join(set);
        make_private(&folder).map_err(at(&folder))?;
        for above in [Some(&*self.folder), self.folder.parent()]
            .into_iter()
            .flatten()
        {
            sync_folder(above).map_err(at(above))?;
        }
        let path = folder.join(format!("{sha256}.img"));
        replace(&path, content).map_err(at(&path))?;
        let added = ReferencePicture {
            file: plain(&new.file),
            bytes: content.len() as u64,
            sha256,
            ..new
        };
        self.write(set, &added)?;
        sets.entry(set.to_owned()).or_default().push(added.clone());
        Ok(added)
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
    /// When it is damaged or can't be read.
    pub fn content(&self, set: &str, sha256: &str) -> Result<Vec<u8>, ReferenceError> {
        let path = self.folder.join(set).join(format!("{sha256}.img"));
        let content = fs::read(&path).map_err(at(&path))?;
        match hash_of(&content) == sha256 {
            true => Ok(content),
            false => Err(ReferenceError::Damaged(path)),
        }
    }

    /// Stores the vector of a picture. Does nothing if it was removed meanwhile.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn save_vector(
        &self,
        set: &str,
        sha256: &str,
        vector: StoredVector,
    ) -> Result<(), ReferenceError> {
        let is_sound = (1..=MAX_NUMBERS).contains(&vector.vector.len())
            && vector.vector.iter().all(|number| number.is_finite());
        let mut sets = self.lock();
        let picture = sets.get_mut(set).into_iter().flatten();
        let picture = picture.into_iter().find(|picture| picture.sha256 == sha256);
        if let (Some(picture), true) = (picture, is_sound) {
            let changed = ReferencePicture {
                vector: Some(vector),
                ..picture.clone()
            };
            self.write(set, &changed)?;
            *picture = changed;
        }
        Ok(())
    }

    /// Removes a picture by its file or the begin of its SHA-256, or the whole set. Returns how
    /// many were removed.
    ///
    /// # Errors
    /// If there is no such set or picture, or the disk refuses; what was removed before stays so.
    pub fn remove(&self, set: &str, wanted: Option<&str>) -> Result<usize, ReferenceError> {
        let mut sets = self.lock();
        let pictures = sets.get(set).ok_or_else(|| unknown(set, &sets))?;
        let doomed = match wanted {
            None => pictures.clone(),
            Some(wanted) => vec![find(set, pictures, wanted)?.clone()],
        };
        let folder = self.folder.join(set);
        for picture in &doomed {
            let path = folder.join(format!("{}.json", picture.sha256));
            fs::remove_file(&path).map_err(at(&path))?;
            sync_folder(&folder).map_err(at(&folder))?;
            if let Some(left) = sets.get_mut(set) {
                left.retain(|other| other.sha256 != picture.sha256);
            }
        }
        sets.retain(|_, pictures| !pictures.is_empty());
        remove_leftovers(&folder, sets.get(set).map_or(&[], Vec::as_slice));
        Ok(doomed.len())
    }
}

/// Finds the picture of this file name, or whose SHA-256 begins so.
fn find<'a>(
    set: &str,
    pictures: &'a [ReferencePicture],
    wanted: &str,
) -> Result<&'a ReferencePicture, ReferenceError> {
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

/// Deletes files of pictures that are in no record, and a folder that is empty then.
fn remove_leftovers(folder: &Path, pictures: &[ReferencePicture]) {
    for file in entries(folder).unwrap_or_default() {
        let stem = file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if !pictures.iter().any(|picture| picture.sha256 == stem)
            && let Err(error) = fs::remove_file(&file)
        {
            tracing::warn!(file = %file.display(), %error, "references: a leftover stays");
        }
    }
    if pictures.is_empty()
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
mod tests {
    use std::io::Cursor;

    use image::{DynamicImage, ImageFormat, Rgb, RgbImage};
    use watchkeeper_contract::time::TimeQuality;

    use super::*;

    fn png(shade: u8) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        let picture = RgbImage::from_pixel(8, 8, Rgb([shade; 3]));
        DynamicImage::ImageRgb8(picture)
            .write_to(&mut bytes, ImageFormat::Png)
            .unwrap();
        bytes.into_inner()
    }

    fn new(file: &str, unix_ms: i64) -> ReferencePicture {
        ReferencePicture {
            file: file.to_owned(),
            sha256: String::new(),
            bytes: 0,
            added: Wall {
                unix_ms,
                quality: TimeQuality::Synced,
            },
            event: None,
            vector: None,
        }
    }

    fn vector(model: &str) -> StoredVector {
        StoredVector {
            model: model.to_owned(),
            digest: "d".to_owned(),
            vector: vec![0.6, 0.8],
        }
    }

    #[test]
    fn sets_survive_a_restart_with_their_vectors() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join(FOLDER);
        let store = ReferenceStore::open(folder.clone()).unwrap();
        let first = store.add("truck", &png(1), new("a.png", 2)).unwrap();
        let second = store.add("truck", &png(2), new("b.png", 1)).unwrap();
        let again = store.add("truck", &png(1), new("c.png", 3)).unwrap();
        assert_eq!(again, first, "the same picture is in the set once");
        store
            .save_vector("truck", &first.sha256, vector("m"))
            .unwrap();
        let store = ReferenceStore::open(folder.clone()).unwrap();
        let files = |store: &ReferenceStore| -> Vec<String> {
            let pictures = store.set("truck").unwrap();
            pictures.into_iter().map(|picture| picture.file).collect()
        };
        assert_eq!(files(&store), ["b.png", "a.png"]);
        assert_eq!(store.set("truck").unwrap()[1].vector, Some(vector("m")));
        assert_eq!(store.content("truck", &first.sha256).unwrap(), png(1));
        assert_eq!(store.remove("truck", Some("a.png")).unwrap(), 1);
        assert_eq!(store.remove("truck", Some(&second.sha256[..8])).unwrap(), 1);
        let why = store.set("truck").unwrap_err().to_string();
        assert!(why.contains("watchkeeper reference add"), "{why}");
        assert!(!folder.join("truck").exists());
    }

    #[test]
    fn killed_addition_leaves_no_picture_in_the_set() {
        let dir = tempfile::tempdir().unwrap();
        let store = ReferenceStore::open(dir.path().to_owned()).unwrap();
        store.add("truck", &png(1), new("a.png", 1)).unwrap();
        // Killed between the picture and its record, and while the record was written.
        for left in ["00.img", ".11.json.tmp"] {
            fs::write(dir.path().join("truck").join(left), b"{").unwrap();
        }
        let store = ReferenceStore::open(dir.path().to_owned()).unwrap();
        assert_eq!(store.set("truck").unwrap().len(), 1);
        store.remove("truck", None).unwrap();
        assert!(!dir.path().join("truck").exists(), "leftovers are gone");
    }

    #[test]
    fn refusals_name_the_bound_and_the_picture() {
        let dir = tempfile::tempdir().unwrap();
        let store = ReferenceStore::open(dir.path().to_owned()).unwrap();
        for (set, content, why) in [
            ("../up", png(1), "is no name of a set"),
            ("truck", b"GIF89a".to_vec(), "neither JPEG, PNG nor WebP"),
            ("truck", Vec::new(), "is empty"),
        ] {
            let refused = store
                .add(set, &content, new("x", 1))
                .unwrap_err()
                .to_string();
            assert!(refused.contains(why), "{refused}");
        }
        let added = store.add("truck", &png(1), new("x", 1)).unwrap();
        let path = dir
            .path()
            .join("truck")
            .join(format!("{}.img", added.sha256));
        fs::write(&path, png(2)).unwrap();
        let damaged = store.content("truck", &added.sha256);
        assert!(
            matches!(damaged, Err(ReferenceError::Damaged(_))),
            "{damaged:?}"
        );
        for n in 2..=u8::try_from(MAX_PICTURES).unwrap() {
            store.add("truck", &png(n), new("x", 1)).unwrap();
        }
        let full = store.add("truck", &png(255), new("x", 1)).unwrap_err();
        assert!(matches!(full, ReferenceError::TooManyPictures(_)), "{full}");
        let many = store.remove("truck", Some("x")).unwrap_err();
        assert!(matches!(many, ReferenceError::Ambiguous { .. }), "{many}");
    }
}
