//! Returns values of earlier frames.
//!
//! - The videos share [`MAX_KEPT_BYTES`] equally; values beyond it are dropped, the oldest first.
//! - The step fails while the frame it looks back to is among those dropped.

use std::collections::BTreeMap;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::per_video::{FRAME, PerVideo};
use crate::workflow::values::stored_value::{MAX_KEPT_BYTES, StoredValue, count_fitting};

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/frame_delay@v1",
    summary: "Returns the value of an earlier frame, by frame number.",
    properties: &[
        FRAME,
        Property::data(
            "data",
            &[
                Kind::Any,
                Kind::ListOfValues,
                Kind::Image,
                Kind::ObjectDetection,
                Kind::InstanceSegmentation,
                Kind::Keypoints,
            ],
        )
        .about("the value"),
        Property::value("offset", Shape::Integer(-MAX_OFFSET, 0))
            .about("offset in frames, from -256 to 0"),
        Property::literal("default_value", Shape::Scalar)
            .about("value if there was no such frame")
            .or(Or::Null),
    ],
    outputs: &[
        Output::new("output", &[Kind::Any]),
        Output::new("is_available", &[Kind::Boolean]),
        Output::new("reference_frame_number", &[Kind::Integer]),
    ],
    build: |_| Ok(stateful(run)),
    ..Manifest::of("fusion")
}];

/// Maximum look-back in frames.
const MAX_OFFSET: i64 = 256;

#[derive(Default, Serialize, Deserialize)]
struct EarlierValues {
    frames: BTreeMap<u64, StoredValue>,
    /// Longest look-back so far, in frames.
    reach: u64,
    /// Latest frame whose value was dropped for its bytes.
    #[serde(default)]
    dropped: Option<u64>,
}

impl EarlierValues {
    /// Drops the oldest values, so that those left fit into `max_bytes`.
    fn drop_beyond(&mut self, max_bytes: usize) {
        let fitting = count_fitting(self.frames.values().rev(), max_bytes);
        while self.frames.len() > fitting {
            self.dropped = self.frames.pop_first().map(|(number, _)| number);
        }
    }

    /// Returns whether the value of frame `number` may have been dropped for its bytes.
    fn has_dropped(&self, number: u64) -> bool {
        self.dropped.is_some_and(|dropped| number <= dropped)
    }
}

