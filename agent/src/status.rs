//! How things stand with the agent, for whoever asks its loop.
//!
//! Invariant: the loop answers by itself, so an answer says that it works.

use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use watchkeeper_contract::id::ChannelId;

use crate::notify::health::ChannelHealth;
use crate::second_opinion;

/// Questions that wait at most; whoever asks then waits for a place.
const ASKED_AT_ONCE: usize = 8;

/// How things stand.
#[derive(Debug, Clone, Serialize)]
pub struct Standing {
    /// The way to the broker.
    pub mqtt: MqttStanding,
    /// What waits for the broker.
    pub outbox: OutboxStanding,
    /// How each channel fares, in the order of their names.
    pub channels: Vec<ChannelStanding>,
    /// What came of second opinions.
    pub opinions: second_opinion::Counts,
}

/// How a channel fares.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct ChannelStanding {
    /// Which.
    pub channel: String,
    /// Events that were told there since the agent's start.
    pub told: u64,
    /// Events that were given up since then.
    pub given_up: u64,
    /// Why nothing gets through, where that is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

impl ChannelStanding {
    pub(crate) fn of((channel, fare): (ChannelId, ChannelHealth)) -> Self {
        Self {
            channel: channel.to_string(),
            told: fare.counts.told,
            given_up: fare.counts.given_up,
            trouble: fare.trouble,
        }
    }
}

/// The way to the broker.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct MqttStanding {
    /// Whether a broker is configured.
    pub configured: bool,
    /// Whether there is a session with it.
    pub connected: bool,
    /// Why there is none, as it was heard last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What waits for the broker.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct OutboxStanding {
    /// Events that wait or are under way.
    pub events: usize,
    /// Bytes of all that waits.
    pub bytes: u64,
    /// Answers to commands and losses that wait or are under way.
    pub assured: usize,
    /// Messages that the broker acknowledged since the agent's start.
    pub acked: u64,
    /// Messages that had to be dropped since the agent's start; each is in a loss record.
    pub dropped: u64,
    /// Number of the last event of the journal that is in the outbox or was in it.
    pub cursor: u64,
}

/// The way to the loop.
#[derive(Debug)]
pub(crate) struct Questions {
    asks: mpsc::Sender<oneshot::Sender<Standing>>,
    asked: mpsc::Receiver<oneshot::Sender<Standing>>,
}

impl Questions {
    pub(crate) fn new() -> Self {
        let (asks, asked) = mpsc::channel(ASKED_AT_ONCE);
        Self { asks, asked }
    }

    /// For those who ask.
    pub(crate) fn asks(&self) -> mpsc::Sender<oneshot::Sender<Standing>> {
        self.asks.clone()
    }

    /// The next question. Never ends: one who may ask is in here.
    pub(crate) async fn next(&mut self) -> oneshot::Sender<Standing> {
        match self.asked.recv().await {
            Some(question) => question,
            None => std::future::pending().await,
        }
    }
}
