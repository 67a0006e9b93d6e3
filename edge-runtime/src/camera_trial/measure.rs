//! Runs a model over the frames of a trial, with and without tiles.
//!
//! - All candidates see the same frames, in order, with the thresholds of a usual watch.
//! - The first run of a network is not counted, because it is slower than all others.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use watchkeeper_detect::{DetectParams, Detector, RawDetection, tiles};
use watchkeeper_engine::templates::watch::{CONFIDENCE, IOU};
use watchkeeper_vision::detections::{Detection, DetectionId, Detections};
use watchkeeper_vision::tiles::Tiles;
use watchkeeper_vision::track::tracker::{Tracker, TrackerConfig};

use super::compare::Measured;
use super::frames::Taken;
use super::request::CameraTrialError;

/// Measures the model called `name` without and with tiles; an empty `classes` counts all.
///
/// # Errors
/// [`CameraTrialError::Detect`].
pub(super) fn candidates(
    name: &str,
    detector: &mut dyn Detector,
    taken: &Taken,
    classes: &[String],
) -> Result<Vec<Measured>, CameraTrialError> {
    let mut measured = vec![measure(name, detector, taken, classes, None)?];
    let input = detector.info().input.unwrap_or_default();
    let grid = Tiles::Auto.resolved(taken.size, input);
    if !grid.of(taken.size, input).is_empty() {
        measured.push(measure(name, detector, taken, classes, Some(grid))?);
    }
    Ok(measured)
}

/// The wanted boxes of a frame with their classes; an empty `classes` wants all.
fn named(found: &[RawDetection], labels: &[Arc<str>], classes: &[String]) -> Vec<Detection> {
    let wanted = (0..).zip(found).filter_map(|(number, raw)| {
        let class = labels.get(raw.class_id)?;
        let is_wanted = classes.is_empty() || classes.iter().any(|wanted| **wanted == **class);
        let id = DetectionId::Local { stream: 0, number };
        let class_id = i64::try_from(raw.class_id).unwrap_or(i64::MAX);
        let found = Detection::new(raw.bbox, f64::from(raw.score), class_id, class.clone(), id);
        is_wanted.then_some(found)
    });
    wanted.collect()
}

fn measure(
    name: &str,
    detector: &mut dyn Detector,
    taken: &Taken,
    classes: &[String],
    grid: Option<Tiles>,
) -> Result<Measured, CameraTrialError> {
    let labels = detector.info().labels.clone();
    let mut tracker = Tracker::new(TrackerConfig::default());
    let (mut found, mut frames, mut time) = (Vec::new(), Vec::new(), Duration::ZERO);
    let mut tracks = BTreeSet::new();
    // The first run of a network is slower than all others.
    let warm_up = taken.frames.first().zip(taken.gains.first());
    let warm_up = warm_up.map(|pair| (false, pair));
    let all = taken
        .frames
        .iter()
        .zip(&taken.gains)
        .map(|pair| (true, pair));
    for (is_counted, (frame, gain)) in warm_up.into_iter().chain(all) {
        let params = DetectParams {
            confidence: Some(CONFIDENCE as f32),
            iou_threshold: Some(IOU as f32),
            gain: *gain,
            ..DetectParams::default()
        };
        let start = Instant::now();
        tiles::detect(detector, frame, &params, grid, &mut found).map_err(|e| {
            CameraTrialError::Detect {
                model: name.to_owned(),
                message: e.to_string(),
            }
        })?;
        if !is_counted {
            continue;
        }
        time += start.elapsed();
        let detections = Detections {
            boxes: named(&found, &labels, classes),
            size: taken.size,
        };
        let tracked = tracker.update(&detections, Some(frame.pts.as_secs_f64()));
        tracks.extend(tracked.boxes.iter().filter_map(|d| d.track));
        frames.push(detections.boxes);
    }
    let count = frames.len().max(1);
    Ok(Measured {
        model: name.to_owned(),
        tiles: grid.map(|grid| grid.to_string()),
        ms_per_frame: time.as_secs_f64() * 1e3 / count as f64,
        frames,
        tracks: tracks.len(),
    })
}
