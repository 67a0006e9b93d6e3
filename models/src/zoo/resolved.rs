//! A model with its files: where they are, and whether they are the right ones.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::digest::{self, Sha256Sum};
use crate::download;
use crate::manifest::{Manifest, Part, Task};
use crate::raw::read_bounded;

use super::error::ZooError;

/// A model ready to be loaded.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    pub manifest: Arc<Manifest>,
    /// Path of its network.
    pub path: PathBuf,
}

impl Resolved {
    /// Returns the path of a file that belongs to the model.
    pub fn part(&self, part: &Part) -> PathBuf {
        beside(&self.path, part)
    }

    /// Returns a digest of what the model computes: of its files as they are, and of the part of
    /// its manifest that decides.
    ///
    /// # Errors
    /// A file can't be read.
    pub fn digest(&self) -> io::Result<Sha256Sum> {
        let manifest = &self.manifest;
        let (name, input, decode) = (&manifest.name, &manifest.input, &manifest.decode);
        let mut described = format!("{name} {input:?} {decode:?} {:?}", manifest.text);
        if manifest.task == Task::ObjectDetection {
            let (labels, nms) = (&manifest.labels, &manifest.nms);
            described.push_str(&format!(" {} {nms:?} {labels:?}", manifest.confidence));
        }
        let parts = manifest.parts().map(|part| self.part(part));
        for path in std::iter::once(self.path.clone()).chain(parts) {
            described.push_str(&format!(" {}", digest::of_unchanged_file(&path)?));
        }
        Ok(Sha256Sum::of(described.as_bytes()))
    }

    /// Reads a file that belongs to the model and compares its checksum with the manifest's.
    ///
    /// # Errors
    /// [`ZooError`]: it can't be read, is larger than `most` bytes, or has another checksum.
    pub fn read_part(&self, part: &Part, most: u64) -> Result<Vec<u8>, ZooError> {
        let path = self.part(part);
        let bytes = read_bounded(&path, most).map_err(|source| unreadable(&path, source))?;
        check_sum(&self.manifest, part, &path, Sha256Sum::of(&bytes))?;
        Ok(bytes)
    }
}

pub(super) fn beside(network: &Path, part: &Part) -> PathBuf {
    network.with_file_name(&part.file)
}

/// Returns whether a model's network and all its other files are here.
pub(super) fn is_whole(manifest: &Manifest, network: &Path) -> bool {
    network.is_file() && manifest.parts().all(|part| beside(network, part).is_file())
}

/// Passes on the model, unless one of its other files is missing.
pub(super) fn whole(resolved: Resolved) -> Result<Resolved, ZooError> {
    let manifest = Arc::clone(&resolved.manifest);
    let mut parts = manifest.parts();
    let missing = parts.find(|part| !resolved.part(part).is_file());
    match missing.map(|part| resolved.part(part)) {
        Some(path) => Err(ZooError::PartAbsent {
            name: resolved.manifest.name.clone(),
            path,
        }),
        None => Ok(resolved),
    }
}

/// Returns the checksum of a file.
pub(super) fn sum_of(path: &Path) -> Result<Sha256Sum, ZooError> {
    match digest::of_file(path) {
        Ok((sum, _)) => Ok(sum),
        Err(source) => Err(unreadable(path, source)),
    }
}

/// Returns the checksum of a file of a model; refuses another one than that of the manifest.
pub(super) fn sum_of_part(
    manifest: &Manifest,
    part: &Part,
    path: &Path,
) -> Result<Sha256Sum, ZooError> {
    let sum = sum_of(path)?;
    check_sum(manifest, part, path, sum).map(|()| sum)
}

fn check_sum(
    manifest: &Manifest,
    part: &Part,
    path: &Path,
    found: Sha256Sum,
) -> Result<(), ZooError> {
    match part.sha256 {
        Some(expected) if expected != found => Err(ZooError::PartOther {
            name: manifest.name.clone(),
            path: path.to_owned(),
            found,
            expected,
        }),
        _ => Ok(()),
    }
}

/// Returns the checksum recorded when a file was placed.
pub(super) fn recorded_sum(file: &Path) -> Result<Option<Sha256Sum>, ZooError> {
    download::recorded_sum(file).map_err(|source| unreadable(&download::record_of(file), source))
}

pub(super) fn unreadable(path: &Path, source: io::Error) -> ZooError {
    ZooError::File {
        path: path.to_owned(),
        source,
    }
}
