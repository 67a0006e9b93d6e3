//! Tracks objects with our own tracker; same properties and outputs as `byte_tracker@v3`.

use watchkeeper_vision::track::tracker::{ACTIVATION, LEAST_LIKENESS, Tracker, TrackerConfig};

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::instances::{self, BUFFER, CACHE_SIZE, Video, followed};
use crate::workflow::blocks::common::per_video::{FRAME, PerVideo};

/// Frames per second in which the buffer for lost tracks is counted.
const BUFFER_FPS: f64 = 30.0;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "watchkeeper/tracker@v1",
    summary: "Tracks objects over time, with fewer identity switches than ByteTrack, also with a \
              moving camera.",
    role: Role::Tracker,
    properties: &[
        FRAME,
        followed(DETECTIONS),
        Property::fraction("track_activation_threshold", ACTIVATION)
            .about(
                "score that one box of a track needs before it is reported, for a vehicle joined \
                 over its classes; scores are weighed relative to it",
            )
            .nullable(),
        BUFFER,
        Property::fraction("minimum_matching_threshold", 1.0 - LEAST_LIKENESS)
            .about("largest distance (1 - overlap × score) at which a box continues a track")
            .nullable(),
        Property::optional("minimum_consecutive_frames", INTEGER)
            .about(
                "frames after its first box before a track is reported; null: a seventh of a \
                 second",
            )
            .nullable(),
        CACHE_SIZE,
    ],
    outputs: &instances::outputs(&[Kind::ObjectDetection]),
    keeps_classes: true,
    build: |_| Ok(stateful(run)),
    ..Manifest::of("video")
}];

fn run(videos: &mut PerVideo<Video<Tracker>>, call: &mut Call<'_>) -> Result<(), String> {
    let meta = call.video(arg!("image"))?;
    let detections = call.detections(arg!("detections"))?;
    let buffer = instances::frames(call, arg!("lost_track_buffer"))?;
    let mut config = TrackerConfig {
        activation: call.number(arg!("track_activation_threshold"))?,
        buffer_s: f64::from(buffer) / BUFFER_FPS,
        least_likeness: 1.0 - call.number(arg!("minimum_matching_threshold"))?,
        frame_rate: meta.fps.unwrap_or(0.0),
        ..TrackerConfig::default()
    };
    let more = call.optional(arg!("minimum_consecutive_frames"), instances::frames)?;
    if let Some(more) = more {
        config.fewest_sights = more.saturating_add(1);
        config.confirm_s = 0.0;
    }
    let new = || Video::new(Tracker::new(config), call);
    let video = videos.get(&meta.video_identifier, new)?;
    // Properties may come from other steps, and a camera's rate may be known only after some
    // frames.
    video.tracker.set_config(config);
    let mut tracked = call.blank(0);
    let out = Arc::make_mut(&mut tracked);
    video.tracker.update_into(detections, meta.source_s, out);
    let [fresh, known] = video.instances.split_new(&tracked, call);
    call.finish_all((tracked, fresh, known))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::super::super::tests::bench::{Bench, boxes, picture};
    use super::Kind;

    fn bench(more: &Json) -> Bench {
        let mut step = json!({
            "type": "watchkeeper/tracker@v1", "image": "$inputs.image", "detections": "$inputs.boxes"
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            step[name] = value.clone();
        }
        Bench::new(
            step,
            &[("image", Kind::Image), ("boxes", Kind::ObjectDetection)],
        )
    }

    /// Number of boxes in each output for a frame with boxes at these positions.
    fn frame(bench: &mut Bench, number: u64, xs: &[f64]) -> [usize; 3] {
        let out = feed(bench, number, xs, 0.9);
        let count = |name: &str| out[name]["predictions"].as_array().map_or(0, Vec::len);
        [
            count("tracked_detections"),
            count("new_instances"),
            count("already_seen_instances"),
        ]
    }

    fn feed(bench: &mut Bench, number: u64, xs: &[f64], score: f64) -> Json {
        let row = |x: &f64| json!({"x": x, "y": 50.0, "width": 40.0, "height": 80.0, "confidence": score});
        let rows: Vec<Json> = xs.iter().map(row).collect();
        let image = picture(number, [4, 4], |_, _| [0, 0, 0]);
        let inputs = [("image", image), ("boxes", boxes([640, 480], &rows))];
        bench.feed(&inputs).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn object_is_new_once_and_known_afterwards() {
        let mut bench = bench(&Json::Null);
        assert_eq!(frame(&mut bench, 0, &[100.0]), [1, 1, 0]);
        assert_eq!(frame(&mut bench, 1, &[102.0]), [1, 0, 1]);
        for n in 2..6 {
            assert_eq!(frame(&mut bench, n, &[100.0, 300.0]), [1, 0, 1]);
        }
        assert_eq!(frame(&mut bench, 6, &[100.0, 300.0]), [2, 1, 1]);
    }

    #[test]
    fn track_is_reported_after_the_given_frames() {
        for more in 0..4 {
            let mut bench = bench(&json!({"minimum_consecutive_frames": more}));
            frame(&mut bench, 0, &[]);
            for n in 0..more {
                assert_eq!(frame(&mut bench, n + 1, &[100.0]), [0, 0, 0], "{more}");
            }
            assert_eq!(frame(&mut bench, more + 1, &[100.0]), [1, 1, 0], "{more}");
        }
    }

    #[test]
    fn activation_decides_which_track_is_reported() {
        for (activation, expected) in [(0.5, 0), (0.3, 1)] {
            let mut bench = bench(&json!({"track_activation_threshold": activation}));
            let out = feed(&mut bench, 0, &[100.0], 0.4);
            let found = out["tracked_detections"]["predictions"]
                .as_array()
                .map(Vec::len);
            assert_eq!(found, Some(expected));
        }
    }

    #[test]
    fn lost_track_is_kept_for_the_buffer() {
        for (buffer, expected) in [(30, 1), (5, 0)] {
            let mut bench = bench(&json!({"lost_track_buffer": buffer}));
            frame(&mut bench, 0, &[100.0]);
            for n in 1..12 {
                frame(&mut bench, n, &[]);
            }
            assert_eq!(frame(&mut bench, 12, &[100.0])[0], expected);
        }
    }
}
