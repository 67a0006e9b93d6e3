//! Files below the configured folders. Everything here blocks.
//!
//! - A path is absolute, without `..`, and begins with a configured folder.
//! - Below that folder it is opened name by name without following symbolic links, so a link that
//!   appears meanwhile changes nothing. Only regular files are read.
//! - A folder is walked to a depth of 16, and to 10,000 files and as many folders. One that can't
//!   be opened is named.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, fstat, openat};
use watchkeeper_archive::ArchiveError;
use watchkeeper_archive::source::MAX_FILES;
use watchkeeper_pictures::folder::MAX_DEPTH;

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// A pipe does not block the opening.
const FILE: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

/// A file of a folder: its path below the folder, and the open file.
pub(super) type FoundFile = (String, File);

/// Opens a file below one of `roots`.
pub(super) fn open_file(roots: &[PathBuf], path: &Path) -> Result<File, ArchiveError> {
    let (root, below) = place(roots, path)?;
    let (last, folders) = below
        .split_last()
        .ok_or_else(|| unreadable(path, &"it is a folder; use folder::"))?;
    let folder = open_folder(root, folders, path)?;
    let file = open_at(&folder, last, FILE, path)?;
    regular(file).ok_or_else(|| unreadable(path, &"it is no regular file"))
}

/// Opens the files below a folder one after another, and passes each to `visit`. Returns those that
/// can't be opened, links, pipes and the like, each with the cause.
pub(super) fn walk(
    roots: &[PathBuf],
    path: &Path,
    mut visit: impl FnMut(FoundFile) -> Result<(), ArchiveError>,
) -> Result<Vec<String>, ArchiveError> {
    let (root, below) = place(roots, path)?;
    let folder = open_folder(root, &below, path)?;
    let mut walk = Walk {
        path,
        seen: 0,
        folders: 0,
        skipped: Vec::new(),
        visit: &mut visit,
    };
    walk.folder(&folder, "", 0)?;
    Ok(walk.skipped)
}

/// The root of a path, and the names below it.
fn place<'a>(
    roots: &'a [PathBuf],
    path: &'a Path,
) -> Result<(&'a Path, Vec<&'a OsStr>), ArchiveError> {
    let is_plain = path.is_absolute() && path.components().all(|c| c != Component::ParentDir);
    let root = roots.iter().find(|root| is_plain && path.starts_with(root));
    let root = root.ok_or_else(|| {
        ArchiveError::Refused(format!(
            "{} is not below a folder of agent.archive.ingest_roots; add its folder there, or \
             ingest it with the command line",
            format_path(path)
        ))
    })?;
    let below = path.strip_prefix(root).unwrap_or(path);
    Ok((root, below.iter().collect()))
}

/// Opens the folder of `path`: the root, then each name below it.
fn open_folder(root: &Path, below: &[&OsStr], path: &Path) -> Result<OwnedFd, ArchiveError> {
    // The operator may have named the root by a link.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut folder = open_at(&CWD, root.as_os_str(), flags, path)?;
    for name in below {
        folder = open_at(&folder, name, DIRECTORY, path)?;
    }
    Ok(folder)
}

fn open_at(
    folder: &impl AsFd,
    name: &OsStr,
    flags: OFlags,
    path: &Path,
) -> Result<OwnedFd, ArchiveError> {
    openat(folder, name, flags, Mode::empty()).map_err(|errno| unreadable(path, &errno))
}

fn regular(file: OwnedFd) -> Option<File> {
    let kind = FileType::from_raw_mode(fstat(&file).ok()?.st_mode);
    (kind == FileType::RegularFile).then(|| file.into())
}

fn format_path(path: &Path) -> String {
    path.display().to_string().chars().take(120).collect()
}

fn unreadable(path: &Path, why: &dyn std::fmt::Display) -> ArchiveError {
    ArchiveError::Source(format!("{} can't be read: {why}", format_path(path)))
}

struct Walk<'a, F> {
    path: &'a Path,
    seen: usize,
    folders: usize,
    skipped: Vec<String>,
    visit: &'a mut F,
}

