//! Conversations with clients of the API: the registry of those that are open.
//!
//! A conversation is a task that owns its session (`task`) and handles one message at a time. A
//! client sends a message and follows the [`Feed`]; the work does not depend on followers.
//!
//! Invariants:
//! - [`Bounds`] limits their number and messages; an idle conversation, or a dead task's, ends.
//! - A message is accepted only while none is in progress.
//! - A confirmed change is carried out to its end, even if the conversation is deleted.
//! - Alerts reach the feeds of conversations that were opened with them, until those end.
//! - A proposal is on disk before it is shown. A message reopens its conversation after a
//!   restart or idle end.

mod deps;
mod handle;
mod organise;
mod task;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc, watch};
use ulid::Ulid;
use watchkeeper_assistant::alerts::{self, Alert};
use watchkeeper_assistant::permissions::{Entrypoint, may_answer};
use watchkeeper_assistant::proposal::pending::{PendingError, PendingProposal, PendingProposals};
use watchkeeper_http::closed;

use self::deps::Shared;
use self::handle::State;
use self::task::run_conversation;
use super::feed::Feed;

pub use deps::{Bounds, ConversationDeps, OpenClient};
pub use handle::{Awaiting, ConversationStatus, Handle, Message, Turn};

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

/// Registry of open conversations.
#[derive(Debug)]
pub struct Conversations {
    shared: Arc<Shared>,
    open: Mutex<BTreeMap<String, Arc<Handle>>>,
    /// Number of open conversations; [`Self::ended`] waits until it is zero.
    number: watch::Sender<usize>,
    /// Whether the journal is followed for alerts.
    has_alerts: AtomicBool,
}

impl Conversations {
    /// An empty registry. All conversations end when `closing` becomes true.
    pub fn new(
        deps: ConversationDeps,
        bounds: Bounds,
        closing: watch::Receiver<bool>,
    ) -> Arc<Self> {
        Arc::new(Self {
            shared: Arc::new(Shared {
                deps,
                bounds,
                in_progress: Arc::new(Semaphore::new(bounds.in_progress)),
                closing,
            }),
            open: Mutex::default(),
            number: watch::Sender::new(0),
            has_alerts: AtomicBool::new(false),
        })
    }

    pub fn deps(&self) -> &ConversationDeps {
        &self.shared.deps
    }

    pub fn bounds(&self) -> Bounds {
        self.shared.bounds
    }

    /// Conversations visible to the entrypoint `asks`, the oldest first.
    pub fn list(&self, asks: Entrypoint) -> Vec<Arc<Handle>> {
        let open = self.open.lock();
        let may = |handle: &&Arc<Handle>| may_answer(handle.entrypoint, asks).is_ok();
        open.values().filter(may).cloned().collect()
    }

    /// Opens a conversation, `with_alerts` in its feed or without.
    ///
    /// # Errors
    /// When the limit of open conversations is reached.
    pub fn begin(
        self: &Arc<Self>,
        entrypoint: Entrypoint,
        with_alerts: bool,
    ) -> Result<Arc<Handle>, ConversationError> {
        // Ids begin with the time, so the oldest is the first.
        let id = Ulid::new().to_string().to_lowercase();
        let handle = self.open_as(id, entrypoint, None)?;
        if with_alerts {
            handle.with_alerts.store(true, Ordering::Relaxed);
            self.follow_alerts();
        }
        Ok(handle)
    }

    /// Follows the journal from the first conversation with alerts until the API closes.
    fn follow_alerts(self: &Arc<Self>) {
        if self.has_alerts.swap(true, Ordering::Relaxed) {
            return;
        }
        let all = Arc::clone(self);
        tokio::spawn(async move {
            let client = all.shared.deps.client.clone();
            let following = alerts::follow(client, |alert| all.push_alert(&alert));
            tokio::select! {
                () = following => {}
                () = closed(all.shared.closing.clone()) => {}
            }
        });
    }

    fn push_alert(&self, alert: &Alert<'_>) {
        let json = alert.to_json();
        for handle in self.open.lock().values() {
            if handle.with_alerts.load(Ordering::Relaxed) {
                handle.feed.push(json.clone());
            }
        }
    }

    /// Finds an open conversation, or reopens the one of a pending proposal.
    ///
    /// # Errors
    /// When no conversation of this id is visible to the entrypoint `asks`.
    pub async fn find(
        self: &Arc<Self>,
        id: &str,
        asks: Entrypoint,
    ) -> Result<Arc<Handle>, ConversationError> {
        let found = self.open.lock().get(id).cloned();
        if let Some(handle) = found {
            return match may_answer(handle.entrypoint, asks) {
                Ok(()) => Ok(handle),
                Err(_) => Err(unknown(id)),
            };
        }
        let list = |all: &PendingProposals| all.list(Timestamp::now());
        let kept = self.shared.deps.waiting().in_background(list).await?;
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
    pub(crate) fn open_for_proposal(
        self: &Arc<Self>,
        kept: PendingProposal,
    ) -> Result<Arc<Handle>, ConversationError> {
        let id = kept.requester.as_ref().map(|by| by.conversation.as_str());
        let found = id.and_then(|id| self.open.lock().get(id).cloned());
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
        if *self.shared.closing.borrow() {
            return Err(ConversationError::Closing);
        }
        let mut open = self.open.lock();
        if let Some(handle) = open.get(&id) {
            return Ok(Arc::clone(handle));
        }
        let open_here = open.values().filter(|h| h.entrypoint == entrypoint).count();
        let limit = match entrypoint {
            Entrypoint::Remote if open_here >= self.shared.bounds.remote => {
                Some(self.shared.bounds.remote)
            }
            _ if open.len() >= self.shared.bounds.open => Some(self.shared.bounds.open),
            _ => None,
        };
        if let Some(limit) = limit {
            let idle_s = self.shared.bounds.idle.as_secs();
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
            with_alerts: AtomicBool::new(false),
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
        let shared = Arc::clone(&self.shared);
        let task = run_conversation(shared, Arc::clone(&handle), messages, kept);
        tokio::spawn(async move {
            let _guard = guard;
            task.await;
        });
        Ok(handle)
    }

    /// Sends a message to a conversation.
    ///
    /// # Errors
    /// When another message is in progress, or the limit of messages is reached.
    pub fn send(&self, handle: &Handle, message: Message) -> Result<Turn, ConversationError> {
        let mut state = handle.state.lock();
        if state.working {
            return Err(ConversationError::Working {
                id: handle.id.clone(),
                turn: state.turns,
            });
        }
        if state.turns >= self.shared.bounds.turns {
            return Err(ConversationError::Over {
                limit: self.shared.bounds.turns,
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

    /// Drops the pending proposal of a conversation, then ends it: in the other order a message in
    /// between would reopen it.
    pub async fn end(&self, handle: &Handle) {
        let waits = handle.state.lock().waits.clone();
        if let Awaiting::Yes {
            proposal: Some(id), ..
        } = waits
        {
            let deps = &self.shared.deps;
            let socket = deps.client.socket().to_path_buf();
            let take = move |all: &PendingProposals| all.take(&id, &socket, Timestamp::now());
            // A proposal that is gone was confirmed or rejected by the last message.
            if let Err(error) = deps.waiting().in_background(take).await {
                tracing::debug!(%error, "no proposal is pending any more");
            }
        }
        handle.ending.send_replace(true);
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
        let mut open = self.all.open.lock();
        open.remove(&self.handle.id);
        self.handle.over.send_replace(true);
        self.all.number.send_replace(open.len());
    }
}
