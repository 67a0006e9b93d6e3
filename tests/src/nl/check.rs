//! The checks of a task as they are written.
//!
//! Invariant: every operation of the format has a variant with all of its arguments; what a check says besides is listed by [`Check::unread`].

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::task::Rest;

/// A check.
#[derive(Debug, Clone)]
pub enum Check {
    /// What was deployed passes the product's own validator.
    Valid(Bare),
    /// How many new pipelines run, and on which cameras.
    Deployed(Deployed),
    /// Nothing is new, gone or different.
    NoDeploy(Bare),
    /// There are steps of a family.
    Has(Has),
    /// There is no step of a family.
    Lacks(Lacks),
    /// Data goes through steps of these families in this order.
    Path(Path),
    /// A step of a family has a setting.
    Param(Param),
    /// A step of a family lies somewhere in the picture.
    Geom(Geom),
    /// What the deployed pipelines do on the script.
    Behaviour(Behaviour),
    /// What a pipeline is doing.
    State(State),
    /// A pipeline is as it was.
    Unchanged(OfPipeline),
    /// A pipeline has another specification.
    Updated(OfPipeline),
    /// What the agent used.
    Tools(Tools),
    /// What the agent said.
    Reply(Reply),
    /// What the agent noted down.
    Memory(Memory),
    /// What it cost.
    Budget(Budget),
    /// An operation that this program doesn't know: it never holds.
    Unknown(String),
}

/// No arguments.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Bare {
    #[serde(flatten)]
    rest: Rest,
}

/// Arguments of `deployed`.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Deployed {
    /// Exactly so many.
    #[serde(default)]
    pub n: Option<u64>,
    /// At least.
    #[serde(default)]
    pub min: Option<u64>,
    /// At most.
    #[serde(default)]
    pub max: Option<u64>,
    /// Exactly these cameras.
    #[serde(default)]
    pub cameras: Option<Vec<String>>,
    #[serde(flatten)]
    rest: Rest,
}

/// Arguments of `has`.
#[derive(Debug, Clone, Deserialize)]
pub struct Has {
    /// Families, with `|` between.
    pub family: String,
    /// At least so many steps.
    #[serde(default = "one")]
    pub min: u64,
    /// At most.
    #[serde(default)]
    pub max: Option<u64>,
    /// What holds of the same step.
    #[serde(default, rename = "where")]
    pub and: Vec<Predicate>,
    /// Only pipelines on this camera.
    #[serde(default)]
    pub camera: Option<String>,
    #[serde(flatten)]
    rest: Rest,
}

fn one() -> u64 {
    1
}

/// Arguments of `lacks`.
#[derive(Debug, Clone, Deserialize)]
pub struct Lacks {
    /// Families, with `|` between.
    pub family: String,
    /// Only steps of which all of this holds.
    #[serde(default, rename = "where")]
    pub and: Vec<Predicate>,
    /// Only pipelines on this camera.
    #[serde(default)]
    pub camera: Option<String>,
    #[serde(flatten)]
    rest: Rest,
}

/// Arguments of `path`.
#[derive(Debug, Clone, Deserialize)]
pub struct Path {
    /// Families, each with `|` between alternatives.
    pub via: Vec<String>,
    /// Only pipelines on this camera.
    #[serde(default)]
    pub camera: Option<String>,
    #[serde(flatten)]
    rest: Rest,
}

/// A predicate on a setting.
#[derive(Debug, Clone, Deserialize)]
pub struct Predicate {
    /// Which setting.
    pub key: String,
    /// What is asked of it: `eq`, `in`, `between`, `contains`, `subset`, `superset`, `set_eq`, `regex`, `exists`.
    #[serde(default = "eq")]
    pub pred: String,
    /// What it is compared with.
    #[serde(default)]
    pub value: Value,
}

fn eq() -> String {
    "eq".to_owned()
}

