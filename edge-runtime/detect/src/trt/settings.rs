//! Where TensorRT's shim is searched and engines are kept.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::ort_library::{find_in, system_folders};
use crate::precision::Precision;

const LIBRARY: &str = "libwk_trt.so";

/// Locations of TensorRT's shim and engines, and the program that probes and builds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrtSettings {
    /// The configured shim; absent: searched in the system's folders and [`Self::folders`].
    pub library: Option<PathBuf>,
    /// Folders of fetched libraries.
    pub folders: Vec<PathBuf>,
    /// Folder of built engines.
    pub engine_dir: PathBuf,
    pub precision: Precision,
    /// `watchkeeper-runtime`, which serves the subcommands of [`probe`](super::probe) and
    /// [`build`](super::build).
    pub program: PathBuf,
    pub stop: StopFlag,
}

/// Set when the program stops, which cancels the builds of engines.
#[derive(Debug, Clone, Default)]
pub struct StopFlag(pub Arc<AtomicBool>);

impl StopFlag {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl PartialEq for StopFlag {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for StopFlag {}

impl TrtSettings {
    /// Finds the shim.
    ///
    /// # Errors
    /// One sentence with the remedy.
    pub fn library_file(&self) -> Result<PathBuf, String> {
        let found = find_in(
            LIBRARY,
            self.library.as_deref(),
            &system_folders(),
            &self.folders,
        );
        found.map_err(|why| match (&self.library, self.folders.last()) {
            (None, Some(place)) => format!(
                "no {LIBRARY} is installed; it belongs in {}: compile it on this box, which needs \
                 TensorRT 10 or newer (docs/guide/models.md says how)",
                place.display()
            ),
            (Some(_), _) => format!(
                "{why}; correct runtime.inference.trt_library, or remove it \
                 (docs/guide/models.md says how the library is compiled)"
            ),
            (None, None) => format!("{why}; docs/guide/models.md says how it is compiled"),
        })
    }
}
