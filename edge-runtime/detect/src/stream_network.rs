//! One stream's access to a shared network that takes pictures: scale, wait, infer, read.
//!
//! - A stream has a turn only while it infers and reads the outputs in place. Scaling of several
//!   streams runs in parallel.
//! - Times measure work: waiting for a turn is in none of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use watchkeeper_models::manifest::Input;
use watchkeeper_vision::frame::Picture;

use super::decode::DecodeError;
use super::fair_semaphore::{Claim, FairSemaphore, Permit};
use super::letterbox::Letterbox;
use super::network::{Feed, Network, Tensor, input_shape};
use super::night_gain::Gamma;
use super::preprocess::Preprocessor;
use crate::detection::DetectTimes;
use crate::error::DetectError;

/// A network that several streams use, with the claim of one of them.
#[derive(Debug, Clone)]
pub struct SharedNetwork {
    network: Arc<QueuedNetwork>,
    claim: Arc<Claim>,
}

/// A network with the turns at it.
pub(super) type QueuedNetwork = FairSemaphore<Box<dyn Network>>;

impl SharedNetwork {
    /// A network that no other stream uses.
    #[must_use]
    pub fn new(network: Box<dyn Network>) -> Self {
        Self::shared(Arc::new(FairSemaphore::new(network)), Arc::default())
    }

    pub(super) fn shared(network: Arc<QueuedNetwork>, claim: Arc<Claim>) -> Self {
        Self { network, claim }
    }

    /// The network without a turn, for what is known without a run.
    pub(super) fn get(&self) -> &dyn Network {
        self.network.value().as_ref()
    }

    /// Wraps a message of the back end or of a decoder.
    pub(super) fn failed(&self, model: &str, message: impl ToString) -> DetectError {
        DetectError::Backend {
            model: model.to_owned(),
            backend: self.get().in_use().to_string(),
            message: message.to_string(),
        }
    }

    /// Waits for the turn of this stream.
    pub(super) fn acquire(&self) -> Permit<'_, Box<dyn Network>> {
        self.network.acquire(&self.claim, self.get().lanes())
    }
}

/// Callback that reads outputs while the back end lends them.
pub(super) type Read<'a> = &'a mut dyn FnMut(&[Tensor<'_>]) -> Result<(), DecodeError>;

/// Runs a network and lets `read` decode its outputs in place. Returns the times of both.
///
/// # Errors
/// The message of the back end, or of the decoder.
pub(super) fn infer(
    network: &SharedNetwork,
    inputs: &[Feed<'_>],
    read: Read<'_>,
) -> Result<[Duration; 2], String> {
    let (mut took, mut done) = (Duration::ZERO, Ok(()));
    let turn = network.acquire();
    let start = Instant::now();
    turn.infer(inputs, &mut |outputs| {
        took = start.elapsed();
        done = read(outputs);
    })?;
    drop(turn);
    done.map_err(|e| e.to_string())?;
    Ok([took, start.elapsed().saturating_sub(took)])
}

/// One stream's preprocessor and its shared network.
pub(super) struct StreamNetwork {
    model: String,
    preprocessor: Preprocessor,
    shape: [usize; 4],
    network: SharedNetwork,
}

impl StreamNetwork {
    /// Opens the network of `model`, whose manifest describes `input`.
    pub(super) fn new(model: &str, input: Input, network: SharedNetwork) -> Self {
        Self {
            model: model.to_owned(),
            shape: input_shape(&input),
            preprocessor: Preprocessor::new(input),
            network,
        }
    }

    pub(super) fn shared(&self) -> &SharedNetwork {
        &self.network
    }

    /// Sets the curve of the next pictures.
    pub(super) fn set_gain(&mut self, gain: Option<Gamma>) {
        self.preprocessor.set_gain(gain);
    }

    /// Runs the network on a picture and its `further` inputs.
    ///
    /// # Errors
    /// [`DetectError`]: the picture is unusable, the back end failed, or the outputs do not match
    /// the manifest.
    pub(super) fn run(
        &mut self,
        picture: &Picture,
        further: &[Feed<'_>],
        read: Read<'_>,
    ) -> Result<(Letterbox, DetectTimes), DetectError> {
        let start = Instant::now();
        let place = self.preprocessor.run(picture)?;
        let preprocess = start.elapsed();
        let picture = Feed::floats(&self.shape, self.preprocessor.tensor());
        let ran = match further {
            [] => infer(&self.network, &[picture], read),
            further => infer(&self.network, &[&[picture], further].concat(), read),
        };
        let [infer, postprocess] = ran.map_err(|message| self.failed(message))?;
        let times = DetectTimes {
            preprocess,
            infer,
            postprocess,
        };
        Ok((place, times))
    }

    /// Wraps a message of the back end or of a decoder.
    pub(super) fn failed(&self, message: impl ToString) -> DetectError {
        self.network.failed(&self.model, message)
    }
}
