//! A conversation in words that belong to no provider.
//!
//! Invariants, kept by the only ways to change one ([`Conversation::say`], [`Conversation::answer`], [`Conversation::hear`]):
//! - it grows at its end and nowhere else: signatures of thinking cover everything before them, and caches go by the prefix;
//! - it begins with a user's turn, and what a model says follows one;
//! - every call of a model's turn is answered in the very next turn, once, before anything else is said.

mod part;
mod stored_bytes;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use part::{AssistantPart, Exact, MediaType, Picture, ToolCall, ToolResult, UserPart};

use crate::reply::Reply;
use crate::tool::Tool;

/// One turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Turn {
    /// A person or the harness says something.
    User(Vec<UserPart>),
    /// The harness gives what came of the calls of the turn before.
    Results(Vec<ToolResult>),
    /// The model.
    Assistant(AssistantTurn),
}

/// A turn of the model, or one that the harness made in its place.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AssistantTurn {
    /// What was said.
    pub parts: Vec<AssistantPart>,
    /// How the provider wrote it; absent for a turn that the harness made.
    pub exact: Option<Exact>,
}

impl AssistantTurn {
    /// The calls in it.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            AssistantPart::Call(call) => Some(call),
            AssistantPart::Thinking(_) | AssistantPart::Text(_) => None,
        })
    }
}

/// A change that would make a conversation that no provider takes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConversationError {
    /// Two tools of one name.
    #[error("the tool {0} is given twice; names must differ")]
    SameTool(String),
    /// Somebody speaks while calls are open.
    #[error("the calls {0} wait for their results; answer them first")]
    OpenCalls(String),
    /// Results that do not fit.
    #[error(
        "results for {given} do not answer the open calls {open}; give one for each, and no other"
    )]
    WrongResults {
        /// Ids that were given.
        given: String,
        /// Ids that are open.
        open: String,
    },
    /// The model speaks out of turn.
    #[error("a model's turn must follow a user's; say something first")]
    OutOfTurn,
    /// Nothing is said.
    #[error("an empty turn can't be sent; give at least one part")]
    Empty,
    /// Two calls of one id in one turn.
    #[error("the call {0} is there twice")]
    SameCall(String),
}

/// A conversation: what the model is told about itself, its tools, and the turns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stored")]
pub struct Conversation {
    system: Vec<String>,
    tools: Vec<Tool>,
    turns: Vec<Turn>,
}

impl Conversation {
    /// One without turns. `system` and `tools` can't be changed later; what changes (the time, what runs) belongs into a turn.
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

    /// The blocks of the system prompt.
    #[must_use]
    pub fn system(&self) -> &[String] {
        &self.system
    }

    /// The tools.
    #[must_use]
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// The turns.
    #[must_use]
    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// The calls that wait for results.
    #[must_use]
    pub fn open_calls(&self) -> Vec<&ToolCall> {
        match self.turns.last() {
            Some(Turn::Assistant(turn)) => turn.calls().collect(),
            Some(Turn::User(_) | Turn::Results(_)) | None => Vec::new(),
        }
    }

    /// Adds what a person says.
    ///
    /// # Errors
    /// While calls are open, and when nothing is said.
    pub fn say(&mut self, parts: Vec<UserPart>) -> Result<(), ConversationError> {
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
    /// When they are not one for each open call.
    pub fn answer(&mut self, results: Vec<ToolResult>) -> Result<(), ConversationError> {
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

    /// Adds what a model answered. An answer with nothing in it adds nothing: no provider takes it back.
    ///
    /// # Errors
    /// When it is not the model's turn.
    pub fn hear(&mut self, reply: &Reply) -> Result<(), ConversationError> {
        if reply.turn.parts.is_empty()
            && reply.turn.exact.as_ref().is_none_or(|e| e.items.is_empty())
        {
            return Ok(());
        }
        self.push_assistant(reply.turn.clone())
    }

    /// Adds a turn that the harness makes in the model's place, such as a call whose result carries what a camera saw.
    ///
    /// # Errors
    /// When it is not the model's turn, or nothing is said.
    pub fn pretend(&mut self, parts: Vec<AssistantPart>) -> Result<(), ConversationError> {
        if parts.is_empty() {
            return Err(ConversationError::Empty);
        }
        self.push_assistant(AssistantTurn { parts, exact: None })
    }

    fn push_assistant(&mut self, turn: AssistantTurn) -> Result<(), ConversationError> {
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

    /// Goes the same ways as a live one, so that a damaged record can't become one that no provider takes.
    fn try_from(stored: Stored) -> Result<Self, ConversationError> {
        let mut conversation = Self::new(stored.system, stored.tools)?;
        for turn in stored.turns {
            match turn {
                Turn::Assistant(turn) => conversation.push_assistant(turn)?,
                Turn::User(parts) => conversation.say(parts)?,
                Turn::Results(results) => conversation.answer(results)?,
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
            arguments: RawJson::of(&serde_json::json!({"camera": "dock"})),
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
        talk.say(vec!["look".into()]).expect("say");
        talk.pretend(vec![call("a"), call("b")]).expect("pretend");
        talk
    }

    #[test]
    fn nobody_speaks_before_every_open_call_has_its_result_and_no_other_is_taken() {
        let mut talk = with_open_calls();
        let refused = talk.say(vec!["hello?".into()]).expect_err("open calls");
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
            assert!(talk.answer(results).is_err(), "{wrong:?}");
        }
        talk.answer(vec![result("b"), result("a")]).expect("answer");
        assert!(talk.open_calls().is_empty());
    }

    #[test]
    fn a_model_does_not_speak_first_nor_twice() {
        let mut talk = Conversation::new(Vec::new(), Vec::new()).expect("new");
        assert_eq!(
            talk.pretend(vec![AssistantPart::Text("hi".to_owned())]),
            Err(ConversationError::OutOfTurn)
        );
        talk.say(vec!["hi".into()]).expect("say");
        talk.pretend(vec![AssistantPart::Text("hi".to_owned())])
            .expect("its turn");
        assert_eq!(
            talk.pretend(vec![AssistantPart::Text("hi".to_owned())]),
            Err(ConversationError::OutOfTurn)
        );
    }

    #[test]
    fn a_stored_conversation_comes_back_and_a_damaged_one_is_refused() {
        let mut talk = with_open_calls();
        let open = serde_json::to_value(&talk).expect("store");
        talk.answer(vec![result("b"), result("a")]).expect("answer");
        let stored = serde_json::to_value(&talk).expect("store");
        let back: Conversation = serde_json::from_value(stored.clone()).expect("restore");
        assert_eq!(back, talk);
        let mut damaged = stored;
        damaged["turns"][2]["results"][0]["call"] = "c".into();
        assert!(serde_json::from_value::<Conversation>(damaged).is_err());
        // One that ended within a step goes on there.
        let back: Conversation = serde_json::from_value(open).expect("restore");
        assert_eq!(back.open_calls().len(), 2);
    }
}
