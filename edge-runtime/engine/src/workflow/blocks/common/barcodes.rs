//! Declaration and behaviour of the blocks that read barcodes; see [`imaging::codes`] for the
//! reading.

use std::sync::Arc;

use image::GrayImage;
use watchkeeper_vision::detections::{Detection, Detections};
use watchkeeper_vision::imaging;
use watchkeeper_vision::imaging::codes::Code;

use crate::workflow::block_api::prelude::*;

/// Member of a box's data that holds the code's text.
const TEXT: &str = "data";

const PROPERTIES: &[Property] = &[IMAGES];

/// Declares such a block.
pub(crate) const fn manifest(
    name: &'static str,
    summary: &'static str,
    outputs: &'static [Output],
    build: fn(&Setup<'_>) -> Result<Box<dyn Instance>, String>,
) -> Manifest {
    Manifest {
        name,
        summary,
        properties: PROPERTIES,
        outputs,
        batch: &["images"],
        build,
        ..Manifest::of("model")
    }
}

/// Builds a step that makes a box of class `class` for each code found by `read`.
pub(crate) fn reading(class: &'static str, read: fn(&GrayImage) -> Vec<Code>) -> Box<dyn Instance> {
    Box::new(Reading { class, read })
}

struct Reading {
    class: &'static str,
    read: fn(&GrayImage) -> Vec<Code>,
}

impl Block for Reading {
    fn run(&self, call: &mut Call<'_>) -> Result<(), String> {
        let image = call.image(arg!(PROPERTIES, "images"))?;
        let mut found = Detections::none(image.size());
        let class: Arc<str> = Arc::from(self.class);
        for code in (self.read)(&imaging::grey(&image.pixels.rgb())) {
            let mut detection =
                Detection::new(code.bbox, 1.0, 0, Arc::clone(&class), call.new_id());
            detection.set_data(TEXT, code.text);
            found.boxes.push(detection);
        }
        image.stamp(&mut found);
        call.put(0, found);
        Ok(())
    }
}
