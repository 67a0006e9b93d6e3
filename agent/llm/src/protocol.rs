//! The protocols that providers speak.

use serde::{Deserialize, Serialize};

/// Protocol of a provider. [`crate::wire`] implements each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// Claude's Messages API. Ollama and others speak it too.
    Claude,
    /// OpenAI's Responses API.
    Openai,
    /// Gemini's generateContent API.
    Gemini,
}

impl Protocol {
    /// Name of the header that carries the key, and the prefix of its value.
    pub(crate) const fn key_header(self) -> (&'static str, &'static str) {
        match self {
            Self::Claude => ("x-api-key", ""),
            Self::Openai => ("authorization", "Bearer "),
            Self::Gemini => ("x-goog-api-key", ""),
        }
    }
}
