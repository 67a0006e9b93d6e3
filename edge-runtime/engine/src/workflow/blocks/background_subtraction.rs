//! Shows what moves.

use watchkeeper_vision::imaging::background::Background;
use watchkeeper_vision::imaging::{self, Plane};

use crate::workflow::block_api::block::Call;
use crate::workflow::block_api::manifest::{
    Default as Or, INTEGER, Manifest, Output, Property, Role,
};
use crate::workflow::block_api::stateful::{Stateful, Unsaved, stateful_instance};
use crate::workflow::blocks::common::per_video::PerVideo;
use crate::workflow::language::kinds::Kind;
use crate::workflow::values::image::{ImageValue, lazy};

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/background_subtraction@v1",
    category: "classical_computer_vision",
    summary: "Learns what is always there and shows what is not: white what moves, grey \
        its shadow.",
    role: Role::Other,
    properties: &[
        Property::data("image", "the picture", &[Kind::Image]).alias(&["images"]),
        Property::value(
            "threshold",
            "how unlike the background something has to be, as a squared number of \
            standard deviations",
            INTEGER,
            &[Kind::Integer],
        )
        .or(Or::Int(16)),
        Property::value(
            "history",
            "how many frames the background is learned from",
            INTEGER,
            &[Kind::Integer],
        )
        .or(Or::Int(30)),
    ],
    outputs: &[Output::new("image", &[Kind::Image])],
    build: |_| Ok(stateful_instance(Subtract)),
    ..Manifest::BASE
}];

struct Subtract;

impl Stateful for Subtract {
    type State = Unsaved<PerVideo<Background>>;

    fn run(&self, state: &mut Self::State, call: &mut Call<'_>) -> Result<(), String> {
        let image = call.image(0)?;
        let background = of_video(&mut state.0, image)?;
        let (history, threshold) = (call.integer(2, 30)?, call.number(1, 16.0)?);
        let seen = look(background, image, history, threshold);
        call.put(
            0,
            image.with_pixels(lazy(image.size(), move || {
                imaging::joined(&[seen.clone(), seen.clone(), seen.clone()])
            })),
        );
        Ok(())
    }
}

/// Largest picture whose background is learned, in pixels: each takes 104 bytes.
const MOST_PIXELS: u64 = 1 << 22;

/// The background of the video of a picture; another size begins a new one.
pub(super) fn of_video<'a>(
    videos: &'a mut PerVideo<Background>,
    image: &ImageValue,
) -> Result<&'a mut Background, String> {
    let size = image.size();
    if u64::from(size[0]) * u64::from(size[1]) > MOST_PIXELS {
        return Err(format!(
            "a picture of {}x{} is too large to learn its background; make it smaller with image_preprocessing",
            size[0], size[1]
        ));
    }
    let background = videos.get(&image.meta.video_identifier, || Ok(Background::new(size)))?;
    if background.size() != size {
        *background = Background::new(size);
    }
    Ok(background)
}

/// Looks at a picture with the settings of a step.
pub(super) fn look(
    background: &mut Background,
    image: &ImageValue,
    history: i64,
    threshold: f64,
) -> Plane {
    #[expect(clippy::cast_possible_truncation, reason = "a threshold")]
    let threshold = threshold as f32;
    background.look(
        &image.pixels.rgb(),
        u32::try_from(history).unwrap_or(1),
        threshold,
    )
}
