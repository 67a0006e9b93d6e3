//! The folder of a memory: reading, appending notes, and picking up edits of users.
//!
//! - Every answer and change first reads the files that have changed: a user's edit wins.
//! - A file is only replaced by itself plus a note at its end, or without one note that is
//!   forgotten. This needs the lock of the folder, and a file that has not changed since it was
//!   read.
//! - An unreadable file stays unchanged, is reported, and does not hide the others.
//! - Calls block on the disk: a saved note is synced.

mod active;
mod error;
mod file;
mod forget;
mod layout;
mod limits;
#[cfg(test)]
mod tests;
mod vectors;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use watchkeeper_contract::time::{TimeQuality, Wall};

pub use active::{Active, Revision};
pub use error::{FileError, MemoryError, Problem};
pub use limits::{MAX_DAYS, MAX_FILE_BYTES, MAX_MONTHS};

use crate::embed::Embedder;
use crate::note::{Entry, MAX_TAGS, Note, Origin};
use crate::page::{self, Page, whole_seconds};
use crate::search::{Found, Index, Key, PendingText, Query, Signature, embed};
use file::{Reading, Stamp};
use layout::NoteFile;
use limits::{max_agent_notes, max_files, max_notes};
use vectors::Vectors;

/// Attempts to append while another program changes the file.
const MAX_ATTEMPTS: usize = 3;
const LOCK: &str = ".lock";

/// Place of a saved note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedNote {
    /// Path below the folder.
    pub file: PathBuf,
    /// First line, from 1.
    pub line: usize,
    /// The file had the same note of the same second, so it was not added again.
    pub known: bool,
}

/// State of a file when it was read.
#[derive(Debug)]
struct FileState {
    stamp: Option<Stamp>,
    problems: Vec<Problem>,
}

/// Notes in a folder, with their search index.
#[derive(Debug)]
pub struct Memory {
    folder: PathBuf,
    index: Index,
    /// Stored vectors; `None` if the embedder is fast.
    vectors: Option<Vectors>,
    files: BTreeMap<PathBuf, FileState>,
    /// Files that are not read because of their name or number.
    ignored: Vec<Problem>,
}

impl Memory {
    /// Opens or creates the memory in `folder` and reads all files.
    ///
    /// It embeds no text with a slow embedder ([`Embedder::kept_as`]): [`Memory::wanted`] lists
    /// them.
    ///
    /// # Errors
    /// If the folder can't be created or listed. Errors of files are in [`Memory::problems`].
    pub fn open(folder: &Path, embedder: Arc<dyn Embedder>) -> Result<Self, MemoryError> {
        for name in layout::FOLDERS {
            file::create_folder(&folder.join(name))?;
        }
        let name = embedder.kept_as();
        let vectors = name.and_then(|name| Vectors::open(folder, name, embedder.dimension()));
        let mut memory = Self {
            folder: folder.to_path_buf(),
            index: Index::new(embedder),
            vectors,
            files: BTreeMap::new(),
            ignored: Vec::new(),
        };
        memory.refresh()?;
        Ok(memory)
    }

    /// Reads the files that have changed.
    ///
    /// # Errors
    /// If the folder can't be listed.
    pub fn refresh(&mut self) -> Result<(), MemoryError> {
        let (places, ignored) = layout::list(&self.folder)?;
        self.ignored = ignored;
        let gone: Vec<PathBuf> = {
            let known = self.files.keys();
            known
                .filter(|path| !places.contains_key(*path))
                .cloned()
                .collect()
        };
        for path in gone {
            self.files.remove(&path);
            self.index.remove(&path);
        }
        for place in places.into_values() {
            let stamp = self.files.get(&place.file).and_then(|state| state.stamp);
            let path = self.folder.join(&place.file);
            if stamp.is_some() && stamp == Stamp::read(&path) {
                continue;
            }
            let reading = file::read(&path);
            self.update(place, reading);
        }
        Ok(())
    }

    /// Updates index and problems with the contents of a file.
    fn update(&mut self, place: NoteFile, reading: Result<Reading, FileError>) {
        let (stamp, page) = match reading {
            Ok(reading) => {
                let page = page::read(&reading.bytes, place.kind, place.day);
                (reading.stamp, page.map_err(FileError::from))
            }
            Err(error) => (None, Err(error)),
        };
        let file = place.file.clone();
        let problem = |error| Problem {
            file: file.clone(),
            error,
        };
        let (notes, problems) = match page {
            Ok(Page { notes, errors }) => {
                let problems = errors.into_iter().map(|error| problem(error.into()));
                (notes, problems.collect())
            }
            Err(error) => (Vec::new(), vec![problem(error)]),
        };
        let before = self.files.get(&place.file);
        if before.is_none_or(|state| state.problems != problems) {
            for problem in &problems {
                tracing::warn!("memory: {problem}");
            }
        }
        let vectors = &self.vectors;
        self.index.put(&place.file, place.kind, notes, &mut |key| {
            vectors.as_ref().and_then(|vectors| vectors.get(key))
        });
        self.files.insert(place.file, FileState { stamp, problems });
    }

