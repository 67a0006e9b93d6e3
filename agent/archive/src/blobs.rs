//! The folder of contents: `blobs/SHA-256`, and `staging/` for those that are still coming.
//!
//! - A file in `blobs` is whole and on stable storage: it is synced, then renamed.
//! - A staged file that is not published is deleted, by its owner or by the next start.
//! - Names of files are hashes and numbers, never a text from outside.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use watchkeeper_store::durable::{free_bytes, sync_folder};
use watchkeeper_store::private_folder::make_private;

use crate::ContentHash;
use crate::error::ArchiveError;

/// Largest content that fast tiers take, in bytes.
pub(crate) const MAX_CACHED: u64 = 4 << 20;

/// Free bytes that contents leave on their disk.
const MIN_FREE_BYTES: u64 = 64 << 20;
/// Bytes of a content after which the free space is checked again.
const CHECK_EVERY: u64 = 8 << 20;

#[derive(Debug)]
pub(crate) struct BlobFolder {
    blobs: PathBuf,
    staging: PathBuf,
    next: AtomicU64,
}

/// Why a content can't be read.
#[derive(Debug)]
pub(crate) enum BlobFault {
    /// The file is missing, or its bytes are others.
    Damaged,
    Io(io::Error),
}

/// Turns damage into `None`; `what` names the content in an error.
pub(crate) fn unless_damaged<T>(
    read: Result<T, BlobFault>,
    what: &dyn std::fmt::Display,
) -> Result<Option<T>, ArchiveError> {
    match read {
        Ok(content) => Ok(Some(content)),
        Err(BlobFault::Damaged) => Ok(None),
        Err(BlobFault::Io(source)) => Err(ArchiveError::Io {
            path: what.to_string().into(),
            source,
        }),
    }
}

impl BlobFolder {
    /// Opens the folder below `root`, and deletes what a killed run had staged.
    pub(crate) fn open(root: &Path) -> Result<Self, ArchiveError> {
        let (blobs, staging) = (root.join("blobs"), root.join("staging"));
        for folder in [&blobs, &staging] {
            make_private(folder).map_err(ArchiveError::io(folder))?;
        }
        let fault = || ArchiveError::io(&staging);
        for file in fs::read_dir(&staging).map_err(fault())? {
            let path = file.map_err(fault())?.path();
            watchkeeper_store::durable::remove_leftover(&path).map_err(ArchiveError::io(&path))?;
        }
        Ok(Self {
            blobs,
            staging,
            next: AtomicU64::new(0),
        })
    }

    /// Begins a content of at most so many bytes; `key` of the configuration sets that bound.
    pub(crate) fn stage(&self, (max, key): (u64, &'static str)) -> Result<Staged, ArchiveError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.staging.join(number.to_string());
        check_free(&self.staging, MIN_FREE_BYTES)?;
        let file = File::create(&path).map_err(ArchiveError::io(&path))?;
        Ok(Staged {
            file,
            temporary: Temporary { path },
            hasher: Sha256::new(),
            bytes: 0,
            unchecked: 0,
            min_free: MIN_FREE_BYTES,
            max,
            key,
            head: Some(Vec::new()),
        })
    }

    /// Gives a content its public name; on stable storage when this returns.
    pub(crate) fn publish(&self, sealed: &Sealed) -> Result<(), ArchiveError> {
        let path = self.path(&sealed.hash);
        fs::rename(&sealed.temporary.path, &path).map_err(ArchiveError::io(&path))?;
        sync_folder(&self.blobs).map_err(ArchiveError::io(&self.blobs))
    }

    fn path(&self, hash: &ContentHash) -> PathBuf {
        self.blobs.join(hash.to_string())
    }

    pub(crate) fn open_file(&self, hash: &ContentHash) -> Result<File, BlobFault> {
        File::open(self.path(hash)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => BlobFault::Damaged,
            _ => BlobFault::Io(error),
        })
    }

    /// Reads a content whole and compares it with its hash.
    pub(crate) fn read(&self, hash: &ContentHash, bytes: u64) -> Result<Bytes, BlobFault> {
        let file = self.open_file(hash)?;
        let mut content = Vec::new();
        let read = file.take(bytes.saturating_add(1)).read_to_end(&mut content);
        read.map_err(BlobFault::Io)?;
        match ContentHash::of(&content) == *hash {
            true => Ok(content.into()),
            false => Err(BlobFault::Damaged),
        }
    }

    /// Opens a content once its bytes were compared with its hash, in little memory.
    pub(crate) fn open_sound(&self, hash: &ContentHash) -> Result<File, BlobFault> {
        let mut file = self.open_file(hash)?;
        if ContentHash::of_all(&mut file).map_err(BlobFault::Io)? != *hash {
            return Err(BlobFault::Damaged);
        }
        file.rewind().map_err(BlobFault::Io)?;
        Ok(file)
    }

