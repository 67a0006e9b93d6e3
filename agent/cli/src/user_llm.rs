//! Dependencies of the session of `ask` and `chat`: the user's own notes, trace and LLM ledger.
//!
//! Invariant: without an LLM the session works by rules; the reason is one sentence.

use std::path::PathBuf;
use std::sync::Arc;

use watchkeeper_config::Config;
use watchkeeper_store::{DiskStore, Options, Store};

use super::agent_client::AgentSocket;
use super::output::Output;
use super::state_folder::state_folder;
use watchkeeper_assistant::llm::LazyLlmClient;
use watchkeeper_assistant::notes::Notes;
use watchkeeper_assistant::permissions::Entrypoint;
use watchkeeper_assistant::proposal::auto_approval::ApprovalRules;
use watchkeeper_assistant::session::user_session::{OpenLlm, SessionDeps};
use watchkeeper_assistant::trace::TRACE_FOLDER;
use watchkeeper_client::RuntimeClient;

/// Folder of the ledger in the user's state folder.
const LEDGER: &str = "llm";

/// Folder of the user's ledger.
///
/// # Errors
/// As [`state_folder`], as a sentence.
pub(super) fn ledger_folder() -> Result<PathBuf, String> {
    let folder = state_folder().map_err(|failure| failure.sentence)?;
    Ok(folder.join(LEDGER))
}

/// Returns the function that opens the LLM client, if `[llm]` is configured. The ledger is locked
/// while the client is used: a `chat` that waits for its user blocks no other command.
pub(super) fn opener(config: &Config) -> Option<OpenLlm> {
    let model = LazyLlmClient::closing_between_uses(config.llm.clone()?);
    Some(Box::new(move || {
        let folder = ledger_folder()?;
        model.client(&folder, || {
            let (store, _) = DiskStore::open(&folder, &Options::default())?;
            Ok(Arc::new(store) as Arc<dyn Store>)
        })
    }))
}

/// Builds the dependencies of a session.
pub(super) fn session_deps(
    client: RuntimeClient,
    config: &Config,
    entrypoint: Entrypoint,
    out: &Output,
) -> SessionDeps {
    let home = state_folder().map_err(|failure| failure.sentence);
    let agent = Arc::new(AgentSocket(config.agent_api.socket.clone()));
    SessionDeps {
        client,
        preferred_model: config.models.default.clone(),
        open_llm: opener(config),
        provider: config.llm.as_ref().map(|llm| llm.provider.clone()),
        second_opinion: config.llm.as_ref().is_some_and(|llm| llm.second_opinion),
        notes: home
            .as_ref()
            .ok()
            .map(|home| Notes::checked(home, &config.memory)),
        state_dir: home,
        audit: config.agent.audit,
        heartbeat: Some(agent.clone()),
        archive: Some(agent.clone()),
        lookups: Some(agent),
        approval: ApprovalRules::for_entrypoint(&config.permissions, entrypoint),
        job_tools: Vec::new(),
        other_trace: Some(config.state_dir.join(TRACE_FOLDER)),
        entrypoint,
        out: Arc::new(out.clone()),
    }
}
