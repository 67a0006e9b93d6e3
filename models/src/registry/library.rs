//! What a description says of a shared library and its packages.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::package::RegistryPackage;
use crate::digest::Sha256Sum;

/// Name of ONNX Runtime among the libraries.
pub const ONNX_RUNTIME: &str = "onnxruntime";

/// A library and its packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibraryManifest {
    pub name: String,
    pub version: String,
    /// Licence of the library, an SPDX expression.
    pub licence: String,
    /// By processor architecture, as [`std::env::consts::ARCH`] names it.
    pub(crate) builds: BTreeMap<String, LibraryBuild>,
}

/// The package for one processor architecture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibraryBuild {
    /// Package whose `member` is the library.
    pub package: RegistryPackage,
    pub(crate) notices: Vec<Notice>,
}

/// A text about the licence in the package.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Notice {
    pub(crate) member: String,
    pub(crate) sha256: Sha256Sum,
}

/// The last name of a path in an archive.
pub(crate) fn file_name(member: &str) -> &str {
    member.rsplit('/').next().unwrap_or(member)
}
