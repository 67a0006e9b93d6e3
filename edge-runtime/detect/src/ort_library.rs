//! Search for the library of a back end, such as ONNX Runtime; nothing is downloaded.
//!
//! Order: the configured file, `ORT_DYLIB_PATH`, the system's folders, `/opt/onnxruntime/lib`, and
//! the folders of fetched libraries.

#[cfg(feature = "ort")]
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use crate::precision::Precision;

#[cfg(feature = "ort")]
const LIBRARY: &str = "libonnxruntime.so";

/// Environment variable that names the library.
pub(crate) const LIBRARY_VARIABLE: &str = "ORT_DYLIB_PATH";

/// Environment variable to set before the library is opened, and its value.
///
/// Without it, the library of Microsoft's packages opens a database of telemetry in the user's
/// cache folder, to be sent. It does so before a call can switch telemetry off. Seen with 1.31.1.
pub const NO_TELEMETRY_ENV: (&str, &str) = ("ORT_DISABLE_TELEMETRY", "1");

/// Configured locations of ONNX Runtime's library, besides the system's, and how it runs a network.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct OrtSettings {
    /// The configured file.
    pub library: Option<PathBuf>,
    /// Folders of fetched libraries.
    pub folders: Vec<PathBuf>,
    pub precision: Precision,
    /// Threads that an earlier opening of the network chose on this box, if that is known; a
    /// configured number precedes.
    pub measured_threads: Option<NonZeroUsize>,
}

impl OrtSettings {
    /// Returns the library that a network would be run by, if there is one.
    #[must_use]
    pub fn library_file(&self) -> Option<PathBuf> {
        #[cfg(feature = "ort")]
        {
            find_library(self, std::env::var_os(LIBRARY_VARIABLE), &system_folders()).ok()
        }
        #[cfg(not(feature = "ort"))]
        None
    }

    /// Remedy for a library that can't be opened.
    #[must_use]
    pub fn remedy(&self) -> String {
        let pull = "watchkeeper backends pull onnxruntime";
        let is_set = std::env::var_os(LIBRARY_VARIABLE).is_some_and(|v| !v.is_empty());
        let named = match &self.library {
            Some(_) => "runtime.inference.ort_library",
            None if is_set => LIBRARY_VARIABLE,
            None => {
                return format!(
                    "{pull}, or set runtime.inference.ort_library to a library of ONNX Runtime \
                     1.20 or later"
                );
            }
        };
        format!("correct {named}, or remove it and run {pull}")
    }
}

pub(crate) fn system_folders() -> Vec<PathBuf> {
    let multiarch = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    [
        "/usr/local/lib",
        &multiarch,
        "/usr/lib64",
        "/usr/lib",
        "/opt/onnxruntime/lib",
    ]
    .map(PathBuf::from)
    .to_vec()
}

/// Finds the library of ONNX Runtime to open.
#[cfg(feature = "ort")]
pub(crate) fn find_library(
    settings: &OrtSettings,
    variable: Option<OsString>,
    folders: &[PathBuf],
) -> Result<PathBuf, String> {
    let variable = variable.filter(|v| !v.is_empty()).map(PathBuf::from);
    let named = settings.library.clone().or(variable);
    find_in(LIBRARY, named.as_deref(), folders, &settings.folders)
}

/// Finds a library to open. A named file is final; otherwise the first folder that has one wins,
/// those of `own` last.
pub(crate) fn find_in(
    library: &str,
    named: Option<&Path>,
    folders: &[PathBuf],
    own: &[PathBuf],
) -> Result<PathBuf, String> {
    if let Some(named) = named {
        return match in_folder(library, named) {
            Some(library) => Ok(library),
            None if named.is_file() => Ok(named.to_owned()),
            None => Err(format!("{} does not exist", named.display())),
        };
    }
    let folders: Vec<_> = folders.iter().chain(own).collect();
    folders
        .iter()
        .find_map(|dir| in_folder(library, dir))
        .ok_or_else(|| {
            let searched: Vec<_> = folders.iter().map(|d| d.display().to_string()).collect();
            format!("no {library} in {}", searched.join(", "))
        })
}

/// The library in a folder: the plain name, else the highest version.
fn in_folder(library: &str, dir: &Path) -> Option<PathBuf> {
    let plain = dir.join(library);
    if plain.is_file() {
        return Some(plain);
    }
    std::fs::read_dir(dir)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter_map(|path| {
            let numbers = named_version(library, &path)?.split('.').map(str::parse);
            let version: Vec<u32> = numbers.collect::<Result<_, _>>().ok()?;
            Some((version, path))
        })
        .max()
        .map(|(_, path)| path)
}

/// Version of a library by the name of its file, links followed.
#[cfg(feature = "ort")]
pub(crate) fn version(library: &Path) -> Option<String> {
    let file = library.canonicalize().ok()?;
    named_version(LIBRARY, &file).map(str::to_owned)
}

/// Version in a file name: the text after the plain name and a dot.
fn named_version<'a>(library: &str, path: &'a Path) -> Option<&'a str> {
    let rest = path.file_name()?.to_str()?.strip_prefix(library)?;
    rest.strip_prefix('.')
}

#[cfg(all(test, feature = "ort"))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that can't set up has failed")]
    use std::fs;

    use super::*;

    #[test]
    fn highest_version_in_the_first_folder_that_has_one_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let (empty, full) = (dir.path().join("empty"), dir.path().join("full"));
        fs::create_dir_all(&empty).unwrap();
        fs::create_dir_all(&full).unwrap();
        for version in ["1.9.0", "1.31.1", "1.4.0", "old"] {
            fs::write(full.join(format!("{LIBRARY}.{version}")), "").unwrap();
        }
        let folders = [empty, full.clone()];
        let found = find_library(&OrtSettings::default(), None, &folders).unwrap();
        assert_eq!(found, full.join("libonnxruntime.so.1.31.1"));
        let settings = OrtSettings {
            folders: vec![dir.path().join("missing"), full],
            ..OrtSettings::default()
        };
        let found = find_library(&settings, None, &[]).unwrap();
        assert!(found.ends_with("full/libonnxruntime.so.1.31.1"));
        let link = dir.path().join(LIBRARY);
        std::os::unix::fs::symlink(&found, &link).unwrap();
        assert_eq!(version(&link).as_deref(), Some("1.31.1"));
    }

    #[test]
    fn named_library_is_never_replaced_by_another() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(LIBRARY), "").unwrap();
        let settings = OrtSettings {
            library: Some(dir.path().join("mine.so")),
            ..OrtSettings::default()
        };
        let error = find_library(&settings, None, &[dir.path().to_owned()]).unwrap_err();
        assert!(error.contains("mine.so"), "{error}");
    }

    #[test]
    fn remedy_of_a_named_library_is_its_setting() {
        let named = OrtSettings {
            library: Some("/nowhere/libonnxruntime.so".into()),
            ..OrtSettings::default()
        };
        assert!(
            named
                .remedy()
                .starts_with("correct runtime.inference.ort_library")
        );
    }

    #[test]
    fn file_that_is_no_library_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let library = dir.path().join(LIBRARY);
        fs::write(&library, "not a library").unwrap();
        assert!(ort::init_from(&library).is_err());
    }
}