    /// Lists what the last refresh could not read.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        let of_files = self.files.values().flat_map(|state| &state.problems);
        self.ignored.iter().chain(of_files)
    }

    /// Number of notes.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Finds notes, the best first.
    ///
    /// # Errors
    /// If the folder can't be listed.
    pub fn search(&mut self, query: Query) -> Result<Vec<Found>, MemoryError> {
        self.refresh()?;
        Ok(self.index.search(&query.bounded()))
    }

    /// Number of notes without a vector yet; the search finds them by their words.
    pub fn waiting(&self) -> usize {
        self.index.waiting()
    }

    /// Returns up to `max` texts to embed, those of the newest files first.
    ///
    /// It first loads the vectors that another process has stored meanwhile.
    pub fn wanted(&mut self, max: usize) -> Vec<PendingText> {
        if self.waiting() == 0 {
            return Vec::new();
        }
        if let Some(vectors) = self.vectors.as_mut()
            && vectors.refresh()
        {
            let pending = self.index.wanted(usize::MAX).into_iter();
            let stored = pending.filter_map(|text| {
                let vector = vectors.get(text.key())?;
                Some((text.key(), Some(vector)))
            });
            self.index.learn(&stored.collect());
        }
        self.index.wanted(max)
    }

    /// Takes and stores the vectors of texts from [`Memory::wanted`].
    ///
    /// `None` is a text that the embedder refused: until the next start only its words are
    /// searched.
    pub fn learn(&mut self, vectors: Vec<(PendingText, Option<Vec<f32>>)>) {
        let vectors = vectors.into_iter().map(|(text, vector)| {
            (
                text.key(),
                vector.map(|vector| Signature::from_vector(&vector)),
            )
        });
        self.add_vectors(&vectors.collect());
    }

    /// Embeds and stores up to `max` pending texts and returns their number. For tests and
    /// benchmarks; the agent computes vectors outside of its lock, from [`Memory::wanted`].
    pub fn embed_some(&mut self, max: usize) -> usize {
        let embedder = Arc::clone(self.index.embedder());
        let pending = self.wanted(max).into_iter();
        let vectors = pending.map(|text| (text.key(), embed(embedder.as_ref(), text.text())));
        let vectors: BTreeMap<Key, Option<Signature>> = vectors.collect();
        self.add_vectors(&vectors);
        vectors.len()
    }

    fn add_vectors(&mut self, new: &BTreeMap<Key, Option<Signature>>) {
        if new.is_empty() {
            return;
        }
        self.index.learn(new);
        let index = &self.index;
        if let Some(vectors) = self.vectors.as_mut() {
            vectors.add(new, index.len(), || index.keys());
        }
    }

    /// Returns the notes that match the filters of `query`, the newest first, at most
    /// [`Query::limit`]; undated notes are last. The text of the query is ignored.
    ///
    /// # Errors
    /// If the folder can't be listed.
    pub fn list(&mut self, query: &Query) -> Result<Vec<Found>, MemoryError> {
        self.refresh()?;
        let mut found: Vec<Found> = self.index.matching(query).collect();
        // Within a second, the later note in the file is newer.
        found.reverse();
        found.sort_by_key(|found| std::cmp::Reverse(found.note.at));
        found.truncate(query.limit);
        Ok(found)
    }

    /// Returns the preferences in the order of their file; a later one is newer.
    ///
    /// # Errors
    /// If the folder can't be listed.
    pub fn preferences(&mut self) -> Result<Vec<Note>, MemoryError> {
        self.refresh()?;
        let notes = self.index.notes(Path::new(layout::PREFERENCES));
        Ok(notes.map(|placed| placed.note.clone()).collect())
    }

    /// Appends a note to its file and syncs it.
    ///
    /// The same note of the same second is not added twice, so a failed call can be repeated.
    ///
    /// # Errors
    /// If the origin is not allowed for the kind, or the file is full, unreadable or unwritable;
    /// then nothing has changed.
    pub fn remember(&mut self, now: Wall, entry: Entry) -> Result<SavedNote, MemoryError> {
        entry.origin.may_be(entry.kind)?;
        if entry.tags.len() > MAX_TAGS {
            return Err(MemoryError::Tags(entry.tags.len()));
        }
        let at = known_time(now);
        let place = layout::place(entry.kind, at);
        let note = entry.into_note(at);
        let _lock = self.lock()?;
        self.refresh()?;
        for _ in 0..MAX_ATTEMPTS {
            if let Some(saved) = self.append(&place, &note)? {
                if !saved.known {
                    self.remove_old_files(&place);
                }
                return Ok(saved);
            }
        }
        Err(MemoryError::Busy(place.file))
    }

    /// Appends `note` to the file at `place`; `None` if another program changed the file meanwhile.
    fn append(&mut self, place: &NoteFile, note: &Note) -> Result<Option<SavedNote>, MemoryError> {
        let path = self.folder.join(&place.file);
        let before = match file::read(&path) {
            Ok(reading) => Some(reading),
            Err(FileError::Missing) => None,
            Err(error) => return Err(unreadable(place, error)),
        };
        let old = before.as_ref().map(|reading| reading.bytes.as_slice());
        let page = page::read(old.unwrap_or_default(), place.kind, place.day)
            .map_err(|error| unreadable(place, error.into()))?;
        let file = place.file.clone();
        if let Some(same) = page.notes.iter().find(|placed| placed.note == *note) {
            let (line, known) = (same.line, true);
            return Ok(Some(SavedNote { file, line, known }));
        }
        let mut bytes = match old {
            None | Some([]) => place.header().into_bytes(),
            Some(old) => old.to_vec(),
        };
        bytes.extend_from_slice(match bytes.as_slice() {
            [.., b'\n', b'\n'] => b"",
            [.., b'\n'] => b"\n",
            _ => b"\n\n",
        });
        let line = bytes.iter().filter(|b| **b == b'\n').count() + 1;
        bytes.extend(page::write(note).into_bytes());
        let kind = place.kind;
        if bytes.len() as u64 > MAX_FILE_BYTES || page.notes.len() >= max_notes(kind) {
            return Err(MemoryError::Full { file, kind });
        }
        let origins = page.notes.iter().map(|placed| placed.note.origin);
        let agents = origins.filter(|origin| *origin == Origin::Agent).count();
        if note.origin == Origin::Agent && agents >= max_agent_notes(kind) {
            return Err(MemoryError::AgentLimit { file, kind });
        }
        if !file::replace(&path, &bytes, old)? {
            return Ok(None);
        }
        let reading = file::read(&path);
        self.update(place.clone(), reading);
        let known = false;
        Ok(Some(SavedNote { file, line, known }))
    }

    /// Removes the oldest dated files beyond [`max_files`], but none with a user's note or an
    /// error, and not `written`.
    fn remove_old_files(&mut self, written: &NoteFile) {
        let Some(max) = max_files(written.kind).filter(|_| written.day.is_some()) else {
            return;
        };
        let dated: Vec<PathBuf> = {
            let pages = self.index.pages(written.kind).map(|(path, _)| path);
            let dated = pages.filter(|path| layout::is_dated(path));
            dated.map(Path::to_path_buf).collect()
        };
        let surplus = dated.len().saturating_sub(max);
        let removable = dated.iter().filter(|path| {
            let state = self.files.get(*path);
            let is_valid = state.is_some_and(|state| state.problems.is_empty());
            let mut notes = self.index.notes(path);
            let has_user_note = notes.any(|placed| placed.note.origin == Origin::Person);
            is_valid && !has_user_note && **path != written.file
        });
        let oldest: Vec<PathBuf> = removable.take(surplus).cloned().collect();
        for path in oldest {
            match file::remove(&self.folder.join(&path)) {
                Ok(()) => {
                    tracing::info!(file = %path.display(), "memory: removed a file of old notes");
                    self.index.remove(&path);
                    self.files.remove(&path);
                }
                Err(error) => tracing::warn!(%error, "memory: can't remove a file of old notes"),
            }
        }
    }

    /// Locks the folder against other processes until the file is dropped.
    fn lock(&self) -> Result<File, MemoryError> {
        let path = self.folder.join(LOCK);
        let locked = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .and_then(|file| file.lock().map(|()| file));
        locked.map_err(|source| MemoryError::Io { path, source })
    }
}

fn unreadable(place: &NoteFile, error: FileError) -> MemoryError {
    let file = place.file.clone();
    MemoryError::Unreadable(Problem { file, error })
}

/// Returns the time of a note; `None` if the clock was never set.
fn known_time(now: Wall) -> Option<Timestamp> {
    if now.quality == TimeQuality::Unsynced || now.unix_ms < 0 {
        return None;
    }
    let at = Timestamp::from_millisecond(now.unix_ms).ok()?;
    Some(whole_seconds(at))
}
