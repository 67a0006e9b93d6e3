//! A network that looks at pictures: scale, take a turn, infer, read.
//!
//! One value a stream; the network itself may be shared. Invariant: a stream holds its turn at the network only while it
//! infers and reads the outputs in place; scaling of several streams runs side by side. Times measure work: waiting for a
//! turn is in none of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use watchkeeper_models::manifest::Input;
use watchkeeper_vision::frame::Picture;

use super::decode::DecodeError;
use super::fair_mutex::FairMutex;
use super::letterbox::Letterbox;
use super::network::{Feed, Network, Tensor, input_shape};
use super::preprocess::Preprocessor;
use crate::detection::DetectTimes;
use crate::error::DetectError;

/// A network that streams take turns at.
pub type SharedNetwork = Arc<FairMutex<Box<dyn Network>>>;

/// What reads outputs while they are lent.
pub(super) type Read<'a> = &'a mut dyn FnMut(&[Tensor<'_>]) -> Result<(), DecodeError>;

/// Runs a network and has its outputs read in place. Answers how long it took, and how long the reading.
///
/// # Errors
/// What the back end said, or what is wrong with the outputs.
pub(super) fn infer(
    network: &SharedNetwork,
    inputs: &[Feed<'_>],
    read: Read<'_>,
) -> Result<[Duration; 2], String> {
    let (mut took, mut done) = (Duration::ZERO, Ok(()));
    let mut turn = network.lock();
    let start = Instant::now();
    turn.infer(inputs, &mut |outputs| {
        took = start.elapsed();
        done = read(outputs);
    })?;
    drop(turn);
    done.map_err(|e| e.to_string())?;
    Ok([took, start.elapsed().saturating_sub(took)])
}

/// One stream's way to a network that looks at pictures.
pub(super) struct StreamNetwork {
    model: String,
    backend: String,
    preprocessor: Preprocessor,
    shape: [usize; 4],
    network: SharedNetwork,
}

impl std::fmt::Debug for StreamNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StreamNetwork({} on {})", self.model, self.backend)
    }
}

impl StreamNetwork {
    /// A way to the network of `model`, which wants this input.
    pub(super) fn new(model: &str, input: Input, network: SharedNetwork) -> Self {
        let backend = network.lock().backend().to_owned();
        Self {
            model: model.to_owned(),
            backend,
            shape: input_shape(&input),
            preprocessor: Preprocessor::new(input),
            network,
        }
    }

    /// The back end that runs the network.
    pub(super) fn backend(&self) -> &str {
        &self.backend
    }

    /// Looks at a picture. What the network takes besides comes behind it.
    ///
    /// # Errors
    /// [`DetectError`]: the picture can't be used, the back end broke, or the outputs are not what the manifest says.
    pub(super) fn at(
        &mut self,
        picture: &Picture,
        besides: &[Feed<'_>],
        read: Read<'_>,
    ) -> Result<(Letterbox, DetectTimes), DetectError> {
        let start = Instant::now();
        let place = self.preprocessor.run(picture)?;
        let preprocess = start.elapsed();
        let mut inputs = vec![Feed::floats(&self.shape, self.preprocessor.tensor())];
        inputs.extend_from_slice(besides);
        let ran = infer(&self.network, &inputs, read);
        let [infer, postprocess] = ran.map_err(|message| self.failed(message))?;
        let times = DetectTimes {
            preprocess,
            infer,
            postprocess,
        };
        Ok((place, times))
    }

    /// The error that the back end, or what it answered, is.
    pub(super) fn failed(&self, message: impl ToString) -> DetectError {
        DetectError::Backend {
            model: self.model.clone(),
            backend: self.backend.clone(),
            message: message.to_string(),
        }
    }
}
