//! Draws icons.

use image::imageops::{self, FilterType};

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/icon_visualization@v1",
    summary: "Draws an icon at a fixed position, or at each detection.",
    properties: &[
        drawing::IMAGE,
        drawing::COPY,
        Property::data("icon", &[Kind::Image]).about("the icon"),
        Property::choice("mode", &["static", "dynamic"], "dynamic")
            .about("static position, or at detections"),
        drawing::PREDICTIONS,
        Property::integer("icon_width", 64).about("width of the icon in pixels"),
        Property::integer("icon_height", 64).about("height of the icon in pixels"),
        Property::anchor("position", "TOP_CENTER")
            .about("point of a detection where the icon is drawn")
            .nullable(),
        Property::integer("x_position", 10)
            .about("pixels from the left; negative ones are counted from the right")
            .nullable(),
        Property::integer("y_position", 10)
            .about("pixels from the top; negative ones are counted from the bottom")
            .nullable(),
    ],
    build: |_| Ok(Box::new(run)),
    ..drawing::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let icon = Arc::clone(&call.image(arg!("icon"))?.pixels);
    let size: [u32; 2] = [
        call.clamped(arg!("icon_width"), 1..=8192)?,
        call.clamped(arg!("icon_height"), 1..=8192)?,
    ];
    let places = if call.text(arg!("mode"))? == "static" {
        let [width, height] = call.image(arg!("image"))?.size().map(i64::from);
        let at = |n: i64, of: i64, own: u32| if n < 0 { of - i64::from(own) + n } else { n };
        let x = at(call.integer(arg!("x_position"))?, width, size[0]);
        vec![(x, at(call.integer(arg!("y_position"))?, height, size[1]))]
    } else {
        let anchor = call.anchor(arg!("position"))?;
        let Value::Detections(all) = call.arg(arg!("predictions")) else {
            return Err("predictions is required if mode is dynamic".to_owned());
        };
        let each = all.boxes.iter().map(|d| d.anchor(anchor, all.size));
        let middle = |p: Point| {
            (
                p.x as i64 - i64::from(size[0] / 2),
                p.y as i64 - i64::from(size[1] / 2),
            )
        };
        each.map(middle).collect()
    };
    drawing::put_pixels(call, move |canvas: &mut Canvas<'_>| {
        let whole = imaging::picture(&icon.rgb());
        if whole.is_empty() {
            return;
        }
        let small = imageops::resize(&whole, size[0], size[1], FilterType::Triangle);
        for (x, y) in &places {
            canvas.paste(&small, *x, *y);
        }
    })
}
