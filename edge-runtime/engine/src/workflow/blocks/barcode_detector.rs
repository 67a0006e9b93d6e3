//! Reads bar codes, and every other code that is made for machines.

use watchkeeper_vision::imaging::codes;

use super::super::codes::{manifest, reading};
use super::super::kinds::Kind;
use super::super::manifest::{Manifest, Output};

pub(super) const BLOCKS: &[Manifest] = &[manifest(
    "roboflow_core/barcode_detector@v1",
    "Finds bar codes in pictures and reads them, and QR codes and the like too.",
    &[Output::new("predictions", &[Kind::BarCode])],
    |_| Ok(reading("barcode", codes::codes)),
)];
