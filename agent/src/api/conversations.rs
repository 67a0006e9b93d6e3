//! Conversations with clients of the API: their number, their tasks, what each awaits.
//!
//! A conversation is a task that owns its [`Session`] and handles one message at a time. A client
//! sends a message and follows the [`Feed`]; the work does not depend on followers.
//!
//! Invariants:
//! - [`Bounds`] limits their number and messages; an idle conversation, or a dead task's, ends.
//! - A message is accepted only while none is in progress.
//! - A confirmed change is carried out to its end, even if the conversation is deleted.
//! - A proposal is on disk before it is shown. A message reopens its conversation after a
//!   restart or idle end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc, watch};
use ulid::Ulid;
use watchkeeper_config::{PermissionsConfig, redact};
use watchkeeper_http::closed;

use super::feed::{END, Feed};
use watchkeeper_assistant::failure::{Error, ErrorKind};
use watchkeeper_assistant::notes::Notes;
use watchkeeper_assistant::permissions::{Entrypoint, may_answer};
use watchkeeper_assistant::proposal::auto_approval::ApprovalRules;
use watchkeeper_assistant::proposal::chat_command::ChatCommand;
use watchkeeper_assistant::proposal::conversation::SessionState;
use watchkeeper_assistant::proposal::pending::{
    PendingError, PendingProposal, PendingProposals, Requester,
};
use watchkeeper_assistant::session::progress::{ProgressEvent, ProgressSink};
use watchkeeper_assistant::session::short_command::CommandResult;
use watchkeeper_assistant::session::user_session::{OpenLlm, ProposalStore, Session, SessionDeps};
use watchkeeper_client::RuntimeClient;

/// Limits of conversations.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Limit of open conversations.
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

/// What conversations share.
pub struct ConversationDeps {
    pub client: RuntimeClient,
    /// The detection model that the configuration prefers.
    pub preferred: Option<String>,
    /// Absent where no language model is configured.
    pub model: Option<OpenClient>,
    /// Provider of the language model.
    pub provider: Option<String>,
    /// Changes that need no confirmation.
    pub policy: PermissionsConfig,
    /// Folder of traces, proposals and notes.
    pub home: PathBuf,
    pub notes: Notes,
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
    fn parts(&self, entrypoint: Entrypoint, out: Arc<dyn ProgressSink>) -> SessionDeps {
        let model = self.model.clone();
        SessionDeps {
            client: self.client.clone(),
            preferred_model: self.preferred.clone(),
            open_llm: model.map(|open| Box::new(move || open()) as OpenLlm),
            provider: self.provider.clone(),
            approval: ApprovalRules::of(&self.policy, entrypoint),
            other_trace: None,
            notes: Some(self.notes.clone()),
            state_dir: Ok(self.home.clone()),
            entrypoint,
            out,
        }
    }

    /// Opens the folder of pending proposals.
    #[must_use]
    pub fn waiting(&self) -> PendingProposals {
        PendingProposals::new(&self.home)
    }
}

/// A user's message.
#[derive(Debug)]
pub struct Message {
    pub text: String,
    /// Whether the LLM handles it without trying the rules.
    pub think: bool,
    /// Name of the blueprint; absent: the one for set-up.
    pub blueprint: Option<String>,
    /// Pictures with their names.
    pub images: Vec<(String, Bytes)>,
    /// Id of the only proposal that it may answer; absent: any pending one.
    pub about: Option<String>,
}

impl Message {
    /// An answer to proposal `id`.
    #[must_use]
    pub fn about(id: &str, word: &str) -> Self {
        Self {
            text: word.to_owned(),
            think: false,
            blueprint: None,
            images: Vec::new(),
            about: Some(id.to_owned()),
        }
    }
}

