//! Why a model can't be had, with what to do about it.
//!
//! Invariant: every message names the model or the file, and ends with a way out where there is one.

use std::io;
use std::path::PathBuf;

use crate::digest::Sha256Sum;
use crate::raw::{self, ManifestError};

/// Why a model can't be had.
#[derive(Debug, thiserror::Error)]
pub enum ZooError {
    /// No such name, and no such file.
    #[error("no model `{name}`{}; `watchkeeper models list` shows all{}", did_you_mean(.nearest), may_stand_for(.name))]
    Unknown {
        /// What was asked for.
        name: String,
        /// Names like it, the best first.
        nearest: Vec<String>,
    },
    /// A file that is no network, or not the one that its manifest describes.
    #[error("{path} was not added: {why}")]
    NotOpened {
        /// Which file.
        path: PathBuf,
        /// What opening it said.
        why: String,
    },
    /// Nothing needs to be fetched.
    #[error("`motion` is built in: there is nothing to fetch")]
    BuiltIn,
    /// A known model whose file is not here.
    #[error("model `{name}` is not here yet; {remedy}")]
    Absent {
        /// Which one.
        name: String,
        /// What to do.
        remedy: String,
    },
    /// A file that belongs to a model besides its network is not here.
    #[error("model `{name}` needs {path} too, which is not there; its manifest names the file")]
    PartAbsent {
        /// Which model.
        name: String,
        /// Where the file is looked for.
        path: PathBuf,
    },
    /// A file that belongs to a model is another one than its manifest means.
    #[error("{path} has sha256 {found}, and manifest `{name}` means the file with {expected}")]
    PartOther {
        /// Which model.
        name: String,
        /// The file.
        path: PathBuf,
        /// Its checksum.
        found: Sha256Sum,
        /// The one in the manifest.
        expected: Sha256Sum,
    },
    /// Another file has the name that a file of this model would have.
    #[error(
        "{path} is another file than the one that belongs to `{name}`; give that one another name, in the manifest too"
    )]
    PartTaken {
        /// Which model.
        name: String,
        /// The file that is there.
        path: PathBuf,
    },
    /// A file is where one of a model would be put, and nothing tells whether it is that one.
    #[error(
        "{path} is here already, and nothing says whether it is the file that belongs to `{name}`; write its sha256 into the manifest, or move it away"
    )]
    PartUnknown {
        /// Which model.
        name: String,
        /// The file that is there.
        path: PathBuf,
    },
    /// A file that belongs to one model has the name of another one's network.
    #[error(
        "the file {file} of `{name}` would be the network of the model `{other}`; give it another name, in the manifest too"
    )]
    PartIsNetwork {
        /// Which model.
        name: String,
        /// The file.
        file: String,
        /// Whose network has that name.
        other: String,
    },
    /// The path leads nowhere.
    #[error("no model file {path}: {source}")]
    File {
        /// Which path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file that no manifest describes.
    #[error(
        "{path} is none of the known exports (sha256 {sha256}); describe it in {manifest}, or name its layout with \
         `watchkeeper models add {path} --like NAME`"
    )]
    Unrecognised {
        /// The file.
        path: PathBuf,
        /// Its checksum.
        sha256: Sha256Sum,
        /// Where a manifest would be looked for.
        manifest: PathBuf,
    },
    /// The manifest can't be used.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The file is not what it was.
    #[error(
        "{path} has sha256 {found}, expected {expected}; remove it and `watchkeeper models pull {name}` again"
    )]
    Changed {
        /// Which model.
        name: String,
        /// The file.
        path: PathBuf,
        /// Its checksum now.
        found: Sha256Sum,
        /// A checksum it should have.
        expected: Sha256Sum,
    },
    /// Nobody publishes the file.
    #[error(
        "nobody publishes a file of `{name}`; export one and `watchkeeper models add FILE --like {name} --name {name}`"
    )]
    NotPublished {
        /// Which model.
        name: String,
    },
    /// Nobody publishes a file that belongs to the model besides its network.
    #[error("nobody publishes {path}, which belongs to `{name}`; put it there and pull again")]
    PartNotPublished {
        /// Which model.
        name: String,
        /// Where it is looked for.
        path: PathBuf,
    },
    /// A name that can't be a file's.
    #[error("`{name}` can't name a model, allowed: 1 to 64 of a-z, 0-9, `-`, `_` and `.`")]
    BadName {
        /// The name.
        name: String,
    },
    /// The name is that of a model whose files are known, and this is none of them.
    #[error(
        "`{name}` is a model whose files are known, and {path} is none of them; give it a name of its own with `--name`"
    )]
    Taken {
        /// The name.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// There is no models folder to put files into.
    #[error("there is no models folder; set one with `--models-dir`")]
    NoFolder,
    /// The models folder can't be written.
    #[error("can't write {path}: {source}")]
    Write {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

fn did_you_mean(names: &[String]) -> String {
    match names {
        [] => String::new(),
        names => format!(", did you mean `{}`?", names.join("` or `")),
    }
}

/// What makes a model answer to a name that a step made, and that no file can have.
fn may_stand_for(name: &str) -> String {
    if raw::is_name(name) {
        return String::new();
    }
    format!(
        ", and one of yours answers to that name with `stands_for = [{name:?}]` in its manifest"
    )
}
