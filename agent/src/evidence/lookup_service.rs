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

    /// Counts of chains.
    pub fn counts(&self) -> &SharedCounts {
        &self.0.counts
    }

    /// Returns the look-ups. One that can't be used at their first use is logged.
    pub async fn opened(&self) -> Arc<Lookups> {
        let open = || async {
            let configs = self.0.configs.clone();
            let opened = tokio::task::spawn_blocking(move || Lookups::open(&configs)).await;
            let lookups = Arc::new(opened.unwrap_or_default());
            for problem in problems_of(&lookups).await {
                tracing::error!("{problem}");
            }
            lookups
        };
        Arc::clone(self.0.opened.get_or_init(open).await)
    }

    /// Returns a sentence for each look-up that can't be used now.
    pub async fn problems(&self) -> Vec<String> {
        problems_of(&self.opened().await).await
    }
}

async fn problems_of(lookups: &Arc<Lookups>) -> Vec<String> {
    let lookups = Arc::clone(lookups);
    let found = tokio::task::spawn_blocking(move || lookups.problems()).await;
    let found = found.unwrap_or_default().into_iter();
    found
        .map(|error| format!("agent.lookups.{}: {}", error.name, error.problem))
        .collect()
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