/// Why a message or a new conversation is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConversationError {
    /// The limit of open conversations is reached.
    #[error(
        "{limit} conversations are open; end one (DELETE /v1/conversations/ID), or wait: an idle \
         one ends after {idle_s} s"
    )]
    TooMany { limit: usize, idle_s: u64 },
    /// Another message is in progress.
    #[error(
        "message {turn} is in progress; wait for its event `end` at GET \
         /v1/conversations/{id}/events/stream"
    )]
    Working { id: String, turn: u64 },
    /// The limit of messages is reached.
    #[error(
        "the conversation reached its {limit} messages; open another one (POST \
     /v1/conversations)"
    )]
    Over { limit: u64 },
    /// No such conversation.
    #[error("conversation {id:?} does not exist; GET /v1/conversations lists the open ones")]
    Unknown {
        /// Id from the request, shortened.
        id: String,
    },
    /// The pending proposals are unreadable.
    #[error(transparent)]
    Waiting(#[from] PendingError),
    /// The agent stops.
    #[error("the agent is stopping; try again in a moment")]
    Closing,
}

/// What a conversation waits for.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum Awaiting {
    /// Waits for the next message.
    Nothing,
    /// Waits for the answer to a question.
    Answer {
        /// Text of the question.
        question: String,
        /// Suggested answers; empty if the answer is free text.
        choices: Vec<String>,
    },
    /// Waits for a confirmation (`yes`) or a rejection (`no`).
    Yes {
        /// Id of the proposal.
        proposal: Option<String>,
        /// Request that led to the proposal.
        request: String,
    },
}

/// Status of a conversation.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct ConversationStatus {
    /// Id of the conversation.
    pub id: String,
    /// Entrypoint that opened it: `local` (the socket) or `remote` (TCP).
    #[schema(value_type = String)]
    pub channel: Entrypoint,
    /// Time at which it was opened.
    #[schema(value_type = String)]
    pub began: Timestamp,
    /// Whether a message is in progress.
    pub working: bool,
    /// Number of accepted messages.
    pub turns: u64,
    /// What it waits for, while no message is in progress.
    pub waits: Awaiting,
    /// Latest plan of the language model for the message: steps, each with `step` and `done`.
    #[schema(value_type = Vec<Object>)]
    pub plan: Vec<Value>,
    /// Number of its last event.
    pub last_event: u64,
}

/// An accepted message.
#[derive(Debug, Clone, Copy)]
pub struct Turn {
    /// Number of the message in its conversation.
    pub turn: u64,
    /// Number of the last event before it.
    pub after: u64,
}

#[derive(Debug)]
struct State {
    working: bool,
    turns: u64,
    waits: Awaiting,
}

/// Handle of an open conversation.
#[derive(Debug)]
pub struct Handle {
    /// Id of the conversation.
    pub id: String,
    /// Entrypoint that opened it.
    pub entrypoint: Entrypoint,
    began: Timestamp,
    /// Events of the conversation.
    pub feed: Arc<Feed>,
    state: Mutex<State>,
    inbox: mpsc::Sender<Message>,
    /// True once the conversation must end.
    ending: watch::Sender<bool>,
    /// True once its task has ended.
    over: watch::Sender<bool>,
}

impl Handle {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns its status.
    #[must_use]
    pub fn status(&self) -> ConversationStatus {
        let state = self.state();
        ConversationStatus {
            id: self.id.clone(),
            channel: self.entrypoint,
            began: self.began,
            working: state.working,
            turns: state.turns,
            waits: state.waits.clone(),
            plan: self.feed.plan(),
            last_event: self.feed.last(),
        }
    }

    /// Becomes true when the conversation's task has ended.
    #[must_use]
    pub fn over(&self) -> watch::Receiver<bool> {
        self.over.subscribe()
    }
}

/// Registry of open conversations.
#[derive(Debug)]
pub struct Conversations {
    deps: ConversationDeps,
    bounds: Bounds,
    open: Mutex<BTreeMap<String, Arc<Handle>>>,
    /// Number of open conversations; [`Self::ended`] waits until it is zero.
    number: watch::Sender<usize>,
    in_progress: Arc<Semaphore>,
    closing: watch::Receiver<bool>,
}

