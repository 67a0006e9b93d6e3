//! One file: read within bounds, recognised when it changed, replaced so that a crash leaves the old or the new one.
//!
//! Invariant: nothing is written into a file that somebody else may have open; the new content is on stable storage before it takes the name.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::error::{MemoryError, Trouble};

/// Largest file that is read or written, in bytes. A larger one is told and left alone.
pub const MAX_FILE_BYTES: u64 = 1 << 20;

/// How old a change must be for the stamp of a file to tell it from the next one. Time stamps of files are as coarse as two seconds (FAT) and on Linux
/// those of the last timer tick.
const YOUNG: Duration = Duration::from_secs(2);

/// What tells a file from the same one after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Of the file that is at `path` now.
    pub(super) fn of(path: &Path) -> Option<Self> {
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

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) bytes: Vec<u8>,
    /// None when a later change could leave the same stamp: then the file is read again next time.
    pub(super) stamp: Option<Stamp>,
}

/// Reads the file at `path`.
pub(super) fn read(path: &Path) -> Result<Reading, Trouble> {
    let io = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Trouble::Missing,
        _ => Trouble::Io(error.to_string()),
    };
    // Asked before it is opened: opening a pipe would wait for its writer.
    if !fs::metadata(path).map_err(io)?.is_file() {
        return Err(Trouble::NotPlain);
    }
    let file = File::open(path).map_err(io)?;
    let meta = file.metadata().map_err(io)?;
    if meta.len() > MAX_FILE_BYTES {
        return Err(Trouble::Large(meta.len()));
    }
    let mut bytes = Vec::new();
    let read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
    if read.map_err(io)? as u64 > MAX_FILE_BYTES {
        return Err(Trouble::Large(bytes.len() as u64));
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let changed = Duration::from_secs(u64::try_from(meta.ctime()).unwrap_or_default());
    let settled = now.is_ok_and(|now| now.saturating_sub(changed) > YOUNG);
    let stamp = settled.then(|| Stamp::new(&meta));
    Ok(Reading { bytes, stamp })
}

/// Puts `bytes` in the place of the file at `path`, if it still holds `old` (none: if it is still not there). False when it does not.
///
/// Between the last look and the change of names lie microseconds in which an editor that saves would lose; there is no way to close them that
/// editors take part in.
pub(super) fn replace(path: &Path, bytes: &[u8], old: Option<&[u8]>) -> Result<bool, MemoryError> {
    let failed = |source| MemoryError::Io {
        path: path.to_path_buf(),
        source,
    };
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(failed(io::ErrorKind::InvalidInput.into()));
    };
    if fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink()) {
        let why = "this is a link, which would be lost; put the file itself here";
        return Err(failed(io::Error::other(why)));
    }
    let temporary = folder.join(format!(".{}.tmp", name.to_string_lossy()));
    let written = File::create(&temporary).and_then(|mut file| {
        // A file that a person made readable for few or writable for many stays that.
        match fs::metadata(path) {
            Ok(meta) => file.set_permissions(meta.permissions())?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        file.write_all(bytes)?;
        file.sync_all()
    });
    let replaced = written.and_then(|()| {
        let same = match (read(path), old) {
            (Ok(now), Some(old)) => now.bytes == old,
            (Err(Trouble::Missing), None) => true,
            (Ok(_) | Err(_), _) => false,
        };
        if !same {
            return Ok(false);
        }
        fs::rename(&temporary, path)?;
        Ok(true)
    });
    if !matches!(replaced, Ok(true))
        && let Err(error) = fs::remove_file(&temporary)
    {
        tracing::debug!(file = %temporary.display(), %error, "half a file stays until the next one is written");
    }
    if replaced.map_err(failed)? {
        sync_folder(folder)?;
        Ok(true)
    } else {
        Ok(false)
    }
}

/// Removes the file at `path`.
pub(super) fn remove(path: &Path) -> Result<(), MemoryError> {
    fs::remove_file(path).map_err(|source| MemoryError::Io {
        path: path.to_path_buf(),
        source,
    })?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// Makes the folder at `path` where there is none.
pub(super) fn make_folder(path: &Path) -> Result<(), MemoryError> {
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
    // The parent of a bare name is the empty path, which nobody can open.
    let here = folder.as_os_str().is_empty();
    let folder = if here { Path::new(".") } else { folder };
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|source| MemoryError::Io {
        path: folder.to_path_buf(),
        source,
    })
}
