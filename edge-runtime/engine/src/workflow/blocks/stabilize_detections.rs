//! Stabilises the boxes of tracked objects.

use std::collections::VecDeque;

use watchkeeper_contract::id::TrackId;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::per_video::{FRAME, PerVideo, TRACKED};

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/stabilize_detections@v1",
    summary: "Stabilises the boxes of tracked objects, and extrapolates lost ones for some frames.",
    properties: &[
        FRAME,
        TRACKED,
        Property::integer("smoothing_window_size", 3)
            .about(
                "frames over which the speed is smoothed, and for which a lost object is \
                 extrapolated",
            )
            .nullable(),
        Property::fraction("bbox_smoothing_coefficient", 0.2)
            .about("weight of the newest box, 0 to 1")
            .nullable(),
    ],
    outputs: &[Output::new("tracked_detections", BOXES)],
    build: |_| Ok(stateful(run)),
    ..Manifest::of("transformation")
}];

/// Maximum number of tracks per video.
const MAX_TRACKS: usize = 16_384;

#[derive(Default, Serialize, Deserialize)]
struct Objects {
    /// In the order of the tracks.
    last: Vec<Detection>,
    speeds: Vec<(TrackId, Speed)>,
}

/// Speed of an object in pixels per frame, by a Kalman filter on the mean of the latest ones. See
/// Welch and Bishop, "An introduction to the Kalman filter". Both directions have the same
/// uncertainty, so it is one number.
#[derive(Serialize, Deserialize)]
struct Speed {
    velocity: Point,
    uncertainty: f64,
    latest: VecDeque<Point>,
}

/// Variance of the change of a speed per frame.
const PROCESS_NOISE: f64 = 0.001;
/// Variance of a measured speed.
const MEASUREMENT_NOISE: f64 = 0.01;

impl Speed {
    fn begin(velocity: Point) -> Self {
        Self {
            velocity,
            uncertainty: 1.0,
            latest: VecDeque::from([velocity]),
        }
    }

    fn measure(&mut self, velocity: Point, window: usize) {
        self.latest.push_front(velocity);
        self.latest.truncate(window);
        let sum = self
            .latest
            .iter()
            .fold(Point::default(), |s, v| Point::new(s.x + v.x, s.y + v.y));
        let count = self.latest.len().max(1) as f64;
        let gain = self.uncertainty / (self.uncertainty + MEASUREMENT_NOISE);
        self.velocity.x += gain * (sum.x / count - self.velocity.x);
        self.velocity.y += gain * (sum.y / count - self.velocity.y);
        self.uncertainty -= gain * self.uncertainty;
    }
}

fn run(videos: &mut PerVideo<Objects>, call: &mut Call<'_>) -> Result<(), String> {
    let all = call.tracked(arg!("detections"))?;
    let window = call.clamped(arg!("smoothing_window_size"), 1..=1024)?;
    let alpha = call.number(arg!("bbox_smoothing_coefficient"))?;
    let video = &call.video(arg!("image"))?.video_identifier;
    let objects = videos.get(video, || Ok(Objects::default()))?;
    call.finish(objects.update(all, window, alpha))
}

fn mixed(before: &BBox, now: &BBox, alpha: f64) -> BBox {
    let mix = |before: f64, now: f64| alpha * now + (1.0 - alpha) * before;
    BBox::new(
        mix(before.x1, now.x1),
        mix(before.y1, now.y1),
        mix(before.x2, now.x2),
        mix(before.y2, now.y2),
    )
}

impl Objects {
    fn before(&mut self, track: TrackId) -> Option<&mut Detection> {
        self.last.iter_mut().find(|d| d.track == Some(track))
    }

    fn update(&mut self, all: &Detections, window: usize, alpha: f64) -> Detections {
        let measured = self.measure(all, window);
        for (_, speed) in &mut self.speeds {
            speed.uncertainty += PROCESS_NOISE;
        }
        let predicted: Vec<(TrackId, Point)> =
            self.speeds.iter().map(|(t, s)| (*t, s.velocity)).collect();
        self.speeds.retain_mut(|(track, speed)| {
            measured.contains(track) || {
                speed.latest.pop_front();
                !speed.latest.is_empty()
            }
        });
        let mut out = Detections::clone(all);
        for d in &mut out.boxes {
            let Some(track) = d.track else { continue };
            let raw = d.clone();
            match self.before(track) {
                Some(before) => {
                    d.bbox = mixed(&before.bbox, &d.bbox, alpha);
                    *before = raw;
                }
                None => self.last.push(raw),
            }
        }
        for (track, v) in predicted {
            if all.boxes.iter().any(|d| d.track == Some(track)) {
                continue;
            }
            if let Some(before) = self.before(track) {
                let b = before.bbox;
                let carried = b.moved(v.x, v.y);
                before.bbox = mixed(&b, &carried, alpha);
                out.boxes.push(before.clone());
            }
        }
        let here: Vec<Option<TrackId>> = out.boxes.iter().map(|d| d.track).collect();
        let speeds = &self.speeds;
        self.last
            .retain(|d| here.contains(&d.track) || speeds.iter().any(|(t, _)| Some(*t) == d.track));
        let too_many = self.last.len().saturating_sub(MAX_TRACKS);
        self.last.drain(..too_many);
        out
    }

    /// Measures the speed of known objects and returns their tracks.
    fn measure(&mut self, all: &Detections, window: usize) -> Vec<TrackId> {
        let mut measured = Vec::new();
        for d in &all.boxes {
            let Some(track) = d.track else { continue };
            let Some(before) = self.before(track).map(|d| d.bbox) else {
                continue;
            };
            // By the lower right corners, as in the peer.
            let corner = |b: &BBox| Point::new(b.x1 + b.width().abs(), b.y1 + b.height().abs());
            let (from, to) = (corner(&before), corner(&d.bbox));
            let velocity = Point::new(to.x - from.x, to.y - from.y);
            match self.speeds.iter_mut().find(|(t, _)| *t == track) {
                Some((_, speed)) => speed.measure(velocity, window),
                None => self.speeds.push((track, Speed::begin(velocity))),
            }
            measured.push(track);
        }
        measured
    }
}
