//! Golden frames: the inputs of one run of the serving network, and its outputs.

use crate::network::{Feed, Numbers, OwnedFeed, Tensor};

/// Most bytes of one golden frame. A picture of 1280 x 1280 and the outputs of a YOLOv8 network on
/// it take 34 MB.
pub(super) const MAX_BYTES: usize = 128 << 20;

/// One run of the serving network.
#[derive(Debug)]
pub(crate) struct GoldenFrame {
    inputs: Vec<OwnedFeed>,
    outputs: Vec<OwnedTensor>,
}

#[derive(Debug)]
struct OwnedTensor {
    name: String,
    shape: Vec<usize>,
    data: Vec<f32>,
}

impl GoldenFrame {
    /// Copies a run.
    ///
    /// # Errors
    /// Its bytes, when they are more than [`MAX_BYTES`].
    pub(crate) fn copy(inputs: &[Feed<'_>], outputs: &[Tensor<'_>]) -> Result<Self, usize> {
        let fed = inputs.iter().map(|feed| match feed.numbers {
            Numbers::Floats(data) => size_of_val(data),
            Numbers::Whole(data) => size_of_val(data),
        });
        let returned = outputs.iter().map(|output| size_of_val(output.data));
        let bytes = fed.chain(returned).sum();
        if bytes > MAX_BYTES {
            return Err(bytes);
        }
        let outputs = outputs.iter().map(|output| OwnedTensor {
            name: output.name.to_owned(),
            shape: output.shape.to_vec(),
            data: output.data.to_vec(),
        });
        Ok(Self {
            inputs: inputs.iter().map(OwnedFeed::copy).collect(),
            outputs: outputs.collect(),
        })
    }

    pub(crate) fn feeds(&self) -> Vec<Feed<'_>> {
        self.inputs.iter().map(OwnedFeed::lend).collect()
    }

    pub(crate) fn outputs(&self) -> Vec<Tensor<'_>> {
        let outputs = self.outputs.iter().map(|output| Tensor {
            name: &output.name,
            shape: &output.shape,
            data: &output.data,
        });
        outputs.collect()
    }
}
