//! Declaration and behaviour of the blocks that read barcodes; see [`imaging::codes`] for the
//! reading.

use image::GrayImage;
use watchkeeper_vision::imaging::codes::Code;

use crate::workflow::block_api::prelude::*;

/// Member of a box's data that holds the code's text.
const TEXT: &str = "data";

/// Defaults of such blocks.
pub(crate) const BASE: Manifest = Manifest {
    properties: &[IMAGES],
    batch: &["images"],
    ..Manifest::of("model")
};

/// Makes a box of class `class` for each code found by `find`.
pub(crate) fn read(
    call: &mut Call<'_>,
    class: &str,
    find: fn(&GrayImage) -> Vec<Code>,
) -> Result<(), String> {
    let image = call.image(arg!(BASE.properties, "images"))?;
    let mut found = Detections::none(image.size());
    let class: Arc<str> = Arc::from(class);
    for code in find(&imaging::grey(&image.pixels.rgb())) {
        let mut detection = Detection::new(code.bbox, 1.0, 0, Arc::clone(&class), call.new_id());
        detection.set_data(TEXT, code.text);
        found.boxes.push(detection);
    }
    image.stamp(&mut found);
    call.finish(found)
}
