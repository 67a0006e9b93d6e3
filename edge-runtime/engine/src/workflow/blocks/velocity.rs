//! Measures the speed of tracked objects.

use serde_json::json;
use watchkeeper_vision::analytics::recent::Recent;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::per_video::{FRAME, PerVideo};

/// Maximum number of tracks per video.
const MAX_TRACKS: usize = 16_384;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/velocity@v1",
    summary: "Measures the speed of tracked objects, per frame and smoothed.",
    properties: &[
        FRAME.inputs_only(),
        Property::data("detections", DETECTIONS).about("tracked detections"),
        Property::number("smoothing_alpha", 0.5)
            .about("weight of the newest velocity in the smoothed one, above 0 to 1"),
        Property::number("pixels_per_meter", 1.0)
            .about("pixels per metre; 1 for velocities in pixels per second"),
    ],
    outputs: &[Output::new("velocity_detections", DETECTIONS)],
    build: |_| Ok(stateful(run)),
    keeps_classes: true,
    ..Manifest::of("analytics")
}];

/// Last position and speed of a track.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Last {
    at: Point,
    time_s: f64,
    /// In pixels per second.
    smoothed: Point,
}

fn run(videos: &mut PerVideo<Recent<Last>>, call: &mut Call<'_>) -> Result<(), String> {
    let meta = call.video(arg!("image"))?;
    let all = call.tracked(arg!("detections"))?;
    let alpha = call.number(arg!("smoothing_alpha"))?;
    let scale = call.number(arg!("pixels_per_meter"))?;
    if !(alpha > 0.0 && alpha <= 1.0) {
        return Err(format!(
            "smoothing_alpha is {alpha} and has to be above 0 and at most 1"
        ));
    }
    if scale.is_nan() || scale <= 0.0 {
        return Err(format!("pixels_per_meter is {scale} and has to be above 0"));
    }
    let time_s = meta.time_s();
    let tracks = videos.get(&meta.video_identifier, || Ok(Recent::new(MAX_TRACKS)))?;
    tracks.next_round(u64::MAX);
    let mut out = Detections::clone(all);
    for d in &mut out.boxes {
        let Some(track) = d.track else { continue };
        let at = d.bbox.center();
        let last = tracks.touch(track).copied();
        let now = velocity(last, at, time_s);
        let smoothed = last.map_or(now, |last| {
            let mix = |now: f64, old: f64| alpha * now + (1.0 - alpha) * old;
            Point::new(mix(now.x, last.smoothed.x), mix(now.y, last.smoothed.y))
        });
        let seen = Last {
            at,
            time_s,
            smoothed,
        };
        *tracks.touch_or_insert(track, seen) = seen;
        for (vector, speed, v) in [
            ("velocity", "speed", now),
            ("smoothed_velocity", "smoothed_speed", smoothed),
        ] {
            d.set_data(vector, json!([v.x / scale, v.y / scale]));
            d.set_data(speed, v.x.hypot(v.y) / scale);
        }
    }
    call.finish(out)
}

/// Pixels per second since the last time; zero for a new track, or if time stood still or went
/// back.
fn velocity(last: Option<Last>, at: Point, time_s: f64) -> Point {
    match last {
        Some(last) if time_s > last.time_s => {
            let seconds = time_s - last.time_s;
            Point::new((at.x - last.at.x) / seconds, (at.y - last.at.y) / seconds)
        }
        _ => Point::new(0.0, 0.0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::super::super::tests::bench::{Bench, boxes, picture};
    use crate::workflow::language::kinds::Kind;

    fn bench(alpha: f64, scale: f64) -> Bench {
        let step = json!({
            "type": "roboflow_core/velocity@v1", "image": "$inputs.image", "detections": "$inputs.boxes",
            "smoothing_alpha": alpha, "pixels_per_meter": scale
        });
        Bench::new(
            step,
            &[("image", Kind::Image), ("boxes", Kind::ObjectDetection)],
        )
    }

    fn frame(bench: &mut Bench, number: u64, x: f64) -> Json {
        let row = json!({"x": x, "y": 20.0, "width": 10.0, "height": 10.0, "tracker_id": 1});
        let image = picture(number, [4, 4], |_, _| [0, 0, 0]);
        let out = bench.feed(&[("image", image), ("boxes", boxes([100, 100], &[row]))]);
        out.unwrap()["velocity_detections"]["predictions"][0].clone()
    }

    fn near(json: &Json, wanted: f64) -> bool {
        json.as_f64().is_some_and(|n| (n - wanted).abs() < 1e-6)
    }

    #[test]
    fn speed_is_distance_by_time_and_is_smoothed() {
        let mut bench = bench(0.5, 2.0);
        assert!(near(&frame(&mut bench, 1, 10.0)["speed"], 0.0));
        // 3 pixels in a thirtieth of a second are 90 pixels per second, which are 45 metres.
        let second = frame(&mut bench, 2, 13.0);
        assert!(near(&second["speed"], 45.0));
        assert!(near(&second["velocity"][0], 45.0));
        assert!(near(&second["smoothed_speed"], 22.5));
    }

    #[test]
    fn time_that_stands_still_gives_speed_zero() {
        let mut bench = bench(1.0, 1.0);
        frame(&mut bench, 5, 10.0);
        assert!(near(&frame(&mut bench, 5, 50.0)["speed"], 0.0));
        assert!(near(&frame(&mut bench, 4, 90.0)["speed"], 0.0));
    }

    #[test]
    fn boxes_without_tracks_are_refused() {
        let image = picture(1, [4, 4], |_, _| [0, 0, 0]);
        let row = json!({"x": 1.0, "y": 2.0, "width": 1.0, "height": 1.0});
        let out = bench(0.5, 1.0).feed(&[("image", image), ("boxes", boxes([100, 100], &[row]))]);
        assert!(out.unwrap_err().contains("byte_tracker"));
    }
}
