//! The agent's language model: its client, and single questions with their costs in the trace.
//!
//! - Blocking work runs on blocking threads, and every error is one sentence.
//! - `watchkeeper_llm` checks the budget before each attempt.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use watchkeeper_assistant::llm::{LazyLlmClient, ask_traced};
use watchkeeper_assistant::trace::Trace;
use watchkeeper_llm::client::LlmError;
use watchkeeper_llm::conversation::Picture;
use watchkeeper_llm::picture::prepare;
use watchkeeper_llm::{CallOptions, Client, Conversation, Job, Reply};
use watchkeeper_store::Store;

use crate::background::blocking;

/// The configured model with its ledger and the agent's trace.
#[derive(Debug, Clone)]
pub struct ModelAccess {
    pub llm: Arc<LazyLlmClient>,
    pub store: Arc<dyn Store>,
    /// Folder of `store`.
    pub folder: PathBuf,
    pub trace: Trace,
}

impl ModelAccess {
    /// Opens the client. Reads files.
    ///
    /// # Errors
    /// A sentence for a user.
    pub(crate) fn open(&self) -> Result<Client, String> {
        let store = Arc::clone(&self.store);
        self.llm.client(&self.folder, || Ok(store))
    }

    /// Opens the client on a blocking thread.
    ///
    /// # Errors
    /// A sentence for a user.
    pub(crate) async fn client(&self) -> Result<Client, String> {
        let access = self.clone();
        blocking(move || access.open()).await?
    }

    /// Asks the model of `job`, as [`ask_traced`].
    ///
    /// # Errors
    /// As [`Job::ask`].
    pub(crate) async fn ask(
        &self,
        job: &mut Job,
        conversation: &Conversation,
        options: &CallOptions,
        details: Value,
    ) -> Result<Reply, LlmError> {
        ask_traced(Some(&self.trace), job, conversation, options, details).await
    }

    /// Writes to the trace and waits for the write; a failure is logged.
    pub(crate) async fn note(&self, what: &'static str, details: Value) {
        self.trace.note_or_log_in_background(what, details).await;
    }
}

/// Prepares a picture file for the model of `job`.
///
/// # Errors
/// A sentence, if the model accepts no pictures or the file can't be read.
pub(crate) async fn prepare_for(job: &Job, file: Bytes) -> Result<Picture, String> {
    let (model, detail) = (job.model(), job.detail());
    let sees = model.image_tier;
    let sees = sees.ok_or_else(|| format!("the model {} accepts no pictures", model.id))?;
    let prepared = blocking(move || prepare(&file, sees, detail)).await?;
    Ok(prepared.map_err(|e| e.to_string())?.picture)
}
