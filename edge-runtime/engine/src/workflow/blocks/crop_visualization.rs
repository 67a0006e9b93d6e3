//! Draws enlarged copies of detections.

use image::imageops::{self, FilterType};
use image::{ImageBuffer, Rgb};
use watchkeeper_vision::geometry::Anchor;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/crop_visualization@v1",
    summary: "Draws an enlarged copy of each detection beside it.",
    properties: drawing::palette_properties![
        Property::anchor("position", "TOP_CENTER")
            .about("the point of the box where the copy is drawn"),
        Property::number("scale_factor", 2.0).about("scale of the copy"),
        Property::integer("border_thickness", 2).about("width of its border in pixels"),
    ],
    build: |_| Ok(Box::new(run)),
    ..drawing::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let anchor = call.anchor(arg!("position"))?;
    let factor = call.number(arg!("scale_factor"))?.clamp(0.01, 50.0);
    let border = call.number(arg!("border_thickness"))?;
    let untouched = call.image(arg!("image"))?.clone();
    drawing::each_with_pixels(call, move |canvas, d, size, color| {
        let corners = [d.bbox.x1, d.bbox.y1, d.bbox.x2, d.bbox.y2];
        if !corners.iter().all(|n| n.is_finite()) {
            return;
        }
        let [from, to] =
            [[d.bbox.x1, d.bbox.y1], [d.bbox.x2, d.bbox.y2]].map(|corner| corner.map(|n| n as i64));
        let part = untouched.crop(from, to, Arc::clone(&untouched.id));
        let Some(part) = part.map(|part| part.pixels.rgb()) else {
            return;
        };
        let part = ImageBuffer::<Rgb<u8>, _>::from_raw(part.width, part.height, &*part.data);
        let Some(part) = part else { return };
        let larger = |n: u32| ((f64::from(n) * factor) as u32).clamp(1, 8192);
        let large = imageops::resize(
            &part,
            larger(part.width()),
            larger(part.height()),
            FilterType::Triangle,
        );
        let at = d.anchor(anchor, size);
        let (w, h) = (f64::from(large.width()), f64::from(large.height()));
        // The copy is on the side named by the point.
        let (dx, dy) = match anchor {
            Anchor::TopLeft => (-w, -h),
            Anchor::TopCenter => (-w / 2.0, -h),
            Anchor::TopRight => (0.0, -h),
            Anchor::CenterLeft => (-w, -h / 2.0),
            Anchor::Center | Anchor::CenterOfMass => (-w / 2.0, -h / 2.0),
            Anchor::CenterRight => (0.0, -h / 2.0),
            Anchor::BottomLeft => (-w, 0.0),
            Anchor::BottomCenter => (-w / 2.0, 0.0),
            Anchor::BottomRight => (0.0, 0.0),
        };
        let (x, y) = ((at.x + dx).round(), (at.y + dy).round());
        canvas.paste(&large, x as i64, y as i64);
        canvas.outline_box(&BBox::new(x, y, x + w, y + h), color, border);
    })
}
