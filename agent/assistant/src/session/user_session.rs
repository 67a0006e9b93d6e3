//! One user session: handles a text in the current state of the runtime.
//!
//! Invariants:
//! - Only [`Session::apply`] sends requests that change something, for a proposal confirmed by a
//!   user or by auto-approval.
//! - With a [`ProposalStore`], a waiting proposal is on disk before it is shown, and deleted before
//!   it is applied.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use jiff::Timestamp;
use serde_json::json;
use watchkeeper_config::AuditConfig;
use watchkeeper_contract::id::SourceId;
use watchkeeper_llm::Client;
use watchkeeper_plain::Plain;

use super::progress::{ProgressEvent, ProgressSink};
use super::secrets::hide_secrets;
use super::trial_runner::TrialRunner;
use crate::archive_access::ArchiveAccess;
use crate::failure::Error;
use crate::heartbeat_switch::HeartbeatControl;
use crate::lookup_access::LookupAccess;
use crate::notes::Notes;
use crate::operations::recorded_archive::{RecordedArchive, SharedTrajectory};
use crate::permissions::Entrypoint;
use crate::proposal::auto_approval::{ApprovalRules, Author};
use crate::proposal::conversation::{Reply, SessionState, ShownProposal};
use crate::proposal::history::SessionHistory;
use crate::proposal::pending::{PendingProposals, Requester};
use crate::proposal::snapshot::SystemSnapshot;
use crate::router;
use crate::setup_agent::tool_context::system_snapshot;
use crate::setup_agent::turn_log::TurnLog;
use crate::trace::Trace;
use watchkeeper_client::{ClientError, RuntimeClient};

/// Most cameras opened at the same time for their picture size.
const MAX_PARALLEL_PROBES: usize = 4;
/// Most cameras opened for one request.
const MAX_PROBES: usize = 16;

/// Opens the LLM client on demand. The error is a sentence for the user.
pub type OpenLlm = Box<dyn Fn() -> Result<Client, String> + Send + Sync>;

pub struct SessionDeps {
    pub client: RuntimeClient,
    /// Detection model preferred by the configuration.
    pub preferred_model: Option<String>,
    /// Opens the LLM client; `None` if no LLM is configured.
    pub open_llm: Option<OpenLlm>,
    /// Notes; `None` if nothing can be stored.
    pub notes: Option<Notes>,
    /// Folder of notes, turns, previews and trace, or why there is none.
    pub state_dir: Result<PathBuf, String>,
    /// LLM provider; `None` if no LLM is configured.
    pub provider: Option<String>,
    /// Whether a second opinion of doubtful events is configured.
    pub second_opinion: bool,
    /// Auto-approval of this entrypoint.
    pub approval: ApprovalRules,
    /// Retention of the audit log.
    pub audit: AuditConfig,
    /// Switch of the agent's heartbeat; `None` if no agent is reached.
    pub heartbeat: Option<Arc<dyn HeartbeatControl>>,
    /// The agent's archive; `None` if no agent is reached.
    pub archive: Option<Arc<dyn ArchiveAccess>>,
    /// The agent's look-ups; `None` if no agent is reached.
    pub lookups: Option<Arc<dyn LookupAccess>>,
    /// Tools of jobs that the caller runs for `/manual`; empty if it runs none.
    pub job_tools: Vec<&'static str>,
    /// Folder of a second trace to show: that of the agent, in a user's session.
    pub other_trace: Option<PathBuf>,
    pub entrypoint: Entrypoint,
    pub out: Arc<dyn ProgressSink>,
}

/// Proposals stored on disk for a confirmation in another process or after a restart.
#[derive(Debug)]
pub struct ProposalStore {
    pub pending: PendingProposals,
    /// The session that they belong to; `None` for the commands of a user.
    pub requester: Option<Requester>,
    /// Id of the proposal that waits in this session.
    pub id: Option<String>,
}

/// Authors of the words that wait for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Authors {
    pub(super) question: Author,
    /// `Model` for a proposal from another process.
    pub(super) proposal: Author,
}

