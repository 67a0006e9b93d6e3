//! Converts pictures to grey.

use watchkeeper_vision::imaging;

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/convert_grayscale@v1",
    category: "classical_computer_vision",
    summary: "Converts a picture to grey.",
    properties: &[Property::data("image", "the picture", &[Kind::Image]).alias(&["images"])],
    outputs: &[Output::new("image", &[Kind::Image])],
    build: |_| Ok(Box::new(run)),
    ..Manifest::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("image"))?;
    call.put(
        0,
        image.changed(image.size(), |pixels| {
            imaging::coloured(&imaging::grey(pixels))
        }),
    );
    Ok(())
}
