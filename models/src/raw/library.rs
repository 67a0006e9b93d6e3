//! Descriptions of shared libraries as written in TOML, and their check.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::error::{FieldErrors, ManifestError};
use super::packages::{check_package, check_path};
use super::read_toml;
use super::shape::RawPackage;
use crate::registry::library::{LibraryBuild, LibraryManifest, Notice, ONNX_RUNTIME, file_name};

/// First part of the library's name.
const LIBRARY: &str = "libonnxruntime.so";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLibrary {
    name: String,
    version: String,
    licence: String,
    build: BTreeMap<String, RawBuild>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBuild {
    package: RawPackage,
    #[serde(default)]
    notice: Vec<Notice>,
}

impl LibraryManifest {
    /// Reads and checks a description. `file` only names it in errors.
    ///
    /// # Errors
    /// [`ManifestError`] with file, key, value and what is allowed.
    pub(crate) fn parse(file: &Path, text: &str) -> Result<Self, ManifestError> {
        let raw: RawLibrary = read_toml(file, text)?;
        let mut errors = FieldErrors::default();
        errors.require(raw.name == ONNX_RUNTIME, "name", &raw.name, ONNX_RUNTIME);
        let mut builds = BTreeMap::new();
        for (arch, build) in raw.build {
            let build = check_build(&format!("build.{arch}"), build, &mut errors);
            builds.extend(build.map(|build| (arch, build)));
        }
        if !errors.0.is_empty() {
            let file = file.to_owned();
            return Err(ManifestError::Values { file, errors });
        }
        Ok(Self {
            name: raw.name,
            version: raw.version,
            licence: raw.licence,
            builds,
        })
    }
}

fn check_build(at: &str, raw: RawBuild, errors: &mut FieldErrors) -> Option<LibraryBuild> {
    let package = check_package(&format!("{at}.package"), raw.package, errors);
    if let Some(package) = &package {
        let key = format!("{at}.package.member");
        let allowed = format!("a file named {LIBRARY}, with or without its version");
        errors.require(is_library(&package.member), &key, &package.member, allowed);
    }
    for (i, Notice { member, .. }) in raw.notice.iter().enumerate() {
        let key = format!("{at}.notice[{i}].member");
        check_path(&key, member, "a file in the archive", errors);
    }
    let notices = raw.notice;
    package.map(|package| LibraryBuild { package, notices })
}

/// Whether the search for the library would find a file of this name.
fn is_library(member: &str) -> bool {
    let rest = file_name(member).strip_prefix(LIBRARY);
    rest.is_some_and(|rest| {
        rest.is_empty()
            || rest.strip_prefix('.').is_some_and(|version| {
                version
                    .split('.')
                    .all(|number| number.parse::<u32>().is_ok())
            })
    })
}