pub struct Session {
    pub(super) deps: SessionDeps,
    pub conversation: SessionState,
    pub(super) plain: Plain,
    /// Whether an LLM took part in the last reply.
    pub is_llm_reply: bool,
    pub(super) authors: Authors,
    /// Authors before the last text.
    pub(super) authors_before: Authors,
    /// Assumed time of requests; `None`: now.
    pub request_time: Option<Timestamp>,
    /// Whether proposals get a trial; not those that `ask --yes` confirms unseen. Auto-approval
    /// needs it, because a remark asks for a person.
    pub runs_trials: bool,
    pub(super) history: SessionHistory,
    /// Pictures for the next request.
    pub(super) attached: Vec<(String, Bytes)>,
    /// A finished turn whose result was not delivered yet.
    pub(super) finished_turn: Option<TurnLog>,
    /// `None` if nothing can be stored.
    pub(super) trace: Option<Trace>,
    /// The archive, with each operation recorded in `trajectory`.
    pub(super) archive: Option<Arc<RecordedArchive>>,
    pub(super) trajectory: SharedTrajectory,
    /// Blueprint for what the rules do not understand; `None`: the small model chooses.
    pub(super) blueprint: Option<String>,
    /// `None`: proposals end with the session.
    pub(super) store: Option<ProposalStore>,
}

/// Most pictures of one request.
pub const MAX_ATTACHED: usize = 4;

impl Session {
    /// Creates a session.
    ///
    /// # Errors
    /// Never with the lexicon of this build.
    pub fn new(deps: SessionDeps) -> Result<Self, Error> {
        let plain = Plain::new().map_err(|e| Error::failed(e.to_string()))?;
        let home = deps.state_dir.as_ref().ok();
        let trajectory = SharedTrajectory::default();
        let authors = Authors {
            question: Author::Person,
            proposal: Author::Model,
        };
        Ok(Self {
            archive: RecordedArchive::new(deps.archive.clone(), &trajectory),
            blueprint: None,
            trace: home.map(|folder| {
                Trace::new(folder, deps.entrypoint.name()).with_audit_limits(deps.audit)
            }),
            deps,
            conversation: SessionState::default(),
            plain,
            is_llm_reply: false,
            authors,
            authors_before: authors,
            request_time: None,
            runs_trials: true,
            history: SessionHistory::default(),
            attached: Vec::new(),
            finished_turn: None,
            store: None,
            trajectory,
        })
    }

    #[must_use]
    pub fn with_store(mut self, store: ProposalStore) -> Self {
        self.store = Some(store);
        self
    }

    /// Returns the id of the stored proposal that waits.
    pub fn pending_id(&self) -> Option<&str> {
        self.store.as_ref()?.id.as_deref()
    }

    pub fn socket(&self) -> &Path {
        self.deps.client.socket()
    }

    /// Fetches the current state of the runtime.
    ///
    /// # Errors
    /// [`ClientError`] of a request.
    pub async fn fetch_snapshot(&self) -> Result<SystemSnapshot, ClientError> {
        let here = system_snapshot(&self.deps.client, self.deps.preferred_model.clone()).await?;
        let now = match self.request_time {
            Some(at) => at.to_zoned(here.now.time_zone().clone()),
            None => here.now,
        };
        Ok(SystemSnapshot { now, ..here })
    }

    /// Handles a text of the user: first by the rules, then by an LLM if one is configured. Cameras
    /// are opened where a picture size is missing.
    ///
    /// # Errors
    /// If the runtime does not answer and the text is not about notes, or no LLM can look at
    /// attached pictures.
    pub async fn handle_text(&mut self, text: &str) -> Result<(Reply, SystemSnapshot), Error> {
        self.drop_actions().await;
        let text = &*hide_secrets(text, &*self.deps.out);
        let mut here = match self.fetch_snapshot().await {
            Ok(here) => here,
            Err(away) => return self.handle_without_runtime(text, away).await,
        };
        self.trace_event("request", || json!({"text": text}));
        self.is_llm_reply = false;
        let before = self.conversation.clone();
        let attached = std::mem::take(&mut self.attached);
        let reply = if attached.is_empty() {
            let reply = self
                .apply_rules(text, &mut here, SessionState::handle)
                .await?;
            self.fall_back_to_llm(text, reply, &before, &mut here)
                .await?
        } else {
            self.ask_about_pictures(text, attached, &mut here).await?
        };
        self.finish_reply(text, reply, before, here).await
    }

