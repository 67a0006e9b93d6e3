//! Errors that the checks of a configuration find.

use std::fs::File;
use std::path::{Path, PathBuf};

use watchkeeper_config::{ConfigError, Origin};

/// Creates the error of a key; the configuration adds its file and line.
pub(super) fn error(key: impl Into<String>, found: Option<String>, problem: String) -> ConfigError {
    let mut error = ConfigError::new(key, problem, Origin::Default);
    error.found = found;
    error
}

pub(super) fn shown(path: &Path) -> Option<String> {
    Some(path.display().to_string())
}

/// The error of a file that can't be read.
pub(super) fn unreadable(key: &str, path: &Path) -> Option<ConfigError> {
    let cause = File::open(path).err()?;
    Some(error(
        key,
        shown(path),
        format!("can't read the file: {cause}"),
    ))
}

/// The errors of a list of folders, one for each that does not exist.
pub(super) fn missing_folders(key: &str, folders: &[PathBuf], remedy: &str) -> Vec<ConfigError> {
    let folders = folders.iter().enumerate();
    let missing = folders.filter(|(_, folder)| !folder.is_dir());
    let error = |(nth, folder): (usize, &PathBuf)| {
        let problem = "no such folder".to_owned();
        error(format!("{key}[{nth}]"), shown(folder), problem).remedy(remedy)
    };
    missing.map(error).collect()
}
