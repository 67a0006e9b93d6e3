//! The model of language for a person's commands, with books of the person's own.
//!
//! Invariant: whatever keeps the model away is one sentence; the box understands what it understands all the same.

use std::sync::Arc;

use watchkeeper_config::Config;
use watchkeeper_llm::Client;
use watchkeeper_store::{Options, SledStore, Store};

use super::state_folder::state_folder;
use crate::language::Way;

/// Folder of the ledger below that of the person's state.
const LEDGER: &str = "llm";

/// A way to the model.
#[derive(Debug)]
pub(super) struct PersonsModel(Way);

impl PersonsModel {
    /// The one that the configuration names.
    pub(super) fn of(config: &Config) -> Option<Self> {
        config.llm.clone().map(|config| Self(Way::new(config)))
    }

    /// The client. The error is a sentence for a person.
    pub(super) fn client(&self) -> Result<Client, String> {
        let folder = state_folder().map_err(|f| f.sentence)?.join(LEDGER);
        self.0.client(&folder, || {
            let (store, _) = SledStore::open(&folder, &Options::default())?;
            Ok(Arc::new(store) as Arc<dyn Store>)
        })
    }
}
