//! Errors of the zoo, each with its remedy.
//!
//! Every message names the model or the file, and ends with a way out if there is one.

use std::io;
use std::path::PathBuf;

use crate::digest::Sha256Sum;
use crate::raw::{self, ManifestError};

/// Why a model can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ZooError {
    /// No such name, and no such file.
    #[error("no model `{name}`{}; `watchkeeper models list` shows all{}", did_you_mean(.nearest), may_stand_for(.name))]
    Unknown {
        /// Name that was asked for.
        name: String,
        /// Names like it, the best first.
        nearest: Vec<String>,
    },
    /// A file that is not a network, or not the one that its manifest describes.
    #[error("{path} was not added: {why}")]
    NotOpened {
        path: PathBuf,
        /// The error of opening it.
        why: String,
    },
    /// Nothing needs to be fetched.
    #[error("`motion` is built in: there is nothing to fetch")]
    BuiltIn,
    /// A known model whose file is not here.
    #[error("{}; {remedy}", not_installed(.name))]
    Absent {
        /// Name of the model.
        name: String,
        remedy: String,
    },
    /// A file that belongs to a model besides its network is not here.
    #[error("model `{name}` needs the file {path}, which is missing")]
    PartAbsent {
        /// Name of the model.
        name: String,
        /// Expected path of the file.
        path: PathBuf,
    },
    /// A file that belongs to a model has another checksum than in its manifest.
    #[error("{path} has sha256 {found}; manifest `{name}` expects {expected}")]
    PartOther {
        /// Name of the model.
        name: String,
        path: PathBuf,
        /// Checksum of the file.
        found: Sha256Sum,
        /// Checksum in the manifest.
        expected: Sha256Sum,
    },
    /// Another file has the name that a file of this model would have.
    #[error(
        "{path} is another file than the one of `{name}`; rename the new one, in its manifest too"
    )]
    PartTaken {
        /// Name of the model.
        name: String,
        /// The file that is there.
        path: PathBuf,
    },
    /// A file without a known checksum is where one of a model would be put.
    #[error(
        "{path} exists, and its origin is unknown; write its sha256 into the manifest of `{name}`, or move it away"
    )]
    PartUnknown {
        /// Name of the model.
        name: String,
        /// The file that is there.
        path: PathBuf,
    },
    /// A file that belongs to one model has the name of another one's network.
    #[error(
        "the file {file} of `{name}` has the name of the network of `{other}`; rename it, in the manifest too"
    )]
    PartIsNetwork {
        /// Name of the model.
        name: String,
        file: String,
        /// Model whose network has that name.
        other: String,
    },
    /// The path leads nowhere.
    #[error("no model file {path}: {source}")]
    File { path: PathBuf, source: io::Error },
    /// A file that only by its name is a network.
    #[error("{path} is no complete ONNX file; copy or download it again")]
    NotOnnx { path: PathBuf },
    /// A file that no manifest describes.
    #[error(
        "{path} is not one of the known exports (sha256 {sha256}); describe it in {manifest}, or name \
         a model of the same layout: `watchkeeper models add {path} --like NAME`"
    )]
    Unrecognised {
        path: PathBuf,
        sha256: Sha256Sum,
        /// Expected path of a manifest.
        manifest: PathBuf,
    },
    /// The manifest can't be used.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The file has changed.
    #[error(
        "{path} is damaged or another file{} (sha256 {found}, expected {expected}); remove it, then: \
         watchkeeper models pull {name}",
        size.map_or_else(String::new, size_of_whole)
    )]
    Changed {
        /// Name of the model.
        name: String,
        path: PathBuf,
        /// Present checksum of the file.
        found: Sha256Sum,
        /// A checksum it should have.
        expected: Sha256Sum,
        /// Bytes of the file and of the expected one, where they differ.
        size: Option<[u64; 2]>,
    },
    /// The user's checksum is not the published one.
    #[error("`{name}` is published with sha256 {published}, not {given}; leave out `--sha256`")]
    OtherSum {
        /// Name of the model.
        name: String,
        given: Sha256Sum,
        published: Sha256Sum,
    },
    /// The file is not published.
    #[error(
        "`{name}` has no published file; export one and run `watchkeeper models add FILE --like {name} --name {name}`"
    )]
    NotPublished {
        /// Name of the model.
        name: String,
    },
    /// A file that belongs to the model besides its network is not published.
    #[error("{path}, which `{name}` needs, has no published address; put it there and pull again")]
    PartNotPublished {
        /// Name of the model.
        name: String,
        /// Expected path of the file.
        path: PathBuf,
    },
    /// A name that can't be a file's.
    #[error("`{name}` can't name a model, allowed: 1 to 64 of a-z, 0-9, `-`, `_` and `.`")]
    BadName { name: String },
    /// The name is that of a model with known files, and this is not one of them.
    #[error("{path} is not one of the known files of `{name}`; choose another name with `--name`")]
    Taken { name: String, path: PathBuf },
    /// There is no models folder to put files into.
    #[error("there is no models folder; set one with `--models-dir`")]
    NoFolder,
    /// The models folder can't be written.
    #[error("can't write {path}: {source}")]
    Write { path: PathBuf, source: io::Error },
}

impl ZooError {
    /// Returns what to do about it, where that is apart from [`Self::problem`].
    pub fn remedy(&self) -> Option<&str> {
        match self {
            Self::Absent { remedy, .. } => Some(remedy),
            _ => None,
        }
    }

    /// Returns what is wrong, without [`Self::remedy`].
    pub fn problem(&self) -> String {
        match self {
            Self::Absent { name, .. } => not_installed(name),
            other => other.to_string(),
        }
    }
}

fn size_of_whole([found, expected]: [u64; 2]) -> String {
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    format!(": {:.1} of {:.1} MB", megabytes(found), megabytes(expected))
}

fn not_installed(name: &str) -> String {
    format!("model `{name}` is not installed")
}

fn did_you_mean(names: &[String]) -> String {
    match names {
        [] => String::new(),
        names => format!(", did you mean `{}`?", names.join("` or `")),
    }
}

/// Adds how a model could stand for a name that no file can have.
fn may_stand_for(name: &str) -> String {
    if raw::is_name(name) {
        return String::new();
    }
    format!("; a model of your own can stand for it with `stands_for = [{name:?}]` in its manifest")
}
