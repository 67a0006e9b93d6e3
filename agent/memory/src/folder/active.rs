//! The active configuration: a JSON object that the agent writes and users may edit.
//!
//! Invariant: a change is based on the current contents. Another edit since, or invalid JSON, stops
//! it.

use std::path::Path;

use serde_json::{Map, Value};
use xxhash_rust::xxh3::xxh3_128;

use super::error::{FileError, MemoryError, Problem};
use super::layout::ACTIVE;
use super::{MAX_FILE_BYTES, Memory, file};

/// State of the file when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Revision(Option<u128>);

#[derive(Debug, Clone, PartialEq)]
pub struct Active {
    /// The object; empty without a file.
    pub value: Map<String, Value>,
    pub revision: Revision,
}

impl Memory {
    /// Reads the active configuration.
    ///
    /// # Errors
    /// If the file can't be read or is not a JSON object.
    pub fn active(&self) -> Result<Active, MemoryError> {
        read(self.folder()).map(|(active, _)| active)
    }

    /// Replaces the active configuration, which was read at `revision`. It is synced on return.
    ///
    /// # Errors
    /// If the file has changed since, is invalid, or can't be written; then it stays unchanged.
    pub fn save_active(
        &mut self,
        value: &Map<String, Value>,
        revision: Revision,
    ) -> Result<Revision, MemoryError> {
        let _lock = self.lock()?;
        let (active, old) = read(self.folder())?;
        if active.revision != revision {
            return Err(MemoryError::Changed(ACTIVE.into()));
        }
        // serde_json can't fail on string keys.
        let mut bytes = serde_json::to_vec_pretty(value).unwrap_or_default();
        bytes.push(b'\n');
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(MemoryError::TooLarge(bytes.len() as u64));
        }
        let path = self.folder().join(ACTIVE);
        if file::replace(&path, &bytes, old.as_deref())? {
            Ok(Revision(Some(xxh3_128(&bytes))))
        } else {
            Err(MemoryError::Changed(ACTIVE.into()))
        }
    }
}

/// Reads the configuration in `folder`, with the bytes of its file.
fn read(folder: &Path) -> Result<(Active, Option<Vec<u8>>), MemoryError> {
    let bytes = match file::read(&folder.join(ACTIVE)) {
        Ok(reading) => reading.bytes,
        Err(FileError::Missing) => {
            let (value, revision) = (Map::new(), Revision(None));
            return Ok((Active { value, revision }, None));
        }
        Err(error) => {
            let file = ACTIVE.into();
            return Err(MemoryError::Unreadable(Problem { file, error }));
        }
    };
    let value = serde_json::from_slice(&bytes).map_err(|error| MemoryError::Json {
        file: ACTIVE.into(),
        line: error.line(),
        column: error.column(),
        why: error.to_string(),
    })?;
    let revision = Revision(Some(xxh3_128(&bytes)));
    Ok((Active { value, revision }, Some(bytes)))
}
