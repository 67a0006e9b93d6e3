//! Reads barcodes of all kinds.

use watchkeeper_vision::imaging::codes;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::barcodes::{manifest, reading};

pub(super) const BLOCKS: &[Manifest] = &[manifest(
    "roboflow_core/barcode_detector@v1",
    "Finds and reads barcodes in pictures, including QR codes.",
    &[Output::new("predictions", &[Kind::BarCode])],
    |_| Ok(reading("barcode", codes::codes)),
)];
