//! Settings of a client, and what it is made of.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::clock::Clock;
use crate::catalogue::{Catalogue, Tier};
use crate::key::Key;
use crate::ledger::Ledger;
use crate::policy::{BreakerRules, RetryRules};

/// How models are reached, as configured.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Name of the provider in the model file.
    pub provider: String,
    /// Overrides the model file's address.
    pub base_url: Option<String>,
    /// Overrides the program of a provider that is one.
    pub program: Option<PathBuf>,
    /// Overrides the provider's small model.
    pub small: Option<String>,
    /// Overrides the provider's large model.
    pub large: Option<String>,
    pub retry: RetryRules,
    pub breaker: BreakerRules,
    pub connect_timeout: Duration,
    /// Maximum time without a byte within an answer.
    pub idle_timeout: Duration,
    /// Multiplies the time that a job asks for; 0 counts as 1.
    pub timeout_factor: u32,
}

impl Settings {
    /// Returns the defaults for `provider`.
    pub fn new(provider: impl Into<String>) -> Self {
        Self {
            provider: provider.into(),
            base_url: None,
            program: None,
            small: None,
            large: None,
            retry: RetryRules::default(),
            breaker: BreakerRules::default(),
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(90),
            timeout_factor: 1,
        }
    }

    pub(super) fn override_of(&self, tier: Tier) -> Option<&str> {
        match tier {
            Tier::Small => self.small.as_deref(),
            Tier::Large => self.large.as_deref(),
        }
    }
}

#[derive(Debug)]
pub struct Parts {
    pub catalogue: Catalogue,
    /// The key; a local server needs none.
    pub key: Option<Key>,
    pub ledger: Arc<Ledger>,
    /// Time and randomness.
    pub clock: Arc<dyn Clock>,
}
