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
    /// Limit of those over TCP, so that they leave room for the box's own.
    pub remote: usize,
    /// Limit of messages per conversation.
    pub turns: u64,
    /// Idle time after which a conversation ends.
    pub idle: Duration,
    /// Limit of messages in progress; the others queue.
    pub at_work: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            open: 16,
            remote: 12,
            turns: 200,
            idle: Duration::from_secs(1800),
            at_work: 4,
        }
    }
}

/// Opens the LLM client; the error is a sentence for a user.
pub type OpensModel = Arc<dyn Fn() -> Result<watchkeeper_llm::Client, String> + Send + Sync>;

/// What every conversation needs.
pub struct ConversationDeps {
    pub client: RuntimeClient,
    /// The detection model that the configuration prefers.
    pub preferred: Option<String>,
    /// Absent where no language model is configured.
    pub model: Option<OpensModel>,
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
    /// What one session needs.
    fn parts(&self, channel: Entrypoint, out: Arc<dyn ProgressSink>) -> SessionDeps {
        let model = self.model.clone();
        SessionDeps {
            client: self.client.clone(),
            preferred_model: self.preferred.clone(),
            open_llm: model.map(|open| Box::new(move || open()) as OpenLlm),
            provider: self.provider.clone(),
            approval: ApprovalRules::of(&self.policy, channel),
            other_trace: None,
            notes: Some(self.notes.clone()),
            state_dir: Ok(self.home.clone()),
            entrypoint: channel,
            out,
        }
    }

    /// The pending proposals.
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
pub enum NotTaken {
    /// The limit of open conversations is reached.
    #[error(
        "{most} conversations are open; end one (DELETE /v1/conversations/ID), or wait: one that nobody uses ends after {idle_s} s"
    )]
    TooMany {
        /// The limit.
        most: usize,
        idle_s: u64,
    },
    /// Another message is in progress.
    #[error(
        "the conversation works on message {turn}; wait for its end, which GET /v1/conversations/{id}/events/stream tells"
    )]
    Working { id: String, turn: u64 },
    /// The limit of messages is reached.
    #[error("the conversation had its {most} messages; begin another one (POST /v1/conversations)")]
    Over {
        /// The limit.
        most: u64,
    },
    /// No such conversation.
    #[error("there is no conversation {id:?}; GET /v1/conversations lists those that there are")]
    Unknown {
        /// The id, shortened.
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
    /// The next message.
    Nothing,
    /// The answer to a question.
    Answer {
        /// The question.
        question: String,
        /// What could be answered; empty where it is something else.
        choices: Vec<String>,
    },
    /// A yes or a no.
    Yes {
        /// The proposal.
        proposal: Option<String>,
        /// The words that it was made for.
        request: String,
    },
}

/// How a conversation is.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct ConversationStatus {
    /// Its id.
    pub id: String,
    /// Which way it was begun: `local` over the socket, `remote` over TCP.
    #[schema(value_type = String)]
    pub channel: Entrypoint,
    /// When it was begun.
    #[schema(value_type = String)]
    pub began: Timestamp,
    /// Whether a message is being worked on.
    pub working: bool,
    /// How many messages it had.
    pub turns: u64,
    /// What it waits for, once it does not work.
    pub waits: Awaiting,
    /// What a model means to do about the message, as it said last; its steps, each with `step` and `done`.
    #[schema(value_type = Vec<Object>)]
    pub plan: Vec<Value>,
    /// Number of its last event.
    pub last_event: u64,
}

/// A message that was taken.
#[derive(Debug, Clone, Copy)]
pub struct Turn {
    /// Its number.
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

/// A conversation, as others see it.
#[derive(Debug)]
pub struct Handle {
    /// Its id.
    pub id: String,
    /// Which way it was begun.
    pub channel: Entrypoint,
    began: Timestamp,
    /// What happens in it.
    pub feed: Arc<Feed>,
    state: Mutex<State>,
    inbox: mpsc::Sender<Message>,
    /// True once it is to end.
    ending: watch::Sender<bool>,
    /// True once nothing happens in it any more.
    over: watch::Sender<bool>,
}

impl Handle {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it is.
    #[must_use]
    pub fn status(&self) -> ConversationStatus {
        let state = self.state();
        ConversationStatus {
            id: self.id.clone(),
            channel: self.channel,
            began: self.began,
            working: state.working,
            turns: state.turns,
            waits: state.waits.clone(),
            plan: self.feed.plan(),
            last_event: self.feed.last(),
        }
    }

