//! What failed: the tool, the class of its error, and the place in a workflow.

use std::fmt;

use serde_json::Value;
use watchkeeper_config::redact;

use crate::trace::without_secrets;

/// Maximum characters of a name in a lesson.
const MAX_NAME_CHARS: usize = 80;
/// Tool of a mistake of the rules.
pub const RULES: &str = "rules";
/// Tool of a request that ended without a result.
pub const REQUEST: &str = "request";
/// Beginning of each error of a tool about its arguments.
pub const INVALID_ARGUMENTS: &str = "the arguments do not match the schema";
/// Minimum length of a text that can say something.
const MIN_TEXT_BYTES: usize = 4;
/// Lengths to which tools cut a text of their arguments, in characters.
const CUTS: [usize; 3] = [80, 60, 40];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// The arguments do not match the schema, or are not JSON.
    InvalidArguments,
    DoesNotCompile,
    /// The workflow compiles, but this box can't run it.
    CannotRun,
    /// Any other error of a tool.
    Rejected,
    /// The request ended without answer and proposal.
    NoResult,
    /// The user corrected a proposal of the rules.
    Corrected,
}

const ALL: [ErrorClass; 6] = [
    ErrorClass::InvalidArguments,
    ErrorClass::DoesNotCompile,
    ErrorClass::CannotRun,
    ErrorClass::Rejected,
    ErrorClass::NoResult,
    ErrorClass::Corrected,
];

impl ErrorClass {
    /// Name in the note and its tag.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidArguments => "invalid-arguments",
            Self::DoesNotCompile => "does-not-compile",
            Self::CannotRun => "cannot-run",
            Self::Rejected => "rejected",
            Self::NoResult => "no-result",
            Self::Corrected => "corrected",
        }
    }
}

/// A mistake, without its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Name of the tool; [`RULES`] or [`REQUEST`] if none failed.
    pub tool: String,
    pub class: ErrorClass,
    /// Type of the block, as the failed call spelled it.
    pub block: Option<String>,
    pub step: Option<String>,
    pub property: Option<String>,
}

impl Mistake {
    /// A mistake outside a workflow.
    pub fn new(tool: &str, class: ErrorClass) -> Self {
        Self {
            tool: checked_name(tool).unwrap_or_else(|| "unknown".to_owned()),
            class,
            block: None,
            step: None,
            property: None,
        }
    }

    /// The mistake of a failed call, and the message of its error.
    pub fn from_call(tool: &str, arguments: &Value, error: &str) -> (Self, String) {
        let report: Value = serde_json::from_str(error).unwrap_or_default();
        let first = report.get("errors").and_then(|errors| errors.get(0));
        let class = match report.get("compiles").and_then(Value::as_bool) {
            Some(false) => ErrorClass::DoesNotCompile,
            Some(true) => ErrorClass::CannotRun,
            // A long report was cut, so it is not JSON.
            None if error.starts_with("{\"compiles\":false") => ErrorClass::DoesNotCompile,
            None if error.starts_with(INVALID_ARGUMENTS) => ErrorClass::InvalidArguments,
            None => ErrorClass::Rejected,
        };
        let text = |name: &str| first?.get(name)?.as_str();
        let message = text("message").or_else(|| first?.as_str()).unwrap_or(error);
        let step = text("step");
        let block = step.and_then(|step| block_of(arguments, step));
        let mistake = Self {
            block: block.and_then(checked_name),
            step: step.and_then(checked_name),
            property: text("property").and_then(checked_name),
            ..Self::new(tool, class)
        };
        (mistake, without_texts(message, tool, arguments))
    }

    /// Parses the text of [`fmt::Display`]; `None` for another text.
    pub fn read(text: &str) -> Option<Self> {
        let mut parts = text.split(',').map(str::trim);
        let (tool, class) = (parts.next()?, parts.next()?);
        let class = ALL.into_iter().find(|known| known.name() == class)?;
        let mut mistake = Self::new(tool, class);
        for (name, value) in parts.filter_map(|part| part.split_once(' ')) {
            let value = checked_name(value.trim());
            match name {
                "block" => mistake.block = value,
                "step" => mistake.step = value,
                "property" => mistake.property = value,
                _ => {}
            }
        }
        Some(mistake)
    }

    /// Whether both have tool, class, block and property in common; names of steps differ between
    /// workflows.
    pub fn is_same(&self, other: &Self) -> bool {
        let is_same_place = self.block == other.block && self.property == other.property;
        self.tool == other.tool && self.class == other.class && is_same_place
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.tool, self.class.name())?;
        let places = [
            ("block", &self.block),
            ("step", &self.step),
            ("property", &self.property),
        ];
        for (name, value) in places {
            if let Some(value) = value {
                write!(f, ", {name} {value}")?;
            }
        }
        Ok(())
    }
}

/// Type of the block of a step in a workflow of the arguments.
fn block_of<'a>(arguments: &'a Value, step: &str) -> Option<&'a str> {
    let mut workflows = arguments.as_object()?.values();
    workflows.find_map(|workflow| {
        let mut steps = workflow.get("steps")?.as_array()?.iter();
        steps.find(|known| known["name"] == step)?["type"].as_str()
    })
}

/// A name as in workflows: letters, digits and a few signs, no spaces.
pub(crate) fn checked_name(text: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_./@$:*-".contains(c);
    let is_short = (1..=MAX_NAME_CHARS).contains(&text.chars().count());
    (is_short && text.chars().all(fits)).then(|| text.to_owned())
}

/// A message without secrets, and without the texts of the call that are more than a name: text in
/// a picture may have dictated them.
pub(crate) fn without_texts(message: &str, tool: &str, arguments: &Value) -> String {
    let mut texts = vec![tool.to_owned()];
    collect_texts(arguments, &mut texts);
    texts.retain(|text| text.trim().len() >= MIN_TEXT_BYTES && checked_name(text).is_none());
    // A text that is a part of another must not break it.
    texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
    let mut message = message.to_owned();
    for text in texts {
        let cuts = CUTS.into_iter().map(|max| text.chars().take(max).collect());
        let spellings = std::iter::once(text.clone()).chain(cuts);
        for spelling in spellings {
            let escaped = format!("{spelling:?}");
            let escaped = escaped.trim_matches('"');
            message = message.replace(&spelling, "…").replace(escaped, "…");
        }
    }
    let message = without_secrets(&message);
    redact::message(&message).unwrap_or(message)
}

/// All keys and strings of a value.
fn collect_texts(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| collect_texts(item, texts)),
        Value::Object(fields) => {
            for (name, value) in fields {
                texts.push(name.clone());
                collect_texts(value, texts);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
