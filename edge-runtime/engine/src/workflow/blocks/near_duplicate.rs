//! Recognises pictures that show what an earlier one showed.

use std::collections::VecDeque;

use watchkeeper_vision::imaging::near_duplicate::{SIMILAR, Thumbnail, Views};

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::per_video::{FRAME, PerVideo};

/// Maximum number of pictures remembered per video.
const MAX_MEMORY: i64 = 32;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "watchkeeper/near_duplicate@v1",
    summary: "Recognises a picture that shows what an earlier one of its video showed, also in \
              another size or light, blurred or cropped by a tenth: `similarity` to the most \
              similar one from 0 to 1, `is_duplicate` from the threshold on. Only pictures that \
              are no duplicates are remembered.",
    properties: &[
        FRAME,
        Property::share("threshold", SIMILAR).about("least similarity of a duplicate, from 0 to 1"),
        Property::literal("memory", Shape::Integer(1, MAX_MEMORY))
            .about("number of pictures remembered, from 1 to 32; the oldest is dropped")
            .or(Or::Int(8)),
    ],
    outputs: &[
        Output::new("is_duplicate", &[Kind::Boolean]),
        Output::new("similarity", &[Kind::FloatZeroToOne]),
    ],
    build: |_| Ok(stateful(run)),
    ..Manifest::of("video")
}];

/// A remembered picture; its views follow from the thumbnail.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "Thumbnail", into = "Thumbnail")]
struct SeenPicture {
    thumbnail: Thumbnail,
    views: Views,
}

impl From<Thumbnail> for SeenPicture {
    fn from(thumbnail: Thumbnail) -> Self {
        let views = thumbnail.views();
        Self { thumbnail, views }
    }
}

impl From<SeenPicture> for Thumbnail {
    fn from(seen: SeenPicture) -> Self {
        seen.thumbnail
    }
}

fn run(videos: &mut PerVideo<VecDeque<SeenPicture>>, call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("image"))?;
    let threshold = call.number(arg!("threshold"))?;
    let memory: usize = call.clamped(arg!("memory"), 1..=MAX_MEMORY)?;
    let seen = SeenPicture::from(Thumbnail::of(&imaging::grey(&image.pixels.rgb())));
    let video = &call.video(arg!("image"))?.video_identifier;
    let earlier = videos.get(video, || Ok(VecDeque::new()))?;
    let similar = earlier.iter().map(|one| one.views.similarity(&seen.views));
    let similarity = similar.fold(0.0, f64::max);
    let is_duplicate = !earlier.is_empty() && similarity >= threshold;
    if !is_duplicate {
        earlier.push_back(seen);
        let excess = earlier.len().saturating_sub(memory);
        earlier.drain(..excess);
    }
    call.finish_all((is_duplicate, similarity))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::tests::bench::{Bench, picture};
    use super::Kind;

    /// Whether each of these scenes is a duplicate; `light` is added to the pictures in turn.
    fn duplicates(memory: i64, scenes: &[u32]) -> Vec<bool> {
        let step = json!({
            "type": "watchkeeper/near_duplicate@v1", "image": "$inputs.image", "memory": memory
        });
        let mut bench = Bench::new(step, &[("image", Kind::Image)]);
        let mut is_duplicate = |(number, scene): (usize, &u32)| {
            let image = picture(number as u64, [96, 64], |x, y| {
                // Blocks of eight pixels, and more light in each frame.
                let block = (x / 8).wrapping_mul(7919) ^ (y / 8).wrapping_mul(104_729);
                let mixed = (block ^ scene.wrapping_mul(0x9E37_79B9)).wrapping_mul(0x85EB_CA6B);
                [(mixed >> 25) as u8 + number as u8; 3]
            });
            bench.feed(&[("image", image)]).unwrap()["is_duplicate"] == json!(true)
        };
        scenes.iter().enumerate().map(&mut is_duplicate).collect()
    }

    #[test]
    fn repeated_scene_is_a_duplicate_in_another_light() {
        assert_eq!(
            duplicates(8, &[1, 1, 2, 1, 2, 3]),
            [false, true, false, true, true, false]
        );
    }

    #[test]
    fn oldest_scene_is_dropped_from_a_full_memory() {
        assert_eq!(
            duplicates(2, &[1, 2, 1, 3, 1]),
            [false, false, true, false, false]
        );
    }
}
