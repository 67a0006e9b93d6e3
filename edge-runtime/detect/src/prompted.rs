//! Promptable segmentation: one network encodes the picture, a second one decodes a mask for each
//! prompt.
//!
//! - The encoder runs once per picture, for any number of boxes.
//! - Boxes and masks are in pixels of the picture that the caller passed.

use std::sync::Arc;

use watchkeeper_models::Manifest;
use watchkeeper_models::manifest::{Cover, MaskNetwork};
use watchkeeper_vision::frame::Frame;
use watchkeeper_vision::geometry::BBox;

use super::decode::Request;
use super::decode::prompted::{self, PromptedMask};
use super::letterbox::Letterbox;
use super::network::{Feed, Network, Signature, Tensor, Wanted, input_shape};
use super::stream_network::{Read, SharedNetwork, StreamNetwork, infer};
use super::warm_up::{WarmUpError, run_once};
use crate::detection::DetectTimes;
use crate::detector::{Detector, DetectorInfo};
use crate::error::DetectError;

/// Point labels of Segment Anything: none, and the two corners of a box.
const NO_POINT: f32 = -1.0;
const UPPER_LEFT: f32 = 2.0;
const LOWER_RIGHT: f32 = 3.0;
/// Pixels of the input per pixel of a mask prompt.
const PIXELS_PER_CELL: usize = 4;

/// An output of the encoder, which is an input of the decoder.
#[derive(Debug, Clone, Default)]
pub(super) struct Feature {
    shape: Vec<usize>,
    data: Vec<f32>,
}

/// Copies the encoder's outputs into `features`, reusing their memory.
fn keep(outputs: &[Tensor<'_>], features: &mut Vec<Feature>) {
    features.resize_with(outputs.len(), Feature::default);
    for (feature, output) in features.iter_mut().zip(outputs) {
        feature.shape.clear();
        feature.shape.extend_from_slice(output.shape);
        feature.data.clear();
        feature.data.extend_from_slice(output.data);
    }
}

/// Encodes a grey picture; the result has the shapes that the decoder takes.
///
/// # Errors
/// [`DetectError`]: the back end failed, or the outputs do not match the manifest.
pub(super) fn sample(
    manifest: &Manifest,
    network: &SharedNetwork,
) -> Result<Vec<Feature>, DetectError> {
    let shape = input_shape(&manifest.input);
    let grey = vec![0.5; shape.iter().product()];
    let mut features = Vec::new();
    let read = &mut |outputs: &[Tensor<'_>]| {
        prompted::features(outputs, manifest.decode.outputs.len())?;
        keep(outputs, &mut features);
        Ok(())
    };
    let ran = infer(network, &[Feed::floats(&shape, &grey)], read);
    ran.map_err(|message| network.failed(&manifest.name, message))?;
    Ok(features)
}

/// The signature of the mask decoder.
pub(super) fn signature<'a>(
    manifest: &'a Manifest,
    masks: &'a MaskNetwork,
    features: &[Feature],
) -> Signature<'a> {
    let wanted = |name: &str, axes: Vec<Option<usize>>| Wanted {
        name: Some(name.to_owned()),
        axes,
    };
    let names = manifest.decode.outputs.iter().zip(features);
    let mut inputs: Vec<Wanted> = names
        .map(|(name, feature)| wanted(name, feature.shape.iter().copied().map(Some).collect()))
        .collect();
    let [batch, channel, height, width] = mask_shape(manifest);
    inputs.extend([
        wanted("point_coords", vec![Some(1), None, Some(2)]),
        wanted("point_labels", vec![Some(1), None]),
        wanted(
            "mask_input",
            [batch, channel, height, width].map(Some).to_vec(),
        ),
        wanted("has_mask_input", vec![Some(1)]),
    ]);
    if masks.cover == Cover::Picture {
        inputs.push(wanted("orig_im_size", vec![Some(2)]));
    }
    Signature {
        manifest: &manifest.name,
        inputs,
        outputs: &masks.outputs,
    }
}

/// Shape of a mask prompt; its values are always zero.
fn mask_shape(manifest: &Manifest) -> [usize; 4] {
    let places = |side: u32| (side as usize / PIXELS_PER_CELL).max(1);
    let input = &manifest.input;
    [1, 1, places(input.height), places(input.width)]
}

/// One prompt of the mask decoder: a box, or none.
struct MaskPrompt<'a> {
    manifest: &'a Manifest,
    masks: &'a MaskNetwork,
    features: &'a [Feature],
    /// The picture's place in the encoder's input.
    place: &'a Letterbox,
    /// In pixels of the picture.
    bbox: Option<BBox>,
    /// Whether the box may mean a part of the object.
    several: bool,
}

