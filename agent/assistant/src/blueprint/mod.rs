//! Blueprints: what a language model may use and spend for each job on this box.
//!
//! The program defines a [`Job`]: its instructions, its tools and its maximum number of calls. A
//! [`Blueprint`] is a user's file that fits a job to a site: when to choose it, instructions, fewer
//! tools, lower limits. [`built_in`] has one per job; a file of that name replaces it ([`store`]).
//!
//! - A blueprint only narrows its job. [`crate::permissions`] applies too. Its instructions follow
//!   those of the job.
//! - An invalid file is reported with field, value and remedy. The built-in blueprint of its name
//!   stays in use.
//! - The file, the instructions and the number of files are bounded.
//! - Everything but the [`store`] is sans-IO.

pub mod built_in;
pub mod error;
pub mod job;
pub mod name;
mod read;
pub mod store;

use serde::Serialize;
use watchkeeper_llm::catalogue::Tier;
use watchkeeper_llm::money::Money;

pub use error::BlueprintError;
pub use job::Job;
pub use name::BlueprintName;
pub use read::read;
pub use store::BlueprintStore;

/// Largest file, in bytes.
pub const MAX_BYTES: usize = 16 * 1024;
/// Longest instructions, in bytes of UTF-8. With them and all tools of the largest job, a prompt
/// stays below [`MAX_TOKENS`](crate::setup_agent::prompt::MAX_TOKENS).
pub const MAX_INSTRUCTIONS: usize = 2_000;
/// Longest `when`, in characters. The model that routes reads those of all blueprints.
pub const MAX_WHEN: usize = 300;

/// The size of a language model, as the configuration names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelSize {
    /// The model of `llm.model`.
    Small,
    /// The model of `llm.large_model`.
    Large,
}

impl ModelSize {
    /// The tier of the LLM client.
    pub const fn tier(self) -> Tier {
        match self {
            Self::Small => Tier::Small,
            Self::Large => Tier::Large,
        }
    }

    /// The name in a blueprint's file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Large => "large",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamedModel {
    /// The provider: that of `llm.provider` or `llm.second.provider`.
    pub provider: String,
    /// Id of the model, as its provider names it.
    pub id: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blueprint {
    /// Name of its file, without the extension.
    pub name: BlueprintName,
    pub job: Job,
    /// When to choose it, in one sentence.
    pub when: String,
    /// Instructions that follow those of the job; may be empty.
    pub instructions: String,
    /// Names of its tools, in the order of the job.
    pub tools: Vec<&'static str>,
    /// The size of its model; has no effect with [`Self::named_model`].
    pub model: ModelSize,
    pub named_model: Option<NamedModel>,
    /// Whether a plan must exist before a proposal.
    pub plan_required: bool,
    /// Maximum calls of the language model for one request or event.
    pub steps: u32,
    /// No further call is made for one request or event after this was spent on it.
    pub cost: Money,
}

impl Blueprint {
    /// The size of its model, or `PROVIDER/ID`.
    pub fn model_name(&self) -> String {
        match &self.named_model {
            Some(NamedModel { provider, id }) => format!("{provider}/{id}"),
            None => self.model.name().to_owned(),
        }
    }
}