    /// Turns true when nothing happens in it any more.
    #[must_use]
    pub fn over(&self) -> watch::Receiver<bool> {
        self.over.subscribe()
    }
}

/// All conversations.
#[derive(Debug)]
pub struct Conversations {
    deps: ConversationDeps,
    bounds: Bounds,
    open: Mutex<BTreeMap<String, Arc<Handle>>>,
    /// How many are open; those that wait for the end of all wait for it to be none.
    number: watch::Sender<usize>,
    at_work: Arc<Semaphore>,
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
            at_work: Arc::new(Semaphore::new(bounds.at_work)),
            closing,
        })
    }

    /// What they work with.
    #[must_use]
    pub fn deps(&self) -> &ConversationDeps {
        &self.deps
    }

    /// Their bounds.
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
        let may = |handle: &&Arc<Handle>| may_answer(handle.channel, asks).is_ok();
        open.values().filter(may).cloned().collect()
    }

    /// Opens a conversation.
    ///
    /// # Errors
    /// When the limit of open conversations is reached.
    pub fn begin(self: &Arc<Self>, channel: Entrypoint) -> Result<Arc<Handle>, NotTaken> {
        // Ids begin with the time, so the oldest is the first.
        let id = Ulid::new().to_string().to_lowercase();
        self.open_as(id, channel, None)
    }

    /// Finds a conversation, or reopens it where only its proposal is left.
    ///
    /// # Errors
    /// When none of this id is visible to the entrypoint `asks`.
    pub fn find(self: &Arc<Self>, id: &str, asks: Entrypoint) -> Result<Arc<Handle>, NotTaken> {
        let found = self.open().get(id).cloned();
        if let Some(handle) = found {
            return match may_answer(handle.channel, asks) {
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
            Some(kept) => self.open_again(kept),
            None => Err(unknown(id)),
        }
    }

    /// The conversation of a proposal, reopened if needed.
    ///
    /// # Errors
    /// When the limit of open conversations is reached.
    pub fn of_offer(self: &Arc<Self>, kept: PendingProposal) -> Result<Arc<Handle>, NotTaken> {
        let id = kept.requester.as_ref().map(|by| by.conversation.as_str());
        let found = id.and_then(|id| self.open().get(id).cloned());
        match found {
            Some(handle) => Ok(handle),
            None => self.open_again(kept),
        }
    }

    fn open_again(self: &Arc<Self>, kept: PendingProposal) -> Result<Arc<Handle>, NotTaken> {
        let Some(by) = kept.requester.clone() else {
            return Err(unknown(&kept.id));
        };
        self.open_as(by.conversation, by.entrypoint, Some(kept))
    }

    fn open_as(
        self: &Arc<Self>,
        id: String,
        channel: Entrypoint,
        kept: Option<PendingProposal>,
    ) -> Result<Arc<Handle>, NotTaken> {
        if *self.closing.borrow() {
            return Err(NotTaken::Closing);
        }
        let mut open = self.open();
        if let Some(handle) = open.get(&id) {
            return Ok(Arc::clone(handle));
        }
        let of_channel = open.values().filter(|h| h.channel == channel).count();
        let most = match channel {
            Entrypoint::Remote if of_channel >= self.bounds.remote => Some(self.bounds.remote),
            _ if open.len() >= self.bounds.open => Some(self.bounds.open),
            _ => None,
        };
        if let Some(most) = most {
            let idle_s = self.bounds.idle.as_secs();
            return Err(NotTaken::TooMany { most, idle_s });
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
            channel,
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
        let leaving = Leaving {
            all: Arc::clone(self),
            handle: Arc::clone(&handle),
        };
        tokio::spawn(converse(leaving, messages, kept));
        Ok(handle)
    }

    /// Sends a message to a conversation.
    ///
    /// # Errors
    /// When another message is in progress, or the limit of messages is reached.
    pub fn say(&self, handle: &Handle, message: Message) -> Result<Turn, NotTaken> {
        let mut state = handle.state();
        if state.working {
            return Err(NotTaken::Working {
                id: handle.id.clone(),
                turn: state.turns,
            });
        }
        if state.turns >= self.bounds.turns {
            return Err(NotTaken::Over {
                most: self.bounds.turns,
            });
        }
        let turn = state.turns + 1;
        let after = handle.feed.begin(turn);
        // It is empty while nothing is worked on; who is gone does not take any more.
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
            // One that is gone was confirmed, or put aside by what was said last.
            if let Err(error) = self.deps.waiting().take(&id, socket, Timestamp::now()) {
                tracing::debug!(%error, "no proposal waits any more");
            }
        }
    }

    /// Waits until no conversation is open.
    pub async fn ended(&self) {
        // The sender is in here.
        self.number
            .subscribe()
            .wait_for(|open| *open == 0)
            .await
            .ok();
    }
}

