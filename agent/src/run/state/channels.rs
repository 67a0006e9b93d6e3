//! The notification channels: their setup and their tasks.
//!
//! - A notice is handed to the tasks once it is stored; one about a disk that refuses is the
//!   exception.
//! - Not here: texts, retries and positions (`notify`).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use watchkeeper_client::RuntimeClient;
use watchkeeper_contract::id::ChannelId;
use watchkeeper_contract::source::SourceStatus;
use watchkeeper_store::{Op, Store, StoreError};

use super::outbox::{BatchOwner, DurableOutbox};
use crate::notify::health::ChannelHealth;
use crate::notify::message::Notice;
use crate::notify::service::{PendingNotice, Service, Setup};

/// Longest wait for the names of cameras at the start.
const NAMES_TIMEOUT: Duration = Duration::from_secs(3);

/// Channels, running once the agent runs.
#[derive(Debug)]
pub(crate) struct Channels {
    setup: Setup,
    service: Option<Service>,
}

impl Channels {
    pub(crate) fn new(setup: Setup) -> Self {
        Self {
            setup,
            service: None,
        }
    }

    /// Starts one task per channel, once the runtime has named the cameras or [`NAMES_TIMEOUT`] is
    /// over. So a notification that is repeated after a restart has the same text.
    pub(crate) async fn spawn(
        &mut self,
        runtime: &RuntimeClient,
        store: &Arc<dyn Store>,
    ) -> Result<(), StoreError> {
        if !self.setup.channels.is_empty()
            && let Ok(Ok(sources)) = timeout(NAMES_TIMEOUT, runtime.sources()).await
        {
            self.set_cameras(&sources);
        }
        self.service = Some(Service::spawn(&self.setup, runtime, store)?);
        Ok(())
    }

    /// Takes the names of cameras for texts.
    pub(crate) fn set_cameras(&self, sources: &[SourceStatus]) {
        let named = sources.iter().filter_map(|source| {
            let (id, name) = (&source.spec.id, source.spec.name.as_ref()?);
            let mut others = sources.iter().filter(|other| other.spec.id != *id);
            let is_shared = others.any(|other| other.spec.name.as_ref() == Some(name));
            let shown = match is_shared {
                true => format!("{} ({id})", name.as_str()),
                false => name.as_str().to_owned(),
            };
            Some((id.clone(), shown))
        });
        self.setup.names.lock().cameras = named.collect();
    }

    /// Stages `message` in `outbox`; [`Self::send`] follows once it is stored.
    pub(crate) fn stage(&self, message: Notice, outbox: &mut DurableOutbox) {
        if let Some(service) = &self.service {
            let (ops, notice) = service.add_notice(message);
            outbox.stage_for(BatchOwner::Notice(notice), ops);
        }
    }

    /// Whether notices can be handed to the channels.
    pub(crate) fn are_running(&self) -> bool {
        self.service.is_some()
    }

    /// Hands a notice to its channels without storing it, for a disk that refuses. The deletion of
    /// notices that it evicts is staged in `outbox`.
    pub(crate) fn send_unstored(&self, message: Notice, outbox: &mut DurableOutbox) {
        if let Some(service) = &self.service {
            let (ops, notice) = service.add_notice(message);
            let deletes = ops.into_iter().filter(|op| matches!(op, Op::Delete { .. }));
            deletes.for_each(|op| outbox.stage(op));
            service.send_notice(notice);
        }
    }

    /// Hands a stored notice to its channels.
    pub(crate) fn send(&self, notice: PendingNotice) {
        if let Some(service) = &self.service {
            service.send_notice(notice);
        }
    }

    /// Health of each channel, ordered by name; empty before the agent runs.
    pub(crate) fn health(&self) -> Vec<(ChannelId, ChannelHealth)> {
        self.service
            .as_ref()
            .map(Service::health)
            .unwrap_or_default()
    }

    /// Channels that report an error at present.
    pub(crate) fn failing(&self) -> Vec<ChannelId> {
        let failing = self.health().into_iter();
        let failing = failing.filter(|(_, health)| health.trouble.is_some());
        failing.map(|(id, _)| id).collect()
    }

    /// Waits for the end of a channel's task, with the store's error where that is the cause.
    pub(crate) async fn failed(&mut self) -> Option<StoreError> {
        match &mut self.service {
            Some(service) => service.broken().await,
            None => std::future::pending().await,
        }
    }
}