impl Conversations {
    /// An empty registry. All conversations end when `closing` becomes true.
    #[must_use]
    pub fn new(
        deps: ConversationDeps,
        bounds: Bounds,
        closing: watch::Receiver<bool>,
    ) -> Arc<Self> {
        Arc::new(Self {
            deps,
            bounds,
            open: Mutex::default(),
            number: watch::Sender::new(0),
            in_progress: Arc::new(Semaphore::new(bounds.in_progress)),
            closing,
        })
    }

    /// Returns what conversations share.
    #[must_use]
    pub fn deps(&self) -> &ConversationDeps {
        &self.deps
    }

    /// Returns the limits.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Handle>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Conversations visible to the entrypoint `asks`, the oldest first.
    #[must_use]
    pub fn list(&self, asks: Entrypoint) -> Vec<Arc<Handle>> {
        let open = self.open();
        let may = |handle: &&Arc<Handle>| may_answer(handle.entrypoint, asks).is_ok();
        open.values().filter(may).cloned().collect()
    }

    /// Opens a conversation.
    ///
    /// # Errors
    /// When the limit of open conversations is reached.
    pub fn begin(
        self: &Arc<Self>,
        entrypoint: Entrypoint,
    ) -> Result<Arc<Handle>, ConversationError> {
        // Ids begin with the time, so the oldest is the first.
        let id = Ulid::new().to_string().to_lowercase();
        self.open_as(id, entrypoint, None)
    }

    /// Finds an open conversation, or reopens the one of a pending proposal.
    ///
    /// # Errors
    /// When no conversation of this id is visible to the entrypoint `asks`.
    pub fn find(
        self: &Arc<Self>,
        id: &str,
        asks: Entrypoint,
    ) -> Result<Arc<Handle>, ConversationError> {
        let found = self.open().get(id).cloned();
        if let Some(handle) = found {
            return match may_answer(handle.entrypoint, asks) {
                Ok(()) => Ok(handle),
                Err(_) => Err(unknown(id)),
            };
        }
        let kept = self.deps.waiting().list(Timestamp::now())?;
        let is_its = |kept: &PendingProposal| {
            let by = kept.requester.as_ref();
            by.is_some_and(|by| by.conversation == id && may_answer(by.entrypoint, asks).is_ok())
        };
        match kept.into_iter().rev().find(is_its) {
            Some(kept) => self.reopen(kept),
            None => Err(unknown(id)),
        }
    }

    /// The conversation of a proposal, reopened if needed.
    ///
    /// # Errors
    /// When the limit of open conversations is reached.
    pub fn open_for_proposal(
        self: &Arc<Self>,
        kept: PendingProposal,
    ) -> Result<Arc<Handle>, ConversationError> {
        let id = kept.requester.as_ref().map(|by| by.conversation.as_str());
        let found = id.and_then(|id| self.open().get(id).cloned());
        match found {
            Some(handle) => Ok(handle),
            None => self.reopen(kept),
        }
    }

    fn reopen(self: &Arc<Self>, kept: PendingProposal) -> Result<Arc<Handle>, ConversationError> {
        let Some(by) = kept.requester.clone() else {
            return Err(unknown(&kept.id));
        };
        self.open_as(by.conversation, by.entrypoint, Some(kept))
    }

