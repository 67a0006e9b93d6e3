//! Finds the dominant colour of a picture.

use watchkeeper_vision::imaging::dominant;

use crate::workflow::block_api::block::Call;
use crate::workflow::block_api::manifest::{Default as Or, Manifest, Output, Property, Shape};
use crate::workflow::language::kinds::Kind;
use crate::workflow::values::value::Value;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/dominant_color@v1",
    category: "classical_computer_vision",
    summary: "Finds the dominant colour of a picture.",
    properties: &[
        Property::data("image", "the picture", &[Kind::Image]).alias(&["images"]),
        Property::value(
            "color_clusters",
            "number of colour clusters",
            Shape::Integer(1, 10),
        )
        .or(Or::Int(4)),
        Property::value(
            "max_iterations",
            "maximum iterations of the clustering",
            Shape::Integer(1, 500),
        )
        .or(Or::Int(100)),
        Property::value(
            "target_size",
            "approximate side in pixels of the reduced picture",
            Shape::Integer(1, 250),
        )
        .or(Or::Int(100)),
    ],
    outputs: &[Output::new("rgb_color", &[Kind::RgbColor])],
    build: |_| Ok(Box::new(run)),
    ..Manifest::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("image"))?;
    let count = |i: usize, default: i64, most: usize, name: &str| {
        let n = call.integer(i, default)?;
        let fits = usize::try_from(n).ok().filter(|n| (1..=most).contains(n));
        fits.ok_or_else(|| format!("{name} is {n} and has to be from 1 to {most}"))
    };
    let groups = count(1, 4, 10, "color_clusters")?;
    let rounds = count(2, 100, 500, "max_iterations")?;
    let target = count(3, 100, 250, "target_size")?;
    let [width, height] = image.size();
    let step = (width.min(height) as usize / target).max(1);
    let color = dominant::color(&image.pixels.rgb(), step, groups, rounds);
    let color = color.ok_or_else(|| {
        format!("a picture of {width}x{height} has fewer than {groups} pixels to cluster")
    })?;
    call.put(0, color.map(|c| Value::Int(c.into())).to_vec());
    Ok(())
}
