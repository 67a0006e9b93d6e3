//! Gaze estimation; another model may find the faces.
//!
//! - The network sees only faces that lie in the picture and have an area.
//! - A face's bounding box is that of the model that found it.

use std::sync::Arc;

use watchkeeper_models::Manifest;
use watchkeeper_models::manifest::DecodeKind;
use watchkeeper_vision::frame::{Frame, Picture};
use watchkeeper_vision::geometry::BBox;
use watchkeeper_vision::rgb::RgbPixels;

use super::decode::{Request, gaze};
use super::stream_network::{SharedNetwork, StreamNetwork};
use crate::detection::{DetectParams, DetectTimes, RawDetection};
use crate::detector::{Detector, DetectorInfo, FaceGaze};
use crate::error::DetectError;

/// Bound of the faces in one frame; each costs one inference.
const MAX_FACES: usize = 64;

pub(crate) struct GazeModel {
    info: DetectorInfo,
    manifest: Arc<Manifest>,
    network: StreamNetwork,
    faces: Option<Box<dyn Detector>>,
    found: Vec<RawDetection>,
}

impl GazeModel {
    /// Creates a model for one stream.
    pub(super) fn new(
        manifest: Arc<Manifest>,
        network: SharedNetwork,
        faces: Option<Box<dyn Detector>>,
    ) -> Self {
        let network = StreamNetwork::new(&manifest.name, manifest.input.clone(), network);
        Self {
            info: DetectorInfo::of(&manifest, network.shared()),
            network,
            manifest,
            faces,
            found: Vec::new(),
        }
    }

    fn angles(
        &mut self,
        picture: &Picture,
        times: &mut DetectTimes,
    ) -> Result<[f32; 2], DetectError> {
        let DecodeKind::Gaze {
            bins,
            degrees_per_bin,
        } = self.manifest.decode.kind
        else {
            return Err(self.unsupported());
        };
        let mut angles = [0.0; 2];
        let manifest = &self.manifest;
        let (_, took) = self.network.run(picture, &[], &mut |outputs| {
            let request = Request::of(manifest, outputs, 0.0);
            angles = gaze::decode(&request, bins, degrees_per_bin)?;
            Ok(())
        })?;
        *times += took;
        Ok(angles)
    }
}

/// Crops a bounding box to whole pixels; `None` when it lies outside the picture.
fn cut(rgb: &RgbPixels, bbox: &BBox) -> Option<Picture> {
    let bbox = bbox.clip(f64::from(rgb.width), f64::from(rgb.height));
    let [left, top] = [bbox.x1, bbox.y1].map(|v| v.floor() as usize);
    let [right, bottom] = [bbox.x2, bbox.y2].map(|v| v.ceil() as usize);
    let (width, height) = (right.checked_sub(left)?, bottom.checked_sub(top)?);
    if width == 0 || height == 0 {
        return None;
    }
    let rows = rgb.data.chunks_exact(rgb.width as usize * 3);
    let rows = rows.skip(top).take(height);
    let data: Vec<u8> = rows
        .flat_map(|row| row.get(left * 3..right * 3).unwrap_or_default())
        .copied()
        .collect();
    Some(Picture::rgb(
        u32::try_from(width).ok()?,
        u32::try_from(height).ok()?,
        data,
    ))
}

impl Detector for GazeModel {
    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn gaze(
        &mut self,
        frame: &Frame,
        rgb: &RgbPixels,
        finds_faces: bool,
        out: &mut Vec<FaceGaze>,
    ) -> Result<DetectTimes, DetectError> {
        out.clear();
        let mut times = DetectTimes::default();
        if !finds_faces {
            let (width, height) = (f64::from(rgb.width), f64::from(rgb.height));
            out.push(FaceGaze {
                face: BBox::new(0.0, 0.0, width, height),
                score: 1.0,
                angles: self.angles(&frame.picture, &mut times)?,
            });
            return Ok(times);
        }
        let Some(faces) = &mut self.faces else {
            return Err(self.network.failed(
                "it does not find faces: set `faces` in its manifest to a model that does, or pass \
                 pictures of faces and set do_run_face_detection to false",
            ));
        };
        let params = DetectParams {
            max_detections: MAX_FACES,
            ..DetectParams::default()
        };
        times += faces.detect(frame, &params, &mut self.found)?;
        for face in std::mem::take(&mut self.found) {
            if let Some(picture) = cut(rgb, &face.bbox) {
                out.push(FaceGaze {
                    face: face.bbox,
                    score: face.score,
                    angles: self.angles(&picture, &mut times)?,
                });
            }
        }
        Ok(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_face_is_cut_out_to_whole_pixels_and_one_outside_is_none() {
        let rgb = RgbPixels {
            width: 4,
            height: 3,
            data: (0..36).collect(),
        };
        let picture = cut(&rgb, &BBox::new(1.2, 0.5, 2.6, 9.0)).expect("in the picture");
        assert_eq!((picture.width, picture.height), (2, 3));
        assert_eq!(picture.planes.plane(0).data[..6], [3, 4, 5, 6, 7, 8]);
        assert!(cut(&rgb, &BBox::new(5.0, 0.0, 9.0, 3.0)).is_none());
    }
}
