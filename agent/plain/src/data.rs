//! The data files in the program, and their errors.
//!
//! Invariant: a file of another format is refused as a whole. The module that defines a form checks
//! its entries.

use serde::de::DeserializeOwned;

/// What is wrong with a data file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DataError {
    /// It is no TOML, or not of the right form.
    #[error("{file} can't be read: {message}")]
    Form {
        file: &'static str,
        /// What the reader says.
        message: String,
    },
    /// It was written for another version.
    #[error("{file} has format {found}; this version reads format {wanted}")]
    Format {
        file: &'static str,
        /// What it says.
        found: u32,
        /// What is read.
        wanted: u32,
    },
    /// An entry makes no sense.
    #[error("{file}: {what}: {value:?} {message}")]
    Entry {
        file: &'static str,
        what: &'static str,
        /// What stands there.
        value: String,
        /// What is wrong and what to write.
        message: &'static str,
    },
}

/// The form of a data file.
pub(crate) trait DataFile: DeserializeOwned {
    const NAME: &'static str;
    /// The format that is read.
    const FORMAT: u32;

    /// The format that the file says it has.
    fn format(&self) -> u32;
}

/// Reads a data file.
///
/// # Errors
/// When it is not of its form or of another format.
pub(crate) fn read<F: DataFile>(text: &str) -> Result<F, DataError> {
    let file: F = toml::from_str(text).map_err(|e| DataError::Form {
        file: F::NAME,
        message: e.to_string(),
    })?;
    match file.format() {
        found if found == F::FORMAT => Ok(file),
        found => Err(DataError::Format {
            file: F::NAME,
            found,
            wanted: F::FORMAT,
        }),
    }
}
