//! The model of language that rewords for a person's commands: one call, with books of the person's own.
//!
//! Invariant: whatever keeps the model away is one sentence; the box understands what it understands all the same.

use std::sync::Arc;
use std::time::Duration;

use watchkeeper_config::Config;
use watchkeeper_llm::JobSpec;
use watchkeeper_llm::catalogue::Tier;
use watchkeeper_llm::money::Money;
use watchkeeper_llm::picture::Detail;
use watchkeeper_plain::Scene;
use watchkeeper_store::{Options, SledStore, Store};

use super::state_folder::state_folder;
use crate::assistant::reword::{self, Reworded};
use crate::language::Way;

/// Time for one rewording: a person waits for it.
const TIME: Duration = Duration::from_secs(30);
/// Folder of the ledger below that of the person's state.
const LEDGER: &str = "llm";

/// A way to reword.
#[derive(Debug)]
pub(super) struct Rewording(Way);

/// What came of it.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) reworded: Reworded,
    /// Which model said it.
    pub(super) model: String,
    /// What it cost.
    pub(super) cost: Money,
}

impl Rewording {
    /// The one that the configuration names.
    pub(super) fn of(config: &Config) -> Option<Self> {
        config.llm.clone().map(|config| Self(Way::new(config)))
    }

    /// Asks the model to put `text` into other words. The error is a sentence for a person.
    pub(super) async fn reword(&self, text: &str, scene: &Scene) -> Result<Said, String> {
        let folder = state_folder().map_err(|f| f.sentence)?.join(LEDGER);
        let client = self.0.client(&folder, || {
            let (store, _) = SledStore::open(&folder, &Options::default())?;
            Ok(Arc::new(store) as Arc<dyn Store>)
        })?;
        let talk = reword::talk(text, scene).map_err(|e| e.to_string())?;
        let mut job = client.begin(JobSpec {
            name: "reword".to_owned(),
            tier: Tier::Small,
            detail: Detail::Glance,
            time: TIME,
        });
        let reply = job.ask(&talk, &reword::ask(), &mut |_| {}).await;
        let reply = reply.map_err(|e| e.to_string())?;
        let reworded = reword::read(&reply.text()).map_err(|e| e.to_string())?;
        Ok(Said {
            reworded,
            model: reply.model,
            cost: job.spent().1,
        })
    }
}