fn run(videos: &mut PerVideo<EarlierValues>, call: &mut Call<'_>) -> Result<(), String> {
    let meta = call.video(arg!("image"))?;
    let back = call.bounded_integer::<i64>(arg!("offset"))?.unsigned_abs();
    let number = meta.frame_number;
    let past = videos.get(&meta.video_identifier, || Ok(EarlierValues::default()))?;
    if past
        .frames
        .last_key_value()
        .is_some_and(|(last, _)| number < *last)
    {
        // Decreasing frame numbers mean another recording of the same name.
        *past = EarlierValues::default();
    }
    past.reach = past.reach.max(back);
    past.frames
        .insert(number, StoredValue::copied(call.arg(arg!("data"))));
    let wanted = number
        .checked_sub(back)
        .and_then(|n| past.frames.get(&n))
        .map(|kept| kept.value().clone());
    past.frames = past.frames.split_off(&number.saturating_sub(past.reach));
    let share = MAX_KEPT_BYTES / videos.len();
    for other in videos.iter_mut() {
        other.drop_beyond(share);
    }
    let past = videos.get(&meta.video_identifier, || Ok(EarlierValues::default()))?;
    if past.has_dropped(number.saturating_sub(back)) {
        return Err(format!(
            "offset is -{back}, but only {} such values fit into the {} MiB that a step keeps \
             of a video; use a nearer offset or smaller pictures",
            past.frames.len(),
            share >> 20
        ));
    }
    call.put(1, wanted.is_some());
    call.put(
        0,
        wanted.unwrap_or_else(|| call.arg(arg!("default_value")).clone()),
    );
    call.put(2, number);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::super::super::tests::bench::{Bench, black, frame_of, picture};
    use super::Kind;
    use crate::workflow::values::image::{ImageValue, Packed, VideoMeta};

    #[test]
    fn value_is_delayed_and_a_new_recording_starts_over() {
        let step = json!({
            "type": "TimeTravel", "image": "$inputs.image", "data": "$inputs.n", "offset": -2, "default_value": "none"
        });
        let mut bench = Bench::new(step, &[("image", Kind::Image), ("n", Kind::Any)]);
        let mut feed = |number: u64| {
            let frame = picture(number, [2, 2], |_, _| [0; 3]);
            let n = i64::try_from(number).unwrap() * 10;
            bench.feed(&[("image", frame), ("n", n.into())]).unwrap()["output"].clone()
        };
        for (number, wanted) in [
            (5, json!("none")),
            (6, json!("none")),
            (7, json!(50)),
            (9, json!(70)),
            (8, json!("none")),
        ] {
            assert_eq!(feed(number), wanted, "{number}");
        }
    }

    #[test]
    fn delay_beyond_the_kept_bytes_fails_the_step() {
        let step = json!({"type": "FrameDelay", "image": "$inputs.image", "data": "$inputs.image", "offset": -9});
        let mut bench = Bench::new(step, &[("image", Kind::Image)]);
        let pixels = black([8192, 4096]);
        let mut feed =
            |number: u64| bench.feed(&[("image", frame_of(number, Arc::clone(&pixels)))]);
        feed(1).unwrap();
        feed(2).unwrap();
        let why = feed(3).unwrap_err();
        assert!(
            why.contains("only 2 such values fit into the 256 MiB"),
            "{why}"
        );
    }

    #[test]
    fn near_offset_works_again_after_a_far_one() {
        let step = json!({"type": "FrameDelay", "image": "$inputs.image", "data": "$inputs.image", "offset": "$inputs.n"});
        let mut bench = Bench::new(step, &[("image", Kind::Image), ("n", Kind::Integer)]);
        let pixels = black([8192, 4096]);
        let mut feed = |number: u64, offset: i64| {
            let frame = frame_of(number, Arc::clone(&pixels));
            bench
                .feed(&[("image", frame), ("n", offset.into())])
                .map(|out| out["is_available"].clone())
        };
        assert_eq!(feed(1, -9), Ok(json!(false)));
        assert_eq!(feed(2, -1), Ok(json!(true)));
        assert_eq!(feed(30, -20), Ok(json!(false)), "no frame 10");
        assert_eq!(feed(31, -20), Ok(json!(false)), "no frame 11");
        feed(32, -20).unwrap_err();
        assert_eq!(feed(33, -1), Ok(json!(true)));
    }

    #[test]
    fn videos_share_the_kept_bytes() {
        let step = json!({"type": "FrameDelay", "image": "$inputs.image", "data": "$inputs.image", "offset": -1});
        let mut bench = Bench::new(step, &[("image", Kind::Image)]);
        let pixels = black([8192, 4096]);
        let mut feed = |video: &str, number: u64| {
            let meta = VideoMeta {
                video_identifier: video.into(),
                frame_number: number,
                ..VideoMeta::still("v")
            };
            let frame = ImageValue::new(Arc::new(Packed(Arc::clone(&pixels))), meta);
            bench.feed(&[("image", frame.into())])
        };
        feed("a", 1).unwrap();
        feed("a", 2).unwrap();
        feed("b", 1).unwrap();
        for (video, number) in [("a", 3), ("b", 2)] {
            let why = feed(video, number).unwrap_err();
            assert!(
                why.contains("only 1 such values fit into the 128 MiB"),
                "{why}"
            );
        }
    }

    #[test]
    fn positive_offset_is_refused() {
        let why = Bench::refusal(
            json!({"type": "FrameDelay", "image": "$inputs.image", "data": "$inputs.image", "offset": 1}),
        );
        assert!(why.contains("-256"), "{why}");
    }
}
