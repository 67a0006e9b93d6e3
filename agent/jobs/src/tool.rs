//! What a step can do: tools, their parameters and results.
//!
//! - A value is checked against the [`Kind`] of its parameter before the run if the plan has it,
//!   else by the tool.
//! - A tool writes only at a [`Target`] that its [`Context`] has reserved.
//! - A tool asks [`Context::check_continue`] at least once a second.

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use jiff::civil::DateTime;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use watchkeeper_pictures::condition::{Condition, field_names};

use crate::answer_cache::AnswerCache;
use crate::cameras::KnownNames;
use crate::spelling::nearest;
use crate::target::{Target, TargetError};

/// Least texts of a [`Kind::Texts`]: of one there is nothing to choose.
pub(crate) const MIN_TEXTS: usize = 2;
/// Most texts of a [`Kind::Texts`].
const MAX_TEXTS: usize = 64;
/// Most conditions of a [`Kind::Conditions`].
pub(crate) const MAX_CONDITIONS: usize = 16;

/// Kind of a parameter or result. Values of one kind fit parameters of that kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    Text,
    /// List of [`MIN_TEXTS`] to [`MAX_TEXTS`] texts, to choose from.
    Texts,
    /// List of 1 to [`MAX_CONDITIONS`] texts of a [`Condition`].
    Conditions,
    /// Path of a folder that is read.
    Folder,
    /// Name of a new file or folder in the job's output folder.
    Name,
    Flag,
    /// Local date, with or without a time of the day.
    Time,
    /// Integer within bounds.
    Integer {
        min: u64,
        max: u64,
    },
    /// Finite number within bounds.
    Number {
        min: f64,
        max: f64,
    },
    Choice(&'static [&'static str]),
    /// List of [`watchkeeper_pictures::Picture`].
    Pictures,
    /// List of [`watchkeeper_pictures::Group`].
    Groups,
    /// Either of the last two.
    Collection,
}

impl Kind {
    /// Returns whether a result of the kind `given` can be used for this parameter.
    #[must_use]
    pub fn accepts(self, given: Self) -> bool {
        match (self, given) {
            (Self::Collection, Self::Pictures | Self::Groups)
            | (Self::Text, Self::Name | Self::Folder)
            | (Self::Integer { .. }, Self::Integer { .. })
            | (Self::Number { .. }, Self::Integer { .. } | Self::Number { .. }) => true,
            _ => self == given,
        }
    }

    /// Returns what is wrong with a value that was written in the plan.
    pub(crate) fn refuse(self, value: &Value) -> Option<String> {
        let fits = match self {
            Self::Text | Self::Folder => value.as_str().is_some_and(|text| !text.is_empty()),
            Self::Texts => value.as_array().is_some_and(|texts| {
                let is_text = |text: &Value| text.as_str().is_some_and(|text| !text.is_empty());
                (MIN_TEXTS..=MAX_TEXTS).contains(&texts.len()) && texts.iter().all(is_text)
            }),
            Self::Conditions => return refuse_conditions(value),
            Self::Name => value.as_str().is_some_and(is_name),
            Self::Flag => value.is_boolean(),
            Self::Time => value
                .as_str()
                .is_some_and(|text| local_time(text).is_some()),
            Self::Integer { min, max } => value.as_u64().is_some_and(|n| (min..=max).contains(&n)),
            Self::Number { min, max } => value.as_f64().is_some_and(|n| (min..=max).contains(&n)),
            Self::Choice(all) => value.as_str().is_some_and(|text| all.contains(&text)),
            Self::Pictures | Self::Groups | Self::Collection => false,
        };
        (!fits).then(|| self.to_string())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => f.write_str("a text"),
            Self::Texts => write!(f, "a list of {MIN_TEXTS} to {MAX_TEXTS} texts"),
            Self::Conditions => write!(
                f,
                "a list of 1 to {MAX_CONDITIONS} conditions such as \"width >= 1000\""
            ),
            Self::Folder => f.write_str("the path of a folder"),
            Self::Name => f.write_str("a file name without folders"),
            Self::Flag => f.write_str("true or false"),
            Self::Time => f.write_str(
                "a local time such as 2026-03-01 or 2026-03-01T08:00, or a span before now such \
                 as 1d or 90m",
            ),
            Self::Integer { max: u64::MAX, .. } => f.write_str("an integer"),
            Self::Integer { min, max } => write!(f, "an integer from {min} to {max}"),
            Self::Number { min, max } => write!(f, "a number from {min} to {max}"),
            Self::Choice(all) => write!(f, "one of {}", all.join(", ")),
            Self::Pictures => f.write_str("pictures of another step, such as ${list.pictures}"),
            Self::Groups => f.write_str("groups of another step, such as ${group.groups}"),
            Self::Collection => f.write_str("pictures or groups of another step"),
        }
    }
}

