//! Reads barcodes of all kinds.

use watchkeeper_vision::imaging::codes;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::barcodes::{BASE, read};

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/barcode_detector@v1",
    summary: "Finds and reads barcodes in pictures, including QR codes. An EAN-13 code that begins \
              with 0 is returned as the 12 digits of UPC-A, which is the same symbol.",
    outputs: &[Output::new("predictions", &[Kind::BarCode])],
    build: |_| {
        Ok(Box::new(|call: &mut Call<'_>| {
            read(call, "barcode", codes::codes)
        }))
    },
    ..BASE
}];
