//! Providers and models as the rest of the crate sees them: checked.

use std::collections::BTreeSet;

use serde::Deserialize;
use url::Url;

use super::Prices;
use crate::wire::Protocol;

/// Something a model or its server can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// Can be made to call a tool.
    ForceTool,
    /// Guarantees that arguments follow a tool's schema.
    StrictTools,
    /// Guarantees that the answer is JSON of a schema.
    StructuredOutput,
    /// Can be told how hard to think.
    Effort,
    /// Takes pictures in tool results.
    ImagesInResults,
    /// Can be told not to call several tools at once.
    ParallelChoice,
}

/// How a server scales pictures before the model sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageTier {
    /// Long edge up to 1568 px and up to 1568 tokens.
    Standard,
    /// Long edge up to 2576 px and up to 4784 tokens.
    High,
}

/// What a request says about thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingStyle {
    /// Nothing.
    None,
    /// The model decides how much.
    Adaptive,
    /// A number of tokens is set aside.
    Budget,
}

/// How good, and how dear, a model is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Verdicts and triage.
    Small,
    /// Setting a watch.
    Medium,
    /// What the medium one can't do.
    Large,
}

impl Tier {
    /// The next one down; the small one stays.
    #[must_use]
    pub const fn below(self) -> Self {
        match self {
            Self::Small | Self::Medium => Self::Small,
            Self::Large => Self::Medium,
        }
    }
}

/// Who serves models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// Its name in the file.
    pub name: String,
    /// How it is spoken to.
    pub protocol: Protocol,
    /// Where it is.
    pub base_url: Url,
    /// Whether it wants a key.
    pub needs_key: bool,
    /// Largest request it takes, in bytes.
    pub max_request_bytes: usize,
    /// Ids of its models for each tier.
    pub(super) small: String,
    pub(super) medium: String,
    pub(super) large: String,
}

impl Provider {
    /// Id of its model for `tier`.
    #[must_use]
    pub fn model_id(&self, tier: Tier) -> &str {
        match tier {
            Tier::Small => &self.small,
            Tier::Medium => &self.medium,
            Tier::Large => &self.large,
        }
    }
}

/// One model.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// As the provider calls it.
    pub id: String,
    /// Name of its provider.
    pub provider: String,
    /// Tokens of prompt and output together.
    pub context: u64,
    /// Most tokens of output.
    pub max_output: u32,
    /// Bytes of text that make one token, for estimates.
    pub bytes_per_token: f64,
    /// How pictures are scaled; absent: it sees none.
    pub image_tier: Option<ImageTier>,
    /// Most pictures in one request.
    pub max_images: u32,
    /// Shortest prefix that is cached, in tokens; absent: breakpoints are not for it.
    pub cache_min: Option<u64>,
    /// What a request says about thinking.
    pub thinking: ThinkingStyle,
    /// What it costs.
    pub prices: Prices,
    pub(super) capabilities: BTreeSet<Capability>,
}

impl Model {
    /// Whether it can do this.
    #[must_use]
    pub fn can(&self, capability: Capability) -> bool {
        self.capabilities.contains(&capability)
    }
}
