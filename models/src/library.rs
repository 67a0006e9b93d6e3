//! Shared libraries of back ends, out of packages of a registry.
//!
//! - A description has one package for each processor architecture, with checksums of the archive
//!   and of every file that is taken out of it.
//! - `NAME.toml` in the folder of the libraries replaces the built-in description.
//! - The texts of the licence get their names before the library does.
//! - Not here: the transfer ([`crate::download`]), and the search for an installed library.

use std::io;
use std::path::{Path, PathBuf};

use crate::digest::Sha256Sum;
use crate::download::{PullPlan, Trust};
use crate::raw::{ManifestError, read_small};
use crate::registry::RegistryPackage;
use crate::registry::library::{LibraryBuild, LibraryManifest, ONNX_RUNTIME, file_name};

const BUILT_IN: &str = include_str!("../libraries/onnxruntime.toml");

/// Largest description in bytes.
const MAX_FILE: u64 = 64 << 10;

/// Why a library can't be fetched. One sentence each.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("can't read {path}: {source}; repair it, or remove it to use the built-in description")]
    Read { path: PathBuf, source: io::Error },
    #[error(
        "no package of {name} for {arch} is known, only for {known}; build the library and set \
         runtime.inference.ort_library, or continue with the built-in back end"
    )]
    Architecture {
        name: String,
        arch: String,
        known: String,
    },
    #[error("can't read {path}: {source}; name a readable copy of {url}")]
    Package {
        path: PathBuf,
        source: io::Error,
        url: String,
    },
    /// A package of another processor architecture.
    #[error("{path} is the package of {found}, but this box is {arch}; copy {url}")]
    OtherArchitecture {
        path: PathBuf,
        /// Name, version and architecture.
        found: String,
        arch: String,
        url: String,
    },
    /// A file that is not a known package.
    #[error("{path} has sha256 {found}, which is not that of {wanted}; copy {url}")]
    OtherFile {
        path: PathBuf,
        found: Sha256Sum,
        /// Name, version and architecture.
        wanted: String,
        url: String,
    },
}

impl LibraryManifest {
    /// Reads the description of ONNX Runtime: that in `folder`, else the built-in one.
    ///
    /// # Errors
    /// [`LibraryError`]: the file in the folder can't be read, or is wrong.
    pub fn onnx_runtime(folder: &Path) -> Result<Self, LibraryError> {
        let path = folder.join(format!("{ONNX_RUNTIME}.toml"));
        match read_small(&path, MAX_FILE) {
            Ok(text) => Ok(Self::parse(&path, &text)?),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                Ok(Self::parse(Path::new("built in"), BUILT_IN)?)
            }
            Err(source) => Err(LibraryError::Read { path, source }),
        }
    }

    /// Returns the package for a processor architecture.
    ///
    /// # Errors
    /// [`LibraryError::Architecture`].
    pub fn build(&self, arch: &str) -> Result<&LibraryBuild, LibraryError> {
        self.builds
            .get(arch)
            .ok_or_else(|| LibraryError::Architecture {
                name: self.name.clone(),
                arch: arch.to_owned(),
                known: self.builds.keys().cloned().collect::<Vec<_>>().join(", "),
            })
    }

    /// Checks that a file is the package for `arch`.
    ///
    /// # Errors
    /// [`LibraryError`]: it can't be read, or is another file.
    pub fn check_package(&self, path: &Path, arch: &str) -> Result<(), LibraryError> {
        let package = &self.build(arch)?.package;
        let path = || path.to_owned();
        let (found, _) =
            crate::digest::of_file(&path()).map_err(|source| LibraryError::Package {
                path: path(),
                source,
                url: package.url(),
            })?;
        if found == package.sha256 {
            return Ok(());
        }
        let called = |arch: &str| format!("{} {} for {arch}", self.name, self.version);
        let (path, url) = (path(), package.url());
        let other = self.builds.iter().find(|(_, b)| b.package.sha256 == found);
        Err(match other {
            Some((other, _)) => LibraryError::OtherArchitecture {
                path,
                found: called(other),
                arch: arch.to_owned(),
                url,
            },
            None => LibraryError::OtherFile {
                path,
                found,
                wanted: called(arch),
                url,
            },
        })
    }

    /// Lists the files to take out of the package for `arch` into `folder`; the library is last.
    ///
    /// # Errors
    /// [`LibraryError::Architecture`].
    pub fn plans(&self, arch: &str, folder: &Path) -> Result<Vec<PullPlan>, LibraryError> {
        let LibraryBuild { package, notices } = self.build(arch)?;
        let plan = |member: &str, sha256: Sha256Sum, file: String| PullPlan {
            name: self.name.clone(),
            url: package.url(),
            sha256: Some(sha256),
            bytes: None,
            trust: Trust::KnownOnly,
            target: folder.join(file),
            package: Some(RegistryPackage {
                member: member.to_owned(),
                member_sha256: sha256,
                ..package.clone()
            }),
        };
        let texts = notices.iter().map(|notice| {
            let file = format!("{}-{}", self.name, file_name(&notice.member));
            plan(&notice.member, notice.sha256, file)
        });
        let library = file_name(&package.member).to_owned();
        let library = plan(&package.member, package.member_sha256, library);
        Ok(texts.chain([library]).collect())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that can't set up has failed")]
    use super::*;

    fn built_in() -> LibraryManifest {
        LibraryManifest::parse(Path::new("built in"), BUILT_IN).unwrap()
    }

    #[test]
    fn built_in_description_has_both_architectures_and_all_notices() {
        let manifest = built_in();
        for arch in ["x86_64", "aarch64"] {
            let plans = manifest.plans(arch, Path::new("/lib")).unwrap();
            let files: Vec<_> = plans
                .iter()
                .map(|p| p.target.display().to_string())
                .collect();
            assert_eq!(
                files,
                [
                    "/lib/onnxruntime-LICENSE",
                    "/lib/onnxruntime-ThirdPartyNotices.txt",
                    "/lib/libonnxruntime.so.1.31.1"
                ]
            );
            assert!(plans.iter().all(|plan| plan.url.contains(arch)));
        }
    }

    #[test]
    fn unknown_architecture_is_refused_with_the_known_ones() {
        let refused = built_in().plans("riscv64", Path::new("/lib")).unwrap_err();
        let said = refused.to_string();
        assert!(
            said.contains("riscv64") && said.contains("aarch64, x86_64"),
            "{said}"
        );
    }

    #[test]
    fn description_in_the_folder_replaces_the_built_in_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("onnxruntime.toml");
        assert_eq!(
            LibraryManifest::onnx_runtime(dir.path()).unwrap(),
            built_in()
        );
        std::fs::write(
            &path,
            BUILT_IN.replace("version = \"1.31.1\"", "version = \"9\""),
        )
        .unwrap();
        assert_eq!(
            LibraryManifest::onnx_runtime(dir.path()).unwrap().version,
            "9"
        );
        let no_library = BUILT_IN.replace("capi/libonnxruntime.so.1.31.1", "capi/bad.sh");
        std::fs::write(&path, no_library).unwrap();
        let refused = LibraryManifest::onnx_runtime(dir.path())
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("build.aarch64.package.member"),
            "{refused}"
        );
    }
}
