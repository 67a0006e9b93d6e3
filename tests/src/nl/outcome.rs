//! Outcome of a run of a task: pipelines before and after, reply, tool calls, notes and cost.
//!
//! Plain data. Its origin, the real programs ([`super::site`]) or a hand-written solution
//! ([`super::oracle`]), makes no difference to the grades.

use std::collections::BTreeMap;

use serde_json::Value;
use watchkeeper_contract::pipeline::PipelineSpec;

/// State of a pipeline. A deleted one is in no list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// Processes frames, or waits for the first one.
    Running,
    /// Takes no frames until a given time.
    Paused,
    /// Takes no frames until a user resumes it: what the product does on "stop".
    PausedByUser,
    /// Ended or failed.
    Stopped,
}

impl RunState {
    /// Returns the name that checks use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused | Self::PausedByUser => "paused",
            Self::Stopped => "stopped",
        }
    }

    /// Returns whether a check for this state holds. What stays paused is stopped too.
    #[must_use]
    pub fn is(self, wanted: &str) -> bool {
        self.name() == wanted || (self == Self::PausedByUser && wanted == Self::Stopped.name())
    }
}

/// Deployed pipeline with its state.
#[derive(Debug, Clone, PartialEq)]
pub struct Deployed {
    /// Specification as deployed.
    pub spec: PipelineSpec,
    pub doing: RunState,
}

impl Deployed {
    /// Serialises the specification without its pause, which is part of the state.
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

/// Tool call of the agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Names by which checks may refer to the call; the first is its own.
    pub names: Vec<String>,
    pub arguments: Value,
    /// Whether it failed or was refused.
    pub failed: bool,
}

impl Call {
    /// Creates a call that succeeded.
    pub fn new(names: &[&str], arguments: Value) -> Self {
        Self {
            names: names.iter().map(|n| (*n).to_owned()).collect(),
            arguments,
            failed: false,
        }
    }

    /// Whether the call has one of these names.
    pub fn is(&self, names: &[&str]) -> bool {
        self.names.iter().any(|n| names.contains(&n.as_str()))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentReply {
    pub text: String,
    /// Whether the reply asks a question.
    pub asks: bool,
}

/// Cost of a run.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cost {
    /// Number of LLM calls.
    pub model_calls: u64,
    /// Cost in dollars.
    pub usd: f64,
    /// Seconds from the request to the last reply, until the deployed pipelines run.
    pub wall_s: f64,
}

/// Outcome of one run of a task.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// Request that was sent.
    pub words: String,
    /// Pipelines before the request.
    pub before: Pipelines,
    /// Pipelines after the run.
    pub after: Pipelines,
    pub said: AgentReply,
    /// Tool calls in order.
    pub calls: Vec<Call>,
    /// Notes: source and text.
    pub notes: Vec<(String, String)>,
    pub spent: Cost,
    /// Number of submitted specifications.
    pub submitted: u64,
    /// Number of refused ones among them, for any reason.
    pub refused: u64,
    /// Number of submitted specifications that the validator refused.
    pub invalid: u64,
    /// Number of offers by the rules alone.
    pub offers_of_rules: u64,
    /// Region that was drawn as the answer to a question about a place.
    pub drawn: Option<String>,
}

impl Outcome {
    /// Yields the pipelines that are new or have another specification.
    pub fn changed(&self) -> impl Iterator<Item = &Deployed> {
        self.after.iter().filter_map(|(id, now)| {
            let is_same = self.before.get(id).is_some_and(|b| b.text() == now.text());
            (!is_same).then_some(now)
        })
    }

    /// Yields the pipelines with new ids.
    pub fn new_ones(&self) -> impl Iterator<Item = &Deployed> {
        let new = self
            .after
            .iter()
            .filter(|(id, _)| !self.before.contains_key(*id));
        new.map(|(_, now)| now)
    }
}
