//! What all clones of a client and its jobs share.

use std::sync::Arc;

use parking_lot::Mutex;

use super::clock::Clock;
use super::program::Program;
use super::transport::Transport;
use crate::catalogue::{Catalogue, Model, Provider, Tier};
use crate::ledger::Ledger;
use crate::policy::{Breaker, RetryRules};

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) provider: Provider,
    pub(super) catalogue: Catalogue,
    pub(super) small: Model,
    pub(super) large: Model,
    pub(super) retry: RetryRules,
    pub(super) transport: Transport,
    /// The program that is run in place of a request, with the provider `claude-cli`.
    pub(super) program: Option<Program>,
    pub(super) breaker: Mutex<Breaker>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) timeout_factor: u32,
}

impl Shared {
    pub(super) fn model(&self, tier: Tier) -> &Model {
        match tier {
            Tier::Small => &self.small,
            Tier::Large => &self.large,
        }
    }
}
