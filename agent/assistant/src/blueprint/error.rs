//! What is wrong with a blueprint, in words that say what to do.

use std::fmt;

use serde::Serialize;

use crate::wording::cut;

/// Longest value that is shown, in characters.
const SHOWN: usize = 120;

/// One thing that is wrong with a blueprint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BlueprintError {
    /// The field, such as `limits.steps`.
    pub field: String,
    /// What stands there; empty where nothing does.
    pub found: String,
    /// What is wrong with it.
    pub problem: String,
    /// What to write in its place.
    pub remedy: String,
    /// The nearest name that would do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
}

impl BlueprintError {
    pub(super) fn new(field: &str, found: impl fmt::Display, problem: &str, remedy: &str) -> Self {
        Self {
            field: match field {
                "" => "\"\"".to_owned(),
                field => line(field),
            },
            found: line(&found.to_string()),
            problem: line(problem),
            remedy: remedy.to_owned(),
            nearest: None,
        }
    }

    /// With the nearest of these names, where one is near.
    pub(super) fn near<'n>(
        mut self,
        written: &str,
        known: impl IntoIterator<Item = &'n str>,
    ) -> Self {
        self.nearest = watchkeeper_plain::scene::nearest(written, known).map(str::to_owned);
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

/// What stands in a file, on one line and not longer than is shown.
fn line(text: &str) -> String {
    let seen = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    cut(seen.collect(), SHOWN)
}

/// All of them in one line.
#[must_use]
pub fn sentence(flaws: &[BlueprintError]) -> String {
    let all: Vec<String> = flaws.iter().map(ToString::to_string).collect();
    all.join("; ")
}
