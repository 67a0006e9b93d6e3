//! Models by name: what a model file is, where it comes from and how its outputs are read.
//!
//! - [`manifest`]: the checked description of one model; [`raw`]: its TOML and the check.
//! - [`package`]: a model as Roboflow's inference keeps it on disk.
//! - [`registry`]: a file in a package of npm or PyPI; [`tflite`] and [`onnx`] convert networks.
//! - [`library`]: shared libraries of back ends, out of such packages.
//! - [`labels`]: class lists that several models share.
//! - [`zoo`]: built-in and user manifests, and the files that are here.
//! - [`digest`], [`download`]: checksums, and the sans-IO half of a pull.
//! - [`replace`]: files that get their name when they are whole.
//! - [`model_check`]: the process that opens a model file before anything else does.
//!
//! - There is no network in this crate: bytes come in as arguments.
//! - A file appears under its final name only after its checksum was right.
//! - Only the check makes a [`manifest::Manifest`], so every one is valid.

pub mod digest;
pub mod download;
mod file_stamp;
pub mod labels;
pub mod library;
pub mod manifest;
pub mod model_check;
pub mod onnx;
pub mod package;
pub mod raw;
pub mod registry;
pub mod replace;
#[doc(hidden)]
pub mod testing;
pub mod tflite;
pub mod zoo;

pub use digest::Sha256Sum;
pub use download::{
    Checked, Download, DownloadError, Downloaded, PullPlan, Start, Trust, place_all,
};
pub use file_stamp::{FileStamp, KnownFiles};
pub use manifest::Manifest;
pub use raw::ManifestError;
pub use zoo::{MOTION, NetworkProbe, PREFERRED, Resolved, Zoo, ZooError};
