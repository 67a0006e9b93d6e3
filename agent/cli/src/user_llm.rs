//! The assistant of a person's commands: with notes, a trace and books of the person's own.
//!
//! Invariant: whatever keeps the model away is one sentence; the box understands what it understands all the same.

use std::sync::Arc;

use watchkeeper_config::Config;
use watchkeeper_llm::Client;
use watchkeeper_store::{DiskStore, Options, Store};

use super::output::Output;
use super::state_folder::state_folder;
use watchkeeper_assistant::llm::LazyLlmClient;
use watchkeeper_assistant::notes::Notes;
use watchkeeper_assistant::permissions::Entrypoint;
use watchkeeper_assistant::proposal::auto_approval::ApprovalRules;
use watchkeeper_assistant::session::user_session::{OpenLlm, SessionDeps};
use watchkeeper_assistant::trace::TRACE_FOLDER;
use watchkeeper_client::RuntimeClient;

/// Folder of the ledger below that of the person's state.
const LEDGER: &str = "llm";

/// A way to the model.
#[derive(Debug)]
struct PersonsModel(LazyLlmClient);

impl PersonsModel {
    /// The one that the configuration names.
    fn of(config: &Config) -> Option<Self> {
        config
            .llm
            .clone()
            .map(|config| Self(LazyLlmClient::new(config)))
    }

    /// The client. The error is a sentence for a person.
    fn client(&self) -> Result<Client, String> {
        let folder = state_folder().map_err(|f| f.sentence)?.join(LEDGER);
        self.0.client(&folder, || {
            let (store, _) = DiskStore::open(&folder, &Options::default())?;
            Ok(Arc::new(store) as Arc<dyn Store>)
        })
    }
}

/// What opens the way to the model; `None` where none is configured.
pub(super) fn opener(config: &Config) -> Option<OpenLlm> {
    let model = PersonsModel::of(config)?;
    Some(Box::new(move || model.client()))
}

/// What the assistant of a command works with.
pub(super) fn parts(
    client: RuntimeClient,
    config: &Config,
    channel: Entrypoint,
    out: &Output,
) -> SessionDeps {
    let home = state_folder().map_err(|failure| failure.sentence);
    SessionDeps {
        client,
        preferred_model: config.models.default.clone(),
        open_llm: opener(config),
        provider: config.llm.as_ref().map(|llm| llm.provider.clone()),
        notes: home
            .as_ref()
            .ok()
            .map(|home| Notes::new(home, &config.memory)),
        state_dir: home,
        approval: ApprovalRules::of(&config.permissions, channel),
        other_trace: Some(config.state_dir.join(TRACE_FOLDER)),
        entrypoint: channel,
        out: Arc::new(out.clone()),
    }
}
