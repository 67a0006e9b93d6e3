//! The folder that memory is kept in: what is read, what is added, and when what a person edited is picked up.
//!
//! Invariants:
//! - before each answer and each change the folder is looked at, and what changed on it is read anew: a person's word is the last one;
//! - a file is only ever replaced by itself with a note at its end, under the lock of the folder, and only when it is still what was read;
//! - what can't be read stays as it is, is told, and takes nothing else away.
//!
//! Calls block for the disk: adding a note waits for it to be on stable storage.

mod active;
mod error;
mod file;
mod layout;
#[cfg(test)]
mod tests;
mod vectors;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::time::{TimeQuality, Wall};

pub use active::{Active, Revision};
pub use error::{MemoryError, Problem, Trouble};
pub use file::MAX_FILE_BYTES;
pub use layout::{MAX_DAYS, MAX_MONTHS};

use crate::embed::Embedder;
use crate::note::{Entry, Kind, MAX_TAGS, Note, Origin};
use crate::page::{self, Page, whole_seconds};
use crate::search::{Found, Index, Key, Query, Signature, Wanted, made};
use file::{Reading, Stamp};
use layout::{Place, max_notes, max_of_agent};
use vectors::Vectors;

/// How often a change starts anew because somebody else changed the file in the meantime.
const TRIES: usize = 3;
const LOCK: &str = ".lock";

/// A note that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its file, below the folder.
    pub file: PathBuf,
    /// The line that it begins with, from 1.
    pub line: usize,
    /// Whether it stood there already, word for word and of the same second, and was not added again.
    pub known: bool,
}

/// A file as it was when it was read.
#[derive(Debug)]
struct Seen {
    stamp: Option<Stamp>,
    problems: Vec<Problem>,
}

/// The memory.
#[derive(Debug)]
pub struct Memory {
    folder: PathBuf,
    index: Index,
    /// Vectors that were made before; none where making one is done in passing.
    vectors: Option<Vectors>,
    seen: BTreeMap<PathBuf, Seen>,
    /// What is wrong with names in the folder.
    strange: Vec<Problem>,
}

impl Memory {
    /// Opens the memory in `folder`, which is made if it is not there, and reads all of it. Nothing is embedded for it by an embedder
    /// [whose vectors are kept](Embedder::kept_as): what has no vector yet is [wanted](Memory::wanted).
    ///
    /// # Errors
    /// When the folder can't be made or listed. What is wrong with a file is no error: see [`Memory::problems`].
    pub fn open(folder: &Path, embedder: Arc<dyn Embedder>) -> Result<Self, MemoryError> {
        for name in layout::FOLDERS {
            file::make_folder(&folder.join(name))?;
        }
        let name = embedder.kept_as();
        let vectors = name.and_then(|name| Vectors::open(folder, name, embedder.dimension()));
        let mut memory = Self {
            folder: folder.to_path_buf(),
            index: Index::new(embedder),
            vectors,
            seen: BTreeMap::new(),
            strange: Vec::new(),
        };
        memory.refresh()?;
        Ok(memory)
    }

    /// Reads what has changed in the folder.
    ///
    /// # Errors
    /// When the folder can't be listed.
    pub fn refresh(&mut self) -> Result<(), MemoryError> {
        let (places, strange) = layout::list(&self.folder)?;
        self.strange = strange;
        let gone: Vec<PathBuf> = {
            let seen = self.seen.keys();
            seen.filter(|path| !places.contains_key(*path))
                .cloned()
                .collect()
        };
        for path in gone {
            self.seen.remove(&path);
            self.index.remove(&path);
        }
        for place in places.into_values() {
            let stamp = self.seen.get(&place.file).and_then(|seen| seen.stamp);
            let path = self.folder.join(&place.file);
            if stamp.is_some() && stamp == Stamp::of(&path) {
                continue;
            }
            let reading = file::read(&path);
            self.take(place, reading);
        }
        Ok(())
    }