/// Arguments of `param`.
#[derive(Debug, Clone, Deserialize)]
pub struct Param {
    /// Families, with `|` between.
    pub family: String,
    /// Which setting.
    pub key: String,
    /// What is asked of it.
    #[serde(default = "eq")]
    pub pred: String,
    /// What it is compared with.
    #[serde(default)]
    pub value: Value,
    /// Only pipelines on this camera.
    #[serde(default)]
    pub camera: Option<String>,
    #[serde(flatten)]
    rest: Rest,
}

/// Arguments of `geom`.
#[derive(Debug, Clone, Deserialize)]
pub struct Geom {
    /// Families, with `|` between.
    pub family: String,
    /// `polygon` or `line`.
    #[serde(default = "polygon")]
    pub kind: String,
    /// Name of the region that it is compared with.
    #[serde(rename = "ref")]
    pub region: String,
    /// Least share of both polygons that they have in common.
    #[serde(default)]
    pub iou_min: Option<f64>,
    /// Least share of the step's polygon that lies in the region.
    #[serde(default)]
    pub inside_min: Option<f64>,
    /// Largest distance of the ends of lines, in shares of the picture.
    #[serde(default)]
    pub max_dist: Option<f64>,
    /// Only pipelines on this camera.
    #[serde(default)]
    pub camera: Option<String>,
    #[serde(flatten)]
    rest: Rest,
}

fn polygon() -> String {
    "polygon".to_owned()
}

/// Bounds of a number, both included.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
pub struct Bounds {
    /// Lower.
    #[serde(default)]
    pub min: Option<f64>,
    /// Upper.
    #[serde(default)]
    pub max: Option<f64>,
}

impl Bounds {
    /// Whether a number lies within.
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
pub struct Behaviour {
    /// Events of rules.
    #[serde(default)]
    pub events: Option<Bounds>,
    /// The same on one camera.
    #[serde(default)]
    pub by_camera: BTreeMap<String, Bounds>,
    /// Numbers at the end, such as `park.cars`.
    #[serde(default)]
    pub counter: BTreeMap<String, Value>,
    /// When the first event begins, in seconds of the script.
    #[serde(default)]
    pub first_event_s: Option<Bounds>,
    /// Exactly the classes that events are about.
    #[serde(default)]
    pub classes_in_events: Option<Vec<String>>,
    /// What people are told.
    #[serde(default)]
    pub alerts: Option<Bounds>,
    /// Events that ask for a second opinion.
    #[serde(default)]
    pub escalations: Option<Bounds>,
    #[serde(flatten)]
    rest: Rest,
}

/// Arguments of `state`.
#[derive(Debug, Clone, Deserialize)]
pub struct State {
    /// The pipeline, or the camera whose pipelines are meant.
    pub id: String,
    /// `running`, `paused` or `stopped`.
    pub is: String,
    #[serde(flatten)]
    rest: Rest,
}

/// A pipeline.
#[derive(Debug, Clone, Deserialize)]
pub struct OfPipeline {
    /// Which.
    pub id: String,
    #[serde(flatten)]
    rest: Rest,
}

/// Arguments of `tools`.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Tools {
    /// Used at least once each; `a|b` is either.
    #[serde(default)]
    pub must: Vec<String>,
    /// Never used.
    #[serde(default)]
    pub must_not: Vec<String>,
    /// Calls in all.
    #[serde(default)]
    pub max_calls: Option<u64>,
    /// Validations that found something wrong.
    #[serde(default)]
    pub max_validate_failures: Option<u64>,
    /// Used in this order, with others between.
    #[serde(default)]
    pub order: Vec<String>,
    /// Arguments of some call of each tool.
    #[serde(default)]
    pub args: BTreeMap<String, BTreeMap<String, Value>>,
    #[serde(flatten)]
    rest: Rest,
}