fn refuse_conditions(value: &Value) -> Option<String> {
    let listed = value.as_array();
    let Some(texts) = listed.filter(|texts| (1..=MAX_CONDITIONS).contains(&texts.len())) else {
        return Some(Kind::Conditions.to_string());
    };
    texts.iter().find_map(|text| {
        let Some(text) = text.as_str() else {
            return Some(Kind::Conditions.to_string());
        };
        let error = text.parse::<Condition>().err()?;
        let field = text.split_whitespace().next().unwrap_or_default();
        let meant = nearest(field, field_names()).filter(|meant| *meant != field);
        let meant = meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
        Some(format!("{}; {error}{meant}", Kind::Conditions))
    })
}

/// Reads a date, with or without a time of the day.
pub fn local_time(text: &str) -> Option<DateTime> {
    text.parse().ok()
}

/// Returns whether `name` is one part of a path, is not hidden, and is at most 200 bytes long.
pub(crate) fn is_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    let is_one = matches!(
        (parts.next(), parts.next()),
        (Some(Component::Normal(part)), None) if part.to_str() == Some(name)
    );
    is_one && !name.starts_with('.') && name.len() <= 200 && !name.contains(char::is_control)
}

fn check_name(name: &str) -> Result<(), ToolError> {
    match is_name(name) {
        true => Ok(()),
        false => Err(ToolError::Permanent(format!(
            "{name:?} is not {}",
            Kind::Name
        ))),
    }
}

/// A parameter of a tool.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    pub name: &'static str,
    pub kind: Kind,
    pub required: bool,
    pub about: &'static str,
}

impl Param {
    pub const fn required(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self {
            required: true,
            ..Self::optional(name, kind, about)
        }
    }

    pub const fn optional(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self {
            name,
            kind,
            required: false,
            about,
        }
    }
}

/// A key of a tool's result.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    pub key: &'static str,
    pub kind: Kind,
    pub about: &'static str,
}

impl Output {
    pub const fn new(key: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { key, kind, about }
    }
}

/// Description of a tool, for plans, people and language models.
#[derive(Debug)]
pub struct ToolSpec {
    pub name: &'static str,
    pub about: &'static str,
    pub params: &'static [Param],
    pub outputs: &'static [Output],
}

impl ToolSpec {
    pub(crate) fn param(&self, name: &str) -> Option<&'static Param> {
        self.params.iter().find(|param| param.name == name)
    }

    pub(crate) fn output(&self, key: &str) -> Option<&'static Output> {
        self.outputs.iter().find(|output| output.key == key)
    }
}

/// Values of a call or a result, by name.
pub type Values = Map<String, Value>;

/// Formats the values of a call in one line, without pictures and names:
/// `camera gate, hour is 6-12`.
pub(crate) fn in_words(params: &Values) -> String {
    let said = params.iter().filter_map(|(name, value)| match value {
        _ if ["file", "folder", "name", "title"].contains(&name.as_str()) => None,
        Value::String(text) if text.starts_with("${") => None,
        Value::String(text) => Some(format!("{name} {text}")),
        Value::Array(texts) => {
            let texts: Option<Vec<&str>> = texts.iter().map(Value::as_str).collect();
            texts
                .filter(|texts| !texts.is_empty())
                .map(|texts| texts.join(", "))
        }
        other => Some(format!("{name} {other}")),
    });
    said.collect::<Vec<_>>().join(", ")
}

/// Result of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutput {
    /// Value of each output of the tool.
    pub values: Values,
    /// The result in one sentence.
    pub summary: String,
    /// Files and folders that were written, as names in the output folder.
    pub files: Vec<String>,
}

/// Why a tool failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// A repeated run of the tool may succeed.
    #[error("{0}")]
    Transient(String),
    /// The tool fails again with the same parameters.
    #[error("{0}")]
    Permanent(String),
    #[error("cancelled")]
    Cancelled,
    #[error("not done within the step's timeout_s; raise it in the plan, and run the plan again")]
    TimedOut,
}

impl From<TargetError> for ToolError {
    fn from(error: TargetError) -> Self {
        Self::Transient(error.to_string())
    }
}

/// Reads the parameters of a call into the tool's own type.
///
/// # Errors
/// [`ToolError::Permanent`] if a value that came from another step does not fit.
pub fn read<T: DeserializeOwned>(params: Values) -> Result<T, ToolError> {
    serde_json::from_value(Value::Object(params))
        .map_err(|error| ToolError::Permanent(format!("the parameters do not fit: {error}")))
}

/// Behaviour of a tool.
pub trait Tool: Send + Sync {
    fn spec(&self) -> &'static ToolSpec;

    /// Returns what this box or the call lacks, in one sentence with the remedy. Values of `params`
    /// that are known only at the run are `null`. [`Self::run`] fails for the same reason.
    fn missing(&self, _params: &Values) -> Option<String> {
        None
    }

