//! The agent under test: the rules alone, or the rules and an LLM.

use secrecy::{ExposeSecret as _, SecretString};

/// Timeout factor for the LLM. A human may play its part; what a task allows is among its checks.
const TIMEOUT_FACTOR: u32 = 20;

/// Wire protocol of an LLM server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Wire {
    /// Messages API of Claude.
    Claude,
    /// API of OpenAI.
    Openai,
    /// API of Gemini.
    Gemini,
    /// Local server with Claude's API, such as Ollama.
    Ollama,
}

impl Wire {
    /// Returns the value of the configuration key `provider`.
    const fn provider(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Openai => "openai",
            Self::Gemini => "gemini",
            Self::Ollama => "local",
        }
    }
}

/// Agent under test.
#[derive(Debug, Clone)]
pub enum Agent {
    /// The rules, without an LLM.
    Rules,
    /// The rules, and an LLM for what they do not understand.
    Model {
        /// Base URL of the server.
        url: String,
        /// Model id; absent: those of the product's catalogue.
        model: Option<String>,
        wire: Wire,
        key: Option<SecretString>,
    },
}

impl Agent {
    /// Returns a name for tables.
    pub fn name(&self) -> String {
        match self {
            Self::Rules => "rules".to_owned(),
            Self::Model { url, model, .. } => {
                format!(
                    "{} at {url}",
                    model.as_deref().unwrap_or("the catalogue's models")
                )
            }
        }
    }

    /// Whether an LLM is configured.
    pub const fn is_model(&self) -> bool {
        matches!(self, Self::Model { .. })
    }

    /// Writes the section of the configuration. The limits are wide, because the LLM is measured.
    pub(super) fn section(&self) -> String {
        match self {
            Self::Rules => String::new(),
            Self::Model {
                url, model, wire, ..
            } => {
                let mut section = format!(
                    "[llm]\nprovider = {:?}\nbase_url = {url:?}\ncalls_per_hour = 10000\nidle_timeout_s = 3600\ntimeout_factor = {TIMEOUT_FACTOR}\nday_usd = 1000\nmonth_usd = 10000\n",
                    wire.provider()
                );
                if let Some(model) = model {
                    section.push_str(&format!("model = {model:?}\nlarge_model = {model:?}\n"));
                }
                section
            }
        }
    }

    /// Returns the key for the environment of the command; no file holds it.
    pub(super) fn key(&self) -> Option<&str> {
        match self {
            Self::Model { key, .. } => key.as_ref().map(|key| key.expose_secret()),
            Self::Rules => None,
        }
    }
}
