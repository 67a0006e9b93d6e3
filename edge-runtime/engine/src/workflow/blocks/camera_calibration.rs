//! Removes lens distortion.

use watchkeeper_vision::imaging::warp::Lens;

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/camera-calibration@v1",
    summary: "Removes the distortion of a lens from a picture.",
    properties: &[
        IMAGE,
        Property::value("fx", NUMBER)
            .about("horizontal focal length in pixels")
            .nullable(),
        Property::value("fy", NUMBER)
            .about("vertical focal length in pixels")
            .nullable(),
        Property::value("cx", NUMBER)
            .about("horizontal position of the optical axis in pixels")
            .nullable(),
        Property::value("cy", NUMBER)
            .about("vertical position of the optical axis in pixels")
            .nullable(),
        Property::value("k1", NUMBER)
            .about("first radial term")
            .nullable(),
        Property::value("k2", NUMBER)
            .about("second radial term")
            .nullable(),
        Property::value("k3", NUMBER)
            .about("third radial term")
            .nullable(),
        Property::value("p1", NUMBER)
            .about("first tangential term")
            .nullable(),
        Property::value("p2", NUMBER)
            .about("second tangential term")
            .nullable(),
        Property::boolean("use_fisheye_model", false)
            .about("whether the lens is a fisheye, which uses only k1")
            .nullable(),
    ],
    outputs: &[Output::new("calibrated_image", &[Kind::Image])],
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("transformation")
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("image"))?;
    // Without a known lens the picture stays unchanged.
    let number = |arg: Arg| {
        let known = call.optional(arg, Call::number)?;
        Ok::<f64, String>(known.unwrap_or(f64::NAN))
    };
    let lens = Lens {
        focal: [number(arg!("fx"))?, number(arg!("fy"))?],
        center: [number(arg!("cx"))?, number(arg!("cy"))?],
        radial: [
            number(arg!("k1"))?,
            number(arg!("k2"))?,
            number(arg!("k3"))?,
        ],
        tangential: [number(arg!("p1"))?, number(arg!("p2"))?],
        is_fisheye: call.boolean(arg!("use_fisheye_model"))?,
    };
    call.put(
        0,
        image.changed(image.size(), move |pixels| lens.straighten(pixels)),
    );
    Ok(())
}
