//! The checks of a task as written in a file.
//!
//! Every operation of the format has a variant with all of its arguments. An unknown operation or
//! argument is an error; a `note` is for people.

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::Value;

/// One check of a task.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Check {
    /// The product's own validator accepts every deployed specification.
    Valid(Bare),
    /// Number of new pipelines that run, and their cameras.
    Deployed(Deployed),
    /// No pipeline is new, removed or changed.
    NoDeploy(Bare),
    /// There are steps of a family.
    Has(Has),
    /// There is no step of a family.
    Lacks(Lacks),
    /// Data passes through steps of these families in this order.
    Path(Path),
    /// A step of a family has a setting.
    Param(Param),
    /// A step of a family has a zone or line near a region.
    Geom(Geom),
    /// Events and counts of the deployed pipelines on the script.
    Behaviour(Behaviour),
    /// State of a pipeline.
    State(State),
    /// A pipeline has not changed.
    Unchanged(OfPipeline),
    /// A pipeline has another specification.
    Updated(OfPipeline),
    /// Tools that the agent used.
    Tools(Tools),
    /// Reply of the agent.
    Reply(Reply),
    /// Notes that the agent wrote.
    Memory(Memory),
    /// LLM calls, time and cost.
    Budget(Budget),
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bare {}

/// Arguments of `deployed`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deployed {
    /// Exact number of pipelines.
    pub n: Option<u64>,
    pub min: Option<u64>,
    pub max: Option<u64>,
    /// Exact set of cameras.
    pub cameras: Option<Vec<String>>,
}

/// Arguments of `has`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Has {
    /// Families, separated by `|`.
    pub family: String,
    /// Least number of steps.
    #[serde(default = "one")]
    pub min: u64,
    /// Largest number of steps.
    pub max: Option<u64>,
    /// Predicates that all hold of one step.
    #[serde(default, rename = "where")]
    pub and: Vec<Predicate>,
    /// Restricts the check to pipelines on this camera.
    pub camera: Option<String>,
}

fn one() -> u64 {
    1
}

/// Arguments of `lacks`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lacks {
    /// Families, separated by `|`.
    pub family: String,
    /// Restricts the check to steps for which all of these hold.
    #[serde(default, rename = "where")]
    pub and: Vec<Predicate>,
    /// Restricts the check to pipelines on this camera.
    pub camera: Option<String>,
}

/// Arguments of `path`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Path {
    /// Families in order, each with `|` between alternatives.
    pub via: Vec<String>,
    /// Restricts the check to pipelines on this camera.
    pub camera: Option<String>,
}

/// A predicate on a setting.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Predicate {
    /// Name of the setting.
    pub key: String,
    /// Comparison: `eq`, `in`, `between`, `contains`, `subset`, `superset`, `set_eq`, `regex`,
    /// `exists`.
    #[serde(default = "eq")]
    pub pred: String,
    /// Right side of the comparison.
    #[serde(default)]
    pub value: Value,
}

fn eq() -> String {
    "eq".to_owned()
}

/// Arguments of `param`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Param {
    /// Families, separated by `|`.
    pub family: String,
    /// Name of the setting.
    pub key: String,
    /// Comparison, as in [`Predicate`].
    #[serde(default = "eq")]
    pub pred: String,
    /// Right side of the comparison.
    #[serde(default)]
    pub value: Value,
    /// Restricts the check to pipelines on this camera.
    pub camera: Option<String>,
}

/// Arguments of `geom`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geom {
    /// Families, separated by `|`.
    pub family: String,
    /// `polygon` or `line`.
    #[serde(default = "polygon")]
    pub kind: String,
    /// Name of the region to compare with.
    #[serde(rename = "ref")]
    pub region: String,
    /// Least intersection over union with the region.
    pub iou_min: Option<f64>,
    /// Least share of the step's polygon that lies in the region.
    pub inside_min: Option<f64>,
    /// Largest distance of the ends of lines, in shares of the picture.
    pub max_dist: Option<f64>,
    /// Restricts the check to pipelines on this camera.
    pub camera: Option<String>,
}

fn polygon() -> String {
    "polygon".to_owned()
}

/// Bounds of a number, both included.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bounds {
    pub min: Option<f64>,
    pub max: Option<f64>,
}

impl Bounds {
    /// Whether a number lies within the bounds.
    #[must_use]
    pub fn hold(&self, number: f64) -> bool {
        self.min.is_none_or(|min| number >= min) && self.max.is_none_or(|max| number <= max)
    }
}

impl std::fmt::Display for Bounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.min, self.max) {
            (Some(min), Some(max)) => write!(f, "{min} to {max}"),
            (Some(min), None) => write!(f, "at least {min}"),
            (None, Some(max)) => write!(f, "at most {max}"),
            (None, None) => f.write_str("any number"),
        }
    }
}

