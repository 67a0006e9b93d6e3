//! The look-ups of this agent: opened once, and shared by chains, conversations and the API.
//!
//! - Chains, conversations and the API share one rate and one cache. They run on several event
//!   loops, so no connection outlives its request.
//! - A check of the tables holds at most one thread, and delays no answer by more than
//!   [`CHECK_TIMEOUT`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::{Mutex, OnceCell};
use watchkeeper_assistant::lookup_access::{LookupAccess, unknown_lookup};
use watchkeeper_config::LookupConfig;
use watchkeeper_evidence::lookup::Lookups;

use super::counts::SharedCounts;

/// Age at which the result of a check is out of date.
const CHECK_EVERY: Duration = Duration::from_secs(10);
/// Longest wait for a check: a folder on the network may hang.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// The look-ups; clones share them. They are opened at their first use.
#[derive(Debug, Clone, Default)]
pub struct LookupService(Arc<Inner>);

/// When the look-ups were checked, and a sentence for each that can't be used.
type Check = (Instant, Vec<String>);

#[derive(Debug, Default)]
struct Inner {
    configs: Vec<LookupConfig>,
    counts: SharedCounts,
    opened: OnceCell<Arc<Lookups>>,
    /// Locked during a check, so that a look-up is checked once at a time.
    checked: Arc<Mutex<Option<Check>>>,
}

impl LookupService {
    pub fn new(configs: Vec<LookupConfig>) -> Self {
        Self(Arc::new(Inner {
            configs,
            ..Inner::default()
        }))
    }

    pub fn counts(&self) -> &SharedCounts {
        &self.0.counts
    }

    /// Returns the look-ups. One that can't be used at their first use is logged.
    pub async fn opened(&self) -> Arc<Lookups> {
        let open = || async {
            let configs = self.0.configs.clone();
            let opened = tokio::task::spawn_blocking(move || Lookups::open(&configs)).await;
            let lookups = Arc::new(opened.unwrap_or_default());
            let checked = Arc::clone(&lookups);
            // Nobody waits for it: a table that hangs delays its own questions only.
            tokio::task::spawn_blocking(move || {
                let problems = problems_of(&checked).into_iter();
                problems.for_each(|problem| tracing::error!("{problem}"));
            });
            lookups
        };
        Arc::clone(self.0.opened.get_or_init(open).await)
    }

    /// Returns a sentence for each look-up that can't be used, at most [`CHECK_EVERY`] old.
    pub async fn problems(&self) -> Vec<String> {
        self.problems_within(CHECK_TIMEOUT).await
    }

    async fn problems_within(&self, wait: Duration) -> Vec<String> {
        let checked = tokio::time::timeout(wait, self.check()).await;
        checked.unwrap_or_else(|_| {
            let seconds = wait.as_secs();
            vec![format!(
                "agent.lookups: the tables were not read within {seconds} s; check the disk or \
                 network folder that holds them"
            )]
        })
    }

    /// Checks the look-ups, unless the last check is recent.
    async fn check(&self) -> Vec<String> {
        let lookups = self.opened().await;
        // The thread keeps the lock after its caller gave up, so that no second one hangs.
        let mut last = Arc::clone(&self.0.checked).lock_owned().await;
        let checked = tokio::task::spawn_blocking(move || {
            let recent = last.take().filter(|(at, _)| at.elapsed() < CHECK_EVERY);
            let now = || (Instant::now(), problems_of(&lookups));
            last.insert(recent.unwrap_or_else(now)).1.clone()
        });
        checked.await.unwrap_or_default()
    }
}

fn problems_of(lookups: &Lookups) -> Vec<String> {
    let problems = lookups.problems().into_iter();
    problems
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
            Ok(serde_json::to_value(lookup.look_up_one(&value).await).unwrap_or_default())
        }
        .boxed()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use watchkeeper_config::lookups::TableLookup;
    use watchkeeper_config::{LookupKind, LookupValue};

    use super::*;

    #[tokio::test]
    async fn check_of_tables_is_kept_and_one_that_hangs_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plates.csv");
        let table = TableLookup {
            value: LookupValue::Read,
            path: path.clone(),
            table: None,
            key: "plate".to_owned(),
            columns: Vec::new(),
            is_fuzzy: false,
            is_alike: false,
        };
        let service = LookupService::new(vec![LookupConfig {
            name: "plates".to_owned(),
            kind: LookupKind::Table(table),
            only_below: None,
        }]);
        let found = service.problems().await;
        assert!(found[0].contains("agent.lookups.plates"), "{found:?}");
        // It is not read again at each poll.
        std::fs::write(&path, "plate,owner\nAB 1,Ada\n").unwrap();
        assert_eq!(service.problems().await, found);
        let hanging = Arc::clone(&service.0.checked).lock_owned().await;
        let found = service.problems_within(Duration::ZERO).await;
        assert!(found[0].contains("not read within"), "{found:?}");
        drop(hanging);
    }
}
