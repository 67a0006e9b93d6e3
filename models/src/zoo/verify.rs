//! Compares files with their checksums. Nothing here changes a file.

use std::path::PathBuf;

use crate::digest::{self, Sha256Sum};

use super::Zoo;
use super::error::ZooError;
use super::resolved::{Resolved, recorded_sum, sum_of_part, unreadable};

/// Result of comparing a file with its manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    pub path: PathBuf,
    pub sha256: Sha256Sum,
    /// Size in bytes.
    pub bytes: u64,
    /// Source of the expected checksum.
    pub against: ChecksumSource,
}

/// Source of an expected checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChecksumSource {
    /// A known export in the manifest.
    Manifest,
    /// The sum recorded when the file was placed.
    Record,
    /// Nowhere: there is no known sum.
    Nothing,
}

impl Zoo {
    /// Reads the whole file and compares its checksum with the known exports, or with the one
    /// recorded when it was placed.
    ///
    /// # Errors
    /// [`ZooError`], such as `Changed`.
    pub fn verify(&self, name_or_path: &str) -> Result<Verified, ZooError> {
        let resolved = self.resolve(name_or_path)?;
        verify_parts(&resolved)?;
        let Resolved { manifest, path } = resolved;
        let (sha256, bytes) = digest::of_file(&path).map_err(|source| unreadable(&path, source))?;
        let changed = |expected: Sha256Sum| {
            let known = manifest.known_file(expected).and_then(|file| file.bytes);
            let size = known.filter(|known| *known != bytes);
            ZooError::Changed {
                name: manifest.name.clone(),
                path: path.clone(),
                found: sha256,
                expected,
                size: size.map(|known| [bytes, known]),
            }
        };
        let against = if manifest.known_file(sha256).is_some() {
            ChecksumSource::Manifest
        } else if let Some(expected) = recorded_sum(&path)? {
            if expected != sha256 {
                return Err(changed(expected));
            }
            ChecksumSource::Record
        } else if let Some(expected) = manifest.files.iter().find_map(|f| f.sha256)
            && manifest.files.iter().all(|f| f.sha256.is_some())
        {
            return Err(changed(expected));
        } else {
            ChecksumSource::Nothing
        };
        Ok(Verified {
            path,
            sha256,
            bytes,
            against,
        })
    }
}

/// Compares the model's other files with their checksums: those in the manifest, and those recorded
/// when they were placed.
fn verify_parts(resolved: &Resolved) -> Result<(), ZooError> {
    for part in resolved.manifest.parts() {
        let path = resolved.part(part);
        let found = sum_of_part(&resolved.manifest, part, &path)?;
        if let Some(expected) = recorded_sum(&path)?.filter(|sum| *sum != found) {
            return Err(ZooError::Changed {
                name: resolved.manifest.name.clone(),
                path,
                found,
                expected,
                size: None,
            });
        }
    }
    Ok(())
}
