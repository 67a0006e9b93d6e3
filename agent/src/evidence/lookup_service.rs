//! The look-ups of this agent: opened once, and shared by chains, conversations and the API.
//!
//! - Chains, conversations and the API share one rate and one cache. They run on several event
//!   loops, so no connection outlives its request.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::OnceCell;
use watchkeeper_assistant::lookup_access::{LookupAccess, unknown_lookup};
use watchkeeper_config::LookupConfig;
use watchkeeper_evidence::lookup::Lookups;

use super::counts::SharedCounts;

/// The look-ups; clones share them. They are opened at their first use.
#[derive(Debug, Clone, Default)]
pub struct LookupService(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    configs: Vec<LookupConfig>,
    counts: SharedCounts,
    opened: OnceCell<Arc<Lookups>>,
}

impl LookupService {
    pub fn new(configs: Vec<LookupConfig>) -> Self {
        Self(Arc::new(Inner {
            configs,
            ..Inner::default()
        }))
    }

    /// Counts of chains, which name look-ups that can't be used.
    pub fn counts(&self) -> &SharedCounts {
        &self.0.counts
    }

    /// Returns the look-ups. One that can't be used is logged, counted, and fails when it is asked.
    pub async fn opened(&self) -> Arc<Lookups> {
        let open = || async {
            let configs = self.0.configs.clone();
            let opened = tokio::task::spawn_blocking(move || Lookups::open(&configs)).await;
            let (lookups, errors) = opened.unwrap_or_default();
            for error in errors {
                let text = format!("agent.lookups.{}: {}", error.name, error.problem);
                tracing::error!("{text}");
                self.0.counts.lock().problems.push(text);
            }
            Arc::new(lookups)
        };
        Arc::clone(self.0.opened.get_or_init(open).await)
    }
}

impl LookupAccess for LookupService {
    fn look_up(&self, name: String, value: String) -> BoxFuture<'_, Result<Value, String>> {
        async move {
            let lookups = self.opened().await;
            let lookup = lookups.get(&name).ok_or_else(|| {
                let names: Vec<&str> = lookups.configs().keys().map(String::as_str).collect();
                unknown_lookup(&name, &names)
            })?;
            // Plain data with string keys always serialises.
            Ok(serde_json::to_value(lookup.look_up(&value).await).unwrap_or_default())
        }
        .boxed()
    }
}
