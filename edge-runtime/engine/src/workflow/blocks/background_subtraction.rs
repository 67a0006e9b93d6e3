//! Shows moving pixels.

use watchkeeper_vision::imaging::background::Background;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::per_video::PerVideo;
use crate::workflow::blocks::common::picture_filter;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/background_subtraction@v1",
    summary: "Learns the background and shows moving pixels: white for motion, grey for shadows, \
              black for the background.",
    properties: &[
        IMAGE,
        Property::integer("threshold", 16)
            .about("minimum difference from the background, in squared standard deviations"),
        Property::integer("history", 30)
            .about("number of frames from which the background is learned"),
    ],
    build: |_| Ok(stateful(run)),
    ..picture_filter::BASE
}];

fn run(state: &mut Unsaved<PerVideo<Background>>, call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("image"))?;
    let background = state
        .0
        .get(&image.meta.video_identifier, || learner(image.size()))?;
    if background.size() != image.size() {
        *background = learner(image.size())?;
    }
    let history = call.integer(arg!("history"))?;
    let seen = look(background, image, history, call.number(arg!("threshold"))?);
    call.finish(image.with_pixels(lazy(image.size(), move || {
        imaging::joined(&[seen.clone(), seen.clone(), seen.clone()])
    })))
}

/// Maximum pixels of a picture whose background is learned; each takes 104 bytes.
const MAX_PIXELS: u64 = 1 << 22;

/// Makes the background model of pictures of this size. Fails if they are too large.
pub(super) fn learner(size: [u32; 2]) -> Result<Background, String> {
    if u64::from(size[0]) * u64::from(size[1]) > MAX_PIXELS {
        return Err(format!(
            "a picture of {}x{} is too large to learn its background; make it smaller with \
             image_preprocessing",
            size[0], size[1]
        ));
    }
    Ok(Background::new(size))
}

/// Processes a picture with the settings of a step.
pub(super) fn look(
    background: &mut Background,
    image: &ImageValue,
    history: i64,
    threshold: f64,
) -> Plane {
    let history = u32::try_from(history).unwrap_or(1);
    background.look(&image.pixels.rgb(), history, threshold as f32)
}
