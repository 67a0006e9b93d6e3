//! Removes lens distortion.

use watchkeeper_vision::imaging::warp::Lens;

use crate::workflow::block_api::prelude::*;

/// A number of the lens; null leaves the picture unchanged.
const fn term(name: &'static str) -> Property {
    Property::value(name, NUMBER).nullable()
}

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/camera-calibration@v1",
    summary: "Removes the distortion of a lens from a picture.",
    properties: &[
        IMAGE,
        term("fx").about("horizontal focal length in pixels"),
        term("fy").about("vertical focal length in pixels"),
        term("cx").about("horizontal position of the optical axis in pixels"),
        term("cy").about("vertical position of the optical axis in pixels"),
        term("k1").about("first radial term"),
        term("k2").about("second radial term"),
        term("k3").about("third radial term"),
        term("p1").about("first tangential term"),
        term("p2").about("second tangential term"),
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
    call.finish(image.changed(image.size(), move |pixels| lens.straighten(pixels)))
}
