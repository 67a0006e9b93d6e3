//! Blurs pictures.

use watchkeeper_vision::imaging::filter::{self, MAX_KERNEL};

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/image_blur@v1",
    category: "classical_computer_vision",
    summary: "Blurs a picture.",
    properties: &[
        Property::data("image", "the picture", &[Kind::Image]).alias(&["images"]),
        Property::value(
            "blur_type",
            "method of the blur",
            Shape::Choice(&["average", "gaussian", "median", "bilateral"]),
        )
        .or(Or::Text("gaussian")),
        Property::integer("kernel_size", "size of the kernel in pixels", 5),
    ],
    outputs: &[Output::new("image", &[Kind::Image])],
    build: |_| Ok(Box::new(run)),
    ..Manifest::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("image"))?;
    let kernel = usize::try_from(call.integer(arg!("kernel_size"), 5)?).ok();
    let kernel = kernel.filter(|k| (1..=MAX_KERNEL).contains(k));
    let kernel = kernel.ok_or_else(|| format!("kernel_size has to be from 1 to {MAX_KERNEL}"))?;
    let odd = kernel | 1;
    let kind = call.text(arg!("blur_type"))?.to_owned();
    if !["average", "gaussian", "median", "bilateral"].contains(&kind.as_str()) {
        return Err(format!(
            "{kind:?} is not a blur_type; use average, gaussian, median or bilateral"
        ));
    }
    let blurred = image.changed(image.size(), move |pixels| match kind.as_str() {
        "average" => filter::mean(pixels, kernel),
        "median" => filter::median(pixels, odd),
        // The peer's sigmas of colour and space.
        "bilateral" => filter::bilateral(pixels, kernel, 75.0),
        _ => filter::gaussian(pixels, odd),
    });
    call.put(0, blurred);
    Ok(())
}
