//! The shell around the pure parts: sends calls, waits, writes the ledger.
//!
//! Invariant: the order of an attempt is always the same – deadline, breaker, budget (booked and on stable storage), request, true cost (on stable storage), and only then
//! the answer. An attempt that is dropped in the middle stays booked with the most it can cost.

mod clock;
mod error;
mod job;
mod transport;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use url::Url;
use watchkeeper_contract::host::is_this_machine;

pub use clock::{Clock, SystemClock};
pub use error::{LlmError, SetupError};
pub use job::{Job, JobSpec, Progress};
pub use transport::root_cause;

use crate::budget::Economy;
use crate::catalogue::{Catalogue, Model, Provider, Tier, base_url};
use crate::key::Key;
use crate::ledger::{Ledger, Report};
use crate::policy::{Breaker, BreakerRules, Resting, RetryRules};
use transport::Transport;

/// How models are reached, as the configuration says it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Name of the provider in the model file.
    pub provider: String,
    /// Another address than the model file's.
    pub base_url: Option<String>,
    /// Another small model than the model file's.
    pub small: Option<String>,
    /// Another medium model than the model file's.
    pub medium: Option<String>,
    /// Another large model than the model file's.
    pub large: Option<String>,
    /// When failed calls are made again.
    pub retry: RetryRules,
    /// When the provider is left alone.
    pub breaker: BreakerRules,
    /// Longest time until a connection stands.
    pub connect: Duration,
    /// Longest silence within an answer.
    pub silence: Duration,
    /// How many times as long as it asks for a job may take; 0 counts as 1.
    pub patience: u32,
}

impl Settings {
    /// The usual numbers for `provider`.
    #[must_use]
    pub fn new(provider: impl Into<String>) -> Self {
        Self {
            provider: provider.into(),
            base_url: None,
            small: None,
            medium: None,
            large: None,
            retry: RetryRules::default(),
            breaker: BreakerRules::default(),
            connect: Duration::from_secs(10),
            silence: Duration::from_secs(90),
            patience: 1,
        }
    }

    fn override_of(&self, tier: Tier) -> Option<&str> {
        match tier {
            Tier::Small => self.small.as_deref(),
            Tier::Medium => self.medium.as_deref(),
            Tier::Large => self.large.as_deref(),
        }
    }
}

/// What a client works with.
#[derive(Debug)]
pub struct Parts {
    /// What is known about models.
    pub catalogue: Catalogue,
    /// The key; a server of one's own needs none.
    pub key: Option<Key>,
    /// What was spent.
    pub ledger: Arc<Ledger>,
    /// Time and chance.
    pub clock: Arc<dyn Clock>,
}

/// A way to one provider. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    provider: Provider,
    small: Model,
    medium: Model,
    large: Model,
    retry: RetryRules,
    transport: Transport,
    breaker: Mutex<Breaker>,
    ledger: Arc<Ledger>,
    clock: Arc<dyn Clock>,
    patience: u32,
}

impl Client {
    /// Checks the settings; connects to nothing yet.
    ///
    /// # Errors
    /// When the provider or a model is unknown, a key is missing, or a key would travel unencrypted.
    pub fn new(settings: &Settings, parts: Parts) -> Result<Self, SetupError> {
        let mut provider = parts.catalogue.provider(&settings.provider)?.clone();
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
        let (small, medium, large) = (
            model(Tier::Small)?,
            model(Tier::Medium)?,
            model(Tier::Large)?,
        );
        let transport = Transport::new(&provider, parts.key, settings.connect, settings.silence)?;
        Ok(Self(Arc::new(Inner {
            small,
            medium,
            large,
            retry: settings.retry,
            transport,
            breaker: Mutex::new(Breaker::new(settings.breaker)),
            ledger: parts.ledger,
            clock: parts.clock,
            patience: settings.patience.max(1),
            provider,
        })))
    }

    /// Begins a job. When money is to be saved it gets the next smaller model and less detail than it asks for.
    #[must_use]
    pub fn begin(&self, mut spec: JobSpec) -> Job {
        let inner = &self.0;
        spec.time = spec.time.saturating_mul(inner.patience);
        let now = inner.clock.now();
        let economy = inner.ledger.economy(now, inner.clock.wall());
        let (tier, detail) = match economy {
            Economy::Full => (spec.tier, spec.detail),
            Economy::Reduced => (spec.tier.below(), spec.detail.below()),
        };
        let model = match tier {
            Tier::Small => &inner.small,
            Tier::Medium => &inner.medium,
            Tier::Large => &inner.large,
        };
        Job::new(self.clone(), spec, model.clone(), detail, economy, now)
    }

    /// Whether the provider is left alone now, because it failed too often.
    #[must_use]
    pub fn resting(&self) -> Option<Resting> {
        let inner = &self.0;
        inner.breaker.lock().resting(inner.clock.now())
    }

    /// What was spent.
    #[must_use]
    pub fn report(&self) -> Report {
        let inner = &self.0;
        inner.ledger.report(inner.clock.now(), inner.clock.wall())
    }
}

/// Whether an address is this box itself.
fn is_loopback(url: &Url) -> bool {
    url.host_str().is_some_and(is_this_machine)
}
