//! Manifests as written in TOML, and the check that makes a [`Manifest`] of them.
//!
//! Two stages: first the file's shape ([`shape`]), then all values ([`check`](mod@check)), so that
//! one message names every error.

mod check;
mod decode;
mod error;
mod input;
mod library;
mod names;
mod packages;
mod parts;
mod shape;
#[cfg(test)]
mod tests;

use std::io::{self, Read as _};
use std::path::Path;

use serde::de::DeserializeOwned;

use crate::manifest::Manifest;

pub use error::{FieldError, FieldErrors, ManifestError};
pub use names::is_name;

use check::check;
use shape::RawManifest;

/// Largest manifest in bytes: the most labels, with long names.
pub(crate) const MAX_FILE: u64 = 1 << 20;

/// Reads the text of a file of at most `most` bytes.
pub(crate) fn read_small(file: &Path, most: u64) -> io::Result<String> {
    let bytes = read_bounded(file, most)?;
    String::from_utf8(bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

/// Reads a file of at most `most` bytes.
pub(crate) fn read_bounded(file: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(file)?;
    opened
        .take(most.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let why = format!("it is larger than {most} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

/// Reads the shape of a description in TOML. `file` only names it in errors.
///
/// # Errors
/// [`ManifestError::Shape`] with the line or the key.
fn read_toml<T: DeserializeOwned>(file: &Path, text: &str) -> Result<T, ManifestError> {
    let shape = |key: String, message: &str| ManifestError::Shape {
        file: file.to_owned(),
        key,
        message: message.lines().collect::<Vec<_>>().join(", "),
    };
    let toml = toml::Deserializer::parse(text).map_err(|e| {
        let at = e.span().map_or(String::new(), |span| {
            let before = text.get(..span.start).unwrap_or(text);
            format!("line {}: ", before.matches('\n').count() + 1)
        });
        shape(at, e.message())
    })?;
    serde_path_to_error::deserialize(toml).map_err(|e| {
        let path = e.path().to_string();
        let key = if path == "." {
            String::new()
        } else {
            format!("`{path}`: ")
        };
        shape(key, e.inner().message())
    })
}

impl Manifest {
    /// Reads and checks a manifest. `file` only names it in errors.
    ///
    /// # Errors
    /// [`ManifestError`] with file, key, value and what is allowed.
    pub fn parse(file: &Path, text: &str) -> Result<Self, ManifestError> {
        let raw: RawManifest = read_toml(file, text)?;
        let mut errors = FieldErrors::default();
        match check(raw, &mut errors) {
            Some(manifest) if errors.0.is_empty() => Ok(manifest),
            _ => Err(ManifestError::Values {
                file: file.to_owned(),
                errors,
            }),
        }
    }

    /// Reads and checks the manifest in a file.
    ///
    /// # Errors
    /// [`ManifestError`].
    pub fn read(file: &Path) -> Result<Self, ManifestError> {
        let text = read_small(file, MAX_FILE).map_err(|source| ManifestError::Read {
            file: file.to_owned(),
            source,
        })?;
        Self::parse(file, &text)
    }
}
