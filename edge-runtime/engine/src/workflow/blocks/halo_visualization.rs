//! Draws a glow around masks.

use image::imageops;
use image::{GrayImage, Luma};

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;

const KERNEL_SIZE: Property =
    Property::integer("kernel_size", 40).about("width of the glow in pixels");
const V1: Manifest = Manifest {
    name: "roboflow_core/halo_visualization@v1",
    summary: "Draws a glow around the mask of each detection.",
    properties: drawing::palette_properties![
        of drawing::MASKS; drawing::OPACITY.or(Or::Float(0.8)), KERNEL_SIZE,
    ],
    build: |_| Ok(Box::new(run)),
    ..drawing::BASE
};
pub(super) const BLOCKS: &[Manifest] = &[
    V1,
    Manifest {
        name: "roboflow_core/halo_visualization@v2",
        ..V1
    },
];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let opacity = call.number(arg!("opacity"))?;
    let reach = call.number(arg!("kernel_size"))?.clamp(1.0, 512.0);
    drawing::each(call, move |canvas, d, size, color| {
        if let Some(mask) = d.mask() {
            glow(canvas, &mask.bitmap(size), color, opacity, reach);
        }
    })
}

/// Draws the blurred mask without the mask itself.
fn glow(canvas: &mut Canvas<'_>, mask: &Bitmap, color: Color, opacity: f64, reach: f64) {
    let [width, height] = mask.size();
    let Some(b) = mask.bbox() else { return };
    // Only pixels within reach of the glow are blurred.
    let near = BBox::new(b.x1, b.y1, b.x2 + 1.0, b.y2 + 1.0).grown(reach, reach);
    let near = near.clip(f64::from(width), f64::from(height));
    let [x0, y0, x1, y1] = [
        near.x1 as u32,
        near.y1 as u32,
        near.x2 as u32,
        near.y2 as u32,
    ];
    let inside = |x: u32, y: u32| mask.at((x0 + x) as usize, (y0 + y) as usize);
    let shape = GrayImage::from_fn(x1.saturating_sub(x0), y1.saturating_sub(y0), |x, y| {
        Luma([if inside(x, y) { 255 } else { 0 }])
    });
    let blurred = imageops::fast_blur(&shape, reach as f32 / 3.0);
    for (x, y, light) in blurred.enumerate_pixels() {
        if !inside(x, y) {
            let alpha = opacity * f64::from(light.0[0]) / 255.0 * 2.0;
            canvas.blend(
                i64::from(x0 + x),
                i64::from(y0 + y),
                color,
                alpha.min(opacity),
            );
        }
    }
}
