//! The shell around the pure parts: sends calls, waits, writes the ledger.
//!
//! - Order of an attempt: deadline, breaker, budget (reserved on stable storage), request, true
//!   cost, answer. The cost is on stable storage before the answer where the disk allows.
//! - An attempt that is dropped midway stays reserved at its highest cost.

mod clock;
mod error;
mod job;
mod program;
mod settings;
mod shared;
mod transport;

use std::sync::Arc;

use parking_lot::Mutex;

pub use clock::{Clock, SystemClock};
pub use error::{LlmError, SetupError};
pub use job::{Job, JobSpec};
pub use settings::{Parts, Settings};

use crate::budget::Economy;
use crate::catalogue::{Model, Tier, base_url};
use crate::ledger::Report;
use crate::picture::Detail;
use crate::policy::{Breaker, BreakerOpen};
use program::Program;
use shared::Shared;
use transport::{Transport, is_loopback};

/// A client of one provider, and of a second one for jobs that name it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
    second: Option<Arc<Shared>>,
}

impl Client {
    /// Checks the settings; connects to nothing yet.
    ///
    /// # Errors
    /// When the provider or a model is unknown, a key is missing, or a key would be sent
    /// unencrypted.
    pub fn new(settings: &Settings, parts: Parts) -> Result<Self, SetupError> {
        let mut provider = parts.catalogue.provider(&settings.provider)?.clone();
        if let (Some(program), Some(path)) = (&mut provider.program, &settings.program) {
            program.clone_from(path);
        }
        if let Some(text) = &settings.base_url {
            provider.base_url = base_url(text).map_err(SetupError::BaseUrl)?;
        }
        if provider.needs_key && parts.key.is_none() {
            return Err(SetupError::NoKey(provider.name));
        }
        let is_plain = provider.base_url.scheme() != "https";
        if parts.key.is_some() && is_plain && !is_loopback(&provider.base_url) {
            return Err(SetupError::PlainKey(
                provider.base_url.host_str().unwrap_or_default().to_owned(),
            ));
        }
        let model = |tier| {
            let id = settings
                .override_of(tier)
                .unwrap_or(provider.model_id(tier));
            parts.catalogue.model(&provider.name, id)
        };
        let (small, large) = (model(Tier::Small)?, model(Tier::Large)?);
        let transport = Transport::new(
            &provider,
            parts.key,
            settings.connect_timeout,
            settings.idle_timeout,
        )?;
        let shared = Arc::new(Shared {
            small,
            large,
            retry: settings.retry,
            transport,
            program: provider.program.clone().map(Program::new),
            breaker: Mutex::new(Breaker::new(settings.breaker)),
            ledger: parts.ledger,
            clock: parts.clock,
            timeout_factor: settings.timeout_factor.max(1),
            catalogue: parts.catalogue,
            provider,
        });
        Ok(Self {
            shared,
            second: None,
        })
    }

    /// Adds the provider of `second`, which has a circuit breaker of its own. Both should have one
    /// ledger.
    #[must_use]
    pub fn with_second(self, second: Self) -> Self {
        Self {
            second: Some(second.shared),
            ..self
        }
    }

    /// Starts a job. Above the soft limit of the budget it gets the small model and less detail
    /// than it asks for.
    #[must_use]
    pub fn start_job(&self, spec: JobSpec) -> Job {
        start(&self.shared, spec, None)
    }

    /// Starts a job with this model in place of that of its tier. Above the soft limit of the
    /// budget it gets less detail.
    ///
    /// # Errors
    /// If the client does not have the provider, or the model is unknown.
    pub fn start_job_with(
        &self,
        spec: JobSpec,
        provider: &str,
        id: &str,
    ) -> Result<Job, SetupError> {
        let all = std::iter::once(&self.shared).chain(&self.second);
        let Some(shared) = all.clone().find(|shared| shared.provider.name == provider) else {
            let names: Vec<&str> = all.map(|shared| shared.provider.name.as_str()).collect();
            return Err(SetupError::NotConfigured {
                wanted: provider.to_owned(),
                configured: names.join(" and "),
            });
        };
        let model = shared.catalogue.model(provider, id)?;
        Ok(start(shared, spec, Some(model)))
    }

    /// Returns the name of each provider, and why and for how long its circuit breaker suspends
    /// calls now, if it does.
    pub fn providers(&self) -> impl Iterator<Item = (&str, Option<BreakerOpen>)> {
        let all = std::iter::once(&self.shared).chain(&self.second);
        all.map(|shared| {
            let open = shared.breaker.lock().open_at(shared.clock.now());
            (shared.provider.name.as_str(), open)
        })
    }

    pub fn report(&self) -> Report {
        let shared = &self.shared;
        shared
            .ledger
            .report(shared.clock.now(), shared.clock.wall())
    }
}

fn start(shared: &Arc<Shared>, mut spec: JobSpec, model: Option<Model>) -> Job {
    spec.time = spec.time.saturating_mul(shared.timeout_factor);
    let now = shared.clock.now();
    let (tier, detail) = match shared.ledger.economy(now, shared.clock.wall()) {
        Economy::Full => (spec.tier, spec.detail),
        Economy::Reduced => (Tier::Small, Detail::Low),
    };
    let model = model.unwrap_or_else(|| shared.model(tier).clone());
    Job::new(shared.clone(), spec, model, detail, now)
}
