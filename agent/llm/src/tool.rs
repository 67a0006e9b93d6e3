//! A tool as a model is told about it.
//!
//! Invariant: its name is legal with every provider and its schema is a JSON object, in the bytes it was given in: the
//! tools stand first in the prompt, so a byte that changes empties every cache.

use serde::{Deserialize, Serialize};

use crate::raw_json::RawJson;

/// Longest name that every provider takes.
const MAX_NAME: usize = 63;

/// A tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Tool {
    name: String,
    description: String,
    schema: RawJson,
    is_strict: bool,
}

/// A tool that no model can be told about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTool {
    /// The name.
    #[error(
        "tool name {0:?} is not allowed; use 1 to 63 of a-z, 0-9 and '_', beginning with a letter"
    )]
    Name(String),
    /// The schema.
    #[error("the schema of tool {0} is no JSON object; give an object with \"type\": \"object\"")]
    Schema(String),
}

impl Tool {
    /// A tool whose arguments follow the JSON Schema `schema`. With `is_strict` the provider guarantees it, where it can: then every object
    /// of the schema must say `additionalProperties: false` and require all of its properties, and recursion and bounds of numbers are not allowed.
    ///
    /// # Errors
    /// When the name is not legal everywhere or the schema is no object.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        schema: RawJson,
        is_strict: bool,
    ) -> Result<Self, BadTool> {
        let name = name.into();
        let is_legal = name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.len() <= MAX_NAME
            && name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if !is_legal {
            return Err(BadTool::Name(name.chars().take(80).collect()));
        }
        if !schema.is_object() {
            return Err(BadTool::Schema(name));
        }
        Ok(Self {
            name,
            description: description.into(),
            schema,
            is_strict,
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it does and when to use it.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// JSON Schema of its arguments.
    #[must_use]
    pub fn schema(&self) -> &RawJson {
        &self.schema
    }

    /// Whether the provider is to guarantee the schema.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.is_strict
    }
}

#[derive(Serialize, Deserialize)]
struct Stored {
    name: String,
    description: String,
    schema: RawJson,
    strict: bool,
}

impl TryFrom<Stored> for Tool {
    type Error = BadTool;
    fn try_from(stored: Stored) -> Result<Self, BadTool> {
        Self::new(
            stored.name,
            stored.description,
            stored.schema,
            stored.strict,
        )
    }
}

impl From<Tool> for Stored {
    fn from(tool: Tool) -> Self {
        Self {
            name: tool.name,
            description: tool.description,
            schema: tool.schema,
            strict: tool.is_strict,
        }
    }
}
