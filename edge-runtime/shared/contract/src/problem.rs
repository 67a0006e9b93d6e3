//! One shape for every refusal, after RFC 9457 (problem details).
//!
//! - The code is stable, for programs; the sentence is for people and may change.
//! - A refusal of a value names its field, the value and, where they are few, the allowed ones.
//! - Similar names are found here, so that all refusals suggest alike.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why a request was refused or failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error, ToSchema)]
#[error("{detail}")]
pub struct Problem {
    /// HTTP status code.
    pub status: u16,
    /// Stable machine-readable kind of the problem.
    pub code: ProblemCode,
    /// One sentence: what is wrong, where, and the remedy.
    pub detail: String,
    /// Field that is wrong, as a path such as `rules[0].zone`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Value that was found there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Values that would be accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,
    /// Errors of a workflow that does not compile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workflow_errors: Vec<crate::workflow::WorkflowError>,
}

/// Most values that [`with_allowed`] lists.
const ALLOWED_SHOWN: usize = 20;

/// Appends what is allowed to a sentence: the first few values and the one that was probably meant,
/// nothing if none are given.
#[must_use]
pub fn with_allowed(wrong: String, allowed: &[String], nearest: Option<&str>) -> String {
    let meant = nearest.map_or(String::new(), |name| format!("; did you mean {name:?}?"));
    let shown: Vec<&str> = allowed
        .iter()
        .take(ALLOWED_SHOWN)
        .map(String::as_str)
        .collect();
    match allowed.len() - shown.len() {
        _ if shown.is_empty() => wrong,
        0 => format!("{wrong}; allowed: {}", shown.join(", ")),
        more => format!(
            "{wrong}; allowed: {} and {more} more{meant}",
            shown.join(", ")
        ),
    }
}

/// Most characters of a name that [`nearest`] compares; its cost grows with their square.
const MAX_COMPARED: usize = 200;

/// Lowest similarity at which one name may be a misspelling of another: one wrong letter in four.
const MIN_SIMILARITY: f64 = 0.75;
/// Lowest similarity of words. Those for other things come near: "clerk" and "clock" have 0.79.
const MIN_WORD_SIMILARITY: f64 = 0.85;

/// Returns the name in `known` that is most similar to `found`, if it is similar enough.
///
/// Jaro–Winkler favours a common prefix, which misspelt identifiers have.
pub fn nearest<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    most_similar(found, known, MIN_SIMILARITY)
}

/// Returns the word in `known` that is most similar to `found`, if it is similar enough for words
/// of a language, such as classes.
pub fn nearest_word<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    most_similar(found, known, MIN_WORD_SIMILARITY)
}

fn most_similar<'a>(
    found: &str,
    known: impl IntoIterator<Item = &'a str>,
    least: f64,
) -> Option<&'a str> {
    similarities(found, known)
        .filter(|(similarity, _)| *similarity >= least)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// Returns at most `limit` names in `known` that are similar to `found`, the most similar first.
pub fn nearest_few<'a>(
    found: &str,
    known: impl IntoIterator<Item = &'a str>,
    limit: usize,
) -> Vec<&'a str> {
    let mut similar: Vec<(f64, &str)> = similarities(found, known).collect();
    similar.sort_by(|a, b| b.0.total_cmp(&a.0));
    similar.truncate(limit);
    similar.into_iter().map(|(_, name)| name).collect()
}

/// The names that are similar enough to `found`, with their similarity.
fn similarities<'a>(
    found: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> impl Iterator<Item = (f64, &'a str)> {
    let found: String = found.chars().take(MAX_COMPARED).collect();
    known
        .into_iter()
        .map(move |name| (strsim::jaro_winkler(&found, name), name))
        .filter(|(similarity, _)| *similarity >= MIN_SIMILARITY)
}

/// Kind of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProblemCode {
    /// The body or a parameter could not be read.
    InvalidRequest,
    /// The request carries no valid token.
    Unauthorized,
    /// No such source, pipeline, event, model, block or media.
    NotFound,
    /// The name is taken, or something still depends on it.
    Conflict,
    /// The workflow does not compile.
    InvalidWorkflow,
    /// A model is unknown, missing, damaged or can't be run here.
    Model,
    /// Nothing to answer with yet, such as a frame before the first came.
    NotReady,
    /// The state folder can't be written.
    Storage,
    /// Too many sources, pipelines or subscribers.
    Limit,
    /// An error inside the program.
    Internal,
}

impl Problem {
    /// Makes a problem of a kind and a sentence.
    pub fn new(status: u16, code: ProblemCode, detail: impl Into<String>) -> Self {
        Self {
            status,
            code,
            detail: detail.into(),
            field: None,
            value: None,
            allowed: Vec::new(),
            workflow_errors: Vec::new(),
        }
    }

    /// 422: a value that can be read and is wrong.
    pub fn invalid_value(detail: impl Into<String>) -> Self {
        Self::new(422, ProblemCode::InvalidRequest, detail)
    }

    /// 404: no such resource.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(404, ProblemCode::NotFound, detail)
    }

    /// 409: the name is taken, or something still depends on it.
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(409, ProblemCode::Conflict, detail)
    }

    /// 503: not ready yet, such as before the first frame; a later request may succeed.
    pub fn not_ready(detail: impl Into<String>) -> Self {
        Self::new(503, ProblemCode::NotReady, detail)
    }

    /// 507: the disk refused to read or to store; it needs space or a repair. 503 needs only time.
    pub fn storage(detail: impl Into<String>) -> Self {
        Self::new(507, ProblemCode::Storage, detail)
    }

    /// 500: an error inside the program.
    pub fn internal(detail: impl Into<String>) -> Self {
        Self::new(500, ProblemCode::Internal, detail)
    }

    /// Names the field and the value that was found there.
    #[must_use]
    pub fn at(mut self, field: impl Into<String>, value: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self.value = Some(value.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::{ALLOWED_SHOWN, nearest, nearest_few, nearest_word, with_allowed};

    #[test]
    fn cut_list_of_allowed_values_names_the_nearest() {
        let all: Vec<String> = (0..=ALLOWED_SHOWN).map(|n| format!("a{n:02}")).collect();
        let said = with_allowed("wrong".to_owned(), &all, Some("a20"));
        assert!(
            said.ends_with("a19 and 1 more; did you mean \"a20\"?"),
            "{said}"
        );
        let few = with_allowed(
            "wrong".to_owned(),
            all.get(..2).unwrap_or_default(),
            Some("a01"),
        );
        assert_eq!(few, "wrong; allowed: a00, a01");
    }

    #[test]
    fn nearest_names_are_similar_ones_best_first() {
        let known = ["yolov8n", "yolox-nano", "motion", "yolox-tiny"];
        assert_eq!(nearest("yolox_nano", known), Some("yolox-nano"));
        assert_eq!(nearest("qqqq", known), None);
        assert_eq!(nearest("clerk", ["clock"]), Some("clock"));
        assert_eq!(nearest_word("clerk", ["clock"]), None);
        assert_eq!(nearest_word("persn", ["person"]), Some("person"));
        let all = nearest_few("yolox_nano", known, known.len());
        assert_eq!(all.first(), Some(&"yolox-nano"));
        assert!(!all.contains(&"motion"), "{all:?}");
        assert_eq!(nearest_few("yolox_nano", known, 1), ["yolox-nano"]);
        assert!(nearest_few("qqqq", known, 2).is_empty());
    }
}
