//! The commonest watches as sentences with parameters.
//!
//! Owns the form of `templates.toml`.
//!
//! - A filled template is a request like any other, so it makes the same proposals.
//! - A value is checked against its kind before it is put into a sentence, so it cannot bring a
//!   request of its own.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use crate::DataError;
use crate::lexicon::Lexicon;
use crate::place::{place, way};
use crate::reader::{Reader, one_of};
use crate::scene::{Scene, Shape};
use crate::token::{Token, tokens};

const BUILTIN: &str = include_str!("templates.toml");
/// Names of the templates, in the order of the file.
pub const NAMES: [&str; 10] = [
    "intruder",
    "zone-entry",
    "loitering",
    "line-crossing",
    "traffic-count",
    "occupancy",
    "crowd",
    "unattended",
    "parking",
    "arrival",
];
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
    /// What it is for.
    pub title: String,
    /// The sentence, with a hole `{parameter}` for each parameter.
    pub request: String,
    pub parameters: BTreeMap<String, Parameter>,
}

/// A parameter of a template.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// What it is.
    pub kind: ParameterKind,
    /// Its value where none is given; absent: it has to be given.
    #[serde(default)]
    pub default: Option<String>,
}

/// What a parameter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParameterKind {
    /// Id or name of a camera.
    Camera,
    /// Objects, such as `people or cars`.
    Class,
    /// A part of the picture, or the name of a place.
    Place,
    /// A line in the picture.
    Line,
    /// A direction over a line, such as `from left to right`.
    Direction,
    /// Such as `2 minutes`.
    Duration,
    /// A whole number.
    Number,
    /// Such as `between 22:00 and 06:00`.
    Hours,
}

impl fmt::Display for ParameterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Camera => "camera",
            Self::Class => "object",
            Self::Place => "place",
            Self::Line => "line",
            Self::Direction => "direction",
            Self::Duration => "duration",
            Self::Number => "whole number",
            Self::Hours => "span of hours",
        })
    }
}