fn unknown(id: &str) -> NotTaken {
    NotTaken::Unknown {
        id: id.chars().take(40).collect(),
    }
}

/// Removes a conversation when its task ends, even by a panic.
struct Leaving {
    all: Arc<Conversations>,
    handle: Arc<Handle>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let mut open = self.all.open();
        open.remove(&self.handle.id);
        self.handle.over.send_replace(true);
        self.all.number.send_replace(open.len());
    }
}

/// The task of a conversation.
async fn converse(
    leaving: Leaving,
    mut messages: mpsc::Receiver<Message>,
    kept: Option<PendingProposal>,
) {
    let (all, handle) = (Arc::clone(&leaving.all), Arc::clone(&leaving.handle));
    let out: Arc<dyn ProgressSink> = Arc::clone(&handle.feed) as _;
    let parts = all.deps.parts(handle.channel, out);
    let mut assist = match Session::new(parts) {
        Ok(assist) => assist.with_store(ProposalStore {
            pending: all.deps.waiting(),
            requester: Requester {
                entrypoint: handle.channel,
                conversation: handle.id.clone(),
            },
            id: kept.as_ref().map(|kept| kept.id.clone()),
        }),
        Err(failure) => return handle.feed.report(ProgressEvent::Failure(&failure)),
    };
    if let Some(kept) = kept {
        assist.conversation = SessionState::from_shown(kept.shown);
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
        // Followers are not shown what the assistant leaves out when it hears the same words, and tells so.
        let text = redact::said(&message.text).unwrap_or_else(|| message.text.clone());
        handle.feed.push(json!({"type": "heard", "text": text}));
        let ended = hear(Arc::clone(&all), Arc::clone(&handle), &mut assist, message).await;
        if let Err(failure) = &ended {
            handle.feed.report(ProgressEvent::Failure(failure));
        }
        assist.settle();
        let waits = waits(&assist);
        let mut end = json!({"type": END, "failed": ended.is_err(), "waits": waits});
        // A no, a look-up and a failure were nobody's understanding.
        if ended.is_ok() {
            end["by_model"] = Value::from(assist.is_llm_reply);
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
async fn hear(
    all: Arc<Conversations>,
    handle: Arc<Handle>,
    assist: &mut Session,
    message: Message,
) -> Result<(), Error> {
    if message.about.is_some() && message.about.as_deref() != assist.pending_id() {
        return Err(Error::input(
            "this proposal waits no more: it was confirmed or put aside; ask again",
        ));
    }
    let before = assist.conversation.shown().cloned();
    let heard = tokio::select! {
        biased;
        heard = understand(Arc::clone(&all), Arc::clone(&handle), assist, message) => heard,
        () = closed(all.closing.clone()) => Err(given_up("the agent stops")),
        () = closed(handle.ending.subscribe()) => Err(given_up("the conversation was ended")),
    };
    match heard? {
        CommandResult::Reply(reply, here) => assist.deliver(before.as_ref(), *reply, &here).await,
        CommandResult::Done => Ok(()),
    }
}

/// Runs the rules or the LLM on a message, once a slot is free.
async fn understand(
    all: Arc<Conversations>,
    handle: Arc<Handle>,
    assist: &mut Session,
    message: Message,
) -> Result<CommandResult, Error> {
    let at_work = Arc::clone(&all.at_work);
    let mut place = at_work.clone().try_acquire_owned().ok();
    if place.is_none() {
        let told = "other conversations are worked in; this one waits for its turn";
        handle.feed.report(ProgressEvent::Busy(told));
        // Never closed.
        place = at_work.acquire_owned().await.ok();
    }
    for (name, picture) in message.images {
        assist.attach(&name, picture)?;
    }
    let understood = if message.think {
        let command = ChatCommand::Think {
            blueprint: message.blueprint,
            text: message.text,
        };
        assist.run_command(command).await
    } else {
        assist.handle_input(&message.text).await
    };
    drop(place);
    understood
}

fn given_up(why: &str) -> Error {
    Error::new(
        ErrorKind::Failed,
        format!(
            "{why}; the request was given up and nothing was changed. The same words within an hour go on where a model was"
        ),
    )
}

fn waits(assist: &Session) -> Awaiting {
    let conversation = &assist.conversation;
    match (conversation.shown(), conversation.question()) {
        (Some(shown), _) => Awaiting::Yes {
            proposal: assist.pending_id().map(str::to_owned),
            request: shown.full_request(),
        },
        (None, Some(question)) => Awaiting::Answer {
            question: question.text.clone(),
            choices: question.choices.clone(),
        },
        (None, None) => Awaiting::Nothing,
    }
}
