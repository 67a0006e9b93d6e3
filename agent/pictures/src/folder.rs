//! Files below a folder, for every reader of a folder by its path.
//!
//! - The order is that of paths. A folder beyond the bounds is refused whole.
//! - Symbolic links, hidden files, and what is no regular file, are not read and are named with
//!   the cause.
//! - Hidden folders are passed over, files of another kind counted.
//!
//! Not here: the walk of the archive below its roots, which trusts no path.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Most pictures of one listing.
const MAX_PICTURES: usize = 100_000;

/// Most folders of one listing, with pictures or without.
const MAX_FOLDERS: usize = 100_000;

/// File that marks a folder as written by a job; its pictures are copies.
pub const JOB_MARKER: &str = ".watchkeeper-job";

/// Deepest subfolder whose files are listed.
pub const MAX_DEPTH: usize = 16;

/// Endings of picture files, in lower case.
const ENDINGS: [&str; 4] = ["jpg", "jpeg", "png", "webp"];

/// Why a folder can't be listed.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("folder {} can't be read: {source}", folder.display())]
    Io { folder: PathBuf, source: io::Error },
    #[error("folder {} has more than {most} {what}; take its subfolders one by one", folder.display())]
    TooMany {
        folder: PathBuf,
        most: usize,
        what: &'static str,
    },
    #[error("folder {} is more than {MAX_DEPTH} levels down; take it by itself", .0.display())]
    TooDeep(PathBuf),
}

/// The files of a folder, ordered by path.
#[derive(Debug, Default)]
pub struct FolderFiles {
    pub files: Vec<PathBuf>,
    /// Paths that are not read, with the cause.
    pub skipped: Vec<(PathBuf, &'static str)>,
    /// Number of files of another kind, and one of them.
    pub others: usize,
    pub other: Option<PathBuf>,
}

/// Lists picture files by their endings; a file that is named itself is all. Outputs of jobs in
/// subfolders are passed over.
///
/// # Errors
/// If a folder can't be read, has more than 100,000 pictures, or has pictures deeper than
/// [`MAX_DEPTH`].
pub fn pictures(folder: &Path, with_subfolders: bool) -> Result<FolderFiles, FolderError> {
    if folder.is_file() {
        return Ok(FolderFiles {
            files: vec![folder.to_owned()],
            ..FolderFiles::default()
        });
    }
    let walk = Walk {
        most: MAX_PICTURES,
        what: "pictures",
        wants: is_picture,
        enters: match with_subfolders {
            true => |folder| !folder.join(JOB_MARKER).exists(),
            false => |_| false,
        },
    };
    walk.run(folder)
}

/// Lists all files, at most `most`.
///
/// # Errors
/// If a folder can't be read, has more files, or has files deeper than [`MAX_DEPTH`].
pub fn all_files(folder: &Path, most: usize) -> Result<FolderFiles, FolderError> {
    let walk = Walk {
        most,
        what: "files",
        wants: |_| true,
        enters: |_| true,
    };
    walk.run(folder)
}

/// State of a walk through a folder.
struct Walk {
    most: usize,
    /// Plural of what is wanted.
    what: &'static str,
    wants: fn(&Path) -> bool,
    /// Whether a subfolder is listed too.
    enters: fn(&Path) -> bool,
}

impl Walk {
    fn run(&self, folder: &Path) -> Result<FolderFiles, FolderError> {
        let mut found = FolderFiles::default();
        let too_many = |most, what| FolderError::TooMany {
            folder: folder.to_owned(),
            most,
            what,
        };
        let mut open = vec![(folder.to_owned(), 0)];
        let mut folders = 0;
        while let Some((here, depth)) = open.pop() {
            let io = |source| FolderError::Io {
                folder: here.clone(),
                source,
            };
            for entry in fs::read_dir(&here).map_err(io)? {
                let entry = entry.map_err(io)?;
                let (path, kind) = (entry.path(), entry.file_type().map_err(io)?);
                let name = entry.file_name();
                let is_hidden = name.as_encoded_bytes().starts_with(b".");
                if name == JOB_MARKER || (is_hidden && kind.is_dir()) {
                    continue;
                }
                if kind.is_dir() {
                    folders += 1;
                    if folders > MAX_FOLDERS {
                        return Err(too_many(MAX_FOLDERS, "folders"));
                    }
                    if (self.enters)(&path) {
                        open.push((path, depth + 1));
                    }
                    continue;
                }
                let is_wanted = match kind.is_symlink() && path.is_dir() {
                    true => (self.enters)(&path),
                    false => (self.wants)(&path),
                };
                if !is_wanted {
                    if kind.is_file() && !is_hidden {
                        found.others += 1;
                        found.other.get_or_insert(path);
                    }
                    continue;
                }
                if depth > MAX_DEPTH {
                    return Err(FolderError::TooDeep(here));
                }
                match () {
                    () if is_hidden => found.skipped.push((path, "its name begins with a dot")),
                    () if kind.is_file() => found.files.push(path),
                    () if kind.is_symlink() => found.skipped.push((path, "it is a symbolic link")),
                    () => found.skipped.push((path, "it is no regular file")),
                }
                if found.files.len() + found.skipped.len() > self.most {
                    return Err(too_many(self.most, self.what));
                }
            }
        }
        found.files.sort();
        found.skipped.sort();
        Ok(found)
    }
}

fn is_picture(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| {
        ENDINGS
            .iter()
            .any(|known| ending.eq_ignore_ascii_case(known))
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn number(folder: &Path) -> usize {
        pictures(folder, true).unwrap().files.len()
    }

    #[test]
    fn listing_is_ordered_and_skips_other_and_hidden_files() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("b/.cache")).unwrap();
        for name in [
            "c.JPG",
            "a.png",
            "b/d.jpeg",
            "b/.cache/e.jpg",
            ".f.jpg",
            "notes.txt",
        ] {
            fs::write(dir.path().join(name), b"").unwrap();
        }
        let names = |with_subfolders| -> Vec<String> {
            let found = pictures(dir.path(), with_subfolders).unwrap().files;
            let inner = found
                .iter()
                .map(|path| path.strip_prefix(dir.path()).unwrap());
            inner.map(|path| path.display().to_string()).collect()
        };
        let found = pictures(dir.path(), true).unwrap();
        let other = dir.path().join("notes.txt");
        assert_eq!((found.others, found.other), (1, Some(other)));
        let hidden = (dir.path().join(".f.jpg"), "its name begins with a dot");
        assert_eq!(found.skipped, [hidden]);
        assert_eq!(names(false), ["a.png", "c.JPG"]);
        assert_eq!(names(true), ["a.png", "b/d.jpeg", "c.JPG"]);
    }

