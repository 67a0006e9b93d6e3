//! What the blocks that read codes made for machines share: how they are declared, and the boxes that they give.
//!
//! How codes are read is [`imaging::codes`].

use std::sync::Arc;

use image::GrayImage;
use serde_json::json;
use watchkeeper_vision::detections::{Detection, Detections};
use watchkeeper_vision::imaging;
use watchkeeper_vision::imaging::codes::Code;

use crate::workflow::block_api::block::{Block, Call, Instance, Setup};
use crate::workflow::block_api::manifest::{IMAGES, Manifest, Output, Role};

/// Under which the text of a code is attached to its box.
const TEXT: &str = "data";

/// The declaration of one of them.
pub(crate) const fn manifest(
    name: &'static str,
    summary: &'static str,
    outputs: &'static [Output],
    build: fn(&Setup<'_>) -> Result<Box<dyn Instance>, String>,
) -> Manifest {
    Manifest {
        name,
        category: "model",
        summary,
        role: Role::Other,
        properties: &[IMAGES],
        outputs,
        batch: &["images"],
        build,
        ..Manifest::BASE
    }
}

/// A step that gives a box of this class for each code that `read` finds.
pub(crate) fn reading(class: &'static str, read: fn(&GrayImage) -> Vec<Code>) -> Box<dyn Instance> {
    Box::new(Reading { class, read })
}

struct Reading {
    class: &'static str,
    read: fn(&GrayImage) -> Vec<Code>,
}

impl Block for Reading {
    fn run(&self, call: &mut Call<'_>) -> Result<(), String> {
        let image = call.image(0)?;
        let mut found = Detections::none(image.size());
        let class: Arc<str> = Arc::from(self.class);
        for code in (self.read)(&imaging::grey(&image.pixels.rgb())) {
            let mut detection =
                Detection::new(code.bbox, 1.0, 0, Arc::clone(&class), call.new_id());
            let data = &mut detection.extra_mut().data;
            data.insert(Arc::from(TEXT), json!(code.text));
            found.boxes.push(detection);
        }
        image.stamp(&mut found);
        call.put(0, found);
        Ok(())
    }
}