/// Arguments of `behaviour`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Behaviour {
    /// Number of rule events.
    pub events: Option<Bounds>,
    /// Number of rule events on one camera; of `*other`, on all cameras that are not named.
    pub by_camera: BTreeMap<String, Bounds>,
    /// Counts at the end, such as `park.cars`; `*other` is every count that is not named.
    pub counter: BTreeMap<String, Value>,
    /// Number of crossings of the lines, in both directions.
    pub crossings_total: Option<Value>,
    /// Number of objects in the zone at the end.
    pub occupancy: Option<Value>,
    /// Start of the first event, in seconds of the script.
    pub first_event_s: Option<Bounds>,
    /// Exact set of classes of the events.
    pub classes_in_events: Option<Vec<String>>,
    /// Number of notifications.
    pub alerts: Option<Bounds>,
    /// Number of events that ask for a second opinion.
    pub escalations: Option<Bounds>,
}

/// Arguments of `state`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Pipeline, or the camera of the pipelines.
    pub id: String,
    /// `running`, `paused` or `stopped`.
    pub is: String,
}

/// Arguments of checks on one pipeline.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfPipeline {
    /// Id of the pipeline.
    pub id: String,
}

/// Arguments of `tools`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tools {
    /// Tools used at least once each; `a|b` is either.
    pub must: Vec<String>,
    /// Tools that are not used.
    pub must_not: Vec<String>,
    /// Largest number of calls.
    pub max_calls: Option<u64>,
    /// Largest number of validations with findings.
    pub max_validate_failures: Option<u64>,
    /// Tools used in this order, possibly with others between.
    pub order: Vec<String>,
    /// Arguments of some call of each tool.
    pub args: BTreeMap<String, BTreeMap<String, Value>>,
}

/// Arguments of `reply`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reply {
    /// The reply holds one word of each list, in any case.
    pub mentions: Vec<Vec<String>>,
    /// Words that the reply does not hold.
    pub must_not: Vec<String>,
    /// Whether the reply asks a question.
    pub asks_question: Option<bool>,
    /// Numbers that the reply holds.
    pub numbers: Vec<f64>,
    /// Language code of the reply, such as `de`.
    pub language: Option<String>,
}

/// Arguments of `memory`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// `preference`, `observation`, `knowledge` or `config`, separated by `|`.
    pub source: String,
    /// Pattern that an entry matches.
    pub regex: String,
}

/// Arguments of `budget`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    /// Largest number of LLM calls.
    pub max_model_calls: Option<u64>,
    /// Longest time from the request until the pipelines run, in seconds.
    pub max_wall_s: Option<f64>,
    /// Highest cost in dollars.
    pub max_cost_usd: Option<f64>,
}

impl Check {
    /// Parses a check.
    ///
    /// # Errors
    /// If it has no operation, or arguments that do not belong to its operation.
    pub fn read(written: &Value) -> anyhow::Result<Self> {
        let mut fields = written.as_object().cloned().unwrap_or_default();
        fields.remove("note");
        let op = written["op"].as_str().context("op is missing")?;
        serde_json::from_value(Value::Object(fields)).with_context(|| format!("op {op:?}"))
    }

    /// Returns the name of the operation.
    pub fn op(&self) -> &str {
        match self {
            Self::Valid(_) => "valid",
            Self::Deployed(_) => "deployed",
            Self::NoDeploy(_) => "no_deploy",
            Self::Has(_) => "has",
            Self::Lacks(_) => "lacks",
            Self::Path(_) => "path",
            Self::Param(_) => "param",
            Self::Geom(_) => "geom",
            Self::Behaviour(_) => "behaviour",
            Self::State(_) => "state",
            Self::Unchanged(_) => "unchanged",
            Self::Updated(_) => "updated",
            Self::Tools(_) => "tools",
            Self::Reply(_) => "reply",
            Self::Memory(_) => "memory",
            Self::Budget(_) => "budget",
        }
    }

    /// Whether it concerns a specification, so that it can hold of the first submitted one.
    pub fn is_about_the_specification(&self) -> bool {
        matches!(
            self,
            Self::Valid(_)
                | Self::Has(_)
                | Self::Lacks(_)
                | Self::Path(_)
                | Self::Param(_)
                | Self::Geom(_)
        )
    }

    /// Whether it concerns what was deployed, changed or stopped.
    pub fn is_about_effects(&self) -> bool {
        !matches!(
            self,
            Self::Tools(_) | Self::Reply(_) | Self::Memory(_) | Self::Budget(_)
        )
    }
}