    fn open_as(
        self: &Arc<Self>,
        id: String,
        entrypoint: Entrypoint,
        kept: Option<PendingProposal>,
    ) -> Result<Arc<Handle>, ConversationError> {
        if *self.closing.borrow() {
            return Err(ConversationError::Closing);
        }
        let mut open = self.open();
        if let Some(handle) = open.get(&id) {
            return Ok(Arc::clone(handle));
        }
        let open_here = open.values().filter(|h| h.entrypoint == entrypoint).count();
        let limit = match entrypoint {
            Entrypoint::Remote if open_here >= self.bounds.remote => Some(self.bounds.remote),
            _ if open.len() >= self.bounds.open => Some(self.bounds.open),
            _ => None,
        };
        if let Some(limit) = limit {
            let idle_s = self.bounds.idle.as_secs();
            return Err(ConversationError::TooMany { limit, idle_s });
        }
        let (inbox, messages) = mpsc::channel(1);
        let waits = kept
            .as_ref()
            .map_or(Awaiting::Nothing, |kept| Awaiting::Yes {
                proposal: Some(kept.id.clone()),
                request: kept.shown.full_request(),
            });
        let handle = Arc::new(Handle {
            id: id.clone(),
            entrypoint,
            began: Timestamp::now(),
            feed: Arc::new(Feed::default()),
            state: Mutex::new(State {
                working: false,
                turns: 0,
                waits,
            }),
            inbox,
            ending: watch::Sender::new(false),
            over: watch::Sender::new(false),
        });
        open.insert(id, Arc::clone(&handle));
        self.number.send_replace(open.len());
        drop(open);
        let guard = RemoveOnDrop {
            all: Arc::clone(self),
            handle: Arc::clone(&handle),
        };
        tokio::spawn(run_conversation(guard, messages, kept));
        Ok(handle)
    }

    /// Sends a message to a conversation.
    ///
    /// # Errors
    /// When another message is in progress, or the limit of messages is reached.
    pub fn send(&self, handle: &Handle, message: Message) -> Result<Turn, ConversationError> {
        let mut state = handle.state();
        if state.working {
            return Err(ConversationError::Working {
                id: handle.id.clone(),
                turn: state.turns,
            });
        }
        if state.turns >= self.bounds.turns {
            return Err(ConversationError::Over {
                limit: self.bounds.turns,
            });
        }
        let turn = state.turns + 1;
        let after = handle.feed.begin(turn);
        // The inbox is empty while no message is in progress; only an ended task rejects one.
        let sent = handle.inbox.try_send(message);
        sent.map_err(|_| unknown(&handle.id))?;
        state.turns = turn;
        state.working = true;
        Ok(Turn { turn, after })
    }

    /// Ends a conversation and drops its pending proposal.
    pub fn end(&self, handle: &Handle) {
        handle.ending.send_replace(true);
        let waits = handle.state().waits.clone();
        if let Awaiting::Yes {
            proposal: Some(id), ..
        } = waits
        {
            let socket = self.deps.client.socket();
            // A proposal that is gone was confirmed or rejected by the last message.
            if let Err(error) = self.deps.waiting().take(&id, socket, Timestamp::now()) {
                tracing::debug!(%error, "no proposal is pending any more");
            }
        }
    }

    /// Waits until no conversation is open.
    pub async fn ended(&self) {
        // `self` holds the sender, so the channel stays open.
        self.number
            .subscribe()
            .wait_for(|open| *open == 0)
            .await
            .ok();
    }
}

fn unknown(id: &str) -> ConversationError {
    ConversationError::Unknown {
        id: id.chars().take(40).collect(),
    }
}

/// Removes a conversation when its task ends, even by a panic.
struct RemoveOnDrop {
    all: Arc<Conversations>,
    handle: Arc<Handle>,
}

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        let mut open = self.all.open();
        open.remove(&self.handle.id);
        self.handle.over.send_replace(true);
        self.all.number.send_replace(open.len());
    }
}