/// Arguments of `reply`.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Reply {
    /// One word of each list is in it, whatever its capitals.
    #[serde(default)]
    pub mentions: Vec<Vec<String>>,
    /// None of these is.
    #[serde(default)]
    pub must_not: Vec<String>,
    /// Whether it asks something.
    #[serde(default)]
    pub asks_question: Option<bool>,
    /// These numbers are in it.
    #[serde(default)]
    pub numbers: Vec<f64>,
    /// Its language, such as `de`.
    #[serde(default)]
    pub language: Option<String>,
    #[serde(flatten)]
    rest: Rest,
}

/// Arguments of `memory`.
#[derive(Debug, Clone, Deserialize)]
pub struct Memory {
    /// `preference`, `observation`, `knowledge` or `config`, with `|` between.
    pub source: String,
    /// What an entry matches.
    pub regex: String,
    #[serde(flatten)]
    rest: Rest,
}

/// Arguments of `budget`.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Budget {
    /// Calls of a model.
    #[serde(default)]
    pub max_model_calls: Option<u64>,
    /// Seconds from the words to pipelines that run.
    #[serde(default)]
    pub max_wall_s: Option<f64>,
    /// Dollars.
    #[serde(default)]
    pub max_cost_usd: Option<f64>,
    #[serde(flatten)]
    rest: Rest,
}

fn arguments<T: DeserializeOwned>(written: &Value) -> anyhow::Result<T> {
    let mut fields = written.as_object().cloned().unwrap_or_default();
    fields.remove("op");
    let op = written["op"].as_str().unwrap_or_default();
    serde_json::from_value(Value::Object(fields)).with_context(|| format!("op {op:?}"))
}

impl Check {
    /// Reads a check.
    ///
    /// # Errors
    /// When it has no operation, or arguments that are not those of its operation.
    pub fn read(written: &Value) -> anyhow::Result<Self> {
        let op = written["op"].as_str().context("op is missing")?;
        Ok(match op {
            "valid" => Self::Valid(arguments(written)?),
            "deployed" => Self::Deployed(arguments(written)?),
            "no_deploy" => Self::NoDeploy(arguments(written)?),
            "has" => Self::Has(arguments(written)?),
            "lacks" => Self::Lacks(arguments(written)?),
            "path" => Self::Path(arguments(written)?),
            "param" => Self::Param(arguments(written)?),
            "geom" => Self::Geom(arguments(written)?),
            "behaviour" => Self::Behaviour(arguments(written)?),
            "state" => Self::State(arguments(written)?),
            "unchanged" => Self::Unchanged(arguments(written)?),
            "updated" => Self::Updated(arguments(written)?),
            "tools" => Self::Tools(arguments(written)?),
            "reply" => Self::Reply(arguments(written)?),
            "memory" => Self::Memory(arguments(written)?),
            "budget" => Self::Budget(arguments(written)?),
            other => Self::Unknown(other.to_owned()),
        })
    }

    /// Its operation.
    #[must_use]
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
            Self::Unknown(op) => op,
        }
    }

    /// Whether it is about a specification, and so could hold of the first one that was submitted.
    #[must_use]
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

    /// Fields that nobody reads.
    pub(super) fn unread(&self) -> Vec<String> {
        let rest = match self {
            Self::Valid(c) | Self::NoDeploy(c) => &c.rest,
            Self::Deployed(c) => &c.rest,
            Self::Has(c) => &c.rest,
            Self::Lacks(c) => &c.rest,
            Self::Path(c) => &c.rest,
            Self::Param(c) => &c.rest,
            Self::Geom(c) => &c.rest,
            Self::Behaviour(c) => &c.rest,
            Self::State(c) => &c.rest,
            Self::Unchanged(c) | Self::Updated(c) => &c.rest,
            Self::Tools(c) => &c.rest,
            Self::Reply(c) => &c.rest,
            Self::Memory(c) => &c.rest,
            Self::Budget(c) => &c.rest,
            Self::Unknown(_) => return Vec::new(),
        };
        // A note is for people.
        rest.keys().filter(|k| *k != "note").cloned().collect()
    }
}
