//! Open spans on disk: `<state>/coverage.json`, so that a kill loses only their last seconds.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::coverage::CoverageSpan;
use watchkeeper_store::durable::replace;

/// Name of the file in the state folder.
pub(super) const NAME: &str = "coverage.json";

const FORMAT: u16 = 1;

#[derive(Debug, Serialize, Deserialize)]
struct OpenSpansV1<S> {
    format: u16,
    spans: S,
}

/// Writes the spans; durable on return.
pub(super) fn write(path: &Path, spans: &[CoverageSpan]) -> io::Result<()> {
    let file = OpenSpansV1 {
        format: FORMAT,
        spans,
    };
    replace(path, &serde_json::to_vec(&file)?)
}

/// Reads the spans that the last run left. An unreadable file, or one of a newer version, costs
/// only the last span of each pipeline.
pub(super) fn read(path: &Path) -> Vec<CoverageSpan> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => return unreadable(path, &error.to_string()),
    };
    match serde_json::from_slice::<OpenSpansV1<Vec<CoverageSpan>>>(&bytes) {
        Ok(file) if file.format == FORMAT => file.spans,
        Ok(file) => unreadable(path, &format!("format {} is newer", file.format)),
        Err(error) => unreadable(path, &error.to_string()),
    }
}

fn unreadable(path: &Path, why: &str) -> Vec<CoverageSpan> {
    tracing::warn!(path = %path.display(), why, "the coverage of the last seconds of the last run is lost");
    Vec::new()
}
