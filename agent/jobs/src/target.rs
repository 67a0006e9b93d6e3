//! New files and folders of a step: they appear under their name when they are complete.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use watchkeeper_store::durable;

/// A file or folder that the disk refuses.
#[derive(Debug, thiserror::Error)]
#[error("{} can't be {what}: {source}; check the space and permissions of its disk", path.display())]
pub struct TargetError {
    path: PathBuf,
    what: &'static str,
    source: io::Error,
}

/// A reserved name in the output folder, and the place where its content is made.
#[derive(Debug)]
pub struct Target {
    part: PathBuf,
    path: PathBuf,
}

impl Target {
    /// Removes what an earlier attempt has left.
    pub(crate) fn new(output: &Path, name: &str) -> Result<Self, TargetError> {
        let target = Self {
            part: part(output, name),
            path: output.join(name),
        };
        for old in [&target.part, &target.path] {
            remove(old).map_err(|error| failed(old, "replaced", error))?;
        }
        Ok(target)
    }

    /// Returns where to write: a path at which nothing is.
    pub fn part(&self) -> &Path {
        &self.part
    }

    /// Returns the path that it will have.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives what was written its name; durable on return.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn publish(self) -> Result<PathBuf, TargetError> {
        let above = self.path.parent().unwrap_or(Path::new("/"));
        let published = sync(&self.part)
            .and_then(|()| fs::rename(&self.part, &self.path))
            .and_then(|()| durable::sync_folder(above));
        published.map_err(|error| failed(&self.path, "written", error))?;
        Ok(self.path)
    }
}

/// Place in the output folder where the content of `name` is made.
pub(crate) fn part(output: &Path, name: &str) -> PathBuf {
    output.join(format!(".{name}.part"))
}

fn failed(path: &Path, what: &'static str, source: io::Error) -> TargetError {
    TargetError {
        path: path.to_owned(),
        what,
        source,
    }
}

/// Removes a file or folder, if it is there.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes a file, or a folder with all that is in it, durable.
fn sync(path: &Path) -> io::Result<()> {
    if !path.is_dir() {
        return File::open(path)?.sync_all();
    }
    for entry in fs::read_dir(path)? {
        sync(&entry?.path())?;
    }
    durable::sync_folder(path)
}
