//! Picture files in a folder.
//!
//! - The order is that of paths. A folder beyond the bounds is refused whole.
//! - Links to folders are not followed; hidden names and outputs of jobs are passed over.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Most files of one listing.
pub const MAX_FILES: usize = 100_000;

/// File that marks a folder as written by a job; its pictures are copies.
pub const JOB_MARKER: &str = ".watchkeeper-job";

/// Deepest subfolder whose pictures are listed.
const MAX_DEPTH: usize = 16;

/// Endings of picture files, in lower case.
const ENDINGS: [&str; 3] = ["jpg", "jpeg", "png"];

/// Why a folder can't be listed.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("folder {} can't be read: {source}", folder.display())]
    Io { folder: PathBuf, source: io::Error },
    #[error("folder {} has more than {MAX_FILES} pictures; list its subfolders one by one", .0.display())]
    TooMany(PathBuf),
    #[error("folder {} is more than {MAX_DEPTH} levels down; list it by itself", .0.display())]
    TooDeep(PathBuf),
}

/// Lists picture files by their endings, ordered by path. Links to folders, hidden files, hidden
/// folders and outputs of jobs in subfolders are skipped.
///
/// # Errors
/// If a folder can't be read, has more than [`MAX_FILES`] pictures, or has pictures deeper than
/// [`MAX_DEPTH`].
pub fn pictures(folder: &Path, with_subfolders: bool) -> Result<Vec<PathBuf>, FolderError> {
    let mut found = Vec::new();
    let mut open = vec![(folder.to_owned(), 0)];
    while let Some((here, depth)) = open.pop() {
        let io = |source| FolderError::Io {
            folder: here.clone(),
            source,
        };
        for entry in fs::read_dir(&here).map_err(io)? {
            let entry = entry.map_err(io)?;
            let kind = entry.file_type().map_err(io)?;
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let is_output = || entry.path().join(JOB_MARKER).exists();
            if kind.is_dir() && with_subfolders && !is_output() {
                open.push((entry.path(), depth + 1));
            } else if is_picture(&entry.path()) && is_file(&entry.path(), kind) {
                if depth > MAX_DEPTH {
                    return Err(FolderError::TooDeep(here));
                }
                found.push(entry.path());
            }
            if found.len() > MAX_FILES {
                return Err(FolderError::TooMany(folder.to_owned()));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns whether a file can be read: no pipe, socket or device, and not by a link either.
fn is_file(path: &Path, kind: fs::FileType) -> bool {
    kind.is_file() || (kind.is_symlink() && path.is_file())
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
    use super::*;

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
            let found = pictures(dir.path(), with_subfolders).unwrap();
            let inner = found
                .iter()
                .map(|path| path.strip_prefix(dir.path()).unwrap());
            inner.map(|path| path.display().to_string()).collect()
        };
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
        assert_eq!(pictures(dir.path(), true).unwrap().len(), 1);
        assert_eq!(pictures(&dir.path().join("best"), true).unwrap().len(), 1);
    }

    #[test]
    fn folder_that_is_nested_too_deep_is_refused_whole() {
        let dir = tempfile::tempdir().unwrap();
        let deepest = dir.path().join("a/".repeat(MAX_DEPTH));
        fs::create_dir_all(&deepest).unwrap();
        fs::write(deepest.join("x.jpg"), b"").unwrap();
        assert_eq!(pictures(dir.path(), true).unwrap().len(), 1);
        let deeper = deepest.join("b");
        fs::create_dir(&deeper).unwrap();
        assert_eq!(pictures(dir.path(), true).unwrap().len(), 1);
        fs::write(deeper.join("y.jpg"), b"").unwrap();
        let refused = pictures(dir.path(), true).unwrap_err();
        assert!(
            matches!(&refused, FolderError::TooDeep(named) if *named == deeper),
            "{refused}"
        );
        assert!(pictures(dir.path(), false).unwrap().is_empty());
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
}
