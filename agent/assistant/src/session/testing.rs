//! A session for unit tests.

use std::path::Path;
use std::sync::Arc;

use watchkeeper_client::RuntimeClient;
use watchkeeper_config::{AuditConfig, PermissionsConfig};

use super::progress::ProgressSink;
use super::user_session::{Session, SessionDeps};
use crate::notes::Notes;
use crate::permissions::Entrypoint;
use crate::proposal::auto_approval::ApprovalRules;

/// A session over the API, without runtime, agent and model.
pub(super) fn session(home: &Path, out: Arc<dyn ProgressSink>) -> Session {
    let (entrypoint, config) = (Entrypoint::Local, PermissionsConfig::default());
    let deps = SessionDeps {
        client: RuntimeClient::new(home.join("no.sock")).unwrap(),
        preferred_model: None,
        open_llm: None,
        notes: Some(Notes::new(home, &Default::default())),
        state_dir: Ok(home.to_path_buf()),
        provider: None,
        second_opinion: false,
        approval: ApprovalRules::for_entrypoint(&config, entrypoint),
        audit: AuditConfig::default(),
        heartbeat: None,
        archive: None,
        lookups: None,
        job_tools: Vec::new(),
        other_trace: None,
        entrypoint,
        out,
    };
    Session::new(deps).unwrap()
}