impl<F: FnMut(FoundFile) -> Result<(), ArchiveError>> Walk<'_, F> {
    fn folder(&mut self, folder: &OwnedFd, below: &str, depth: usize) -> Result<(), ArchiveError> {
        if depth > MAX_DEPTH {
            let why = format!("folders are nested deeper than {MAX_DEPTH}");
            return Err(unreadable(self.path, &why));
        }
        // A tree of empty folders ends too.
        self.folders += 1;
        if self.folders > MAX_FILES {
            return Err(self.too_many());
        }
        for name in self.names(folder)? {
            let text = name.to_string_lossy();
            let inner = match below {
                "" => text.into_owned(),
                below => format!("{below}/{text}"),
            };
            match openat(folder, &name, DIRECTORY, Mode::empty()) {
                Ok(open) => {
                    self.folder(&open, &inner, depth + 1)?;
                    continue;
                }
                // No folder, or a link.
                Err(rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP) => {}
                Err(errno) => return Err(unreadable(self.path, &errno)),
            }
            self.file(openat(folder, &name, FILE, Mode::empty()), inner)?;
        }
        Ok(())
    }

    fn file(
        &mut self,
        opened: rustix::io::Result<OwnedFd>,
        below: String,
    ) -> Result<(), ArchiveError> {
        use rustix::io::Errno;
        let file = match opened.map(regular) {
            Ok(Some(file)) => Ok(file),
            Err(Errno::LOOP) => Err("it is a symbolic link".to_owned()),
            // A socket or a pipe.
            Err(Errno::NXIO) | Ok(None) => Err("it is no regular file".to_owned()),
            Err(errno) => Err(errno.to_string()),
        };
        self.seen += 1;
        if self.seen > MAX_FILES {
            return Err(self.too_many());
        }
        match file {
            Ok(file) => (self.visit)((below, file)),
            Err(why) => {
                let why = unreadable(Path::new(&below), &why);
                self.skipped.push(why.to_string());
                Ok(())
            }
        }
    }

    fn too_many(&self) -> ArchiveError {
        let why = format!("it has more than {MAX_FILES} files or folders; ingest a smaller one");
        unreadable(self.path, &why)
    }

    /// The names in a folder, in order, without hidden ones.
    fn names(&self, folder: &OwnedFd) -> Result<Vec<OsString>, ArchiveError> {
        let fault = |errno: rustix::io::Errno| unreadable(self.path, &errno);
        let mut names = Vec::new();
        for entry in Dir::read_from(folder).map_err(fault)? {
            let entry = entry.map_err(fault)?;
            let name = entry.file_name().to_bytes();
            if !name.starts_with(b".") {
                names.push(OsStr::from_bytes(name).to_owned());
            }
            if names.len() > MAX_FILES {
                return Err(self.too_many());
            }
        }
        names.sort();
        Ok(names)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_regular_files_below_a_root_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("in");
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::write(root.join("sub/a.txt"), "a").unwrap();
        fs::write(folder.path().join("secret"), "s").unwrap();
        symlink(folder.path().join("secret"), root.join("link")).unwrap();
        symlink(folder.path(), root.join("up")).unwrap();
        let roots = [root.clone()];
        assert!(open_file(&roots, &root.join("sub/a.txt")).is_ok());
        for bad in ["link", "up/secret", "sub", "sub/../../secret", "none"] {
            assert!(open_file(&roots, &root.join(bad)).is_err(), "{bad}");
        }
        for bad in ["/etc/passwd", "sub/a.txt", ""] {
            let refused = open_file(&roots, Path::new(bad)).unwrap_err().to_string();
            assert!(refused.contains("ingest_roots"), "{refused}");
        }
        let beside = PathBuf::from(format!("{}2/a", root.display()));
        assert!(open_file(&roots, &beside).is_err());
    }

    #[test]
    fn folder_is_walked_in_order_without_links_and_hidden_files() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b/2", "b/1", "a", ".hidden", "c"] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        symlink("/etc/passwd", folder.path().join("d")).unwrap();
        let mut names = Vec::new();
        let visit = |(name, _): FoundFile| {
            names.push(name);
            Ok(())
        };
        symlink(folder.path().join("b"), folder.path().join("e")).unwrap();
        let skipped = walk(&[folder.path().to_owned()], folder.path(), visit).unwrap();
        assert_eq!(names, ["a", "b/1", "b/2", "c"]);
        let link = |name| format!("{name} can't be read: it is a symbolic link");
        assert_eq!(skipped, [link("d"), link("e")]);
    }

    #[test]
    fn file_that_can_not_be_opened_is_named_and_others_follow() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "x").unwrap();
        let mut names = Vec::new();
        let mut visit = |(name, _): FoundFile| {
            names.push(name);
            Ok(())
        };
        let mut walk = Walk {
            path: folder.path(),
            seen: 0,
            folders: 0,
            skipped: Vec::new(),
            visit: &mut visit,
        };
        for (errno, name) in [
            (rustix::io::Errno::ACCESS, "b/locked"),
            (rustix::io::Errno::LOOP, "b/link"),
        ] {
            walk.file(Err(errno), name.to_owned()).unwrap();
        }
        let opened = openat(CWD, folder.path().join("a"), FILE, Mode::empty());
        walk.file(opened, "a".to_owned()).unwrap();
        let [locked, link] = walk.skipped.as_slice() else {
            panic!("{:?}", walk.skipped);
        };
        assert!(locked.contains("b/locked can't be read"), "{locked}");
        assert!(
            link.contains("b/link can't be read: it is a symbolic"),
            "{link}"
        );
        assert_eq!(names, ["a"]);
    }
}
