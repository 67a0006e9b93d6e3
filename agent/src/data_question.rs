//! A conversation about data from outside, for a model that acts on nothing.
//!
//! - The data, facts and perhaps a picture, is the result of a tool that the agent calls in the
//!   model's name. Providers train models to obey no text in a result. Texts from outside are
//!   nowhere else.
//! - The tool is the only one. It changes nothing, and the model may not call it.
//! - An answer of another form than the requested JSON is rejected.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use watchkeeper_llm::call_options::ToolChoice;
use watchkeeper_llm::conversation::{
    AssistantPart, ConversationError, Picture, ToolCall, ToolResult, UserPart,
};
use watchkeeper_llm::raw_json::{RawJson, object_in};
use watchkeeper_llm::tool::Tool;
use watchkeeper_llm::{CallOptions, Conversation};

/// An answer that is not the requested JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the model's answer is invalid: it is not the requested JSON")]
pub struct InvalidAnswer;

/// Options of a call whose answer is JSON of this schema, thinking included.
pub(crate) fn call_options(max_output: u32, name: &str, schema: &Value) -> CallOptions {
    CallOptions::new(max_output)
        .schema(name, schema)
        .choice(ToolChoice::Never)
        .whole()
}

pub(crate) fn parse_answer<T: DeserializeOwned>(answer: &str) -> Result<T, InvalidAnswer> {
    let json = object_in(answer).ok_or(InvalidAnswer)?;
    serde_json::from_str(json).map_err(|_| InvalidAnswer)
}

/// Question to a model about data.
pub(crate) struct DataQuestion<'a> {
    pub(crate) tool: &'a str,
    pub(crate) about: &'a str,
    pub(crate) system: Vec<String>,
    pub(crate) question: &'a str,
}

impl DataQuestion<'_> {
    /// Builds the conversation about `facts` and a picture.
    ///
    /// # Errors
    /// A sentence; only a defect of this build causes one.
    pub(crate) fn about(
        self,
        picture: Option<Picture>,
        facts: &Value,
    ) -> Result<Conversation, String> {
        let nothing = json!({
            "type": "object", "additionalProperties": false, "properties": {}, "required": [],
        });
        let schema = RawJson::from_value(&nothing);
        let tool = Tool::new(self.tool, self.about, schema, true).map_err(|e| e.to_string())?;
        let call = ToolCall {
            id: format!("call_{}", self.tool),
            name: tool.name().to_owned(),
            arguments: RawJson::from_value(&json!({})),
        };
        let result = ToolResult {
            call: call.id.clone(),
            parts: picture
                .map(UserPart::Picture)
                .into_iter()
                .chain([UserPart::Text(facts.to_string())])
                .collect(),
            is_error: false,
        };
        let build = || {
            let mut conversation = Conversation::new(self.system, vec![tool])?;
            conversation.push_user(vec![self.question.into()])?;
            conversation.push_assistant(vec![AssistantPart::Call(call)])?;
            conversation.push_results(vec![result])?;
            Ok(conversation)
        };
        build().map_err(|e: ConversationError| e.to_string())
    }
}
