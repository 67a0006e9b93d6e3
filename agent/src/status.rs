//! The agent's status, answered by its loop.
//!
//! Invariant: the loop itself answers, so an answer proves that the loop turns.

use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use watchkeeper_contract::id::ChannelId;

use crate::evidence;
use crate::notify::health::ChannelHealth;
use crate::second_opinion;

/// Capacity of the request queue; a caller beyond it waits.
const MAX_REQUESTS: usize = 8;

/// Status of the agent.
#[derive(Debug, Clone, Serialize)]
pub struct AgentStatus {
    /// One sentence per problem of the agent: of the disk, the outbox and the channels, and those
    /// that the API's thread sent last.
    pub problems: Vec<String>,
    pub mqtt: MqttStatus,
    pub outbox: OutboxStatus,
    /// Each channel, ordered by name.
    pub channels: Vec<ChannelStatus>,
    pub opinions: second_opinion::Counts,
    pub chains: evidence::counts::Counts,
}

/// Status of one notification channel.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct ChannelStatus {
    /// Name of the channel.
    pub channel: String,
    /// Events delivered since the agent's start.
    pub told: u64,
    /// Events given up since the agent's start.
    pub given_up: u64,
    /// Error of the last delivery, while the channel fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

impl ChannelStatus {
    pub(crate) fn of((channel, health): (ChannelId, ChannelHealth)) -> Self {
        Self {
            channel: channel.to_string(),
            told: health.counts.delivered,
            given_up: health.counts.given_up,
            trouble: health.trouble,
        }
    }
}

/// Status of the session with the broker.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MqttStatus {
    /// Whether a broker is configured.
    pub configured: bool,
    /// Whether a session is up.
    pub connected: bool,
    /// Reason of the last disconnect, while not connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Command requests refused since the agent's start: invalid, too large, expired or too many.
    pub refused_requests: u64,
}

impl MqttStatus {
    /// The problem of a configured broker without a session; the agent's `reasons` have it.
    pub fn problem(&self) -> Option<String> {
        let why = self.why.as_deref().unwrap_or("connecting");
        let is_away = self.configured && !self.connected;
        is_away.then(|| format!("there is no session with the broker: {why}"))
    }
}

/// Status of the outbox.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OutboxStatus {
    /// Events that wait or are in flight.
    pub events: usize,
    /// Bytes of all messages that wait.
    pub bytes: u64,
    /// Command reports and loss records that wait or are in flight.
    pub assured: usize,
    /// Messages acknowledged by the broker since the agent's start.
    pub acked: u64,
    /// Messages dropped since the agent's start; a loss record names each.
    pub dropped: u64,
    /// Sequence number of the last journal record that entered the outbox.
    pub cursor: u64,
}

/// Request of the API for the agent's status.
#[derive(Debug)]
pub struct StatusRequest {
    /// The problems that the API's thread sees now; absent if it did not look.
    pub(crate) problems: Option<Vec<String>>,
    pub(crate) answer: oneshot::Sender<AgentStatus>,
}

/// Queue of requests for the agent's status.
#[derive(Debug)]
pub(crate) struct StatusRequests {
    sender: mpsc::Sender<StatusRequest>,
    receiver: mpsc::Receiver<StatusRequest>,
}

impl StatusRequests {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = mpsc::channel(MAX_REQUESTS);
        Self { sender, receiver }
    }

    pub(crate) fn sender(&self) -> mpsc::Sender<StatusRequest> {
        self.sender.clone()
    }

    /// The next request. Never ends: `self` holds a sender.
    pub(crate) async fn next(&mut self) -> StatusRequest {
        match self.receiver.recv().await {
            Some(request) => request,
            None => std::future::pending().await,
        }
    }
}