/// Why a template can't be filled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FillError {
    /// There is no such template.
    #[error("there is no template {0:?}; the templates are {1}")]
    NoTemplate(String, String),
    /// It has no such parameter.
    #[error("template {template} has no parameter {name:?}; it has {known}")]
    NoParameter {
        template: String,
        /// What was given.
        name: String,
        /// What it has.
        known: String,
    },
    /// A parameter without a default was left out.
    #[error("template {template} needs a value of {name}: {kind}")]
    Left {
        template: String,
        name: String,
        /// What it is.
        kind: ParameterKind,
    },
    /// A value is not of its kind.
    #[error("{name} is {value:?}, which is no {kind}")]
    Value {
        name: String,
        /// What was given.
        value: String,
        /// What it should be.
        kind: ParameterKind,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Templates {
    all: Vec<Template>,
}

impl Templates {
    pub(crate) fn builtin() -> Result<Self, DataError> {
        Self::read(BUILTIN)
    }

    fn read(text: &str) -> Result<Self, DataError> {
        let file: File = toml::from_str(text)?;
        Ok(Self {
            all: file.templates,
        })
    }

    /// All of them.
    pub fn all(&self) -> &[Template] {
        &self.all
    }

    /// All of them for a person: what each is for, what it says with its defaults, what can be
    /// given, and how one is used.
    pub fn listed(&self) -> String {
        let one = |t: &Template| {
            let mut example = t.request.clone();
            for (name, p) in &t.parameters {
                let value = p.default.clone().unwrap_or_else(|| name.to_uppercase());
                example = example.replace(&format!("{{{name}}}"), &value);
            }
            let parameters: Vec<&str> = t.parameters.keys().map(String::as_str).collect();
            format!(
                "{}: {}. \"{example}\" ({})",
                t.name,
                t.title,
                parameters.join(", ")
            )
        };
        let mut lines: Vec<String> = self.all.iter().map(one).collect();
        lines.push(
            "Say such a sentence, or run `watchkeeper watch loitering --camera CAMERA --for \"90 seconds\"`.".to_owned(),
        );
        lines.join("\n")
    }

    /// The request that a template makes of these values.
    ///
    /// # Errors
    /// The template or parameter that isn't there, the one that is missing, or the value that is
    /// not of its kind.
    pub fn fill(&self, name: &str, values: &BTreeMap<String, String>) -> Result<String, FillError> {
        let Some(template) = self.all.iter().find(|t| t.name == name) else {
            let known: Vec<&str> = self.all.iter().map(|t| t.name.as_str()).collect();
            return Err(FillError::NoTemplate(cut(name), known.join(", ")));
        };
        if let Some(stray) = values
            .keys()
            .find(|k| !template.parameters.contains_key(*k))
        {
            let known: Vec<&str> = template.parameters.keys().map(String::as_str).collect();
            return Err(FillError::NoParameter {
                template: template.name.clone(),
                name: cut(stray),
                known: known.join(", "),
            });
        }
        let mut request = template.request.clone();
        for (name, parameter) in &template.parameters {
            let Some(value) = values.get(name).or(parameter.default.as_ref()) else {
                return Err(FillError::Left {
                    template: template.name.clone(),
                    name: name.clone(),
                    kind: parameter.kind,
                });
            };
            if value.chars().count() > MAX_VALUE || !is(parameter.kind, value) {
                return Err(FillError::Value {
                    name: name.clone(),
                    value: cut(value),
                    kind: parameter.kind,
                });
            }
            request = request.replace(&format!("{{{name}}}"), value.trim());
        }
        Ok(request)
    }
}

fn cut(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Whether a value is of a kind and nothing else. Names are checked when the request is understood;
/// here they must not hold a mark, which could end the sentence.
fn is(kind: ParameterKind, value: &str) -> bool {
    let (scene, lexicon) = (Scene::default(), Lexicon::default());
    let mut r = Reader::new(tokens(value), &scene, &lexicon);
    let whole = |r: &Reader| {
        let plain = |(i, t): (usize, &Token)| {
            !r.word(i).is_empty() && !one_of("in|the|a|,", t.text.as_str())
        };
        !r.tokens.iter().enumerate().any(plain)
    };
    let words = |r: &Reader| {
        let fine = |t: &Token| t.is_word() || t.text.parse::<f64>().is_ok() || t.text == ",";
        !r.tokens.is_empty() && r.tokens.len() <= 8 && r.tokens.iter().all(fine)
    };
    match kind {
        ParameterKind::Camera | ParameterKind::Class => words(&r) && !value.contains(','),
        ParameterKind::Place => {
            let drawn = place(&mut r, Some([10_000, 10_000]));
            match drawn {
                Ok(Some(said)) => matches!(said.shape, Shape::Zone(_)) && whole(&r),
                Ok(None) => words(&r),
                Err(_) => false,
            }
        }
        ParameterKind::Line => match place(&mut r, Some([10_000, 10_000])) {
            Ok(Some(said)) => matches!(said.shape, Shape::Line(..)) && whole(&r),
            _ => false,
        },
        ParameterKind::Direction => way(&mut r).is_some() && whole(&r),
        ParameterKind::Duration => r.take(&["<d>"]).is_some() && whole(&r),
        ParameterKind::Number => r.take(&["<n>"]).is_some() && whole(&r),
        ParameterKind::Hours => !crate::hours::awake(&mut r).is_empty() && whole(&r),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    fn values(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn a_template_is_filled_with_values_and_defaults() {
        let templates = Templates::builtin().unwrap();
        let names: Vec<&str> = templates.all().iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, NAMES);
        let request = templates
            .fill(
                "loitering",
                &values(&[("camera", "dock"), ("time", "90 seconds")]),
            )
            .unwrap();
        assert_eq!(
            request,
            "Alert me when a person stays in the whole picture for more than 90 seconds on camera dock."
        );
    }

    #[test]
    fn a_value_that_is_more_than_a_value_is_refused() {
        let templates = Templates::builtin().unwrap();
        for (name, value) in [
            ("time", "2 minutes. Stop everything"),
            ("camera", "dock. Stop everything"),
            ("place", "the left half; stop everything"),
            ("time", "soon"),
        ] {
            let mut given = values(&[("camera", "dock")]);
            given.insert(name.to_owned(), value.to_owned());
            let error = templates.fill("loitering", &given).unwrap_err();
            assert!(
                matches!(&error, FillError::Value { name: n, .. } if n == name),
                "{error}"
            );
        }
    }

    #[test]
    fn what_is_missing_or_unknown_is_named() {
        let templates = Templates::builtin().unwrap();
        let said = |name: &str, given: &[(&str, &str)]| {
            templates
                .fill(name, &values(given))
                .unwrap_err()
                .to_string()
        };
        assert!(said("lotering", &[]).contains("loitering"));
        assert!(said("zone-entry", &[("camera", "a")]).contains("needs a value of place"));
        assert!(said("crowd", &[("cam", "a")]).contains("it has camera"));
    }

    #[test]
    fn each_parameter_has_its_hole() {
        for template in Templates::builtin().unwrap().all() {
            let fill = |text: String, name: &String| text.replace(&format!("{{{name}}}"), "x");
            let names = template.parameters.keys();
            assert!(
                names
                    .clone()
                    .all(|n| template.request.contains(&format!("{{{n}}}")))
            );
            let filled = names.fold(template.request.clone(), fill);
            assert!(!filled.contains(['{', '}']), "{filled}");
        }
    }
}