    /// Returns what requests may name on this box; `None` while it is not known. May block.
    fn names(&self) -> Option<KnownNames> {
        None
    }

    /// Returns whether it changes something other than the files of its job. A plan of a language
    /// model has no such step, because it runs without a confirmation.
    fn changes_the_box(&self) -> bool {
        false
    }

    /// Runs the tool with checked parameters whose references are resolved.
    ///
    /// Calls [`Context::check_continue`] at least once a second.
    ///
    /// # Errors
    /// If it fails, or the context says that it must end.
    fn run(&self, params: Values, context: &Context<'_>) -> Result<ToolOutput, ToolError>;
}

/// The tools that plans may use, by name.
#[derive(Clone, Default)]
pub struct Toolbox(Vec<Arc<dyn Tool>>);

impl fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.specs().map(|spec| spec.name))
            .finish()
    }
}

impl Toolbox {
    pub fn new(tools: Vec<Arc<dyn Tool>>) -> Self {
        Self(tools)
    }

    pub fn add(&mut self, tool: Arc<dyn Tool>) {
        self.0.push(tool);
    }

    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.0.iter().find(|tool| tool.spec().name == name)
    }

    pub fn spec(&self, name: &str) -> Option<&'static ToolSpec> {
        self.get(name).map(|tool| tool.spec())
    }

    pub fn specs(&self) -> impl Iterator<Item = &'static ToolSpec> {
        self.0.iter().map(|tool| tool.spec())
    }

    /// Returns the tools that a language model may plan with.
    #[must_use]
    pub fn for_models(&self) -> Self {
        let tools = self.0.iter().filter(|tool| !tool.changes_the_box());
        Self(tools.cloned().collect())
    }

    /// Returns what requests may name; `None` while no tool knows it. May block.
    pub fn names(&self) -> Option<KnownNames> {
        self.0.iter().find_map(|tool| tool.names())
    }
}

/// Progress of a running step.
#[derive(Debug, Default)]
pub struct Gauge {
    done: AtomicU64,
    total: AtomicU64,
}

impl Gauge {
    /// Returns what is done of how much; a total of 0 is unknown.
    pub fn read(&self) -> (u64, u64) {
        let [done, total] = [&self.done, &self.total].map(|n| n.load(Ordering::Relaxed));
        (done, total)
    }
}

/// The job's resources that a running tool may use.
pub struct Context<'a> {
    pub(crate) step: &'a str,
    pub(crate) output: &'a Path,
    /// File of what tools have found out in this job.
    pub(crate) seen: &'a Path,
    /// Reserves a name in the output folder for the step, durably.
    pub(crate) claim: &'a (dyn Fn(&str) -> Result<(), ToolError> + Sync),
    pub(crate) deadline: Instant,
    pub(crate) is_cancelled: &'a (dyn Fn() -> bool + Sync),
    pub(crate) gauge: &'a Gauge,
    /// Whether a language model may revise the plan: then it is a failure that no picture matches.
    pub(crate) is_revisable: bool,
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

impl Context<'_> {
    /// Sets the amount of work.
    pub fn expect(&self, total: usize) {
        self.gauge.total.store(total as u64, Ordering::Relaxed);
        self.gauge.done.store(0, Ordering::Relaxed);
    }

    /// Counts one piece of work as done.
    pub fn count(&self) {
        self.gauge.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Checks that the tool may continue.
    ///
    /// # Errors
    /// If the job was cancelled or the step's time is over.
    pub fn check_continue(&self) -> Result<(), ToolError> {
        if (self.is_cancelled)() {
            Err(ToolError::Cancelled)
        } else if Instant::now() >= self.deadline {
            Err(ToolError::TimedOut)
        } else {
            Ok(())
        }
    }

    /// Opens what tools have found out in this job, also before it was resumed.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn answers(&self) -> Result<AnswerCache, ToolError> {
        let failed = |error| ToolError::Transient(format!("{}: {error}", self.seen.display()));
        AnswerCache::open(self.seen).map_err(failed)
    }

    /// Returns the path of what an earlier step of the job has written under a name.
    ///
    /// # Errors
    /// If the name is not a plain one.
    pub fn written(&self, name: &str) -> Result<PathBuf, ToolError> {
        check_name(name)?;
        Ok(self.output.join(name))
    }

    /// Reserves a name in the output folder for a new file or folder. What an earlier attempt of
    /// this step left there is removed.
    ///
    /// # Errors
    /// If the name is not a plain one, or another step or something that is not of this job has it.
    /// Also if what is there can't be removed.
    pub fn target(&self, name: &str) -> Result<Target, ToolError> {
        check_name(name)?;
        (self.claim)(name)?;
        Ok(Target::new(self.output, name)?)
    }
}