    /// Tries, traces and records a reply before it is delivered, and confirms it where
    /// auto-approval does. `before` is the state before the text.
    pub(super) async fn finish_reply(
        &mut self,
        text: &str,
        mut reply: Reply,
        before: SessionState,
        here: SystemSnapshot,
    ) -> Result<(Reply, SystemSnapshot), Error> {
        // The reply was not shown: after an interruption the state is the one before.
        let after = std::mem::replace(&mut self.conversation, before);
        self.report_correction(text, &reply).await;
        self.run_trials(&mut reply, &here).await;
        let author = self.update_authors(&reply);
        let before = std::mem::replace(&mut self.conversation, after);
        if let Reply::Proposal(offer) | Reply::ChangedProposal(offer) = &reply {
            self.conversation.set_trials(&offer.trials);
        }
        self.trace_reply(&reply);
        let waited = before.shown();
        let (reply, here) = self.auto_approve(reply, author, waited, here).await?;
        self.add_to_history(text, &reply);
        Ok((reply, here))
    }

    /// Asks the LLM about a text with pictures, which the rules cannot read.
    async fn ask_about_pictures(
        &mut self,
        text: &str,
        attached: Vec<(String, Bytes)>,
        here: &mut SystemSnapshot,
    ) -> Result<Reply, Error> {
        self.llm_client()?;
        let Some(reply) = self.ask_llm(text, attached, here).await? else {
            // The rules would answer another request. Drop the pictures: kept, they would keep
            // every later text from the rules.
            let sentence = "the LLM did not look at the attached pictures, and they are removed; attach them again when the LLM answers, or ask without them";
            return Err(Error::failed(sentence));
        };
        self.is_llm_reply = true;
        Ok(reply)
    }

    /// Asks the LLM if the rules understood nothing, or only a part of a new request.
    async fn fall_back_to_llm(
        &mut self,
        text: &str,
        reply: Reply,
        before: &SessionState,
        here: &mut SystemSnapshot,
    ) -> Result<Reply, Error> {
        let needs_llm = match &reply {
            Reply::Unknown(_) => self.conversation.question().is_none(),
            // An answer to a question of the rules is read by the rules.
            partial => before.question().is_none() && router::is_partial(partial),
        };
        if !needs_llm {
            return Ok(reply);
        }
        // The rules' reply was not shown: after an interruption of the LLM the state is the one
        // before.
        let by_rules = std::mem::replace(&mut self.conversation, before.clone());
        match self.ask_llm(text, Vec::new(), here).await {
            Ok(Some(by_llm)) => {
                self.is_llm_reply = true;
                Ok(by_llm)
            }
            Ok(None) => {
                self.conversation = by_rules;
                Ok(reply)
            }
            Err(failure) => {
                self.conversation = before.clone();
                Err(failure)
            }
        }
    }

    /// Updates the authors while the state before the text is in place. Returns the author of the
    /// reply.
    fn update_authors(&mut self, reply: &Reply) -> Author {
        self.authors_before = self.authors;
        let mut author = match self.conversation.question() {
            _ if self.is_llm_reply => Author::Model,
            // An answer to a question about a rewording is joined to the rewording.
            Some(_) => self.authors.question,
            None => Author::Person,
        };
        if let Reply::Proposal(offer) = reply {
            // A correction of an LLM's words is still partly the LLM's.
            if !offer.corrections.is_empty() {
                author = self.authors.proposal;
            }
            self.authors.proposal = author;
        }
        self.authors.question = author;
        author
    }

    /// Restores what waited before a reply that was not shown, unless its proposal is gone: no
    /// later yes may concern another one.
    pub(super) fn restore_waiting(&mut self, before: Option<&ShownProposal>) {
        match before.filter(|_| self.pending_id().is_some()) {
            Some(shown) => self.conversation.wait_for(shown.clone()),
            None => self.conversation.drop_waiting(),
        }
        self.authors = self.authors_before;
    }

