//! A conversation with a model, independent of any provider.
//!
//! Kept by its only mutators ([`Conversation::push_user`], [`Conversation::push_results`],
//! [`Conversation::push_turn`], [`Conversation::push_assistant`]):
//! - It grows at its end only: signatures of thinking cover everything before them, and providers
//!   cache by prefix.
//! - It starts with a user's turn, and a model's turn follows one.
//! - The turn after a model's calls answers each of them exactly once.

mod part;
mod stored_bytes;
mod turn;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use part::{AssistantPart, MediaType, Picture, RawTurn, ToolCall, ToolResult, UserPart};
pub use turn::{AssistantTurn, Turn};

use crate::tool::Tool;

/// A change after which no provider would accept the conversation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConversationError {
    #[error("the tool {0} is given twice; names must differ")]
    SameTool(String),
    /// A user's turn while calls are open.
    #[error("the calls {0} wait for their results; answer them first")]
    OpenCalls(String),
    #[error(
        "results for {given} do not answer the open calls {open}; give one for each, and no other"
    )]
    WrongResults { given: String, open: String },
    #[error("a model's turn must follow a user's; say something first")]
    OutOfTurn,
    /// A turn without parts.
    #[error("an empty turn can't be sent; give at least one part")]
    Empty,
    /// Two calls of one id in one turn.
    #[error("the call id {0} occurs twice in one turn")]
    SameCall(String),
}

/// A conversation: system prompt, tools and turns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stored")]
pub struct Conversation {
    system: Vec<String>,
    tools: Vec<Tool>,
    turns: Vec<Turn>,
}

impl Conversation {
    /// Returns a conversation without turns. `system` and `tools` are final: what changes, such as
    /// the time, belongs into a turn.
    ///
    /// # Errors
    /// When two tools have one name.
    pub fn new(system: Vec<String>, tools: Vec<Tool>) -> Result<Self, ConversationError> {
        let mut names = BTreeSet::new();
        if let Some(twice) = tools.iter().find(|tool| !names.insert(tool.name())) {
            return Err(ConversationError::SameTool(twice.name().to_owned()));
        }
        let system = system.into_iter().filter(|s| !s.is_empty()).collect();
        Ok(Self {
            system,
            tools,
            turns: Vec::new(),
        })
    }

    /// Returns the blocks of the system prompt.
    pub fn system(&self) -> &[String] {
        &self.system
    }

    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// Returns the calls that wait for results.
    pub fn open_calls(&self) -> Vec<&ToolCall> {
        match self.turns.last() {
            Some(Turn::Assistant(turn)) => turn.calls().collect(),
            Some(Turn::User(_) | Turn::Results(_)) | None => Vec::new(),
        }
    }

    /// Adds a user's turn.
    ///
    /// # Errors
    /// While calls are open, and when `parts` is empty.
    pub fn push_user(&mut self, parts: Vec<UserPart>) -> Result<(), ConversationError> {
        if parts.is_empty() {
            return Err(ConversationError::Empty);
        }
        let open = self.open_calls();
        if !open.is_empty() {
            return Err(ConversationError::OpenCalls(ids(open)));
        }
        self.turns.push(Turn::User(parts));
        Ok(())
    }

    /// Adds the results of all open calls, in any order.
    ///
    /// # Errors
    /// When `results` does not hold exactly one for each open call.
    pub fn push_results(&mut self, results: Vec<ToolResult>) -> Result<(), ConversationError> {
        let open = self.open_calls();
        let is_same_number = open.len() == results.len() && !results.is_empty();
        let waiting: BTreeSet<&str> = open.iter().map(|call| call.id.as_str()).collect();
        let given: BTreeSet<&str> = results.iter().map(|result| result.call.as_str()).collect();
        if !is_same_number || waiting != given {
            let given: Vec<&str> = results.iter().map(|r| r.call.as_str()).collect();
            return Err(ConversationError::WrongResults {
                given: given.join(", "),
                open: ids(open),
            });
        }
        self.turns.push(Turn::Results(results));
        Ok(())
    }

    /// Adds a model's answer. An empty answer adds nothing: no provider accepts it back.
    ///
    /// # Errors
    /// When it is not the model's turn.
    pub fn push_turn(&mut self, turn: &AssistantTurn) -> Result<(), ConversationError> {
        let raw = turn.raw.as_ref();
        if turn.parts.is_empty() && raw.is_none_or(|raw| raw.items.is_empty()) {
            return Ok(());
        }
        self.append(turn.clone())
    }

    /// Adds a turn in the model's place, such as a call whose result carries a camera's picture.
    ///
    /// # Errors
    /// When it is not the model's turn, or `parts` is empty.
    pub fn push_assistant(&mut self, parts: Vec<AssistantPart>) -> Result<(), ConversationError> {
        if parts.is_empty() {
            return Err(ConversationError::Empty);
        }
        self.append(AssistantTurn { parts, raw: None })
    }

