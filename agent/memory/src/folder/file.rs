//! One file: read within a bound, stamped to detect changes, replaced atomically.
//!
//! Invariant: a file is never written in place; its new content is synced before it takes the name.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::error::{FileError, MemoryError};
use super::limits::MAX_FILE_BYTES;

/// Age of a change from which the next one changes the stamp too. Timestamps have a resolution of
/// up to 2 s (FAT), on Linux of a timer tick.
const STAMP_RESOLUTION: Duration = Duration::from_secs(2);

/// Metadata that differs after a change of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Reads the stamp of the file at `path`.
    pub(super) fn read(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|meta| Self::new(&meta))
    }

    fn new(meta: &Metadata) -> Self {
        Self {
            inode: meta.ino(),
            bytes: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) bytes: Vec<u8>,
    /// `None` if a later change could have the same stamp: the next refresh reads the file again.
    pub(super) stamp: Option<Stamp>,
}

pub(super) fn read(path: &Path) -> Result<Reading, FileError> {
    let io = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => FileError::Missing,
        _ => FileError::Io(error.to_string()),
    };
    // Before the open, which blocks on a pipe without a writer.
    if !fs::metadata(path).map_err(io)?.is_file() {
        return Err(FileError::NotRegular);
    }
    let file = File::open(path).map_err(io)?;
    let meta = file.metadata().map_err(io)?;
    if meta.len() > MAX_FILE_BYTES {
        return Err(FileError::TooLarge(meta.len()));
    }
    let mut bytes = Vec::new();
    let read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
    if read.map_err(io)? as u64 > MAX_FILE_BYTES {
        return Err(FileError::TooLarge(bytes.len() as u64));
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let changed = Duration::from_secs(u64::try_from(meta.ctime()).unwrap_or_default());
    let is_old = now.is_ok_and(|now| now.saturating_sub(changed) > STAMP_RESOLUTION);
    let stamp = is_old.then(|| Stamp::new(&meta));
    Ok(Reading { bytes, stamp })
}

/// Replaces the file at `path` if it still holds `old` (`None`: is still missing); else returns
/// false.
///
/// An editor that saves in the microseconds between the last read and the rename loses its change;
/// editors take no lock that could prevent it.
pub(super) fn replace(path: &Path, bytes: &[u8], old: Option<&[u8]>) -> Result<bool, MemoryError> {
    let failed = |source| MemoryError::Io {
        path: path.to_path_buf(),
        source,
    };
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(failed(io::ErrorKind::InvalidInput.into()));
    };
    if fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink()) {
        let why = "this is a symbolic link, which a change would replace; put the file itself here";
        return Err(failed(io::Error::other(why)));
    }
    let temporary = folder.join(format!(".{}.tmp", name.to_string_lossy()));
    let written = File::create(&temporary).and_then(|mut file| {
        // Keep permissions that a user has set.
        match fs::metadata(path) {
            Ok(meta) => file.set_permissions(meta.permissions())?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        file.write_all(bytes)?;
        file.sync_all()
    });
    let replaced = written.and_then(|()| {
        let is_unchanged = match (read(path), old) {
            (Ok(now), Some(old)) => now.bytes == old,
            (Err(FileError::Missing), None) => true,
            (Ok(_) | Err(_), _) => false,
        };
        if !is_unchanged {
            return Ok(false);
        }
        fs::rename(&temporary, path)?;
        Ok(true)
    });
    if !matches!(replaced, Ok(true))
        && let Err(error) = fs::remove_file(&temporary)
    {
        tracing::debug!(file = %temporary.display(), %error, "memory: can't remove a temporary file");
    }
    if replaced.map_err(failed)? {
        sync_folder(folder)?;
        Ok(true)
    } else {
        Ok(false)
    }
}

/// Removes the file at `path` and syncs its folder.
pub(super) fn remove(path: &Path) -> Result<(), MemoryError> {
    fs::remove_file(path).map_err(|source| MemoryError::Io {
        path: path.to_path_buf(),
        source,
    })?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// Creates the folder at `path` if it is missing.
pub(super) fn create_folder(path: &Path) -> Result<(), MemoryError> {
    if path.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(path).map_err(|source| MemoryError::Io {
        path: path.to_path_buf(),
        source,
    })?;
    path.parent().map_or(Ok(()), sync_folder)
}

fn sync_folder(folder: &Path) -> Result<(), MemoryError> {
    // The parent of a bare name is the empty path, which can't be opened.
    let is_empty = folder.as_os_str().is_empty();
    let folder = if is_empty { Path::new(".") } else { folder };
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|source| MemoryError::Io {
        path: folder.to_path_buf(),
        source,
    })
}
