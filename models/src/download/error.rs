//! Why a download failed, and whether its part was kept.

use std::io;
use std::path::PathBuf;

use crate::digest::Sha256Sum;
use crate::registry::PackageError;

/// Why a download failed.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The part file can't be written.
    #[error("can't write {path}: {source}")]
    Write { path: PathBuf, source: io::Error },
    /// Another process writes the same part.
    #[error("another pull of {name} is running; wait for it")]
    Busy {
        /// Name of the model or library.
        name: String,
    },
    /// More bytes than allowed. The part is removed.
    #[error("{url} sends more than {limit} bytes; the file was removed")]
    TooLong {
        url: String,
        /// Most bytes allowed.
        limit: u64,
    },
    /// The connection ended early. The part is kept.
    #[error("{url} ended after {received} of {expected} bytes; run the command again to continue")]
    TooShort {
        url: String,
        /// Bytes so far.
        received: u64,
        /// Bytes of the whole file.
        expected: u64,
    },
    /// Another file than expected. The part is removed.
    #[error("{url} has sha256 {found}, expected {expected}; the file was removed")]
    WrongSum {
        url: String,
        /// Sum of the file received.
        found: Sha256Sum,
        /// Sum of the file expected.
        expected: Sha256Sum,
    },
    /// Another file than the one installed first. The part is removed.
    #[error(
        "{url} has sha256 {found}, but the file installed before has {recorded}; the new one was \
         removed. To accept another file, delete {target} and {record}, and run \
         `watchkeeper models pull {name} --trust`"
    )]
    NotAsRecorded {
        /// Name of the model.
        name: String,
        url: String,
        /// Sum of the file received.
        found: Sha256Sum,
        recorded: Sha256Sum,
        /// The file installed first.
        target: PathBuf,
        /// File with the recorded sum.
        record: PathBuf,
    },
    /// The checksum of the installed file was recorded, and can't be read.
    #[error(
        "can't read the checksum in {record}: {source}. To accept another file, delete {target} \
         and {record}, and run `watchkeeper models pull {name} --trust`"
    )]
    Record {
        /// Name of the model.
        name: String,
        /// The file installed first.
        target: PathBuf,
        /// File with the recorded sum.
        record: PathBuf,
        source: io::Error,
    },
    /// A package with the right checksum does not hold the file. It is removed.
    #[error(
        "{url} does not hold the file that its description names: {why}; the package was removed"
    )]
    Package { url: String, why: PackageError },
    /// The checksum is unknown, and the file is not trusted. The part is kept.
    #[error(
        "the file from {url} has sha256 {found}, which is not a known checksum; \
         `watchkeeper models pull {name} --trust` accepts it"
    )]
    Untrusted {
        /// Name of the model.
        name: String,
        url: String,
        /// Sum of the file received.
        found: Sha256Sum,
    },
}
