//! What can be wrong with a plan.

use std::fmt;

use serde_json::Value;

use super::{MAX_PLAN_BYTES, MAX_STEPS};

/// Longest value shown in a sentence, in characters.
const MAX_SHOWN: usize = 60;

/// One fault of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// Where, such as `steps.rank.params.by`; empty for the whole plan.
    pub at: String,
    pub kind: FaultKind,
}

#[derive(Debug, Clone, PartialEq)]
pub enum FaultKind {
    /// Neither YAML nor JSON.
    Syntax(String),
    TooLarge,
    Missing,
    /// A value that is not what the field takes.
    Value {
        found: String,
        wanted: String,
    },
    /// A name that is not among the known ones. Holds the nearest one, if it is near; some of the
    /// known ones, and how many there are besides.
    Unknown {
        what: &'static str,
        name: String,
        nearest: Option<String>,
        known: Vec<String>,
        others: usize,
    },
    NoSteps,
    TooManySteps(usize),
    DuplicateStep,
    SelfDependency,
    /// A tool that this box can't run: what it lacks, with the remedy.
    Unequipped(String),
    /// Steps that wait for each other, each for the next one.
    Cycle(Vec<String>),
    /// Two steps that write the same file.
    SameFile {
        name: String,
        other: String,
    },
}

impl Fault {
    pub(crate) fn new(at: impl Into<String>, kind: FaultKind) -> Self {
        Self {
            at: at.into(),
            kind,
        }
    }

    pub(crate) fn value(at: impl Into<String>, found: &Value, wanted: impl Into<String>) -> Self {
        let (found, wanted) = (short_json(found), wanted.into());
        Self::new(at, FaultKind::Value { found, wanted })
    }
}

/// A value as it is shown in a sentence.
pub(super) fn short_json(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.at.is_empty() {
            write!(f, "{}: ", self.at)?;
        }
        match &self.kind {
            FaultKind::Syntax(why) => write!(f, "not a plan in YAML or JSON: {why}"),
            FaultKind::TooLarge => {
                write!(
                    f,
                    "a plan has at most {MAX_PLAN_BYTES} bytes; this is longer"
                )
            }
            FaultKind::Missing => f.write_str("is missing"),
            FaultKind::Value { found, wanted } => write!(f, "{found} is not {wanted}"),
            FaultKind::Unknown {
                what,
                name,
                nearest,
                known,
                others,
            } => {
                write!(f, "no {what} {name:?}")?;
                match (nearest, others) {
                    (Some(nearest), _) => write!(f, "; did you mean {nearest}?"),
                    (None, _) if known.is_empty() => Ok(()),
                    (None, 0) => write!(f, "; there are {}", known.join(", ")),
                    (None, others) => {
                        write!(f, "; there are {} and {others} more", known.join(", "))
                    }
                }
            }
            FaultKind::NoSteps => f.write_str("a plan needs at least one step"),
            FaultKind::TooManySteps(number) => {
                write!(
                    f,
                    "{number} steps are more than the {MAX_STEPS} allowed; split the plan"
                )
            }
            FaultKind::DuplicateStep => f.write_str("another step has this name; rename one"),
            FaultKind::SelfDependency => f.write_str("the step waits for itself"),
            FaultKind::Unequipped(why) => f.write_str(why),
            FaultKind::Cycle(steps) => write!(
                f,
                "these steps wait for each other: {}; remove one of the references",
                steps.join(" → ")
            ),
            FaultKind::SameFile { name, other } => {
                write!(f, "step {other} writes {name:?} too; choose another name")
            }
        }
    }
}