    /// Confirms a proposal by auto-approval: shows it with the configuration key and compares it
    /// with the current state. `before` is the proposal that waited before the text.
    async fn auto_approve(
        &mut self,
        reply: Reply,
        author: Author,
        before: Option<&ShownProposal>,
        here: SystemSnapshot,
    ) -> Result<(Reply, SystemSnapshot), Error> {
        let Reply::Proposal(offer) = &reply else {
            return Ok((reply, here));
        };
        let approval = match self.deps.approval.decide(offer, author) {
            Ok(approval) => approval,
            Err(why) => {
                let key = self.deps.approval.key();
                self.trace_event(
                    "policy",
                    || json!({"by": key, "decision": "asked", "sentence": why}),
                );
                return Ok((reply, here));
            }
        };
        if let Err(error) = self.drop_pending().await {
            self.restore_waiting(before);
            return Err(error.into());
        }
        if before.is_some() && offer.corrections.is_empty() {
            self.report_note("the previous proposal is dropped");
        }
        let sentence = format!(
            "confirmed by {}: {}",
            approval.key(),
            approval.kind().name()
        );
        let details = json!({
            "by": approval.key(), "decision": "confirmed", "change": approval.kind().name(),
            "request": offer.full_request(), "sentence": sentence,
        });
        self.audit_event("policy", details).await;
        self.show_proposal(offer, None, "");
        self.deps.out.report(ProgressEvent::Confirmed(&approval));
        let now = match self.fetch_snapshot().await {
            Ok(now) => now,
            Err(error) => {
                // It was shown as confirmed and is stored nowhere: no later yes may concern it.
                self.conversation.drop_waiting();
                return Err(error.into());
            }
        };
        let reply = self.conversation.auto_confirm(&approval, &self.plain, &now);
        self.trace_reply(&reply);
        Ok((reply, now))
    }

    /// Auto-approval of this entrypoint.
    pub fn approval_rules(&self) -> &ApprovalRules {
        &self.deps.approval
    }

    /// Runs the trial of a proposal; an LLM may have tried its own, but not for the price.
    async fn run_trials(&self, reply: &mut Reply, here: &SystemSnapshot) {
        let (Reply::Proposal(offer) | Reply::ChangedProposal(offer)) = reply else {
            return;
        };
        if !self.runs_trials {
            return;
        }
        let runner = TrialRunner {
            tools: self.tool_context(),
            here,
            trace: self.trace.as_ref(),
            out: Arc::clone(&self.deps.out),
        };
        offer.trials = runner.run(offer).await;
    }

    /// Handles a text by the rules: a user's own, or an LLM's rewording.
    pub(super) async fn apply_rules(
        &mut self,
        text: &str,
        here: &mut SystemSnapshot,
        handle: fn(&mut SessionState, &str, &Plain, &SystemSnapshot) -> Reply,
    ) -> Result<Reply, Error> {
        let reply = handle(&mut self.conversation, text, &self.plain, here);
        let Reply::ProbeCameras(cameras) = reply else {
            return Ok(reply);
        };
        self.probe_cameras(&cameras).await;
        *here = self.fetch_snapshot().await?;
        here.cameras_probed = true;
        Ok(handle(&mut self.conversation, text, &self.plain, here))
    }

    fn add_to_history(&mut self, text: &str, reply: &Reply) {
        if let Some(line) = self.history.add(text, reply) {
            self.trace_event("summarised", || json!({"text": line}));
        }
    }

    /// Has the runtime open these cameras, which yields their picture sizes. A camera without
    /// frames shows that in its state.
    async fn probe_cameras(&self, cameras: &[SourceId]) {
        let out = Arc::clone(&self.deps.out);
        out.report(ProgressEvent::Busy(
            "opening cameras without a known picture size",
        ));
        let looks: Vec<BoxFuture<'static, ()>> = cameras
            .iter()
            .take(MAX_PROBES)
            .map(|id| probe_camera(self.deps.client.clone(), id.clone()).boxed())
            .collect();
        futures_util::stream::iter(looks)
            .buffer_unordered(MAX_PARALLEL_PROBES)
            .collect::<Vec<()>>()
            .await;
        out.report(ProgressEvent::Idle);
    }

    pub(super) fn report_note(&self, note: &str) {
        self.deps.out.report(ProgressEvent::Note(note));
    }
}

async fn probe_camera(client: RuntimeClient, camera: SourceId) {
    if let Err(error) = client.source_frame(&camera).await {
        tracing::debug!(%camera, %error, "no frame");
    }
}
