//! Action recognition: what happens in a sequence of frames.
//!
//! - A sequence has exactly as many frames as the network takes.
//! - A frame that occurs several times in a sequence is scaled once.

use std::sync::Arc;
use std::time::Instant;

use watchkeeper_models::Manifest;
use watchkeeper_models::manifest::{ClassScores, DecodeKind, FrameOrder, Input, Layout};
use watchkeeper_vision::frame::Picture;
use watchkeeper_vision::rgb::RgbPixels;

use super::decode::{Request, classes};
use super::network::{Feed, Network, Signature, Wanted};
use super::preprocess::Preprocessor;
use super::stream_network::{SharedNetwork, infer};
use super::warm_up::{WarmUpError, run_on_grey};
use crate::detection::DetectTimes;
use crate::detector::RunWanted;
use crate::detector::{Detector, DetectorInfo};
use crate::error::DetectError;

/// Layout of a sequence of frames in the input tensor.
#[derive(Debug, Clone, Copy)]
struct Run {
    frames: usize,
    order: FrameOrder,
    layout: Layout,
    size: [usize; 2],
}

impl Run {
    fn of(input: &Input, frames: u32, order: FrameOrder) -> Self {
        Self {
            frames: frames as usize,
            order,
            layout: input.layout,
            size: [input.width as usize, input.height as usize],
        }
    }

    fn shape(&self) -> [usize; 5] {
        let [width, height] = self.size;
        match (self.order, self.layout) {
            (FrameOrder::FramesFirst, Layout::Nchw) => [1, self.frames, 3, height, width],
            (FrameOrder::FramesFirst, Layout::Nhwc) => [1, self.frames, height, width, 3],
            (FrameOrder::ChannelsFirst, _) => [1, 3, self.frames, height, width],
        }
    }

    /// Copies the tensor of frame `index` to its place in the sequence's tensor.
    fn put(&self, tensor: &mut [f32], index: usize, frame: &[f32]) {
        let plane = self.size[0] * self.size[1];
        let (length, step) = match self.order {
            FrameOrder::FramesFirst => (3 * plane, 0),
            FrameOrder::ChannelsFirst => (plane, self.frames * plane),
        };
        for (channel, part) in frame.chunks_exact(length).enumerate() {
            let from = channel * step + index * length;
            if let Some(place) = tensor.get_mut(from..from + length) {
                place.copy_from_slice(part);
            }
        }
    }
}

/// The sequence, score function and parameters of an action model; `None` for other tasks.
fn described(manifest: &Manifest) -> Option<(Run, ClassScores, RunWanted)> {
    let DecodeKind::Actions {
        scores,
        frames,
        fps,
        order,
    } = manifest.decode.kind
    else {
        return None;
    };
    let run = Run::of(&manifest.input, frames, order);
    let wanted = RunWanted {
        frames: run.frames,
        fps,
        longest: manifest.input.width.max(manifest.input.height),
        confidence: manifest.confidence,
        several: scores != ClassScores::Softmax,
    };
    Some((run, scores, wanted))
}

/// The signature of an action network.
pub(super) fn signature(manifest: &Manifest) -> Signature<'_> {
    let mut signature = Signature::of(manifest);
    if let Some((run, ..)) = described(manifest) {
        signature.inputs = vec![Wanted::axes(run.shape().map(Some))];
    }
    signature
}

/// Runs an action network once.
///
/// # Errors
/// [`WarmUpError`], one clause.
pub(super) fn warm_up(network: &dyn Network, manifest: &Manifest) -> Result<(), WarmUpError> {
    let Some((run, scores, _)) = described(manifest) else {
        return Ok(());
    };
    run_on_grey(network, &run.shape(), &mut |outputs| {
        let request = Request::of(manifest, outputs, 0.0);
        classes::decode(&request, scores, &mut Vec::new())
    })
}

