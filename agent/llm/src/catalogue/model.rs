//! Providers and models, checked.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use url::Url;

use super::Prices;
use crate::protocol::Protocol;

/// Capability of a model or its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// Can be made to call a tool.
    ForceTool,
    /// Guarantees that arguments follow a tool's schema.
    StrictTools,
    /// Guarantees that the answer is JSON of a schema.
    StructuredOutput,
    /// Accepts a reasoning effort.
    Effort,
    /// Accepts pictures in tool results.
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

/// Form in which a request states the level of thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingStyle {
    None,
    /// The model decides how much.
    Adaptive,
    /// A number of tokens is reserved for it.
    Budget,
}

/// Quality and price class of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Verdicts and triage.
    Small,
    /// Set-up of a pipeline, and doubt of the small one.
    Large,
}

/// Server of models.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// Name in the model file, where it is the key.
    #[serde(skip)]
    pub name: String,
    pub protocol: Protocol,
    #[serde(deserialize_with = "read_base_url")]
    pub base_url: Url,
    /// Program that is run in place of a request; `protocol` and `base_url` are then its own.
    pub program: Option<PathBuf>,
    pub needs_key: bool,
    pub max_request_bytes: usize,
    pub(super) small: String,
    pub(super) large: String,
}

impl Provider {
    /// Returns the id of its model for `tier`.
    pub fn model_id(&self, tier: Tier) -> &str {
        match tier {
            Tier::Small => &self.small,
            Tier::Large => &self.large,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    pub provider: String,
    pub id: String,
    /// Maximum tokens of prompt and output together.
    pub context: u64,
    /// Maximum tokens of output.
    pub max_output: u32,
    /// Bytes of text a token, for estimates.
    pub bytes_per_token: f64,
    /// How the server scales pictures; absent: it takes none.
    pub image_tier: Option<ImageTier>,
    /// Maximum pictures of one request.
    #[serde(default)]
    pub max_images: u32,
    /// Minimum tokens of a cached prefix; absent: no cache breakpoints.
    pub cache_min: Option<u64>,
    /// Form in which a request states the level of thinking.
    pub thinking: ThinkingStyle,
    #[serde(rename = "price")]
    pub prices: Prices,
    #[serde(default)]
    pub(super) capabilities: BTreeSet<Capability>,
}

impl Model {
    pub fn can(&self, capability: Capability) -> bool {
        self.capabilities.contains(&capability)
    }
}

fn read_base_url<'de, D: Deserializer<'de>>(from: D) -> Result<Url, D::Error> {
    base_url(&String::deserialize(from)?).map_err(D::Error::custom)
}

/// Parses the address of a provider. A path in it is kept before the protocol's own.
///
/// # Errors
/// One phrase, without the address: it may hold a credential.
pub fn base_url(text: &str) -> Result<Url, String> {
    let url =
        Url::parse(text).map_err(|e| format!("is not an address ({e}); write https://HOST"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err("must begin with https:// or http:// and name a host".to_owned());
    }
    if !url.username().is_empty()
        || url.password().is_some()
        || url.query().is_some()
        || url.fragment().is_some()
    {
        return Err(
            "must hold no credential, no `?` and no `#`; the key has a place of its own".to_owned(),
        );
    }
    Ok(url)
}
