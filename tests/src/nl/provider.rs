//! Who is asked: the rules alone, or a model of language besides them.

use secrecy::{ExposeSecret as _, SecretString};

/// How many times as long as usual a model may take. It may be one that somebody plays by hand; what a task allows is among its checks.
const PATIENCE: u32 = 20;

/// How a model is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Wire {
    /// Claude's Messages API.
    Claude,
    /// OpenAI's.
    Openai,
    /// Gemini's.
    Gemini,
    /// A server of one's own that speaks Claude's, such as Ollama.
    Ollama,
}

impl Wire {
    /// The configuration's word for it.
    const fn provider(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Openai => "openai",
            Self::Gemini => "gemini",
            Self::Ollama => "local",
        }
    }
}

/// Who is asked.
#[derive(Debug, Clone)]
pub enum Agent {
    /// The rules, without a model.
    Rules,
    /// The rules, and a model for what they don't understand.
    Model {
        /// Where it is served.
        url: String,
        /// Its id; absent: those of the product's catalogue.
        model: Option<String>,
        /// How it is spoken to.
        wire: Wire,
        /// Its key.
        key: Option<SecretString>,
    },
}

impl Agent {
    /// A name for tables.
    #[must_use]
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

    /// Whether a model is asked.
    #[must_use]
    pub const fn is_model(&self) -> bool {
        matches!(self, Self::Model { .. })
    }

    /// The section of the configuration that names it. The limits are wide: it is measured, not held.
    pub(super) fn section(&self) -> String {
        match self {
            Self::Rules => String::new(),
            Self::Model {
                url, model, wire, ..
            } => {
                let mut section = format!(
                    "[llm]\nprovider = {:?}\nbase_url = {url:?}\ncalls_per_hour = 10000\nidle_timeout_s = 3600\ntimeout_factor = {PATIENCE}\nday_usd = 1000\nmonth_usd = 10000\n",
                    wire.provider()
                );
                if let Some(model) = model {
                    section.push_str(&format!("model = {model:?}\nlarge_model = {model:?}\n"));
                }
                section
            }
        }
    }

    /// The key, for the environment of the command: it stands in no file.
    pub(super) fn key(&self) -> Option<&str> {
        match self {
            Self::Model { key, .. } => key.as_ref().map(|key| key.expose_secret()),
            Self::Rules => None,
        }
    }
}
