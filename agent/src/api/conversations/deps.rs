//! What all conversations share: dependencies and limits.
//!
//! - Not here: the conversations themselves (`handle`), their registry.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use tokio::sync::{Semaphore, watch};
use watchkeeper_assistant::heartbeat_switch::{HeartbeatControl, HeartbeatStatus, HeartbeatSwitch};
use watchkeeper_assistant::notes::Notes;
use watchkeeper_assistant::permissions::Entrypoint;
use watchkeeper_assistant::proposal::auto_approval::ApprovalRules;
use watchkeeper_assistant::proposal::pending::PendingProposals;
use watchkeeper_assistant::session::progress::ProgressSink;
use watchkeeper_assistant::session::user_session::{OpenLlm, SessionDeps};
use watchkeeper_assistant::trace::Trace;
use watchkeeper_client::RuntimeClient;
use watchkeeper_config::{AuditConfig, PermissionsConfig};

use crate::archive::ArchiveService;
use crate::background::blocking;
use crate::evidence::lookup_service::LookupService;
use crate::jobs::JobService;
use crate::references::ReferenceService;

#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub open: usize,
    /// Limit of open conversations over TCP, so that clients on the box find a free one.
    pub remote: usize,
    /// Limit of messages per conversation.
    pub turns: u64,
    /// Idle time after which a conversation ends.
    pub idle: Duration,
    /// Limit of messages in progress; the others queue.
    pub in_progress: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            open: 16,
            remote: 12,
            turns: 200,
            idle: Duration::from_secs(1800),
            in_progress: 4,
        }
    }
}

/// Opens the LLM client; an error is a sentence for a user.
pub type OpenClient = Arc<dyn Fn() -> Result<watchkeeper_llm::Client, String> + Send + Sync>;

/// Dependencies that conversations share.
pub struct ConversationDeps {
    pub client: RuntimeClient,
    /// The detection model that the configuration prefers.
    pub preferred: Option<String>,
    /// Absent if no language model is configured.
    pub model: Option<OpenClient>,
    /// Provider of the language model.
    pub provider: Option<String>,
    /// Changes that need no confirmation.
    pub policy: PermissionsConfig,
    /// Whether a second opinion of doubtful events is configured.
    pub second_opinion: bool,
    /// Folder of traces, proposals and notes.
    pub home: PathBuf,
    /// Retention of the audit log.
    pub audit: AuditConfig,
    /// Pauses and resumes the heartbeat.
    pub heartbeat: HeartbeatSwitch,
    pub notes: Notes,
    pub archive: ArchiveService,
    pub jobs: JobService,
    pub lookups: LookupService,
    pub references: ReferenceService,
}

impl std::fmt::Debug for ConversationDeps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConversationDeps")
            .field("home", &self.home)
            .finish_non_exhaustive()
    }
}

impl ConversationDeps {
    /// Arguments of one new session.
    pub(super) fn parts(&self, entrypoint: Entrypoint, out: Arc<dyn ProgressSink>) -> SessionDeps {
        let model = self.model.clone();
        SessionDeps {
            client: self.client.clone(),
            preferred_model: self.preferred.clone(),
            open_llm: model.map(|open| Box::new(move || open()) as OpenLlm),
            provider: self.provider.clone(),
            second_opinion: self.second_opinion,
            approval: ApprovalRules::for_entrypoint(&self.policy, entrypoint),
            audit: self.audit,
            heartbeat: Some(Arc::new(self.heartbeat_control(entrypoint))),
            archive: Some(Arc::new(self.archive.clone())),
            lookups: Some(Arc::new(self.lookups.clone())),
            job_tools: Vec::new(),
            other_trace: None,
            notes: Some(self.notes.clone()),
            state_dir: Ok(self.home.clone()),
            entrypoint,
            out,
        }
    }

    pub(in crate::api) fn heartbeat_control(&self, entrypoint: Entrypoint) -> SwitchControl {
        SwitchControl {
            switch: self.heartbeat.clone(),
            trace: self.trace(entrypoint),
        }
    }

    pub(in crate::api) fn trace(&self, entrypoint: Entrypoint) -> Trace {
        Trace::new(&self.home, entrypoint.name()).with_audit_limits(self.audit)
    }

    /// Opens the folder of pending proposals.
    pub fn waiting(&self) -> PendingProposals {
        PendingProposals::new(&self.home)
    }
}

/// The heartbeat's switch with the trace of its user.
#[derive(Debug, Clone)]
pub(in crate::api) struct SwitchControl {
    switch: HeartbeatSwitch,
    trace: Trace,
}

impl HeartbeatControl for SwitchControl {
    fn set(&self, paused: Option<bool>) -> BoxFuture<'_, Result<HeartbeatStatus, String>> {
        let Self { switch, trace } = self.clone();
        let set = move || match paused {
            Some(paused) => switch.set(paused, &trace, Timestamp::now()),
            None => Ok(switch.status()),
        };
        async move {
            let set = blocking(set).await?;
            set.map_err(|e| format!("can't store the heartbeat's switch: {e}; free disk space"))
        }
        .boxed()
    }
}

/// Data that the registry shares with the task of each conversation.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) deps: ConversationDeps,
    pub(super) bounds: Bounds,
    /// One permit for each message in progress.
    pub(super) in_progress: Arc<Semaphore>,
    /// True once the agent stops.
    pub(super) closing: watch::Receiver<bool>,
}