    /// Takes what was read of `place` for what stands there.
    fn take(&mut self, place: Place, reading: Result<Reading, Trouble>) {
        let (stamp, page) = match reading {
            Ok(reading) => {
                let page = page::read(&reading.bytes, place.kind, place.day);
                (reading.stamp, page.map_err(Trouble::from))
            }
            Err(trouble) => (None, Err(trouble)),
        };
        let file = place.file.clone();
        let problem = |trouble| Problem {
            file: file.clone(),
            trouble,
        };
        let (notes, problems) = match page {
            Ok(Page { notes, faults }) => {
                let told = faults.into_iter().map(|fault| problem(fault.into()));
                (notes, told.collect())
            }
            Err(trouble) => (Vec::new(), vec![problem(trouble)]),
        };
        let known = self.seen.get(&place.file);
        if known.is_none_or(|seen| seen.problems != problems) {
            for problem in &problems {
                tracing::warn!("memory: {problem}");
            }
        }
        let vectors = &self.vectors;
        self.index.put(&place.file, place.kind, notes, &mut |key| {
            vectors.as_ref().and_then(|vectors| vectors.get(key))
        });
        self.seen.insert(place.file, Seen { stamp, problems });
    }

    /// What could not be read or understood when the folder was last looked at.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        let of_files = self.seen.values().flat_map(|seen| &seen.problems);
        self.strange.iter().chain(of_files)
    }

    /// How many notes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the files are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The notes that answer `query` best, the best first.
    ///
    /// # Errors
    /// When the folder can't be listed.
    pub fn search(&mut self, query: Query) -> Result<Vec<Found>, MemoryError> {
        self.refresh()?;
        Ok(self.index.search(&query.bounded()))
    }

    /// How many notes wait for their vectors; they are found by their words.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.index.waiting()
    }

    /// Up to `most` texts of notes that wait for their vectors, those of the newest files first. What was made for them by another process meanwhile is taken.
    pub fn wanted(&mut self, most: usize) -> Vec<Wanted> {
        if self.waiting() == 0 {
            return Vec::new();
        }
        if let Some(vectors) = self.vectors.as_mut()
            && vectors.look()
        {
            let wanted = self.index.wanted(usize::MAX).into_iter();
            let made = wanted.filter_map(|w| Some((w.key(), Some(vectors.get(w.key())?))));
            self.index.learn(&made.collect());
        }
        self.index.wanted(most)
    }

    /// Takes the vectors of texts that were [wanted](Memory::wanted), and keeps them beside the notes; none: the embedder refuses the text, and its note is found by
    /// its words until the next start.
    pub fn learn(&mut self, made: Vec<(Wanted, Option<Vec<f32>>)>) {
        let made = made.into_iter();
        let made = made.map(|(wanted, v)| (wanted.key(), v.map(|v| Signature::of(&v))));
        self.take_vectors(&made.collect());
    }

    /// Makes up to `most` of the vectors that are wanted, one after the other, and keeps them. Answers how many.
    pub fn embed_some(&mut self, most: usize) -> usize {
        let embedder = Arc::clone(self.index.embedder());
        let wanted = self.wanted(most).into_iter();
        let all = wanted.map(|w| (w.key(), made(embedder.as_ref(), w.text())));
        let all: BTreeMap<Key, Option<Signature>> = all.collect();
        self.take_vectors(&all);
        all.len()
    }

    fn take_vectors(&mut self, made: &BTreeMap<Key, Option<Signature>>) {
        if made.is_empty() {
            return;
        }
        self.index.learn(made);
        let index = &self.index;
        if let Some(vectors) = self.vectors.as_mut() {
            vectors.add(made, index.len(), || index.keys());
        }
    }

    /// The newest observations since a time, of one camera or of all, the newest first, `limit` at most. Those of a box that did not know the time have
    /// none and are not among them.
    ///
    /// # Errors
    /// When the folder can't be listed.
    pub fn recent(
        &mut self,
        camera: Option<&SourceId>,
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<Note>, MemoryError> {
        self.refresh()?;
        let wanted = Query {
            camera: camera.cloned(),
            since: Some(since),
            ..Query::new("")
        };
        let pages = self.index.pages(Kind::Observation);
        let notes = pages
            .flat_map(|(_, notes)| notes)
            .map(|placed| &placed.note);
        let mut notes: Vec<&Note> = notes
            .filter(|note| wanted.takes(Kind::Observation, note))
            .collect();
        // Of the same second, what was written later is newer.
        notes.reverse();
        notes.sort_by_key(|note| std::cmp::Reverse(note.at));
        Ok(notes.into_iter().take(limit).cloned().collect())
    }

    /// What people want, in the order of the file: a later word is the newer one.
    ///
    /// # Errors
    /// When the folder can't be listed.
    pub fn preferences(&mut self) -> Result<Vec<Note>, MemoryError> {
        self.refresh()?;
        let notes = self.index.notes(Path::new(layout::PREFERENCES));
        Ok(notes.map(|placed| placed.note.clone()).collect())
    }

    /// Adds a note at the end of its file. It is on stable storage on return. A note that stands there already, of the same second, is not added twice, so
    /// what may have failed can be tried again.
    ///
    /// # Errors
    /// When such words may not stand there, the file is full or can't be understood, or the disk refuses; then nothing has changed.
    pub fn remember(&mut self, now: Wall, entry: Entry) -> Result<Kept, MemoryError> {
        entry.origin.may_be(entry.kind)?;
        if entry.tags.len() > MAX_TAGS {
            return Err(MemoryError::Tags(entry.tags.len()));
        }
        let at = known_time(now);
        let place = layout::place(entry.kind, at);
        let note = entry.into_note(at);
        let _lock = self.lock()?;
        self.refresh()?;
        for _ in 0..TRIES {
            if let Some(kept) = self.append(&place, &note)? {
                if !kept.known {
                    self.thin(&place);
                }
                return Ok(kept);
            }
        }
        Err(MemoryError::Busy(place.file))
    }

    /// Adds `note` to the file at `place`; none when somebody changed the file meanwhile.
    fn append(&mut self, place: &Place, note: &Note) -> Result<Option<Kept>, MemoryError> {
        let path = self.folder.join(&place.file);
        let before = match file::read(&path) {
            Ok(reading) => Some(reading),
            Err(Trouble::Missing) => None,
            Err(trouble) => return Err(unreadable(place, trouble)),
        };
        let old = before.as_ref().map(|reading| reading.bytes.as_slice());
        let page = page::read(old.unwrap_or_default(), place.kind, place.day)
            .map_err(|fault| unreadable(place, fault.into()))?;
        let file = place.file.clone();
        if let Some(same) = page.notes.iter().find(|placed| placed.note == *note) {
            let (line, known) = (same.line, true);
            return Ok(Some(Kept { file, line, known }));
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
        if note.origin == Origin::Agent && agents >= max_of_agent(kind) {
            return Err(MemoryError::AgentsShare { file, kind });
        }
        if !file::replace(&path, &bytes, old)? {
            return Ok(None);
        }
        let reading = file::read(&path);
        self.take(place.clone(), reading);
        let known = false;
        Ok(Some(Kept { file, line, known }))
    }

    /// Removes the oldest files of dated notes beyond those that are kept, but for files that hold a word of a person or something that is not understood, and
    /// the one that was just written to.
    fn thin(&mut self, written: &Place) {
        let Some(keep) = layout::keep(written.kind).filter(|_| written.day.is_some()) else {
            return;
        };
        let dated: Vec<PathBuf> = {
            let pages = self.index.pages(written.kind).map(|(path, _)| path);
            let dated = pages.filter(|path| layout::is_dated(path));
            dated.map(Path::to_path_buf).collect()
        };
        let spare = dated.len().saturating_sub(keep);
        let removable = dated.iter().filter(|path| {
            let sound = self.seen.get(*path).is_some_and(|s| s.problems.is_empty());
            let mut notes = self.index.notes(path);
            let persons = notes.any(|placed| placed.note.origin == Origin::Person);
            sound && !persons && **path != written.file
        });
        let oldest: Vec<PathBuf> = removable.take(spare).cloned().collect();
        for path in oldest {
            match file::remove(&self.folder.join(&path)) {
                Ok(()) => {
                    tracing::info!(file = %path.display(), "memory: old notes give way to new ones");
                    self.index.remove(&path);
                    self.seen.remove(&path);
                }
                Err(error) => tracing::warn!(%error, "memory: old notes can't be removed"),
            }
        }
    }

    /// Holds off other processes that add to this folder until it is dropped.
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

fn unreadable(place: &Place, trouble: Trouble) -> MemoryError {
    let file = place.file.clone();
    MemoryError::Unreadable(Problem { file, trouble })
}

/// The time of a note; none on a box that does not know it.
fn known_time(now: Wall) -> Option<Timestamp> {
    if now.quality == TimeQuality::Unsynced || now.unix_ms < 0 {
        return None;
    }
    let at = Timestamp::from_millisecond(now.unix_ms).ok()?;
    Some(whole_seconds(at))
}
