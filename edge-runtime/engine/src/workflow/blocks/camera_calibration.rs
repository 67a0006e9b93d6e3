//! Removes lens distortion.

use watchkeeper_vision::imaging::warp::Lens;

use crate::workflow::block_api::block::Call;
use crate::workflow::block_api::manifest::{Manifest, NUMBER, Output, Property};
use crate::workflow::language::kinds::Kind;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/camera-calibration@v1",
    category: "transformation",
    summary: "Removes the distortion of a lens from a picture.",
    properties: &[
        Property::data("image", "the picture", &[Kind::Image]).alias(&["images"]),
        Property::value("fx", "horizontal focal length in pixels", NUMBER).nullable(),
        Property::value("fy", "focal length down in pixels", NUMBER).nullable(),
        Property::value(
            "cx",
            "horizontal position of the optical axis in pixels",
            NUMBER,
        )
        .nullable(),
        Property::value(
            "cy",
            "vertical position of the optical axis in pixels",
            NUMBER,
        )
        .nullable(),
        Property::value("k1", "first radial term", NUMBER).nullable(),
        Property::value("k2", "second radial term", NUMBER).nullable(),
        Property::value("k3", "third radial term", NUMBER).nullable(),
        Property::value("p1", "first tangential term", NUMBER).nullable(),
        Property::value("p2", "second tangential term", NUMBER).nullable(),
        Property::boolean(
            "use_fisheye_model",
            "whether the lens is a fisheye, which uses only k1",
            false,
        )
        .nullable(),
    ],
    outputs: &[Output::new("calibrated_image", &[Kind::Image])],
    build: |_| Ok(Box::new(run)),
    ..Manifest::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("image"))?;
    let number = |i: usize, name: &str| {
        let value = call.arg(i);
        // Without a known lens the picture stays unchanged.
        let known = if value.is_null() {
            Some(f64::NAN)
        } else {
            value.as_f64()
        };
        known.ok_or_else(|| format!("{name} has to be a number, not {}", value.what()))
    };
    let lens = Lens {
        focal: [number(1, "fx")?, number(2, "fy")?],
        center: [number(3, "cx")?, number(4, "cy")?],
        radial: [number(5, "k1")?, number(6, "k2")?, number(7, "k3")?],
        tangential: [number(8, "p1")?, number(9, "p2")?],
        is_fisheye: call.boolean(arg!("use_fisheye_model"), false)?,
    };
    call.put(
        0,
        image.changed(image.size(), move |pixels| lens.straighten(pixels)),
    );
    Ok(())
}