pub(crate) struct ActionModel {
    info: DetectorInfo,
    manifest: Arc<Manifest>,
    network: SharedNetwork,
    preprocessor: Preprocessor,
    tensor: Vec<f32>,
}

impl ActionModel {
    /// Creates a model for one stream.
    pub(super) fn new(manifest: Arc<Manifest>, network: SharedNetwork) -> Self {
        Self {
            info: DetectorInfo::of(&manifest, &network),
            preprocessor: Preprocessor::new(manifest.input.clone()),
            network,
            manifest,
            tensor: Vec::new(),
        }
    }

    fn failed(&self, message: impl ToString) -> DetectError {
        self.network.failed(&self.manifest.name, message)
    }
}

impl Detector for ActionModel {
    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn wants_run(&self) -> Option<RunWanted> {
        described(&self.manifest).map(|(.., wanted)| wanted)
    }

    fn recognise(
        &mut self,
        frames: &[Arc<RgbPixels>],
        out: &mut Vec<f32>,
    ) -> Result<DetectTimes, DetectError> {
        out.clear();
        let Some((run, scores, _)) = described(&self.manifest) else {
            return Err(self.unsupported());
        };
        if frames.len() != run.frames {
            return Err(self.failed(format!(
                "it takes {} frames, not {}",
                run.frames,
                frames.len()
            )));
        }
        let start = Instant::now();
        let shape = run.shape();
        self.tensor.resize(shape.iter().product(), 0.0);
        let mut before: Option<&Arc<RgbPixels>> = None;
        for (index, frame) in frames.iter().enumerate() {
            if before.is_none_or(|before| !Arc::ptr_eq(before, frame)) {
                let picture = Picture::rgb(frame.width, frame.height, frame.data.clone());
                self.preprocessor.run(&picture)?;
            }
            before = Some(frame);
            run.put(&mut self.tensor, index, self.preprocessor.tensor());
        }
        let preprocess = start.elapsed();
        let manifest = &self.manifest;
        let feeds = [Feed::floats(&shape, &self.tensor)];
        let ran = infer(&self.network, &feeds, &mut |outputs| {
            classes::decode(&Request::of(manifest, outputs, 0.0), scores, out)
        });
        let [infer, postprocess] = ran.map_err(|message| self.failed(message))?;
        Ok(DetectTimes {
            preprocess,
            infer,
            postprocess,
        })
    }
}

#[cfg(test)]
mod tests {
    use watchkeeper_models::manifest::Fit;

    use super::*;
    use crate::testing::input;

    /// The tensor of two frames of 2x1 pixels, whose values encode frame, channel and pixel.
    fn tensor(order: FrameOrder) -> Vec<f32> {
        let run = Run::of(&input(2, 1, Fit::Stretch), 2, order);
        let mut tensor = vec![f32::NAN; run.shape().iter().product()];
        for (index, frame) in [1.0_f32, 2.0].into_iter().enumerate() {
            let numbers: Vec<f32> = (0..6_u8).map(|i| 10.0 * frame + f32::from(i)).collect();
            run.put(&mut tensor, index, &numbers);
        }
        tensor
    }

    #[test]
    fn frames_lie_where_the_network_looks_for_them() {
        assert_eq!(
            tensor(FrameOrder::FramesFirst),
            [
                10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 20.0, 21.0, 22.0, 23.0, 24.0, 25.0
            ]
        );
        assert_eq!(
            tensor(FrameOrder::ChannelsFirst),
            [
                10.0, 11.0, 20.0, 21.0, 12.0, 13.0, 22.0, 23.0, 14.0, 15.0, 24.0, 25.0
            ]
        );
    }

    #[test]
    fn interleaved_frames_follow_each_other() {
        let mut interleaved = input(4, 2, Fit::Stretch);
        interleaved.layout = Layout::Nhwc;
        let run = Run::of(&interleaved, 8, FrameOrder::FramesFirst);
        assert_eq!(run.shape(), [1, 8, 2, 4, 3]);
    }
}
