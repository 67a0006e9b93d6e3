//! Arranges pictures in a grid.

use image::RgbImage;
use image::imageops;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/grid_visualization@v1",
    summary: "Arranges pictures in a grid, such as those of a buffer.",
    properties: &[
        Property::value("images", Shape::List)
            .about("the pictures, or lists of pictures")
            .kinds(&[Kind::Image, Kind::ListOfValues])
            .of_selectors_or_one(),
        Property::integer("width", 2560).about("width of the grid in pixels"),
        Property::integer("height", 1440).about("height of the grid in pixels"),
    ],
    build: |_| Ok(Box::new(run)),
    ..drawing::BASE
}];

/// Maximum side of a grid in pixels.
const MAX_SIDE: i64 = 16_384;
const MAX_PICTURES: usize = 1024;

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let mut images = Vec::new();
    collect(call.arg(arg!("images")), &mut images)?;
    if images.len() > MAX_PICTURES {
        return Err(format!(
            "{} pictures are too many for a grid; at most {MAX_PICTURES} are",
            images.len()
        ));
    }
    let size = [
        call.integer_in(arg!("width"), 1..=MAX_SIDE)?,
        call.integer_in(arg!("height"), 1..=MAX_SIDE)?,
    ];
    let first = images.iter().flatten().next().cloned();
    let pixels = lazy(size, move || grid(&images, size));
    let image = match first {
        Some(first) => first.with_pixels(pixels),
        None => ImageValue::new(pixels, VideoMeta::still("grid")),
    };
    call.finish(image)
}

/// Collects the pictures of nested lists; `None` is an empty cell.
fn collect(value: &Value, out: &mut Vec<Option<Arc<ImageValue>>>) -> Result<(), String> {
    match value {
        Value::List(items) => items.iter().try_for_each(|item| collect(item, out)),
        Value::Image(image) => {
            out.push(Some(Arc::clone(image)));
            Ok(())
        }
        Value::Null => {
            out.push(None);
            Ok(())
        }
        other => Err(format!(
            "images contains {} instead of pictures",
            other.what()
        )),
    }
}

fn grid(images: &[Option<Arc<ImageValue>>], [width, height]: [u32; 2]) -> RgbPixels {
    let mut pixels = RgbPixels {
        width,
        height,
        data: vec![0; width as usize * height as usize * 3],
    };
    let mut canvas = Canvas::new(&mut pixels.data, width, height);
    let columns = (1..).find(|n| n * n >= images.len()).unwrap_or(1);
    let per_side = u32::try_from(columns).unwrap_or(1).max(1);
    let (cell_width, cell_height) = (width / per_side, height / per_side);
    for (i, image) in images.iter().enumerate() {
        let Some(image) = image else { continue };
        let rgb = image.pixels.rgb();
        let Some(whole) = RgbImage::from_raw(rgb.width, rgb.height, rgb.data.clone()) else {
            continue;
        };
        let scale = (f64::from(cell_width) / f64::from(rgb.width))
            .min(f64::from(cell_height) / f64::from(rgb.height));
        let [w, h] = [rgb.width, rgb.height].map(|n| (f64::from(n) * scale) as u32);
        if w == 0 || h == 0 {
            continue;
        }
        let small = imageops::thumbnail(&whole, w, h);
        let place = |at: usize, cell: u32, own: u32| {
            i64::try_from(at).unwrap_or(0) * i64::from(cell) + i64::from((cell - own.min(cell)) / 2)
        };
        canvas.paste(
            &small,
            place(i % columns, cell_width, w),
            place(i / columns, cell_height, h),
        );
    }
    pixels
}
