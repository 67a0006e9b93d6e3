//! The way from a file to an opened engine: found on disk, or built first.
//!
//! - TensorRT is asked about the device in a child process before its library is opened here.
//! - An engine that can't be deserialised is removed and built again, at most once.
//! - A build that failed for good is remembered and not tried again.

use std::path::{Path, PathBuf};

use watchkeeper_models::{Sha256Sum, digest};
use watchkeeper_trt::{Failure, Shim, Status};

use super::build::{self, BuildProgress};
use super::cache::{EngineCache, Subject};
use super::engine::{EngineFailure, NAME, TrtNetwork};
use super::log;
use super::probe;
use super::settings::TrtSettings;
use crate::network::{LoadError, Signature};
use crate::precision::Precision;

/// How often an engine is opened: one that can't be read is built again, once.
const MAX_OPENINGS: usize = 2;

impl TrtNetwork {
    /// Opens the engine of a file; builds it first, in a child process, if there is none. That
    /// takes minutes. `progress` receives each step and returns whether to continue; a stop of the
    /// program cancels the build too.
    ///
    /// # Errors
    /// [`LoadError`]: TensorRT is missing, can't read or run the file, or the file does not match
    /// the manifest.
    pub fn load(
        path: &Path,
        signature: &Signature<'_>,
        settings: &TrtSettings,
        progress: &mut dyn FnMut(&BuildProgress) -> bool,
    ) -> Result<Self, LoadError> {
        let place = EngineLocation::of(path, signature, settings)?;
        if let Some(message) = place.cache.refusal(&place.key) {
            return Err(place.failed(message));
        }
        let shim =
            Shim::open(&place.library, log::write).map_err(|failure| place.refused(&failure))?;
        for _ in 0..MAX_OPENINGS {
            let engine = match place.cache.read(&place.key) {
                Some(engine) => engine,
                None => place.build(signature, settings, progress)?,
            };
            match Self::open(shim, &engine, signature) {
                Err(EngineFailure::Trt(failure)) if failure.status == Status::Engine => {
                    place.cache.remove(&place.key, &failure.message);
                }
                Err(failure) => return Err(failure.into_load(path, signature)),
                Ok(network) => return Ok(network),
            }
        }
        Err(place.failed("TensorRT can't read the engine that it has built".to_owned()))
    }
}

/// Location of the engine of a file.
struct EngineLocation {
    /// The file of the wanted precision.
    path: PathBuf,
    precision: Precision,
    library: PathBuf,
    network: Sha256Sum,
    cache: EngineCache,
    key: String,
}

impl EngineLocation {
    fn of(
        path: &Path,
        signature: &Signature<'_>,
        settings: &TrtSettings,
    ) -> Result<Self, LoadError> {
        let unavailable = |message| LoadError::Unavailable {
            backend: NAME,
            message,
        };
        let library = settings.library_file().map_err(unavailable)?;
        let facts = probe::facts(&library, settings).map_err(unavailable)?;
        let (path, precision) = settings.precision.network_file(path, NAME);
        let network = digest::of_unchanged_file(&path)
            .map_err(|error| LoadError::file(&path, NAME, &error))?;
        let subject = Subject {
            network,
            precision,
            facts: &facts,
            inputs: format!("{:?}", signature.inputs),
            level: build::LEVEL,
        };
        Ok(Self {
            path,
            precision,
            library,
            network,
            cache: EngineCache::new(&settings.engine_dir),
            key: subject.key(),
        })
    }

    fn build(
        &self,
        signature: &Signature<'_>,
        settings: &TrtSettings,
        progress: &mut dyn FnMut(&BuildProgress) -> bool,
    ) -> Result<Vec<u8>, LoadError> {
        let order = build::Order::new(
            &self.library,
            &self.path,
            (self.network, self.precision),
            signature,
            &settings.engine_dir,
            &self.key,
        );
        let mut goes_on = |step: &BuildProgress| !settings.stop.is_set() && progress(step);
        build::run_child(&order, &settings.program, &mut goes_on).map_err(|refusal| {
            if let Some(kept) = refusal.kept() {
                self.cache.refuse(&self.key, kept, &refusal.message);
            }
            refusal.into_load(&self.path, signature.manifest)
        })?;
        let none = || self.failed("the engine was built but can't be read".to_owned());
        self.cache.read(&self.key).ok_or_else(none)
    }

    fn failed(&self, message: String) -> LoadError {
        LoadError::File {
            path: self.path.clone(),
            backend: NAME,
            message,
        }
    }

    fn refused(&self, failure: &Failure) -> LoadError {
        match failure.status {
            Status::Unavailable => LoadError::Unavailable {
                backend: NAME,
                message: failure.message.clone(),
            },
            _ => self.failed(failure.message.clone()),
        }
    }
}
