//! One block of content while it is streamed, and the meaning of a complete one.
//!
//! - A block starts as an object with empty fields, and deltas fill them. The result is that object
//!   with the filled fields in place and every other member unchanged: it goes back to the server.

use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::conversation::{AssistantPart, ToolCall};
use crate::raw_json::RawJson;

/// Members of an object, in order.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Members;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        from.deserialize_map(Read)
    }
}

/// A block that is still streamed.
pub(super) struct OpenBlock {
    members: Members,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    input: Option<String>,
    citations: Vec<Box<RawValue>>,
}

impl std::fmt::Debug for OpenBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenBlock").finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Delta<'d> {
    r#type: &'d str,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    partial_json: Option<String>,
    citation: Option<Box<RawValue>>,
}

impl OpenBlock {
    /// Starts from the object of `content_block_start`.
    pub(super) fn new(start: &str) -> Result<Self, serde_json::Error> {
        Ok(Self {
            members: serde_json::from_str(start)?,
            text: None,
            thinking: None,
            signature: None,
            input: None,
            citations: Vec::new(),
        })
    }

    /// Adds the `delta` of `content_block_delta`. Unknown kinds add nothing.
    pub(super) fn add(&mut self, delta: &str) -> Result<(), serde_json::Error> {
        let delta: Delta<'_> = serde_json::from_str(delta)?;
        let append = |to: &mut Option<String>, part: Option<String>| {
            to.get_or_insert_default()
                .push_str(&part.unwrap_or_default());
        };
        match delta.r#type {
            "text_delta" => append(&mut self.text, delta.text),
            "thinking_delta" => append(&mut self.thinking, delta.thinking),
            "signature_delta" => self.signature = delta.signature,
            "input_json_delta" => append(&mut self.input, delta.partial_json),
            "citations_delta" => self.citations.extend(delta.citation),
            _ => {}
        }
        Ok(())
    }

    /// Returns the complete block.
    ///
    /// # Errors
    /// When a call's arguments are not JSON.
    pub(super) fn close(mut self) -> Result<RawJson, serde_json::Error> {
        let fill = [
            ("text", self.text.take()),
            ("thinking", self.thinking.take()),
            ("signature", self.signature.take()),
        ];
        for (name, piece) in fill {
            if let Some(piece) = piece {
                // Text of the start object stays in front; today it is always empty.
                let mut text: String = self.get(name).unwrap_or_default();
                if name == "signature" {
                    text.clear();
                }
                text.push_str(&piece);
                self.set(name, serde_json::value::to_raw_value(&text)?);
            }
        }
        // Without deltas the input of the start object remains, which is `{}`.
        if let Some(input) = self.input.take().filter(|input| !input.trim().is_empty()) {
            self.set("input", RawValue::from_string(input)?);
        }
        if !self.citations.is_empty() {
            let citations = std::mem::take(&mut self.citations);
            self.set("citations", serde_json::value::to_raw_value(&citations)?);
        }
        let mut text = String::from("{");
        for (at, (name, value)) in self.members.0.iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            text.push_str(&serde_json::to_string(name)?);
            text.push(':');
            text.push_str(value.get());
        }
        text.push('}');
        RawJson::new(text)
    }

    fn get(&self, name: &str) -> Option<String> {
        let mut members = self.members.0.iter();
        let (_, value) = members.find(|(n, _)| n == name)?;
        serde_json::from_str(value.get()).ok()
    }

    fn set(&mut self, name: &str, value: Box<RawValue>) {
        match self.members.0.iter_mut().find(|(n, _)| n == name) {
            Some((_, old)) => *old = value,
            None => self.members.0.push((name.to_owned(), value)),
        }
    }
}

#[derive(Deserialize)]
struct KnownBlock<'b> {
    r#type: String,
    text: Option<String>,
    thinking: Option<String>,
    id: Option<String>,
    name: Option<String>,
    #[serde(default, borrow)]
    input: Option<&'b RawValue>,
}

/// Returns the part that a complete block stands for; none for a kind that is only echoed.
///
/// # Errors
/// One phrase, when a block of a known kind lacks a field.
pub(super) fn to_part(block: &RawJson) -> Result<Option<AssistantPart>, String> {
    let known: KnownBlock<'_> = block.parse().map_err(|e| e.to_string())?;
    Ok(match known.r#type.as_str() {
        "text" => Some(AssistantPart::Text(
            known.text.ok_or("a text without text")?,
        )),
        "thinking" => Some(AssistantPart::Thinking(known.thinking.unwrap_or_default())),
        "redacted_thinking" => Some(AssistantPart::Thinking(String::new())),
        "tool_use" => {
            let id = known
                .id
                .filter(|id| !id.is_empty())
                .ok_or("a call without an id")?;
            let name = known.name.ok_or("a call without a name")?;
            let arguments = RawJson::raw(known.input.ok_or("a call without input")?);
            if !arguments.is_object() {
                return Err(format!("the arguments of {name} are not an object"));
            }
            Some(AssistantPart::Call(ToolCall {
                id,
                name,
                arguments,
            }))
        }
        _ => None,
    })
}
