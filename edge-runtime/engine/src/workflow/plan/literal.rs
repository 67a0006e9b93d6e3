//! Literal values of properties, read by the shape that a manifest declares.
//!
//! - Numbers and booleans may be text, as the peer reads them.
//! - An error is a clause that follows the name of the property: "has to be …, not …".
//! - Lists and points are bounded ([`check_size`]).
//! - Not here: selectors ([`selector`](crate::workflow::language::selector)).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::workflow::block_api::shape::{Grammar, MAX_POINTS, Shape};
use crate::workflow::language::bounds::{self, MAX_ITEMS};
use crate::workflow::language::error::ErrorClass;
use crate::workflow::values::lenient::{integer, number};
use crate::workflow::values::value::Value;

/// Why a literal does not match its property.
pub(crate) struct Mismatch {
    pub(crate) class: ErrorClass,
    pub(crate) message: String,
    /// The part that is wrong, if it is not the whole value.
    pub(crate) found: Option<String>,
    pub(crate) allowed: Vec<String>,
}

impl Mismatch {
    pub(crate) fn because(message: impl Into<String>) -> Self {
        Self {
            class: ErrorClass::WorkflowSyntaxError,
            message: message.into(),
            found: None,
            allowed: Vec::new(),
        }
    }

    /// A parser's error about a value with its own grammar. An unknown name is reported with its
    /// position and the known names.
    fn of_grammar(what: &str, json: &Json, why: &str) -> Self {
        let Some((found, known)) = unknown_name(why) else {
            return Self::because(format!("has to be {what}: {why}"));
        };
        let place = place_of(json, found).map_or_else(String::new, |place| {
            format!(" in {}", place.trim_start_matches('.'))
        });
        let message = format!("has {found:?}{place}, which is not part of the query language");
        Self {
            found: Some(found.to_owned()),
            allowed: known.into_iter().map(str::to_owned).collect(),
            ..Self::because(message)
        }
    }
}

/// Reads the unknown name and the known ones from the message of a parser of tagged values.
fn unknown_name(why: &str) -> Option<(&str, Vec<&str>)> {
    let (found, known) = why
        .strip_prefix("unknown variant `")?
        .split_once("`, expected ")?;
    // Names are between backticks: every second piece is one.
    Some((found, known.split('`').skip(1).step_by(2).collect()))
}

/// Position of the first such text in a value, such as `[1].comparator.type`.
fn place_of(json: &Json, text: &str) -> Option<String> {
    let within = |step: String, value: &Json| Some(step + &place_of(value, text)?);
    match json {
        Json::String(found) => (found == text).then(String::new),
        Json::Array(items) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(i, item)| within(format!("[{i}]"), item))
        }
        Json::Object(map) => map
            .iter()
            .find_map(|(key, value)| within(format!(".{key}"), value)),
        _ => None,
    }
}

/// Reads a literal, as leniently about numbers in strings as the peer.
pub(crate) fn literal(shape: Shape, json: &Json) -> Result<Value, Mismatch> {
    match shape {
        Shape::Any => Ok(Value::from(json.clone())),
        Shape::Boolean => boolean(json).map(Value::Bool),
        Shape::Integer(min, max) => integer_between(min, max, json),
        Shape::Number(min, max) => number_between(min, max, json),
        Shape::Text => accept(json, json.is_string(), "a string"),
        Shape::Scalar => {
            let is_scalar = json.is_string() || json.is_number() || json.is_boolean();
            accept(json, is_scalar, "text, a number, or true or false")
        }
        Shape::Choice(choices) => choice(choices, json),
        Shape::List | Shape::Points => accept(json, json.is_array(), "a list"),
        Shape::Texts(min) => texts(min, json),
        Shape::Dict => accept(json, json.is_object(), "a dictionary"),
        Shape::ListOf(item, min, max) => list_of(*item, min, max, json),
        Shape::DictOf(item) => dict_of(*item, json),
        Shape::OneOf(shapes) => one_of(shapes, json),
        Shape::Grammar(grammar) => parsed(&grammar, json),
        Shape::Selector => accept(
            json,
            false,
            "a selector such as $inputs.name or $steps.name.output",
        ),
        Shape::Steps => Err(Mismatch::because("has to be a list of steps")),
        Shape::StepCases => Err(Mismatch::because("has to be a dictionary of steps")),
    }
}

/// Returns the value unchanged if it is `expected`.
fn accept(json: &Json, is_expected: bool, expected: &str) -> Result<Value, Mismatch> {
    if is_expected {
        Ok(Value::from(json.clone()))
    } else {
        Err(not_a(expected, json))
    }
}

/// Refuses a value with more points than [`MAX_POINTS`], or a list longer than [`MAX_ITEMS`].
pub(crate) fn check_size(shape: Shape, json: &Json) -> Result<(), Mismatch> {
    let refuse = |message: String| Err(Mismatch::because(message));
    if shape.takes_points() {
        let found = count_points(json);
        if found > MAX_POINTS {
            return refuse(format!(
                "has {found} points and may have {MAX_POINTS} at most; leave out points that \
                 change its form little"
            ));
        }
    }
    let longest = bounds::longest_list(json);
    if longest > MAX_ITEMS {
        return refuse(format!(
            "has a list of {longest} entries and may have {MAX_ITEMS} at most; shorten it"
        ));
    }
    Ok(())
}

/// Counts the innermost lists of a value.
fn count_points(json: &Json) -> usize {
    match json {
        Json::Array(items) if items.iter().any(Json::is_array) => {
            items.iter().map(count_points).sum()
        }
        _ => 1,
    }
}

