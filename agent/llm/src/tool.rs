//! A tool, as described to a model.
//!
//! - Its name is legal with every provider, and its schema is a JSON object with its exact bytes.
//!   Tools come first in the prompt, so one changed byte empties every cache.

use serde::{Deserialize, Serialize};

use crate::raw_json::RawJson;

/// Maximum characters of a name that every provider accepts.
const MAX_NAME: usize = 63;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stored")]
pub struct Tool {
    name: String,
    description: String,
    schema: RawJson,
    #[serde(rename = "strict")]
    is_strict: bool,
}

/// Why a tool is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTool {
    #[error(
        "tool name {0:?} is not allowed; use 1 to 63 of a-z, 0-9 and '_', beginning with a letter"
    )]
    Name(String),
    #[error(
        "the schema of tool {0} is not a JSON object; give an object with \"type\": \"object\""
    )]
    Schema(String),
}

impl Tool {
    /// Takes a tool whose arguments follow the JSON Schema `schema`.
    ///
    /// With `is_strict` the provider guarantees the schema, where it can. Every object of it must
    /// then say `additionalProperties: false` and require all of its properties; recursion and
    /// bounds of numbers are not allowed.
    ///
    /// # Errors
    /// When the name is not legal with every provider, or the schema is not an object.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        schema: RawJson,
        is_strict: bool,
    ) -> Result<Self, InvalidTool> {
        let name = name.into();
        let is_legal = name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.len() <= MAX_NAME
            && name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if !is_legal {
            return Err(InvalidTool::Name(name.chars().take(80).collect()));
        }
        if !schema.is_object() {
            return Err(InvalidTool::Schema(name));
        }
        Ok(Self {
            name,
            description: description.into(),
            schema,
            is_strict,
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns what it does and when to use it.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns the JSON Schema of its arguments.
    pub fn schema(&self) -> &RawJson {
        &self.schema
    }

    /// Returns whether the provider should guarantee the schema.
    pub fn is_strict(&self) -> bool {
        self.is_strict
    }
}

#[derive(Deserialize)]
struct Stored {
    name: String,
    description: String,
    schema: RawJson,
    strict: bool,
}

impl TryFrom<Stored> for Tool {
    type Error = InvalidTool;
    fn try_from(stored: Stored) -> Result<Self, InvalidTool> {
        Self::new(
            stored.name,
            stored.description,
            stored.schema,
            stored.strict,
        )
    }
}
