//! Folders that only their owner may enter.
//!
//! - The name of a folder that was made here is durable on return. This needs a folder above it
//!   that this user can read and the device can sync.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use crate::durable::sync_folder;

/// Creates `folder` and its parents with mode 0700, and makes the new names durable. A folder that
/// exists keeps its mode.
///
/// # Errors
/// Those of the operating system, except where a folder above can't be read or synced.
pub fn make_private(folder: &Path) -> io::Result<()> {
    make_with(folder, &mut sync_folder)
}

/// Makes the names in `folder` and in the folders above it durable: a killed run may have left them
/// without. The walk ends at a folder that this user can't read, or whose device can't sync it.
///
/// # Errors
/// When the device refuses `folder` or the one above it.
pub fn sync_names(folder: &Path) -> io::Result<()> {
    sync_with(folder, &mut sync_folder)
}

type Sync<'a> = &'a mut dyn FnMut(&Path) -> io::Result<()>;

fn make_with(folder: &Path, sync: Sync<'_>) -> io::Result<()> {
    let made: Vec<&Path> = above(folder).take_while(|path| !path.exists()).collect();
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    // From the top: a name is durable once those above it are.
    for path in made.into_iter().rev() {
        if let Some(holder) = above(path).nth(1) {
            match sync(holder) {
                Err(error) if never_syncs(&error) => {}
                synced => synced?,
            }
        }
    }
    Ok(())
}

fn sync_with(folder: &Path, sync: Sync<'_>) -> io::Result<()> {
    for (height, holder) in above(folder).enumerate() {
        match sync(holder) {
            Err(error) if height > 1 || never_syncs(&error) => break,
            synced => synced?,
        }
    }
    Ok(())
}

/// Returns whether this user can't read a folder, or its file system can't sync folders.
fn never_syncs(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied};
    matches!(error.kind(), PermissionDenied | InvalidInput)
}

/// `folder` and the folders above it, up to the root or the working folder.
fn above(folder: &Path) -> impl Iterator<Item = &Path> {
    let named = |path| match path {
        path if path == Path::new("") => Path::new("."),
        path => path,
    };
    folder.ancestors().map(named)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn each_new_name_is_synced_from_the_top() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("state/journal");
        let mut synced: Vec<PathBuf> = Vec::new();
        let mut make = || {
            make_with(&folder, &mut |path| {
                synced.push(path.to_owned());
                Ok(())
            })
        };
        make().unwrap();
        make().unwrap();
        assert_eq!(synced, [dir.path().to_owned(), dir.path().join("state")]);
    }

    #[test]
    fn names_are_synced_up_to_a_folder_that_can_not_be_read() {
        let mut synced = Vec::new();
        let mut sync = |path: &Path| {
            synced.push(path.display().to_string());
            match path.to_str() {
                Some("/a") => Err(io::ErrorKind::PermissionDenied.into()),
                _ => Ok(()),
            }
        };
        sync_with(Path::new("/a/b/c"), &mut sync).unwrap();
        sync_with(Path::new("b/c"), &mut sync).unwrap();
        assert_eq!(synced, ["/a/b/c", "/a/b", "/a", "b/c", "b", "."]);
    }

    /// A device that refuses to sync `at` alone.
    fn refuse(at: &Path, with: io::ErrorKind) -> impl FnMut(&Path) -> io::Result<()> {
        move |path| match path == at {
            true => Err(with.into()),
            false => Ok(()),
        }
    }

    #[test]
    fn full_disk_is_an_error_and_a_folder_that_never_syncs_is_none() {
        let folder = Path::new("/a/b/c");
        for (with, refused) in [
            (io::ErrorKind::StorageFull, [true, true, false, false]),
            (io::ErrorKind::PermissionDenied, [false; 4]),
            (io::ErrorKind::InvalidInput, [false; 4]),
        ] {
            let sync = |at: &str| sync_with(folder, &mut refuse(Path::new(at), with)).is_err();
            assert_eq!(["/a/b/c", "/a/b", "/a", "/"].map(sync), refused, "{with}");
            let dir = tempfile::tempdir().unwrap();
            let new = dir.path().join("state/journal");
            let made = make_with(&new, &mut refuse(dir.path(), with));
            assert_eq!((made.is_err(), new.is_dir()), (refused[0], true), "{with}");
        }
    }
}
