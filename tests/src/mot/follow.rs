//! Runs a tracker over a sequence.
//!
//! - The result for a frame depends only on that frame and those before it.
//! - Only the tracker's own time is measured, not reading or writing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use watchkeeper_vision::detections::{Detection, DetectionId, Detections};
use watchkeeper_vision::track::byte_track::{ByteTrack, ByteTrackConfig};
use watchkeeper_vision::track::tracker::{Tracker, TrackerConfig};

use super::files::{Found, Frames, Sequence, Tracked};

/// Tracker and its settings; named `default`, `byte-track`, `byte-track-high` on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Setting {
    /// Our own tracker with its defaults.
    #[default]
    Default,
    /// `ByteTrack` with the defaults of the peer.
    ByteTrack,
    /// `ByteTrack` with the activation threshold of the paper, 0.6.
    ByteTrackHigh,
}

/// Result of a tracker with its time.
#[derive(Debug, Clone)]
pub struct TrackerRun {
    /// Bounding boxes with identities, by frame.
    pub tracked: Frames<Tracked>,
    /// Time inside the tracker, over all frames.
    pub spent: Duration,
}

impl TrackerRun {
    /// Returns the milliseconds per frame inside the tracker.
    pub fn ms_per_frame(&self) -> f64 {
        1e3 * self.spent.as_secs_f64() / self.tracked.len().max(1) as f64
    }
}

/// Tracks the objects of `sequence`.
#[must_use]
pub fn run_tracker(sequence: &Sequence, setting: Setting) -> TrackerRun {
    match setting {
        Setting::Default => {
            let mut tracker = Tracker::new(TrackerConfig {
                frame_rate: sequence.info.fps,
                ..TrackerConfig::default()
            });
            run(sequence, |d| tracker.update(d, None))
        }
        Setting::ByteTrack => byte_track(sequence, ByteTrackConfig::default()),
        Setting::ByteTrackHigh => {
            let activation_threshold = 0.6;
            byte_track(
                sequence,
                ByteTrackConfig {
                    activation_threshold,
                    ..ByteTrackConfig::default()
                },
            )
        }
    }
}

fn byte_track(sequence: &Sequence, config: ByteTrackConfig) -> TrackerRun {
    // The peer takes whole frames a second.
    let mut tracker = ByteTrack::new(ByteTrackConfig {
        frame_rate: sequence.info.fps.round(),
        ..config
    });
    run(sequence, |d| tracker.update(d))
}

/// Passes every frame to `update`, empty ones too.
fn run(sequence: &Sequence, mut update: impl FnMut(&Detections) -> Detections) -> TrackerRun {
    let class: Arc<str> = "object".into();
    let (mut tracked, mut spent) = (Frames::new(), Duration::ZERO);
    let mut number = 0;
    for found in &sequence.found {
        let boxes = found.iter().map(|&Found { bbox, score }| {
            number += 1;
            Detection::new(
                bbox,
                score,
                0,
                Arc::clone(&class),
                DetectionId::Local { stream: 0, number },
            )
        });
        let detections = Detections {
            boxes: boxes.collect(),
            size: [sequence.info.width, sequence.info.height],
        };
        let begin = Instant::now();
        let out = update(&detections);
        spent += begin.elapsed();
        let with_track = out.boxes.iter().filter_map(|b| {
            Some(Tracked {
                id: b.track?.0,
                bbox: b.bbox,
            })
        });
        tracked.push(with_track.collect());
    }
    TrackerRun { tracked, spent }
}
