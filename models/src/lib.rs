//! Models by name: what a model file is, where it comes from and how its numbers are to be read.
//!
//! Map:
//! - [`manifest`]: the description of one model, as checked;
//! - [`raw`]: the same as written in TOML, and the check between the two;
//! - [`package`]: the same as Roboflow's inference keeps it on disk;
//! - [`labels`]: class lists that several models share;
//! - [`zoo`]: the manifests this program brings, those a user added, and the files that are here;
//! - [`digest`]: checksums of files;
//! - [`download`]: the sans-IO half of a pull: resume, bounds, checksum, atomic rename.
//!
//! Invariants: no network in this crate, bytes come in as arguments; a file appears under its final name only after its
//! checksum was right; a [`manifest::Manifest`] can only be made by the check, so that whoever holds one need not doubt it.

pub mod digest;
pub mod download;
pub mod labels;
pub mod manifest;
pub mod package;
pub mod raw;
pub mod zoo;

pub use digest::Sha256Sum;
pub use download::{
    Checked, Download, DownloadError, Downloaded, PullPlan, Start, Trust, place_all,
};
pub use manifest::Manifest;
pub use raw::ManifestError;
pub use zoo::{MOTION, Opens, PREFERRED, Resolved, Zoo, ZooError};