impl MaskPrompt<'_> {
    /// Runs the mask decoder by `run` on the prompt; `read` gets the best mask.
    fn run<T>(
        &self,
        run: impl FnOnce(&[Feed<'_>], Read<'_>) -> T,
        mut read: impl FnMut(PromptedMask),
    ) -> T {
        let (points, labels) = match &self.bbox {
            None => (vec![0.0, 0.0], vec![NO_POINT]),
            Some(bbox) => {
                let b = self.place.to_input(bbox);
                let corners = [b.x1, b.y1, b.x2, b.y2].map(|v| v as f32);
                (corners.to_vec(), vec![UPPER_LEFT, LOWER_RIGHT])
            }
        };
        let mask_shape = mask_shape(self.manifest);
        let mask = vec![0.0; mask_shape.iter().product()];
        let (points_shape, labels_shape) = ([1, labels.len(), 2], [1, labels.len()]);
        let size = [self.place.source_height, self.place.source_width].map(|side| side as f32);
        let of_features = self.features.iter();
        let mut feeds: Vec<Feed<'_>> = of_features
            .map(|feature| Feed::floats(&feature.shape, &feature.data))
            .collect();
        feeds.extend([
            Feed::floats(&points_shape, &points),
            Feed::floats(&labels_shape, &labels),
            Feed::floats(&mask_shape, &mask),
            Feed::floats(&[1], &[0.0]),
        ]);
        if self.masks.cover == Cover::Picture {
            feeds.push(Feed::floats(&[2], &size));
        }
        run(&feeds, &mut |outputs| {
            let request = Request::of(self.manifest, outputs, 0.0);
            let mask = prompted::decode(&request, self.masks.cover, self.place, self.several)?;
            read(mask);
            Ok(())
        })
    }
}

/// Runs the mask decoder once without and once with a box.
///
/// # Errors
/// [`WarmUpError`], one clause.
pub(super) fn warm_up(
    network: &dyn Network,
    manifest: &Manifest,
    masks: &MaskNetwork,
    features: &[Feature],
) -> Result<(), WarmUpError> {
    let (width, height) = (manifest.input.width, manifest.input.height);
    let Some(place) = Letterbox::fit(width, height, &manifest.input) else {
        return Ok(());
    };
    let (right, bottom) = (f64::from(width), f64::from(height));
    for bbox in [None, Some(BBox::new(0.0, 0.0, right / 2.0, bottom / 2.0))] {
        let prompt = MaskPrompt {
            manifest,
            masks,
            features,
            place: &place,
            bbox,
            several: true,
        };
        prompt.run(|feeds, read| run_once(network, feeds, read), drop)?;
    }
    Ok(())
}

/// A promptable segmentation model.
pub(crate) struct PromptedSegmenter {
    info: DetectorInfo,
    manifest: Arc<Manifest>,
    encoder: StreamNetwork,
    masks: MaskNetwork,
    decoder: SharedNetwork,
    features: Vec<Feature>,
}

impl PromptedSegmenter {
    /// Creates a model for one stream; `decoder` makes the masks.
    pub(super) fn new(
        manifest: Arc<Manifest>,
        encoder: SharedNetwork,
        masks: MaskNetwork,
        decoder: SharedNetwork,
    ) -> Self {
        let encoder = StreamNetwork::new(&manifest.name, manifest.input.clone(), encoder);
        Self {
            info: DetectorInfo::of(&manifest, encoder.shared()),
            encoder,
            manifest,
            masks,
            decoder,
            features: Vec::new(),
        }
    }
}

impl Detector for PromptedSegmenter {
    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn segment_prompted(
        &mut self,
        frame: &Frame,
        boxes: &[BBox],
        several: bool,
        out: &mut Vec<PromptedMask>,
    ) -> Result<DetectTimes, DetectError> {
        out.clear();
        let (manifest, features) = (&self.manifest, &mut self.features);
        let (place, mut times) = self.encoder.run(&frame.picture, &[], &mut |outputs| {
            prompted::features(outputs, manifest.decode.outputs.len())?;
            keep(outputs, features);
            Ok(())
        })?;
        let each = boxes.iter().copied().map(Some);
        let prompts: Vec<Option<BBox>> = if boxes.is_empty() {
            vec![None]
        } else {
            each.collect()
        };
        for bbox in prompts {
            let prompt = MaskPrompt {
                manifest: &self.manifest,
                masks: &self.masks,
                features: &self.features,
                place: &place,
                bbox,
                several,
            };
            let ran = prompt.run(
                |feeds, read| infer(&self.decoder, feeds, read),
                |mask| out.push(mask),
            );
            let [infer, postprocess] =
                ran.map_err(|message| self.decoder.failed(&self.manifest.name, message))?;
            times.infer += infer;
            times.postprocess += postprocess;
        }
        Ok(times)
    }
}
