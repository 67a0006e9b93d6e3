//! Counts the pixels of a colour.

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/pixel_color_count@v1",
    summary: "Counts the pixels of a colour, within a tolerance.",
    properties: &[
        IMAGE,
        Property::value("target_color", COLOR)
            .about("the colour")
            .kinds(&[Kind::Text, Kind::RgbColor]),
        Property::integer("tolerance", 10).about("tolerance of red, green and blue"),
    ],
    outputs: &[Output::new("matching_pixels_count", &[Kind::Integer])],
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("classical_computer_vision")
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("image"))?;
    let color = color(call.arg(arg!("target_color")))?;
    let tolerance = call.integer(arg!("tolerance"))?;
    let wanted = [color.r, color.g, color.b].map(i64::from);
    let rgb = image.pixels.rgb();
    let fits = |p: &&[u8]| {
        p.iter()
            .zip(wanted)
            .all(|(c, w)| (i64::from(*c) - w).abs() <= tolerance)
    };
    let count = rgb.data.chunks_exact(3).filter(fits).count();
    call.finish(count)
}

/// Parses a colour, also as `(r, g, b)`.
fn color(value: &Value) -> Result<Color, String> {
    let inner = value
        .as_str()
        .and_then(|t| t.trim().strip_prefix('(')?.strip_suffix(')'));
    match inner {
        Some(inner) => drawing::color(&format!("rgb({inner})")),
        None => drawing::color_of_value(value),
    }
}
