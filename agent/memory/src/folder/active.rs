//! The active configuration: a JSON object that the agent writes and a person may edit.
//!
//! Invariant: it is only replaced by a change to what stands there. An edit in between, or one that is no JSON, stops the change and is kept.

use std::path::Path;

use serde_json::{Map, Value};
use xxhash_rust::xxh3::xxh3_128;

use super::error::{MemoryError, Problem, Trouble};
use super::layout::ACTIVE;
use super::{MAX_FILE_BYTES, Memory, file};

/// Which state of the file was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Revision(Option<u128>);

/// The active configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Active {
    /// The object; empty where there is no file.
    pub value: Map<String, Value>,
    /// What a change is based on.
    pub revision: Revision,
}

impl Memory {
    /// Reads the active configuration.
    ///
    /// # Errors
    /// When it can't be read or is no JSON object; the error says where.
    pub fn active(&self) -> Result<Active, MemoryError> {
        read(self.folder()).map(|(active, _)| active)
    }

    /// Replaces the active configuration, which was read at `revision`. It is on stable storage on return.
    ///
    /// # Errors
    /// When it is not what was read any more, can't be understood, or the disk refuses; then nothing has changed.
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
        // Keys are strings: serde_json can't fail on it.
        let mut bytes = serde_json::to_vec_pretty(value).unwrap_or_default();
        bytes.push(b'\n');
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(MemoryError::Large(bytes.len() as u64));
        }
        let path = self.folder().join(ACTIVE);
        if file::replace(&path, &bytes, old.as_deref())? {
            Ok(Revision(Some(xxh3_128(&bytes))))
        } else {
            Err(MemoryError::Changed(ACTIVE.into()))
        }
    }
}

/// The configuration in `folder` and the bytes of its file, if there is one.
fn read(folder: &Path) -> Result<(Active, Option<Vec<u8>>), MemoryError> {
    let bytes = match file::read(&folder.join(ACTIVE)) {
        Ok(reading) => reading.bytes,
        Err(Trouble::Missing) => {
            let (value, revision) = (Map::new(), Revision(None));
            return Ok((Active { value, revision }, None));
        }
        Err(trouble) => {
            let file = ACTIVE.into();
            return Err(MemoryError::Unreadable(Problem { file, trouble }));
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
