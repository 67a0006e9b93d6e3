//! How the network of a model that takes one picture is loaded, by any back end.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use watchkeeper_models::Manifest;

use super::backend::{self, BackendChoice, NetworkFile};
use super::network::{Feed, LoadError, Network, Signature, Wanted};
use super::ort_library::OrtSettings;
use super::trt::{BuildProgress, TrtSettings};
use super::warm_up::{WarmUpError, warm_up, warm_up_with};

/// The network of a model, and how it is loaded.
#[derive(Debug, Clone)]
pub(super) struct PictureNetwork {
    pub(super) path: PathBuf,
    pub(super) manifest: Arc<Manifest>,
    /// Length of an embedding of the descriptions that an open-vocabulary network takes.
    pub(super) described: Option<usize>,
    pub(super) threads: Option<NonZeroUsize>,
    pub(super) ort: OrtSettings,
    pub(super) trt: Option<TrtSettings>,
}

impl PictureNetwork {
    /// Loads it and runs it once.
    ///
    /// # Errors
    /// [`LoadError`], one sentence.
    pub(super) fn load(&self, choice: BackendChoice) -> Result<Box<dyn Network>, LoadError> {
        let (threads, trt) = (self.threads, self.trt.as_ref());
        self.with_file(|file| backend::load_as(choice, file, threads, &self.ort, trt))
    }

    /// Loads it on TensorRT. `progress` gets the share of the engine's current phase, and returns
    /// false to end the build.
    ///
    /// # Errors
    /// [`LoadError`], one sentence.
    pub(super) fn load_trt(
        &self,
        settings: &TrtSettings,
        progress: &dyn Fn(f32) -> bool,
    ) -> Result<Box<dyn Network>, LoadError> {
        let mut progress = |step: &BuildProgress| progress(step.share());
        self.with_file(|file| backend::load_trt(file, settings, &mut progress))
    }

    /// Loads it with the back end that loads fastest and can run it.
    ///
    /// # Errors
    /// [`LoadError`], one sentence.
    pub(super) fn load_at_once(&self) -> Result<Box<dyn Network>, LoadError> {
        self.with_file(|file| backend::load_at_once(file, self.threads, &self.ort))
    }

    fn with_file<T>(&self, load: impl FnOnce(NetworkFile<'_>) -> T) -> T {
        load(NetworkFile {
            path: &self.path,
            signature: &self.signature(),
            warm_up_run: &|network| self.warm_up(network),
        })
    }

    fn signature(&self) -> Signature<'_> {
        let mut signature = Signature::of(&self.manifest);
        if let Some(length) = self.described {
            let descriptions = Wanted::axes([Some(1), None, Some(length)]);
            signature.inputs.push(descriptions);
        }
        signature
    }

    fn warm_up(&self, network: &dyn Network) -> Result<(), WarmUpError> {
        let Some(length) = self.described else {
            return warm_up(network, &self.manifest);
        };
        let (shape, embeddings) = ([1, 2, length], vec![0.5; 2 * length]);
        let descriptions = [Feed::floats(&shape, &embeddings)];
        warm_up_with(network, &self.manifest, 2, &descriptions)
    }
}
