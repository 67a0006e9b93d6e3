//! Which back end runs a network.
//!
//! `auto` takes ONNX Runtime where its library is found, because it is about twice as fast, and the pure Rust one
//! otherwise. A back end that was asked for by name is never silently replaced.

use std::path::Path;
use std::str::FromStr;
use std::thread::available_parallelism;

use watchkeeper_models::Manifest;

use super::network::{LoadError, Network};
use super::neural::rehearse;
use super::rten::RtenNetwork;

/// A choice of back end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum BackendChoice {
    /// The fastest one that this machine has.
    #[default]
    Auto,
    /// The pure Rust one.
    Rten,
    /// ONNX Runtime.
    Ort,
}

impl BackendChoice {
    /// The words for it.
    pub const NAMES: [&str; 3] = ["auto", "rten", "ort"];
}

impl FromStr for BackendChoice {
    type Err = UnknownBackend;

    fn from_str(text: &str) -> Result<Self, UnknownBackend> {
        match text {
            "auto" => Ok(Self::Auto),
            "rten" => Ok(Self::Rten),
            "ort" => Ok(Self::Ort),
            _ => Err(UnknownBackend(text.to_owned())),
        }
    }
}

/// No such back end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no back end `{0}`, allowed: auto, rten, ort")]
pub struct UnknownBackend(String);

/// Where ONNX Runtime's library is looked for besides the usual places.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct OrtPlaces {
    /// The file that the configuration names.
    pub library: Option<std::path::PathBuf>,
    /// The state folder: `lib/` in it is searched.
    pub state_dir: Option<std::path::PathBuf>,
}

/// Threads for one network where nobody says: all cores, but no more than this. Measured with YOLOX-nano, a second thread
/// takes a third off the time of a frame; more pay on large networks only, and capture and decoding need cores too.
const MOST_THREADS: usize = 2;

/// The number of threads for a network where nobody says.
#[must_use]
pub fn default_threads() -> usize {
    available_parallelism().map_or(1, |n| n.get().min(MOST_THREADS))
}

/// Loads a network and runs it once on a grey picture.
///
/// # Errors
/// [`LoadError`], one sentence.
pub fn load(
    choice: BackendChoice,
    path: &Path,
    manifest: &Manifest,
    threads: usize,
    places: &OrtPlaces,
) -> Result<Box<dyn Network>, LoadError> {
    let mut network: Box<dyn Network> = match choice {
        BackendChoice::Rten => Box::new(RtenNetwork::load(path, manifest, threads)?),
        BackendChoice::Ort => ort(path, manifest, threads, places)?,
        BackendChoice::Auto => match ort(path, manifest, threads, places) {
            Ok(network) => network,
            Err(reason @ (LoadError::Unavailable { .. } | LoadError::File { .. })) => {
                tracing::info!(%reason, "the pure Rust back end runs the network");
                Box::new(RtenNetwork::load(path, manifest, threads)?)
            }
            Err(mismatch) => return Err(mismatch),
        },
    };
    rehearse(network.as_mut(), manifest).map_err(|message| LoadError::Mismatch {
        path: path.to_owned(),
        manifest: manifest.name.clone(),
        message,
    })?;
    Ok(network)
}

#[cfg(feature = "ort")]
fn ort(
    path: &Path,
    manifest: &Manifest,
    threads: usize,
    places: &OrtPlaces,
) -> Result<Box<dyn Network>, LoadError> {
    let network = super::ort::OrtNetwork::load(path, manifest, threads, places)?;
    Ok(Box::new(network))
}

#[cfg(not(feature = "ort"))]
fn ort(path: &Path, _: &Manifest, _: usize, _: &OrtPlaces) -> Result<Box<dyn Network>, LoadError> {
    Err(LoadError::Unavailable {
        backend: "ort",
        message: "this program was built without it".to_owned(),
    })
}
