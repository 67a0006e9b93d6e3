//! Removes one note of a file, for a user or in place of a newer one.
//!
//! Invariant: all other bytes of the file stay.

use std::path::Path;

use super::error::{FileError, MemoryError};
use super::{MAX_ATTEMPTS, Memory, file, layout, unreadable};
use crate::note::Note;
use crate::page::{self, Placed};

impl Memory {
    /// Returns the note that begins at `line` of `file`, a path below the folder.
    ///
    /// # Errors
    /// [`MemoryError::NoNote`], or if the folder can't be listed.
    pub fn note_at(&mut self, file: &Path, line: usize) -> Result<Note, MemoryError> {
        self.refresh()?;
        let found = self.index.notes(file).find(|placed| placed.line == line);
        found.map(|placed| placed.note.clone()).ok_or_else(|| {
            let file = file.to_path_buf();
            MemoryError::NoNote { file, line }
        })
    }

    /// Removes `note`, which began at `line` of `file`; it may be at another line by now.
    ///
    /// # Errors
    /// [`MemoryError::NoNote`] if it is not there, or the file is unreadable or unwritable; then
    /// nothing has changed.
    pub fn forget(&mut self, file: &Path, line: usize, note: &Note) -> Result<(), MemoryError> {
        let missing = || MemoryError::NoNote {
            file: file.to_path_buf(),
            line,
        };
        let _lock = self.lock()?;
        let (mut places, _) = layout::list(&self.folder)?;
        let place = places.remove(file).ok_or_else(missing)?;
        let path = self.folder.join(file);
        for _ in 0..MAX_ATTEMPTS {
            let bytes = match file::read(&path) {
                Ok(reading) => reading.bytes,
                Err(FileError::Missing) => return Err(missing()),
                Err(error) => return Err(unreadable(&place, error)),
            };
            let page = page::read(&bytes, place.kind, place.day)
                .map_err(|error| unreadable(&place, error.into()))?;
            let same = page.notes.iter().filter(|placed| placed.note == *note);
            let nearest = same.min_by_key(|placed| placed.line.abs_diff(line));
            let line = nearest.map(|placed: &Placed| placed.line);
            let rest = page::without(&bytes, line.ok_or_else(missing)?);
            if file::replace(&path, &rest, Some(&bytes))? {
                let reading = file::read(&path);
                self.update(place, reading);
                return Ok(());
            }
        }
        Err(MemoryError::Busy(file.to_path_buf()))
    }
}
