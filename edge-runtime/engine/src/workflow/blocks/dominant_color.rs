//! Finds the dominant colour of a picture.

use watchkeeper_vision::imaging::dominant;

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/dominant_color@v1",
    summary: "Finds the dominant colour of a picture.",
    properties: &[
        IMAGE,
        Property::value_or("color_clusters", Shape::Integer(1, 10), Or::Int(4))
            .about("number of colour clusters"),
        Property::value_or("max_iterations", Shape::Integer(1, 500), Or::Int(100))
            .about("maximum iterations of the clustering"),
        Property::value_or("target_size", Shape::Integer(1, 250), Or::Int(100))
            .about("approximate side in pixels of the reduced picture"),
    ],
    outputs: &[Output::new("rgb_color", &[Kind::RgbColor])],
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("classical_computer_vision")
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("image"))?;
    let groups = call.bounded_integer(arg!("color_clusters"))?;
    let rounds = call.bounded_integer(arg!("max_iterations"))?;
    let target: usize = call.bounded_integer(arg!("target_size"))?;
    let [width, height] = image.size();
    let step = (width.min(height) as usize / target).max(1);
    let color = dominant::color(&image.pixels.rgb(), step, groups, rounds);
    let color = color.ok_or_else(|| {
        format!("a picture of {width}x{height} has fewer than {groups} pixels to cluster")
    })?;
    call.finish(color.map(|c| Value::Int(c.into())).to_vec())
}
