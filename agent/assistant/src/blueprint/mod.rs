//! Blueprints: which jobs a model of language has on this box, and what each may use and spend.
//!
//! A job ([`Job`]) is written in this program: what its model is told first, which tools it may have at all, how often it may be asked. A [`Blueprint`]
//! is a file of a person that fits a job to a site: when it is the right one, what else the model is told, fewer tools, a smaller bound. One of each
//! job is built in ([`built_in`]); a file of the same name takes its place ([`store`]).
//!
//! Invariants:
//! - a blueprint only narrows: its tools are among those of its job, its bounds not above the job's, and the gate ([`crate::permissions`]) is asked
//!   all the same. What it tells a model stands behind the job's own instructions;
//! - a file that can't be used is told with field, value and remedy, and takes nothing away: where a built-in one has its name, that serves;
//! - everything is bounded: the file, the instructions, the number of files.
//!
//! Everything but the shelf is sans-IO.

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
/// Longest instructions, in bytes of UTF-8: with them and all tools of the largest job a prompt stays below
/// [`MAX_TOKENS`](crate::setup_agent::prompt::MAX_TOKENS).
pub const MAX_INSTRUCTIONS: usize = 2_000;
/// Longest sentence about when a blueprint is the right one, in characters. A model that routes is told those of all.
pub const MAX_WHEN: usize = 300;

/// How large a model is asked, in the words of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelSize {
    /// `llm.model`.
    Small,
    /// `llm.large_model`.
    Large,
}

impl ModelSize {
    /// The model of the client that it is.
    #[must_use]
    pub const fn tier(self) -> Tier {
        match self {
            Self::Small => Tier::Small,
            Self::Large => Tier::Medium,
        }
    }

    /// Its name in a file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Large => "large",
        }
    }
}

/// A blueprint that was read and may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blueprint {
    /// Its name, which is the file's.
    pub name: BlueprintName,
    /// What it is for.
    pub job: Job,
    /// When it is the right one, in one sentence.
    pub when: String,
    /// What the model is told behind the job's own instructions; may be empty.
    pub instructions: String,
    /// The tools, in the order of the job.
    pub tools: Vec<&'static str>,
    /// How large a model.
    pub model: ModelSize,
    /// Most calls of the model for one request or event.
    pub steps: u32,
    /// No further call is made for one request or event once this was spent on it.
    pub cost: Money,
}
