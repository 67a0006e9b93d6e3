//! A detection in a picture and, if wanted, in overlapping tiles of it, so that small objects are
//! found.
//!
//! - One object is one box. A box that an inner edge of a tile cuts is dropped. Its object lies
//!   whole in the next tile or is large enough in the whole picture. Other boxes suppress each
//!   other as in one picture.
//! - A tile reads the pixels of its picture in place where the rows of a plane allow it.
//! - A failed run fails the detection: a part of a result would look like a whole one.

use std::time::Instant;

use watchkeeper_vision::frame::Frame;
use watchkeeper_vision::tiles::Tiles;

use crate::detection::{DetectParams, DetectTimes, RawDetection};
use crate::detector::Detector;
use crate::error::DetectError;
use crate::nms::suppress;

/// Overlap above which two boxes are one object, for networks that need no suppression.
const MERGE_IOU: f32 = 0.5;

/// Effects of the runs on a frame and its tiles, besides their result.
#[derive(Debug, Clone)]
pub struct Runs {
    pub times: DetectTimes,
    /// Boxes of all runs, before those of several runs suppressed each other; empty for one run.
    pub unmerged: Vec<RawDetection>,
    /// Whether a run found as many boxes as it may return, so that others may be missing.
    pub is_full: bool,
}

/// Detects objects in a frame and in its `tiles`. Clears `out` first.
///
/// With tiles there are no masks and keypoints: [`Detector::shapes`] would hold those of the last
/// tile only.
///
/// # Errors
/// [`DetectError::Tiles`] for a detector without a network, else that of a run.
pub fn detect(
    detector: &mut dyn Detector,
    frame: &Frame,
    params: &DetectParams,
    tiles: Option<Tiles>,
    out: &mut Vec<RawDetection>,
) -> Result<Runs, DetectError> {
    let Some(tiles) = tiles else {
        let times = detector.detect(frame, params, out)?;
        return Ok(Runs {
            times,
            unmerged: Vec::new(),
            is_full: out.len() >= params.max_detections,
        });
    };
    out.clear();
    let info = detector.info();
    let (own, model) = (info.own, &info.model);
    let Some(input) = info.input else {
        let model = model.to_string();
        return Err(DetectError::Tiles { model });
    };
    let params = DetectParams {
        shapes: false,
        ..params.clone()
    };
    let size = [frame.picture.width, frame.picture.height];
    let mut times = detector.detect(frame, &params, out)?;
    let mut is_full = out.len() >= params.max_detections;
    let tiles = tiles.of(size, input);
    let mut in_tile = Vec::new();
    for tile in &tiles {
        let Some(picture) = frame.picture.part(tile.corner, tile.size) else {
            continue;
        };
        let part = Frame {
            picture,
            ..frame.clone()
        };
        times += detector.detect(&part, &params, &mut in_tile)?;
        is_full |= in_tile.len() >= params.max_detections;
        let whole = in_tile.iter().filter(|raw| !tile.cuts(&raw.bbox, size));
        out.extend(whole.map(|raw| RawDetection {
            bbox: tile.to_picture(&raw.bbox),
            ..*raw
        }));
    }
    let mut unmerged = Vec::new();
    if !tiles.is_empty() {
        unmerged.clone_from(out);
        let start = Instant::now();
        suppress(
            out,
            params.iou_threshold.or(own.iou).or(Some(MERGE_IOU)),
            params.class_agnostic_nms.unwrap_or(own.class_agnostic),
            params.max_detections,
        );
        times.postprocess += start.elapsed();
    }
    Ok(Runs {
        times,
        unmerged,
        is_full,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::motion::MotionDetector;
    use crate::neural::NeuralDetector;
    use crate::testing::{manifest, rgb_frame, scripted};

    fn detect_in_tiles(
        things: &[([f32; 4], f32, usize)],
        tiles: &str,
        [width, height]: [u32; 2],
    ) -> Vec<[f64; 4]> {
        let mut detector = NeuralDetector::new(manifest(), scripted(things));
        let mut out = Vec::new();
        let frame = rgb_frame(width, height, [9; 3]);
        let tiles = tiles.parse().expect("a grid");
        detect(
            &mut detector,
            &frame,
            &DetectParams::default(),
            Some(tiles),
            &mut out,
        )
        .expect("scripted network works");
        let corners = |raw: &RawDetection| [raw.bbox.x1, raw.bbox.y1, raw.bbox.x2, raw.bbox.y2];
        out.iter().map(corners).collect()
    }

    #[test]
    fn boxes_of_tiles_are_in_pixels_of_the_picture() {
        // The network sees one box in each picture; a tile of 214 pixels is shown at 64/214.
        let found = detect_in_tiles(&[([32.0, 16.0, 8.0, 8.0], 0.9, 0)], "2x1", [384, 192]);
        assert_eq!(found.len(), 3, "{found:?}");
        let centres: Vec<f64> = found.iter().map(|b| (b[0] + b[2]) / 2.0).collect();
        for expected in [192.0, 107.0, 277.0] {
            let is_near = |centre: &f64| (centre - expected).abs() < 1.5;
            assert!(centres.iter().any(is_near), "{expected}: {centres:?}");
        }
    }

    #[test]
    fn box_cut_by_an_inner_edge_is_dropped() {
        // At the right edge of each picture: only the picture and the right tile show it whole.
        let found = detect_in_tiles(&[([60.0, 16.0, 8.0, 8.0], 0.9, 0)], "2x1", [384, 192]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|b| b[2] == 384.0), "{found:?}");
    }

    #[test]
    fn boxes_of_all_runs_are_told_before_they_suppress_each_other() {
        let things = [([32.0, 16.0, 8.0, 8.0], 0.9, 0)];
        let mut detector = NeuralDetector::new(manifest(), scripted(&things));
        let frame = rgb_frame(384, 192, [9; 3]);
        let params = DetectParams {
            iou_threshold: Some(0.0),
            max_detections: 1,
            ..DetectParams::default()
        };
        let tiles = "2x1".parse().expect("a grid");
        let mut out = Vec::new();
        let runs = detect(&mut detector, &frame, &params, Some(tiles), &mut out);
        let runs = runs.expect("scripted network works");
        assert_eq!((out.len(), runs.unmerged.len(), runs.is_full), (1, 3, true));
    }

    #[test]
    fn picture_smaller_than_its_grid_is_examined_once() {
        let things = [([32.0, 32.0, 8.0, 8.0], 0.9, 0)];
        assert_eq!(detect_in_tiles(&things, "1x1", [64, 64]).len(), 1);
    }

    #[test]
    fn motion_detector_refuses_tiles() {
        let refused = detect(
            &mut MotionDetector::default(),
            &rgb_frame(64, 64, [9; 3]),
            &DetectParams::default(),
            Some(Tiles::Auto),
            &mut Vec::new(),
        );
        assert!(matches!(refused, Err(DetectError::Tiles { .. })));
    }
}
