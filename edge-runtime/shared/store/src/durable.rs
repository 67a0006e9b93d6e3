//! Small files that are replaced whole.
//!
//! After a power cut at any moment the file has its old content or its new one; the new one once
//! [`replace`] has returned.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// Gives the file at `path` the content `bytes`; durable on return.
///
/// Writes `.NAME.tmp` beside it first. A failure removes that file; a power cut may leave it.
///
/// # Errors
/// When the disk is full or refuses. The old content is then still there, unless only the last step
/// failed, the sync of the folder.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_with(path, bytes, |temporary| File::create(temporary))
}

/// Like [`replace`], for a file that only its user may read and write.
///
/// # Errors
/// Those of [`replace`].
pub fn replace_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_with(path, bytes, |temporary| {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(temporary)?;
        // A leftover has the mode that it was created with.
        file.set_permissions(Permissions::from_mode(0o600))?;
        Ok(file)
    })
}

fn replace_with(
    path: &Path,
    bytes: &[u8],
    create: impl FnOnce(&Path) -> io::Result<File>,
) -> io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let temporary = folder.join(format!(".{}.tmp", name.to_string_lossy()));
    let written = create(&temporary)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&temporary, path));
    if let Err(source) = written {
        if let Err(error) = fs::remove_file(&temporary) {
            tracing::debug!(path = %temporary.display(), %error, "half a file stays");
        }
        return Err(source);
    }
    sync_folder(folder)
}

/// Returns how many bytes this user may still write to the disk with `path`.
///
/// # Errors
/// When the file system does not answer.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Returns whether `error` means that the disk is full or read-only.
pub fn is_disk_refusal(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::ReadOnlyFilesystem
    )
}

/// Removes a file that a killed run left. One on a full or read-only disk stays for another start.
///
/// # Errors
/// Any other error of the system.
pub fn remove_leftover(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if is_disk_refusal(&error) => {
            tracing::debug!(path = %path.display(), %error, "a leftover stays");
            Ok(())
        }
        removed => removed,
    }
}

/// Makes the names in `folder` durable: of files that were created, renamed and removed.
///
/// # Errors
/// When the folder can't be opened, or the device refuses.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    #[test]
    fn replaced_file_has_new_content_and_no_leftovers() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("note");
        for content in ["first", "second, which is longer", ""] {
            replace(&path, content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn private_file_is_private_after_a_leftover_that_is_not() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(".key.tmp"), "half").unwrap();
        let path = dir.path().join("key");
        replace_private(&path, b"secret").unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(fs::read(&path).unwrap(), b"secret");
    }

    #[test]
    fn failed_replacement_keeps_old_file_and_no_leftovers() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("folder");
        fs::create_dir_all(path.join("full")).unwrap();
        assert!(replace(&path, b"text").is_err());
        assert!(path.join("full").is_dir());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(replace(Path::new("/"), b"text").is_err());
    }
}