fn not_a(expected: &str, json: &Json) -> Mismatch {
    Mismatch::because(format!("has to be {expected}, not {}", short(json)))
}

fn integer_between(min: i64, max: i64, json: &Json) -> Result<Value, Mismatch> {
    match integer(json) {
        Some(i) if (min..=max).contains(&i) => Ok(Value::Int(i)),
        Some(i) if max == i64::MAX => Err(Mismatch::because(format!(
            "is {i} and has to be {min} or more"
        ))),
        Some(i) => Err(Mismatch::because(format!(
            "is {i} and has to be from {min} to {max}"
        ))),
        None => Err(not_a("a whole number", json)),
    }
}

fn number_between(min: f64, max: f64, json: &Json) -> Result<Value, Mismatch> {
    match number(json) {
        Some(n) if (min..=max).contains(&n) => Ok(Value::Float(n)),
        Some(n) if max.is_infinite() && min == f64::MIN_POSITIVE => {
            Err(Mismatch::because(format!("is {n} and has to be above 0")))
        }
        Some(n) if max.is_infinite() => Err(Mismatch::because(format!(
            "is {n} and has to be {min} or more"
        ))),
        Some(n) => Err(Mismatch::because(format!(
            "is {n} and has to be from {min} to {max}"
        ))),
        None => Err(not_a("a number", json)),
    }
}

fn choice(choices: &[&str], json: &Json) -> Result<Value, Mismatch> {
    match json.as_str() {
        Some(text) if choices.contains(&text) => Ok(Value::from(text)),
        _ => Err(Mismatch {
            allowed: choices.iter().map(|c| (*c).to_owned()).collect(),
            ..Mismatch::because(format!("is {}, which is not an allowed value", short(json)))
        }),
    }
}

fn texts(min: usize, json: &Json) -> Result<Value, Mismatch> {
    let Json::Array(items) = json else {
        return Err(not_a("a list of strings", json));
    };
    if items.len() < min {
        return Err(too_short(items.len(), min));
    }
    match items.iter().find(|item| !item.is_string()) {
        Some(other) => Err(Mismatch::because(format!(
            "has to be a list of strings, but has {}",
            short(other)
        ))),
        None => Ok(Value::from(json.clone())),
    }
}

fn too_short(len: usize, min: usize) -> Mismatch {
    Mismatch::because(format!("has {len} entries and needs at least {min}"))
}

fn list_of(item: Shape, min: usize, max: usize, json: &Json) -> Result<Value, Mismatch> {
    match json {
        Json::Array(items) if (min..=max).contains(&items.len()) => {
            let items = items.iter().enumerate();
            let items = items.map(|(i, json)| part(item, json, &format!("entry {i}")));
            items.collect::<Result<_, _>>().map(Value::list)
        }
        Json::Array(items) if min == max => Err(Mismatch::because(format!(
            "has {} entries and needs {min}",
            items.len()
        ))),
        Json::Array(items) => Err(too_short(items.len(), min)),
        _ => Err(not_a("a list", json)),
    }
}

fn dict_of(item: Shape, json: &Json) -> Result<Value, Mismatch> {
    let Json::Object(map) = json else {
        return Err(not_a("a dictionary", json));
    };
    let entries = map.iter().map(|(key, json)| {
        let value = part(item, json, &format!("entry {key}"))?;
        Ok((Arc::from(key.as_str()), value))
    });
    let entries: Result<BTreeMap<Arc<str>, Value>, Mismatch> = entries.collect();
    entries.map(|entries| Value::Dict(Arc::new(entries)))
}

/// Returns the value of the first shape that fits, or the error of the last one.
fn one_of(shapes: &[Shape], json: &Json) -> Result<Value, Mismatch> {
    let mut last = Mismatch::because("accepts no value");
    for shape in shapes {
        match literal(*shape, json) {
            Ok(value) => return Ok(value),
            Err(mismatch) => last = mismatch,
        }
    }
    Err(last)
}

fn parsed(grammar: &Grammar, json: &Json) -> Result<Value, Mismatch> {
    match (grammar.check)(json) {
        Ok(()) => Ok(Value::Null),
        Err(why) => Err(Mismatch::of_grammar(grammar.what, json, &why)),
    }
}

/// Reads an entry of a literal, naming it in an error.
fn part(shape: Shape, json: &Json, which: &str) -> Result<Value, Mismatch> {
    literal(shape, json).map_err(|mismatch| Mismatch {
        message: format!("has an invalid {which}, which {}", mismatch.message),
        ..mismatch
    })
}

fn boolean(json: &Json) -> Result<bool, Mismatch> {
    match json {
        Json::Bool(b) => Some(*b),
        Json::Number(n) if n.as_f64() == Some(0.0) => Some(false),
        Json::Number(n) if n.as_f64() == Some(1.0) => Some(true),
        Json::String(text) => match text.to_ascii_lowercase().as_str() {
            "true" | "t" | "yes" | "y" | "on" | "1" => Some(true),
            "false" | "f" | "no" | "n" | "off" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    }
    .ok_or_else(|| Mismatch::because(format!("has to be true or false, not {}", short(json))))
}

/// Shortens a value for a message.
pub(crate) fn short(json: &Json) -> String {
    let text = json.to_string();
    if text.chars().count() <= 60 {
        return text;
    }
    let head: String = text.chars().take(57).collect();
    format!("{head}…")
}
