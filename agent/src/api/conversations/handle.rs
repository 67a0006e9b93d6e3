//! Handle of one conversation: its status, its inbox, and what a client sends and reads.
//!
//! - Invariant: the inbox has one place, and it is empty while no message is in progress.
//! - Not here: handling a message (`task`), limits (`deps`).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use watchkeeper_assistant::permissions::Entrypoint;

use crate::api::feed::Feed;

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
pub(super) struct State {
    pub(super) working: bool,
    pub(super) turns: u64,
    pub(super) waits: Awaiting,
}

/// Handle of an open conversation.
#[derive(Debug)]
pub struct Handle {
    /// Id of the conversation.
    pub id: String,
    /// Entrypoint that opened it.
    pub entrypoint: Entrypoint,
    pub(super) began: Timestamp,
    /// Events of the conversation.
    pub feed: Arc<Feed>,
    /// Whether alerts are added to `feed`.
    pub(super) with_alerts: AtomicBool,
    pub(super) state: Mutex<State>,
    pub(super) inbox: mpsc::Sender<Message>,
    /// True once the conversation must end.
    pub(super) ending: watch::Sender<bool>,
    /// True once its task has ended.
    pub(super) over: watch::Sender<bool>,
}

impl Handle {
    /// Returns its status.
    pub fn status(&self) -> ConversationStatus {
        let state = self.state.lock();
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
    pub fn over(&self) -> watch::Receiver<bool> {
        self.over.subscribe()
    }
}
