//! Errors that the checks of a configuration find.

use std::path::Path;

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
