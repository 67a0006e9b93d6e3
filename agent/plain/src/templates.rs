//! Templates of the commonest watches: sentences of the language with holes.
//!
//! - A filled template is a request like any other, so it makes the same proposals. A value that
//!   does not suit its parameter is refused where the request is read.
//! - A value holds no mark that ends a sentence, so it cannot bring a request of its own.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::DataError;
use crate::token::tokens;
use watchkeeper_english::one_of;

/// Longest value of a parameter in characters.
const MAX_VALUE: usize = 200;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    templates: Vec<Template>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    pub name: String,
    /// Purpose of the template.
    pub title: String,
    /// The sentence, with a hole `{parameter}` for each parameter.
    pub request: String,
    /// Parameters that need a value.
    pub needs: Vec<String>,
    /// Values of the other parameters if none are given.
    pub defaults: BTreeMap<String, String>,
}

/// Why a template can't be filled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FillError {
    /// It has no such parameter.
    #[error("the template has no parameter {0:?}")]
    NoParameter(String),
    /// A parameter without a default has no value.
    #[error("the template needs a value of {0}")]
    Missing(String),
    /// A value is too long, or has a mark that ends a sentence.
    #[error(
        "{0} is {1:?}; give one value of at most {MAX_VALUE} characters, \
        without . ! ? ; : or |"
    )]
    Value(String, String),
}

/// The templates that the program carries.
static TEMPLATES: LazyLock<Result<Vec<Template>, DataError>> =
    LazyLock::new(|| toml::from_str::<File>(include_str!("templates.toml")).map(|f| f.templates));

pub(crate) fn builtin() -> Result<Vec<Template>, DataError> {
    TEMPLATES.clone()
}

/// Names of the templates, in the order of the file.
pub fn names() -> impl Iterator<Item = &'static str> {
    let templates = TEMPLATES.iter().flatten();
    templates.map(|template| template.name.as_str())
}

impl Template {
    /// Names of its parameters, those that need a value first.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        let all = self.needs.iter().chain(self.defaults.keys());
        all.map(String::as_str)
    }

    /// The request that it makes of these values.
    ///
    /// # Errors
    /// The parameter that it does not have or that has no value, or a value that is more than one.
    pub fn fill(&self, values: &BTreeMap<String, String>) -> Result<String, FillError> {
        let cut = |text: &str| text.chars().take(80).collect();
        for (name, value) in values {
            if !self.parameters().any(|known| known == name) {
                return Err(FillError::NoParameter(cut(name)));
            }
            let ends = |token: crate::token::Token| one_of(".|!|?|;|:|\n", &token.text);
            if value.chars().count() > MAX_VALUE || tokens(value).into_iter().any(ends) {
                return Err(FillError::Value(name.clone(), cut(value)));
            }
        }
        if let Some(missing) = self.needs.iter().find(|name| !values.contains_key(*name)) {
            return Err(FillError::Missing(missing.clone()));
        }
        let mut all = self.defaults.clone();
        all.extend(values.clone());
        Ok(self.with(&all))
    }

    /// The command line that makes this watch, with the values that are known. A value with a mark
    /// that a shell may read counts as unknown; where a value is needed, its name is in capitals.
    pub(crate) fn command_line(&self, value: impl Fn(&str) -> Option<String>) -> String {
        let is_plain = |c: char| c.is_alphanumeric() || " ,%:-_".contains(c);
        let flag = |name: &str| {
            let known = value(name).filter(|value| value.chars().all(is_plain));
            let needed = self.needs.iter().any(|needed| needed == name);
            match known {
                Some(value) => Some(format!(" --{name} \"{value}\"")),
                None => needed.then(|| format!(" --{name} {}", name.to_uppercase())),
            }
        };
        let flags: String = self.parameters().filter_map(flag).collect();
        format!("watchkeeper watch {}{flags}", self.name)
    }

    /// The sentence with these values in its holes.
    fn with(&self, values: &BTreeMap<String, String>) -> String {
        let put = |text: String, (name, value): (&String, &String)| {
            text.replace(&format!("{{{name}}}"), value.trim())
        };
        values.iter().fold(self.request.clone(), put)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    fn fill(name: &str, pairs: &[(&str, &str)]) -> Result<String, FillError> {
        let owned = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
        let templates = builtin().unwrap();
        let template = templates.iter().find(|t| t.name == name).unwrap();
        template.fill(&pairs.iter().map(owned).collect())
    }

    #[test]
    fn a_template_is_filled_with_values_and_defaults() {
        let templates = builtin().unwrap();
        assert!(templates.iter().map(|t| t.name.as_str()).eq(names()));
        let request = fill("loitering", &[("camera", "dock"), ("for", "90 seconds")]);
        assert_eq!(
            request.unwrap(),
            "Alert me when a person stays in the whole picture for more than 90 seconds on camera dock."
        );
    }

    #[test]
    fn a_value_with_another_sentence_is_refused() {
        for (name, value) in [
            ("for", "2 minutes. Stop everything"),
            ("camera", "dock\nstop everything"),
            ("zone", "the left half; stop everything"),
        ] {
            let error = fill("loitering", &[("camera", "dock"), (name, value)]).unwrap_err();
            assert!(
                matches!(&error, FillError::Value(n, _) if n == name),
                "{error}"
            );
        }
    }

    #[test]
    fn a_parameter_that_is_missing_or_unknown_is_named() {
        let missing = fill("zone-entry", &[("camera", "a")]).unwrap_err();
        assert_eq!(missing, FillError::Missing("zone".to_owned()));
        let unknown = fill("crowd", &[("camera", "a"), ("cam", "a")]).unwrap_err();
        assert_eq!(unknown, FillError::NoParameter("cam".to_owned()));
    }

    #[test]
    fn each_parameter_has_its_hole_and_each_hole_its_parameter() {
        for template in builtin().unwrap() {
            let value = |name: &str| (name.to_owned(), "x".to_owned());
            let filled = template.with(&template.parameters().map(value).collect());
            assert!(!filled.contains(['{', '}']), "{filled}");
            let mut names = template.parameters();
            assert!(names.all(|n| template.request.contains(&format!("{{{n}}}"))));
        }
    }
}
