//! Files against their checksums.
//!
//! Invariant: nothing here changes a file.

use std::path::{Path, PathBuf};

use crate::digest::{self, Sha256Sum};
use crate::download;
use crate::manifest::{Manifest, Part};

use super::{Resolved, Zoo, ZooError, unreadable};

/// What a check of a file against its manifest gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The file.
    pub path: PathBuf,
    /// Its checksum.
    pub sha256: Sha256Sum,
    /// Its size in bytes.
    pub bytes: u64,
    /// What the checksum was compared with.
    pub against: Against,
}

/// What a checksum was compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Against {
    /// A known export in the manifest.
    Manifest,
    /// The sum written down when the file was put here.
    Record,
    /// Nothing: there is no known sum.
    Nothing,
}

impl Zoo {
    /// Reads the whole file and compares its checksum with the known exports, or with the one written down when the file
    /// was put here.
    ///
    /// # Errors
    /// [`ZooError`], such as `Changed`.
    pub fn verify(&self, name_or_path: &str) -> Result<Verified, ZooError> {
        let resolved = self.resolve(name_or_path)?;
        verify_parts(&resolved)?;
        let Resolved { manifest, path } = resolved;
        let (sha256, bytes) = digest::of_file(&path).map_err(|source| unreadable(&path, source))?;
        let recorded = download::recorded_sum(&path);
        let against = if manifest.known_file(sha256).is_some() {
            Against::Manifest
        } else if let Some(expected) = recorded {
            if expected != sha256 {
                return Err(ZooError::Changed {
                    name: manifest.name.clone(),
                    path,
                    found: sha256,
                    expected,
                });
            }
            Against::Record
        } else if let Some(expected) = manifest.files.iter().find_map(|f| f.sha256)
            && manifest.files.iter().all(|f| f.sha256.is_some())
        {
            return Err(ZooError::Changed {
                name: manifest.name.clone(),
                path,
                found: sha256,
                expected,
            });
        } else {
            Against::Nothing
        };
        Ok(Verified {
            path,
            sha256,
            bytes,
            against,
        })
    }
}

/// Refuses a file that belongs to a model whose checksum is another than in the manifest.
pub(super) fn meant(
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

/// Compares the files that belong to a model with their checksums: those in the manifest, and those written down when they were put here.
fn verify_parts(resolved: &Resolved) -> Result<(), ZooError> {
    for part in resolved.manifest.parts() {
        let path = resolved.part(part);
        let (found, _) = digest::of_file(&path).map_err(|source| unreadable(&path, source))?;
        meant(&resolved.manifest, part, &path, found)?;
        if let Some(expected) = download::recorded_sum(&path).filter(|sum| *sum != found) {
            return Err(ZooError::Changed {
                name: resolved.manifest.name.clone(),
                path,
                found,
                expected,
            });
        }
    }
    Ok(())
}
