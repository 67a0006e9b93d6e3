//! The precision in which networks run, and the file that has it.
//!
//! - A calibrated network is used only on the back end on which it was measured, and only while its
//!   original is unchanged. Otherwise the original runs, and the log says why.
//! - Not here: calibration ([`calibration`](crate::calibration)), float16 (TensorRT's build).

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use watchkeeper_models::onnx::quantize::{self, Origin};
use watchkeeper_models::{KnownFiles, digest};

/// Extension of calibrated networks.
const CALIBRATED: &str = "int8.onnx";

/// Origins of files, so that a network is not read in full at each call.
static ORIGINS: KnownFiles<Option<Origin>> = KnownFiles::empty();

/// The precision in which networks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// Precision of the file.
    Fp32,
    /// On TensorRT float16 where little is lost, elsewhere that of the file.
    #[default]
    Fp16,
    /// The network that a calibration kept for this back end; without one as [`Self::Fp16`].
    Int8,
}

impl Precision {
    /// Values of the configuration key.
    pub const NAMES: [&str; 3] = ["fp32", "fp16", "int8"];

    /// Its value of the configuration key.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fp32 => "fp32",
            Self::Fp16 => "fp16",
            Self::Int8 => "int8",
        }
    }

    /// The file that `backend` runs in place of `path`, and the precision that it has.
    #[must_use]
    pub fn network_file(self, path: &Path, backend: &str) -> (PathBuf, Self) {
        // A calibrated network that is named itself needs no other file.
        if self != Self::Int8 || path.to_string_lossy().ends_with(CALIBRATED) {
            return (path.to_owned(), self);
        }
        match calibrated(path, backend) {
            Ok(file) => (file, Self::Int8),
            Err(why) => {
                tracing::info!(path = %path.display(), backend, why, "int8 is not used");
                (path.to_owned(), Self::Fp16)
            }
        }
    }
}

/// Path of the calibrated network of a file: `model.int8.onnx` for `model.onnx`.
#[must_use]
pub fn calibrated_file(path: &Path) -> PathBuf {
    path.with_extension(CALIBRATED)
}

/// Finds the calibrated network of a file for a back end.
fn calibrated(path: &Path, backend: &str) -> Result<PathBuf, String> {
    let file = calibrated_file(path);
    let shown = file.display();
    let remedy = "run watchkeeper models calibrate";
    let read = |file: &Path| Ok(quantize::origin(std::fs::read(file)?.into()));
    let origin = ORIGINS.get_or_compute(&file, read);
    let origin = origin.map_err(|e| format!("{shown}: {e}; {remedy}"))?;
    let origin = origin.ok_or_else(|| format!("{shown} is no calibrated network; {remedy}"))?;
    let sum = digest::of_unchanged_file(path).map_err(|e| e.to_string())?;
    if origin.sha256 != sum.to_string() {
        return Err(format!("{shown} was calibrated for another file; {remedy}"));
    }
    if origin.backend != backend {
        let other = origin.backend;
        return Err(format!(
            "{shown} was measured on {other}; {remedy} on {backend}"
        ));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_written() {
        for name in Precision::NAMES {
            let read = serde_json::from_value(name.into()).ok();
            assert_eq!(read.map(Precision::name), Some(name));
        }
    }

    #[test]
    fn file_without_a_calibrated_network_runs_as_fp16() {
        let path = Path::new("/nowhere/model.onnx");
        let found = Precision::Int8.network_file(path, "trt");
        assert_eq!(found, (path.to_owned(), Precision::Fp16));
        let named = Path::new("/nowhere/model.int8.onnx");
        assert_eq!(calibrated_file(path), named);
        let found = Precision::Int8.network_file(named, "trt");
        assert_eq!(found, (named.to_owned(), Precision::Int8));
    }
}
