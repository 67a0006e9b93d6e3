//! Collects the latest pictures as JPEG files in memory.

use std::collections::VecDeque;

use image::imageops;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::per_video::PerVideo;
use crate::workflow::values::codec;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/image_stack@v1",
    summary: "Collects the latest pictures of a video as small JPEG files, the newest first.",
    properties: &[
        Property::data("image", &[Kind::Image]).about("the picture"),
        Property::value_or("stack_size", Shape::Integer(1, MAX_PICTURES), Or::Int(10))
            .about("number of pictures, 1 to 64"),
        Property::value_or(
            "resolution_width",
            Shape::Integer(MIN_SIDE, MAX_WIDTH),
            Or::Int(1920),
        )
        .about("maximum width of a picture, 64 to 1920 pixels"),
        Property::value_or(
            "resolution_height",
            Shape::Integer(MIN_SIDE, MAX_HEIGHT),
            Or::Int(1080),
        )
        .about("maximum height of a picture, 64 to 1080 pixels"),
        Property::boolean("clear", false).about("whether to drop earlier pictures"),
    ],
    outputs: &[
        Output::new("frames", &[Kind::ListOfValues]),
        Output::new("frames_count", &[Kind::Integer]),
    ],
    build: |_| Ok(stateful(run)),
    ..Manifest::of("fusion")
}];

/// Bounds of the number of pictures, and of their width and height in pixels.
const MAX_PICTURES: i64 = 64;
const MIN_SIDE: i64 = 64;
const MAX_WIDTH: i64 = 1920;
const MAX_HEIGHT: i64 = 1080;
const QUALITY: u8 = 75;

/// `videos`: the files, the newest first.
fn run(videos: &mut PerVideo<VecDeque<Arc<[u8]>>>, call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("image"))?;
    let count: usize = call.clamped(arg!("stack_size"), 1..=MAX_PICTURES)?;
    let width = call.clamped(arg!("resolution_width"), MIN_SIDE..=MAX_WIDTH)?;
    let height = call.clamped(arg!("resolution_height"), MIN_SIDE..=MAX_HEIGHT)?;
    let stack = videos.get(&image.meta.video_identifier, || Ok(VecDeque::new()))?;
    if call.boolean(arg!("clear"))? {
        stack.clear();
    }
    stack.push_front(small(&image.pixels.rgb(), width, height)?.into());
    stack.truncate(count);
    let frames: Vec<Value> = stack
        .iter()
        .map(|file| Value::Bytes(Arc::clone(file)))
        .collect();
    call.put(1, frames.len());
    call.finish(frames)
}

/// Encodes a picture as JPEG, at most this large.
fn small(pixels: &RgbPixels, width: u32, height: u32) -> Result<Vec<u8>, String> {
    let scale = (f64::from(width) / f64::from(pixels.width))
        .min(f64::from(height) / f64::from(pixels.height));
    if scale >= 1.0 {
        return codec::jpeg(pixels, QUALITY);
    }
    let side = |n: u32| ((f64::from(n) * scale) as u32).max(1);
    let picture = imageops::thumbnail(
        &imaging::picture(pixels),
        side(pixels.width),
        side(pixels.height),
    );
    codec::jpeg(&imaging::pixels(picture), QUALITY)
}
