//! The records of a turn, as the turn log stores them. Serialized names keep their first spelling.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use watchkeeper_llm::StopReason;
use watchkeeper_llm::conversation::{AssistantTurn, Conversation, ToolResult};
use watchkeeper_llm::money::Money;
use watchkeeper_llm::usage::Usage;

use super::facts::ToolFact;
use crate::blueprint::job::MAX_STEPS;
use crate::operations::proposed_action::ProposedAction;
use crate::permissions::Entrypoint;
use crate::proposal::llm_proposal::LlmProposal;

/// Format of the records.
pub const FORMAT: u32 = 1;

/// The request of a turn, and the limits it started with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnHead {
    /// Id of the turn in the trace and the ledger.
    pub id: String,
    /// The user's text.
    pub request: String,
    /// Time of the request.
    pub at: Timestamp,
    /// Socket of the runtime.
    pub socket: String,
    /// Name of the blueprint.
    #[serde(default = "default_blueprint")]
    pub blueprint: String,
    #[serde(rename = "channel", default = "default_entrypoint")]
    pub entrypoint: Entrypoint,
    /// Hash of what came with the text: pictures, and over the API the conversation before it. The
    /// same text with another context is another request.
    #[serde(default)]
    pub context: String,
    /// Maximum calls of the model, from the blueprint at the start.
    #[serde(default = "default_steps")]
    pub steps: u32,
    /// No further call is made after this was spent; `None`: only the limits of `[llm]` apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
    /// Whether a plan must exist before a proposal, by the blueprint.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plan_required: bool,
}

/// Blueprint of a turn log from before blueprints existed.
fn default_blueprint() -> String {
    crate::blueprint::Job::SetUp.name().to_owned()
}

/// Entrypoint of a turn log that does not name one.
const fn default_entrypoint() -> Entrypoint {
    Entrypoint::Ask
}

const fn default_steps() -> u32 {
    MAX_STEPS
}

/// One event of a turn, written before the next step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum TurnRecord {
    #[serde(rename = "begun")]
    Started {
        format: u32,
        head: TurnHead,
        /// Instructions, tools and the request.
        #[serde(rename = "talk")]
        conversation: Box<Conversation>,
    },
    /// The model answered.
    #[serde(rename = "said")]
    Replied {
        turn: Box<AssistantTurn>,
        stop: StopReason,
        /// Name of the model, from the provider.
        model: String,
        usage: Usage,
        cost: Money,
    },
    /// A tool is about to run.
    #[serde(rename = "begins")]
    ToolStarted {
        /// Id of the tool call.
        call: String,
    },
    /// A tool call has its result, or was refused.
    #[serde(rename = "came")]
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
    /// A proposal to confirm.
    Proposal {
        #[serde(rename = "made")]
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
    #[serde(rename = "nothing")]
    NoResult {
        /// The reason, one sentence.
        why: String,
    },
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn stored_names_keep_their_first_spelling() {
        let head = json!({
            "id": "01A", "request": "count cars", "at": "2026-11-24T08:00:00Z",
            "socket": "/run/w.sock", "blueprint": "set-up", "channel": "chat", "context": "",
            "steps": 3,
        });
        let read: TurnHead = serde_json::from_value(head.clone()).unwrap();
        assert_eq!(read.entrypoint, Entrypoint::Chat);
        assert_eq!(serde_json::to_value(read).unwrap(), head);
        let records: [Value; 4] = [
            json!({"record": "ended", "end": {"end": "hand_over"}}),
            json!({"record": "begins", "call": "c"}),
            json!({"record": "ended", "end": {"end": "nothing", "why": "w"}}),
            json!({"record": "ended", "end": {"end": "answer", "text": "t"}}),
        ];
        for stored in records {
            let record: TurnRecord = serde_json::from_value(stored.clone()).unwrap();
            assert_eq!(serde_json::to_value(record).unwrap(), stored);
        }
    }

    #[test]
    fn unknown_spelling_names_every_stored_kind() {
        let renamed = json!({"record": "started"});
        let error = serde_json::from_value::<TurnRecord>(renamed).unwrap_err();
        let kinds = "`begun`, `said`, `begins`, `came`, `ended`";
        assert!(error.to_string().contains(kinds), "{error}");
    }
}
