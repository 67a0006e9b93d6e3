//! The records of a turn, as the turn log stores them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use watchkeeper_llm::StopReason;
use watchkeeper_llm::conversation::{AssistantTurn, Conversation, ToolResult};
use watchkeeper_llm::money::Money;
use watchkeeper_llm::usage::Usage;

use super::facts::ToolFact;
use crate::operations::proposed_action::ProposedAction;
use crate::permissions::Entrypoint;
use crate::proposal::llm_proposal::LlmProposal;

pub const FORMAT: u32 = 2;

/// The request of a turn, and the limits it started with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnHead {
    /// Id of the turn in the trace and the ledger.
    pub id: String,
    /// The user's text.
    pub request: String,
    /// Time of the request.
    pub at: Timestamp,
    pub socket: String,
    pub blueprint: String,
    pub entrypoint: Entrypoint,
    /// Hash of what came with the text: pictures, and over the API the conversation before it. The
    /// same text with another context is another request.
    pub context: String,
    /// Maximum calls of the model, from the blueprint at the start.
    pub steps: u32,
    /// No further call is made after this was spent; `None`: only the limits of `[llm]` apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
    /// Whether a plan must exist before a proposal, by the blueprint.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plan_required: bool,
}

/// One event of a turn, written before the next step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum TurnRecord {
    Started {
        format: u32,
        head: TurnHead,
        /// Instructions, tools and the request.
        conversation: Box<Conversation>,
    },
    /// The model answered.
    Replied {
        turn: Box<AssistantTurn>,
        stop: StopReason,
        /// Name of the model, from the provider.
        model: String,
        usage: Usage,
        cost: Money,
    },
    /// A tool is about to run.
    ToolStarted {
        /// Id of the tool call.
        call: String,
    },
    /// A tool call has its result, or was refused.
    ToolFinished {
        result: Box<ToolResult>,
        facts: Vec<ToolFact>,
    },
    Ended {
        end: Box<TurnEnd>,
    },
}

/// How a turn ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum TurnEnd {
    /// An answer without a proposal.
    Answer {
        /// The model's answer.
        text: String,
    },
    Proposal {
        proposal: Box<LlmProposal>,
        /// The model's text with it; may be empty.
        text: String,
    },
    /// Actions on archive and jobs to confirm.
    Actions {
        actions: Vec<ProposedAction>,
        /// The model's text with them; may be empty.
        text: String,
    },
    /// The set-up takes over with the user's own words.
    HandOver,
    /// Neither answer nor proposal.
    NoResult {
        /// The reason, one sentence.
        why: String,
    },
}
