//! What a person has kept, and looks for again.
//!
//! Invariant: a word that can't be kept is told as such; nothing else depends on it.

use jiff::Timestamp;
use watchkeeper_memory::note::{Entry, Kind, Origin, Words};
use watchkeeper_memory::{Found, MemoryError, Query};

use super::progress::ProgressEvent;
use super::user_session::Session;
use crate::failure::{Error, ErrorKind};
use crate::notes::Notes;
use watchkeeper_client::clock::wall_now;

impl Session {
    /// Keeps a person's word.
    ///
    /// # Errors
    /// When it is no note, or can't be kept.
    pub fn remember(&self, kind: Kind, words: &str) -> Result<(), Error> {
        let words = Words::new(words).map_err(|e| Error::input(e.to_string()))?;
        let at = self.remember_entry(Entry::new(kind, Origin::Person, words))?;
        self.parts.out.tell(ProgressEvent::Remembered(kind, &at));
        Ok(())
    }

    pub(super) fn remember_entry(&self, entry: Entry) -> Result<String, Error> {
        let failed = |why: String| Error::new(ErrorKind::Failed, why);
        let mut memory = self.notes().and_then(Notes::open).map_err(failed)?;
        let kept = memory.remember(wall_now(), entry).map_err(unkept)?;
        Ok(memory.folder().join(kept.file).display().to_string())
    }

    /// The notes that have to do with these words.
    ///
    /// # Errors
    /// When they can't be read.
    pub fn search_memory(&self, words: &str) -> Result<Vec<Found>, Error> {
        let query = Query {
            now: Some(Timestamp::now()),
            ..Query::new(words)
        };
        let failed = |why: String| Error::new(ErrorKind::Failed, why);
        let mut memory = self.notes().and_then(Notes::open).map_err(failed)?;
        memory.search(query).map_err(unkept)
    }

    /// The notes. The error is a sentence for a person.
    pub(super) fn notes(&self) -> Result<&Notes, String> {
        let home = self.parts.home.as_ref();
        home.map_err(Clone::clone)?;
        let nowhere = || "there is no folder for notes here".to_owned();
        self.parts.notes.as_ref().ok_or_else(nowhere)
    }
}

fn unkept(error: MemoryError) -> Error {
    Error::new(ErrorKind::Failed, error.to_string())
}