/// The task of a conversation.
async fn run_conversation(
    guard: RemoveOnDrop,
    mut messages: mpsc::Receiver<Message>,
    kept: Option<PendingProposal>,
) {
    let (all, handle) = (Arc::clone(&guard.all), Arc::clone(&guard.handle));
    let out: Arc<dyn ProgressSink> = Arc::clone(&handle.feed) as _;
    let parts = all.deps.parts(handle.entrypoint, out);
    let mut session = match Session::new(parts) {
        Ok(session) => session.with_store(ProposalStore {
            pending: all.deps.waiting(),
            requester: Requester {
                entrypoint: handle.entrypoint,
                conversation: handle.id.clone(),
            },
            id: kept.as_ref().map(|kept| kept.id.clone()),
        }),
        Err(failure) => return handle.feed.report(ProgressEvent::Failure(&failure)),
    };
    if let Some(kept) = kept {
        session.conversation = SessionState::from_shown(kept.shown);
    }
    loop {
        let message = tokio::select! {
            biased;
            () = closed(all.closing.clone()) => break,
            () = closed(handle.ending.subscribe()) => break,
            message = messages.recv() => message,
            () = tokio::time::sleep(all.bounds.idle) => break,
        };
        let Some(message) = message else {
            break;
        };
        // Followers see the text without the secrets that the assistant redacts.
        let text = redact::said(&message.text).unwrap_or_else(|| message.text.clone());
        handle.feed.push(json!({"type": "heard", "text": text}));
        let ended =
            handle_message(Arc::clone(&all), Arc::clone(&handle), &mut session, message).await;
        if let Err(failure) = &ended {
            handle.feed.report(ProgressEvent::Failure(failure));
        }
        session.settle();
        let waits = waits(&session);
        let mut end = json!({"type": END, "failed": ended.is_err(), "waits": waits});
        // Only an answered message says whether the LLM or the rules answered it.
        if ended.is_ok() {
            end["by_model"] = Value::from(session.is_llm_reply);
        }
        {
            let mut state = handle.state();
            state.waits = waits;
            state.working = false;
            handle.feed.push(end);
        }
    }
}

/// Handles a message. The end of the conversation cancels a request, but no confirmed change.
async fn handle_message(
    all: Arc<Conversations>,
    handle: Arc<Handle>,
    session: &mut Session,
    message: Message,
) -> Result<(), Error> {
    if message.about.is_some() && message.about.as_deref() != session.pending_id() {
        return Err(Error::input(
            "this proposal is no longer pending: it was confirmed or rejected; request it again",
        ));
    }
    let before = session.conversation.shown().cloned();
    let heard = tokio::select! {
        biased;
        heard = run_message(Arc::clone(&all), Arc::clone(&handle), session, message) => heard,
        () = closed(all.closing.clone()) => Err(given_up("the agent stops")),
        () = closed(handle.ending.subscribe()) => Err(given_up("the conversation was ended")),
    };
    match heard? {
        CommandResult::Reply(reply, here) => session.deliver(before.as_ref(), *reply, &here).await,
        CommandResult::Done => Ok(()),
    }
}

/// Runs the rules or the LLM on a message, once a slot is free.
async fn run_message(
    all: Arc<Conversations>,
    handle: Arc<Handle>,
    session: &mut Session,
    message: Message,
) -> Result<CommandResult, Error> {
    let in_progress = Arc::clone(&all.in_progress);
    let mut place = in_progress.clone().try_acquire_owned().ok();
    if place.is_none() {
        let reason = "other conversations are in progress; this one waits for a free slot";
        handle.feed.report(ProgressEvent::Busy(reason));
        // The semaphore is never closed.
        place = in_progress.acquire_owned().await.ok();
    }
    for (name, picture) in message.images {
        session.attach(&name, picture)?;
    }
    let understood = if message.think {
        let command = ChatCommand::Think {
            blueprint: message.blueprint,
            text: message.text,
        };
        session.run_command(command).await
    } else {
        session.handle_input(&message.text).await
    };
    drop(place);
    understood
}

fn given_up(why: &str) -> Error {
    Error::new(
        ErrorKind::Failed,
        format!(
            "{why}; the request was cancelled and nothing was changed. Send it again within an \
             hour to continue where a language model stopped"
        ),
    )
}

fn waits(session: &Session) -> Awaiting {
    let conversation = &session.conversation;
    match (conversation.shown(), conversation.question()) {
        (Some(shown), _) => Awaiting::Yes {
            proposal: session.pending_id().map(str::to_owned),
            request: shown.full_request(),
        },
        (None, Some(question)) => Awaiting::Answer {
            question: question.text.clone(),
            choices: question.choices.clone(),
        },
        (None, None) => Awaiting::Nothing,
    }
}
