//! What is fetched, and which checksum it must have.

use std::path::PathBuf;

use super::error::DownloadError;
use super::record::{record_of, recorded_sum};
use crate::digest::Sha256Sum;
use crate::registry::RegistryPackage;

/// Whether a file of unknown checksum may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Only files whose checksum the manifest has.
    KnownOnly,
    /// Any file the first time; its sum is recorded, and later files must have it.
    FirstUse,
    /// A file with exactly this sum, which the user has from elsewhere.
    Sum(Sha256Sum),
}

/// A file to fetch, and what it has to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullPlan {
    /// Name of the model.
    pub name: String,
    pub url: String,
    /// Checksum, where known.
    pub sha256: Option<Sha256Sum>,
    /// Size in bytes, where known.
    pub bytes: Option<u64>,
    /// Policy for an unknown checksum.
    pub trust: Trust,
    /// Path of the file.
    pub target: PathBuf,
    /// The package that the file comes out of; absent if it is published by itself.
    pub package: Option<RegistryPackage>,
}

impl PullPlan {
    /// Returns the checksum that the file must have: the published one, the user's, else the one
    /// recorded when the file was installed first.
    ///
    /// # Errors
    /// [`DownloadError::Record`].
    pub(super) fn wanted_sum(&self) -> Result<Option<Sha256Sum>, DownloadError> {
        match (self.sha256, self.trust) {
            (Some(sum), _) | (None, Trust::Sum(sum)) => Ok(Some(sum)),
            // A newer version of this program may convert the same package to other bytes.
            (None, _) if self.package.is_some() => Ok(None),
            (None, Trust::FirstUse | Trust::KnownOnly) => {
                recorded_sum(&self.target).map_err(|source| DownloadError::Record {
                    record: record_of(&self.target),
                    target: self.target.clone(),
                    name: self.name.clone(),
                    source,
                })
            }
        }
    }

    /// Returns the error about a file with another checksum than the wanted one.
    pub(super) fn wrong_sum(self, found: Sha256Sum, expected: Sha256Sum) -> DownloadError {
        let url = self.url;
        match (self.sha256, self.trust) {
            (None, Trust::FirstUse | Trust::KnownOnly) => DownloadError::NotAsRecorded {
                url,
                found,
                recorded: expected,
                record: record_of(&self.target),
                target: self.target,
                name: self.name,
            },
            (Some(_), _) | (None, Trust::Sum(_)) => DownloadError::WrongSum {
                url,
                found,
                expected,
            },
        }
    }
}