    /// Deletes a content. A failure leaves a file that a later start deletes.
    pub(crate) fn remove(&self, hash: &ContentHash) {
        let path = self.path(hash);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %path.display(), %error, "archive: a content stays on disk");
            }
            _ => {}
        }
    }

    /// Lists the contents on disk.
    pub(crate) fn list(&self) -> Result<BTreeSet<ContentHash>, ArchiveError> {
        let fault = || ArchiveError::io(&self.blobs);
        let mut found = BTreeSet::new();
        for file in fs::read_dir(&self.blobs).map_err(fault())? {
            let name = file.map_err(fault())?.file_name();
            let hash = name.to_str().and_then(ContentHash::parse);
            // A name in capital letters is not one of ours.
            found.extend(hash.filter(|hash| *name == *hash.to_string()));
        }
        Ok(found)
    }
}

/// Fails if the disk with `path` has fewer than `needed` bytes free.
fn check_free(path: &Path, needed: u64) -> Result<(), ArchiveError> {
    let free = free_bytes(path).map_err(ArchiveError::io(path))?;
    match free < needed {
        true => Err(ArchiveError::Disk { free, needed }),
        false => Ok(()),
    }
}

/// A file that is deleted when it is dropped, unless it was renamed.
#[derive(Debug)]
struct Temporary {
    path: PathBuf,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Published files are gone from here.
        fs::remove_file(&self.path).ok();
    }
}

/// A content that is coming.
#[derive(Debug)]
pub struct Staged {
    file: File,
    temporary: Temporary,
    hasher: Sha256,
    bytes: u64,
    /// Bytes since the disk's free space was checked.
    unchecked: u64,
    /// Free bytes that it leaves on its disk.
    min_free: u64,
    max: u64,
    /// Key of the configuration that sets `max`.
    key: &'static str,
    /// The bytes so far, while fast tiers would take them.
    head: Option<Vec<u8>>,
}

impl Staged {
    /// Appends bytes. Blocks.
    ///
    /// # Errors
    /// If the content grows too large, or the disk refuses.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        if self.bytes > self.max {
            return Err(ArchiveError::TooLarge {
                max: self.max,
                key: self.key,
            });
        }
        match &mut self.head {
            Some(head) if self.bytes <= MAX_CACHED => head.extend_from_slice(bytes),
            head => *head = None,
        }
        self.hasher.update(bytes);
        let path = &self.temporary.path;
        self.unchecked += bytes.len() as u64;
        if self.unchecked >= CHECK_EVERY {
            self.unchecked = 0;
            check_free(path, self.min_free.saturating_add(bytes.len() as u64))?;
        }
        self.file.write_all(bytes).map_err(ArchiveError::io(path))
    }

    /// Ends the content; on stable storage when this returns, without its public name. Blocks.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn seal(self) -> Result<Sealed, ArchiveError> {
        let path = &self.temporary.path;
        self.file.sync_all().map_err(ArchiveError::io(path))?;
        Ok(Sealed {
            temporary: self.temporary,
            hash: ContentHash(self.hasher.finalize().into()),
            bytes: self.bytes,
            head: self.head.map(Bytes::from),
        })
    }
}

/// A whole content that is not published yet.
#[derive(Debug)]
pub struct Sealed {
    temporary: Temporary,
    pub(crate) hash: ContentHash,
    pub(crate) bytes: u64,
    /// All of it, where fast tiers take it.
    pub(crate) head: Option<Bytes>,
}

impl Sealed {
    pub fn hash(&self) -> ContentHash {
        self.hash
    }

    /// Opens the content; its file is gone once that is closed. Blocks.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn into_file(self) -> Result<File, ArchiveError> {
        let path = &self.temporary.path;
        File::open(path).map_err(ArchiveError::io(path))
    }

    /// Reads the first `max` bytes, for the metadata of a picture. Blocks.
    pub fn first_bytes(&self, max: u64) -> Vec<u8> {
        if let Some(head) = &self.head {
            return head.to_vec();
        }
        let mut bytes = Vec::new();
        let file = File::open(&self.temporary.path);
        // Metadata is optional: a content whose beginning can't be read has none.
        file.and_then(|file| file.take(max).read_to_end(&mut bytes))
            .ok();
        bytes
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    #[test]
    fn content_ends_where_its_disk_runs_full() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = BlobFolder::open(folder.path()).unwrap();
        let mut staged = blobs.stage((u64::MAX, "none")).unwrap();
        let part = vec![0; 1 << 20];
        staged.append(&part).unwrap();
        // From here on the disk counts as full.
        staged.min_free = u64::MAX;
        let ended = (1..8).try_for_each(|_| staged.append(&part));
        assert!(matches!(ended, Err(ArchiveError::Disk { .. })), "{ended:?}");
        drop(staged);
        assert_eq!(
            fs::read_dir(folder.path().join("staging")).unwrap().count(),
            0
        );
    }
}
