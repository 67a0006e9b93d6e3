//! Begins the changes of back ends of networks that serve at once.
//!
//! - One candidate is built at a time, over all models.
//! - A file that was replaced since it was loaded is not loaded again.

use std::sync::Arc;

use parking_lot::Mutex;
use watchkeeper_models::FileStamp;

use crate::backend::BackendChoice;
use crate::change::{Candidate, ChangeHost, ChangeParts, ChangePolicy, ChangeTask, Comparison};
use crate::network::{LoadError, Network};
use crate::picture_network::PictureNetwork;
use crate::precision::Precision;

/// Changes of back ends, in the background.
#[derive(Clone)]
pub(super) struct Changes {
    host: Arc<dyn ChangeHost>,
    policy: ChangePolicy,
    /// Held while a candidate is built.
    turn: Arc<Mutex<()>>,
}

impl Changes {
    pub(super) fn new(host: Arc<dyn ChangeHost>, policy: ChangePolicy) -> Self {
        let turn = Arc::default();
        Self { host, policy, turn }
    }

    /// Lets `network` of `model` serve, and starts its change to the first candidate that agrees.
    /// `stamp` is that of its file before it was loaded.
    pub(super) fn begin(
        &self,
        model: &str,
        candidates: &[BackendChoice],
        network: Box<dyn Network>,
        picture: &PictureNetwork,
        stamp: Option<FileStamp>,
    ) -> Box<dyn Network> {
        let serving = network.backend();
        let candidates = candidates.iter().copied();
        // Those after the serving one are slower.
        let candidates = candidates
            .take_while(|candidate| candidate.name() != serving)
            .filter(|candidate| candidate.is_installed(&picture.ort, picture.trt.as_ref()));
        let candidates: Vec<Candidate> = candidates
            .map(|candidate| self.candidate(model, candidate, picture.clone()))
            .collect();
        if candidates.is_empty() {
            return network;
        }
        let former: Option<BackendChoice> = serving.parse().ok();
        let reloaded = picture.clone();
        let parts = ChangeParts {
            model: picture.manifest.name.clone(),
            comparison: Comparison::of(&picture.manifest),
            reload: Box::new(move || reload(&reloaded, former.unwrap_or_default(), stamp)),
            candidates,
            policy: self.policy,
            turn: Arc::clone(&self.turn),
        };
        let (network, task) = ChangeTask::new(network, parts);
        self.host.spawn(task);
        Box::new(network)
    }

    fn candidate(&self, model: &str, choice: BackendChoice, picture: PictureNetwork) -> Candidate {
        let (host, model) = (Arc::clone(&self.host), model.to_owned());
        let trt = picture.trt.clone().filter(|_| choice == BackendChoice::Trt);
        let precision = trt
            .as_ref()
            .map_or(picture.ort.precision, |trt| trt.precision);
        let (_, precision) = precision.network_file(&picture.path, choice.name());
        Candidate {
            backend: choice.name(),
            is_int8: precision == Precision::Int8,
            build: Box::new(move |progress| {
                let built = match trt {
                    // It reads files in its own processes.
                    Some(settings) => picture.load_trt(&settings, progress),
                    None => {
                        host.check(&model, choice)?;
                        picture.load(choice)
                    }
                };
                built.map_err(|error| error.to_string())
            }),
        }
    }
}

/// Loads a network again. Its file was checked before it was loaded first, so another is refused.
fn reload(
    picture: &PictureNetwork,
    choice: BackendChoice,
    stamp: Option<FileStamp>,
) -> Result<Box<dyn Network>, LoadError> {
    if stamp.is_none() || FileStamp::of(&picture.path).ok() != stamp {
        let why = "the file changed since it was loaded; restart the pipeline";
        return Err(LoadError::file(&picture.path, choice.name(), &why));
    }
    picture.load(choice)
}