    fn append(&mut self, turn: AssistantTurn) -> Result<(), ConversationError> {
        if !matches!(self.turns.last(), Some(Turn::User(_) | Turn::Results(_))) {
            return Err(ConversationError::OutOfTurn);
        }
        let mut seen = BTreeSet::new();
        if let Some(twice) = turn.calls().find(|call| !seen.insert(call.id.as_str())) {
            return Err(ConversationError::SameCall(twice.id.clone()));
        }
        self.turns.push(Turn::Assistant(turn));
        Ok(())
    }
}

fn ids(calls: Vec<&ToolCall>) -> String {
    let ids: Vec<&str> = calls.into_iter().map(|call| call.id.as_str()).collect();
    if ids.is_empty() {
        "(none)".to_owned()
    } else {
        ids.join(", ")
    }
}

#[derive(Deserialize)]
struct Stored {
    system: Vec<String>,
    tools: Vec<Tool>,
    turns: Vec<Turn>,
}

impl TryFrom<Stored> for Conversation {
    type Error = ConversationError;

    /// Replays the turns, so a damaged record can't become one that no provider accepts.
    fn try_from(stored: Stored) -> Result<Self, ConversationError> {
        let mut conversation = Self::new(stored.system, stored.tools)?;
        for turn in stored.turns {
            match turn {
                Turn::Assistant(turn) => conversation.append(turn)?,
                Turn::User(parts) => conversation.push_user(parts)?,
                Turn::Results(results) => conversation.push_results(results)?,
            }
        }
        Ok(conversation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw_json::RawJson;

    fn call(id: &str) -> AssistantPart {
        AssistantPart::Call(ToolCall {
            id: id.to_owned(),
            name: "get_snapshot".to_owned(),
            arguments: RawJson::from_value(&serde_json::json!({"camera": "dock"})),
        })
    }

    fn result(id: &str) -> ToolResult {
        ToolResult {
            call: id.to_owned(),
            parts: vec!["seen".into()],
            is_error: false,
        }
    }

    fn with_open_calls() -> Conversation {
        let mut talk = Conversation::new(vec!["You watch.".to_owned()], Vec::new()).expect("new");
        talk.push_user(vec!["look".into()]).expect("user");
        talk.push_assistant(vec![call("a"), call("b")])
            .expect("assistant");
        talk
    }

    #[test]
    fn open_calls_must_be_answered_exactly_before_the_next_turn() {
        let mut talk = with_open_calls();
        let refused = talk
            .push_user(vec!["hello?".into()])
            .expect_err("open calls");
        assert_eq!(
            refused.to_string(),
            "the calls a, b wait for their results; answer them first"
        );
        for wrong in [
            vec![],
            vec!["a"],
            vec!["a", "a"],
            vec!["a", "c"],
            vec!["a", "b", "b"],
        ] {
            let results = wrong.iter().map(|id| result(id)).collect();
            assert!(talk.push_results(results).is_err(), "{wrong:?}");
        }
        talk.push_results(vec![result("b"), result("a")])
            .expect("results");
        assert!(talk.open_calls().is_empty());
    }

    #[test]
    fn model_turn_needs_a_user_turn_before_it() {
        let mut talk = Conversation::new(Vec::new(), Vec::new()).expect("new");
        assert_eq!(
            talk.push_assistant(vec![AssistantPart::Text("hi".to_owned())]),
            Err(ConversationError::OutOfTurn)
        );
        talk.push_user(vec!["hi".into()]).expect("user");
        talk.push_assistant(vec![AssistantPart::Text("hi".to_owned())])
            .expect("its turn");
        assert_eq!(
            talk.push_assistant(vec![AssistantPart::Text("hi".to_owned())]),
            Err(ConversationError::OutOfTurn)
        );
    }

    #[test]
    fn stored_conversation_is_restored_and_a_damaged_one_rejected() {
        let mut talk = with_open_calls();
        let open = serde_json::to_value(&talk).expect("store");
        talk.push_results(vec![result("b"), result("a")])
            .expect("results");
        let stored = serde_json::to_value(&talk).expect("store");
        let back: Conversation = serde_json::from_value(stored.clone()).expect("restore");
        assert_eq!(back, talk);
        let mut damaged = stored;
        damaged["turns"][2]["results"][0]["call"] = "c".into();
        assert!(serde_json::from_value::<Conversation>(damaged).is_err());
        // Open calls survive the restart.
        let back: Conversation = serde_json::from_value(open).expect("restore");
        assert_eq!(back.open_calls().len(), 2);
    }
}
