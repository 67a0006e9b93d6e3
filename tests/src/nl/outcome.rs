//! What a run of a task came to, as it is graded: what is deployed before and after, what was said, used, noted and spent.
//!
//! Invariant: plain data. Where it comes from, the real programs ([`super::site`]) or a solution that somebody wrote ([`super::oracle`]), makes no
//! difference to the grades.

use std::collections::BTreeMap;

use serde_json::Value;
use watchkeeper_contract::pipeline::PipelineSpec;

/// What a pipeline is doing. One that is gone is in no list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// Frames go through, or the first one is waited for.
    Running,
    /// It takes none for now.
    Paused,
    /// It has ended or failed.
    Stopped,
}

impl Doing {
    /// As checks write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
        }
    }
}

/// A deployed pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct Deployed {
    /// What was deployed.
    pub spec: PipelineSpec,
    /// What it is doing.
    pub doing: Doing,
}

impl Deployed {
    /// The specification as text, but for whether it rests: that is its state.
    #[must_use]
    pub fn text(&self) -> String {
        let spec = PipelineSpec {
            paused: false,
            ..self.spec.clone()
        };
        serde_json::to_string(&spec).unwrap_or_default()
    }
}

/// Pipelines by their ids.
pub type Pipelines = BTreeMap<String, Deployed>;

/// Something that the agent used.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Its name, and those by which checks may call it.
    pub names: Vec<String>,
    /// Its arguments.
    pub arguments: Value,
    /// Whether it failed or was refused.
    pub failed: bool,
}

impl Call {
    /// A call that went well.
    #[must_use]
    pub fn new(names: &[&str], arguments: Value) -> Self {
        Self {
            names: names.iter().map(|n| (*n).to_owned()).collect(),
            arguments,
            failed: false,
        }
    }

    /// Whether it is of one of these names.
    #[must_use]
    pub fn is(&self, names: &[&str]) -> bool {
        self.names.iter().any(|n| names.contains(&n.as_str()))
    }
}

/// What the agent said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Said {
    /// All of it.
    pub text: String,
    /// Whether it asks something.
    pub asks: bool,
}

/// What it cost.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Spent {
    /// Calls of a model.
    pub model_calls: u64,
    /// Dollars.
    pub usd: f64,
    /// Seconds from the words to the last answer, with what was deployed running.
    pub wall_s: f64,
}

/// What a run of a task came to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// What was deployed before the words.
    pub before: Pipelines,
    /// What is deployed afterwards.
    pub after: Pipelines,
    /// What the agent said.
    pub said: Said,
    /// What it used, in order.
    pub calls: Vec<Call>,
    /// What it noted down: source and text.
    pub notes: Vec<(String, String)>,
    /// What it cost.
    pub spent: Spent,
    /// Specifications that were submitted.
    pub submitted: u64,
    /// Those of them that were refused.
    pub refused: u64,
    /// The region that stands for what a person drew when they were asked where a place is.
    pub drawn: Option<String>,
}

impl Outcome {
    /// Pipelines that are new or have another specification.
    pub fn changed(&self) -> impl Iterator<Item = &Deployed> {
        self.after.iter().filter_map(|(id, now)| {
            let is_same = self.before.get(id).is_some_and(|b| b.text() == now.text());
            (!is_same).then_some(now)
        })
    }

    /// Pipelines whose ids are new.
    pub fn new_ones(&self) -> impl Iterator<Item = &Deployed> {
        let new = self
            .after
            .iter()
            .filter(|(id, _)| !self.before.contains_key(*id));
        new.map(|(_, now)| now)
    }
}
