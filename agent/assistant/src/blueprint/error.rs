//! An error in a blueprint's file: field, value, problem and remedy.

use std::fmt;

use serde::Serialize;
use watchkeeper_contract::problem::nearest;

use crate::wording::{cut, single_line};

/// Longest value in a message, in characters.
const MAX_SHOWN: usize = 120;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BlueprintError {
    /// The field, such as `limits.steps`.
    pub field: String,
    /// The value found; empty if the field is missing.
    pub found: String,
    pub problem: String,
    /// What to write instead.
    pub remedy: String,
    /// The nearest valid name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
}

impl BlueprintError {
    pub(super) fn new(field: &str, found: impl fmt::Display, problem: &str, remedy: &str) -> Self {
        Self {
            field: match field {
                "" => "\"\"".to_owned(),
                field => to_line(field),
            },
            found: to_line(&found.to_string()),
            problem: to_line(problem),
            remedy: remedy.to_owned(),
            nearest: None,
        }
    }

    /// Adds the nearest of the `known` names, if one is near.
    pub(super) fn near<'n>(
        mut self,
        written: &str,
        known: impl IntoIterator<Item = &'n str>,
    ) -> Self {
        self.nearest = nearest(written, known).map(str::to_owned);
        self
    }
}

impl fmt::Display for BlueprintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.field)?;
        if !self.found.is_empty() {
            write!(f, " = {}", self.found)?;
        }
        write!(f, ": {}; {}", self.problem, self.remedy)?;
        match &self.nearest {
            Some(nearest) => write!(f, " (did you mean {nearest}?)"),
            None => Ok(()),
        }
    }
}

/// A text from a file on one line, cut to [`MAX_SHOWN`].
fn to_line(text: &str) -> String {
    cut(single_line(text), MAX_SHOWN)
}

pub fn sentence(errors: &[BlueprintError]) -> String {
    let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
    all.join("; ")
}