    #[test]
    fn output_of_a_job_is_not_read_back() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("best")).unwrap();
        for name in ["a.png", "best/a.png", "best/.watchkeeper-job"] {
            fs::write(dir.path().join(name), b"").unwrap();
        }
        assert_eq!(number(dir.path()), 1);
        assert_eq!(number(&dir.path().join("best")), 1);
    }

    #[test]
    fn folder_that_is_nested_too_deep_is_refused_whole() {
        let dir = tempfile::tempdir().unwrap();
        let deepest = dir.path().join("a/".repeat(MAX_DEPTH));
        fs::create_dir_all(&deepest).unwrap();
        fs::write(deepest.join("x.jpg"), b"").unwrap();
        assert_eq!(number(dir.path()), 1);
        let deeper = deepest.join("b");
        fs::create_dir(&deeper).unwrap();
        assert_eq!(number(dir.path()), 1);
        fs::write(deeper.join("y.jpg"), b"").unwrap();
        let refused = pictures(dir.path(), true).unwrap_err();
        assert!(
            matches!(&refused, FolderError::TooDeep(named) if *named == deeper),
            "{refused}"
        );
        assert!(pictures(dir.path(), false).unwrap().files.is_empty());
    }

    #[test]
    fn missing_folder_is_named() {
        let error = pictures(Path::new("/no/such/folder"), true).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("folder /no/such/folder can't be read")
        );
    }

    #[test]
    fn links_are_named_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/a.jpg"), b"").unwrap();
        for (link, to) in [
            ("b.jpg", Path::new("/etc/passwd")),
            ("c", &dir.path().join("sub")),
            ("d.txt", &dir.path().join("sub/a.jpg")),
        ] {
            symlink(to, dir.path().join(link)).unwrap();
        }
        let skipped = |found: &FolderFiles| -> Vec<String> {
            let named = found.skipped.iter();
            let named = named.map(|(path, why)| format!("{}: {why}", path.display()));
            named
                .map(|text| text.replace(&format!("{}/", dir.path().display()), ""))
                .collect()
        };
        let link = |name| format!("{name}: it is a symbolic link");
        let found = pictures(dir.path(), true).unwrap();
        assert_eq!(found.files, [dir.path().join("sub/a.jpg")]);
        assert_eq!(skipped(&found), [link("b.jpg"), link("c")]);
        let flat = pictures(dir.path(), false).unwrap();
        assert_eq!(skipped(&flat), [link("b.jpg")]);
        let all = all_files(dir.path(), 10).unwrap();
        assert_eq!(skipped(&all), [link("b.jpg"), link("c"), link("d.txt")]);
    }

    #[test]
    fn folder_with_too_many_files_is_refused_whole() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            fs::write(dir.path().join(name), b"").unwrap();
        }
        assert_eq!(all_files(dir.path(), 3).unwrap().files.len(), 3);
        let refused = all_files(dir.path(), 2).unwrap_err().to_string();
        assert!(refused.contains("more than 2 files"), "{refused}");
    }
}
