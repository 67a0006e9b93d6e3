//! One step against the manifest of its block.
//!
//! Invariant: a [`CheckedStep`] has one [`Arg`] for every declared property, in the order of the manifest, with literals
//! of the declared shape and selectors that are well-formed and legal there.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value as Json};
use watchkeeper_contract::workflow::WorkflowWarning;

use crate::workflow::block_api::manifest::{Manifest, Property, Selects, Shape, StepOutput};
use crate::workflow::language::definition::StepDef;
use crate::workflow::language::error::{ErrorClass, Problem, Problems, nearest};
use crate::workflow::language::selector::Selector;
use crate::workflow::values::lenient::{integer, number};
use crate::workflow::values::value::Value;

/// A step whose properties have the shapes that its block declares.
#[derive(Debug, Clone)]
pub(crate) struct CheckedStep {
    pub(crate) name: String,
    pub(crate) manifest: &'static Manifest,
    pub(crate) args: Vec<Arg>,
    /// What it puts out, in the order in which its block writes it.
    pub(crate) outputs: Vec<StepOutput>,
    /// Properties as written, by canonical name, defaults filled in.
    pub(crate) literals: Map<String, Json>,
    /// What is written and is no property of its block.
    pub(crate) ignored: Vec<String>,
    /// Properties that take no selector, and in which text stands that reads like one.
    pub(crate) like_selectors: Vec<&'static str>,
}

/// Value of a property.
#[derive(Debug, Clone)]
pub(crate) enum Arg {
    Literal(Value),
    Ref(Selector),
    List(Vec<Arg>),
    Dict(Vec<(Arc<str>, Arg)>),
    /// Names of steps that one branch lets go on.
    Steps(Vec<String>),
    /// The same, one branch for each key.
    Cases(Vec<(Arc<str>, String)>),
}

impl Arg {
    /// Visits every data selector in it.
    pub(crate) fn each_ref<'a>(&'a self, visit: &mut dyn FnMut(&'a Selector)) {
        match self {
            Self::Ref(selector) => visit(selector),
            Self::List(items) => items.iter().for_each(|a| a.each_ref(visit)),
            Self::Dict(items) => items.iter().for_each(|(_, a)| a.each_ref(visit)),
            Self::Literal(_) | Self::Steps(_) | Self::Cases(_) => {}
        }
    }
}

impl CheckedStep {
    /// Branches of flow control: the steps that each lets go on.
    pub(crate) fn branches(&self) -> Vec<Vec<&str>> {
        let mut branches = Vec::new();
        for arg in &self.args {
            match arg {
                Arg::Steps(names) => branches.push(names.iter().map(String::as_str).collect()),
                Arg::Cases(cases) => {
                    branches.extend(cases.iter().map(|(_, name)| vec![name.as_str()]));
                }
                _ => {}
            }
        }
        branches
    }
}

/// What is wrong with a literal.
struct Unfit {
    class: ErrorClass,
    message: String,
    /// What was found, where that is not the whole value.
    found: Option<String>,
    allowed: Vec<String>,
}

impl Unfit {
    fn because(message: impl Into<String>) -> Self {
        Self {
            class: ErrorClass::WorkflowSyntaxError,
            message: message.into(),
            found: None,
            allowed: Vec::new(),
        }
    }

    /// What a parser said about a value with a grammar of its own. A name that it doesn't know is told with its place and
    /// with those that it knows.
    fn of_grammar(what: &str, json: &Json, why: &str) -> Self {
        let Some((found, known)) = unknown_name(why) else {
            return Self::because(format!("has to be {what}: {why}"));
        };
        let place = place_of(json, found).map_or_else(String::new, |place| {
            format!(" in {}", place.trim_start_matches('.'))
        });
        let message = format!("has {found:?}{place}, which the query language doesn't know");
        Self {
            found: Some(found.to_owned()),
            allowed: known.into_iter().map(str::to_owned).collect(),
            ..Self::because(message)
        }
    }
}

/// The name that a parser of tagged values didn't know, and those that it knows, from what it said.
fn unknown_name(why: &str) -> Option<(&str, Vec<&str>)> {
    let (found, known) = why
        .strip_prefix("unknown variant `")?
        .split_once("`, expected ")?;
    // Names stand between backticks: every second piece is one.
    Some((found, known.split('`').skip(1).step_by(2).collect()))
}

/// Where a text first stands in a value, such as `[1].comparator.type`.
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

/// Checks the properties of a step; `None` when something is wrong with them.
pub(crate) fn check(
    step: &StepDef,
    manifest: &'static Manifest,
    problems: &mut Problems,
) -> Option<CheckedStep> {
    let mut args = Vec::with_capacity(manifest.properties.len());
    let mut literals = Map::new();
    let mut like_selectors = Vec::new();
    let mut fit = true;
    for property in manifest.properties {
        let written = std::iter::once(&property.name)
            .chain(property.aliases)
            .find_map(|key| step.body.get(*key));
        let (json, arg) = match (written, property.default.to_json()) {
            (Some(json), _) => (json.clone(), argument(property, json)),
            // What holds unsaid need not be what may be said: a delay of 0 is none, and one that is given has to be above 0.
            (None, Some(json)) => {
                let literal = |_| Arg::Literal(Value::from(json.clone()));
                let arg = argument(property, &json).unwrap_or_else(literal);
                (json, Ok(arg))
            }
            (None, None) => {
                problems.push(lacks(step, manifest, property));
                fit = false;
                continue;
            }
        };
        if property.selects == Selects::Nothing && Selector::looks_like(&json) {
            like_selectors.push(property.name);
        }
        match arg {
            Ok(arg) => args.push(arg),
            Err(unfit) => {
                let whole = json.as_str().unwrap_or_default();
                let found = unfit.found.as_deref().unwrap_or(whole);
                problems.push(
                    Problem::new(
                        unfit.class,
                        format!("{} of step {} {}", property.name, step.name, unfit.message),
                    )
                    .allowed(found, unfit.allowed)
                    .step(&*step.name)
                    .property(property.name),
                );
                fit = false;
            }
        }
        literals.insert(property.name.to_owned(), json);
    }
    fit.then(|| CheckedStep {
        name: step.name.clone(),
        manifest,
        args,
        outputs: manifest.outputs_of(&literals),
        literals,
        ignored: strangers(step, manifest).map(str::to_owned).collect(),
        like_selectors,
    })
}

impl CheckedStep {
    /// What it says without effect.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = WorkflowWarning> {
        let known = || self.manifest.properties.iter().map(|p| p.name);
        let ignored = self.ignored.iter().map(move |written| WorkflowWarning {
            step: self.name.clone(),
            property: written.clone(),
            message: format!(
                "step {} has no property {written}, and runs as if it weren't written",
                self.name
            ),
            nearest: nearest(written, known()),
        });
        let like_selectors = self.like_selectors.iter().map(|name| WorkflowWarning {
            step: self.name.clone(),
            property: (*name).to_owned(),
            message: format!(
                "{name} of step {} takes no selector: what is written is the text itself",
                self.name
            ),
            nearest: None,
        });
        ignored.chain(like_selectors)
    }
}

/// Keys of a step that are no properties of its block.
fn strangers<'a>(step: &'a StepDef, manifest: &Manifest) -> impl Iterator<Item = &'a str> {
    step.body
        .keys()
        .map(String::as_str)
        .filter(|key| *key != "name" && *key != "type" && manifest.property(key).is_none())
}

/// The problem that a required property isn't there, with the key that was probably meant for it.
fn lacks(step: &StepDef, manifest: &Manifest, property: &Property) -> Problem {
    Problem::syntax(format!(
        "step {} lacks {}: {}",
        step.name, property.name, property.about
    ))
    .nearest_of(property.name, strangers(step, manifest))
    .step(&*step.name)
    .property(property.name)
}

/// Whether a value that an input brings is one that the property could have had in the definition; if not, why. Data, which
/// has no literals, may be anything, and so may a word where the definition knows some: the peer runs with others too, and what the block makes of
/// one is its own matter.
pub(crate) fn takes(property: &Property, json: &Json) -> Result<(), String> {
    let is_data = matches!(
        property.shape,
        Shape::Selector | Shape::Any | Shape::Choice(_)
    );
    if is_data || json.is_null() && property.nullable || Selector::looks_like(json) {
        return Ok(());
    }
    literal(property.shape, json)
        .map(drop)
        .map_err(|unfit| unfit.message)
}

fn argument(property: &Property, json: &Json) -> Result<Arg, Unfit> {
    match property.shape {
        Shape::Steps => return steps(json),
        Shape::StepCases => return step_cases(json),
        _ => {}
    }
    let is_text = property.selects == Selects::Nothing && property.shape.takes_text();
    if Selector::looks_like(json) && !is_text {
        if matches!(property.selects, Selects::Entries | Selects::EveryEntry) {
            return Err(Unfit::because(format!(
                "takes selectors only as its entries, and {json} stands for all of it"
            )));
        }
        return selector(property, json).map(Arg::Ref);
    }
    if json.is_null() && property.nullable {
        return Ok(Arg::Literal(Value::Null));
    }
    if matches!(
        property.selects,
        Selects::EveryEntry | Selects::WholeOrEveryEntry
    ) {
        every_entry(property, json)?;
    }
    let compound = property.selects != Selects::Nothing;
    match json {
        Json::Array(items)
            if compound
                && property.shape.takes_list()
                && items.iter().any(Selector::looks_like) =>
        {
            items
                .iter()
                .map(|item| element(property, item))
                .collect::<Result<_, _>>()
                .map(Arg::List)
        }
        Json::Object(map)
            if compound
                && property.shape.takes_dict()
                && map.values().any(Selector::looks_like) =>
        {
            map.iter()
                .map(|(key, item)| Ok((Arc::from(key.as_str()), element(property, item)?)))
                .collect::<Result<_, _>>()
                .map(Arg::Dict)
        }
        _ => literal(property.shape, json).map(Arg::Literal),
    }
}

/// Checks that there is nothing but selectors in a list or a dictionary, and that a list has one.
fn every_entry(property: &Property, json: &Json) -> Result<(), Unfit> {
    let mut entries: Box<dyn Iterator<Item = &Json>> = match json {
        Json::Array(items) if items.is_empty() => {
            return Err(Unfit::because(
                "is empty, and has to have one selector at least",
            ));
        }
        Json::Array(items) if property.shape.takes_list() => Box::new(items.iter()),
        Json::Object(map) if property.shape.takes_dict() => Box::new(map.values()),
        // Of the wrong type, which the shape says.
        _ => return Ok(()),
    };
    match entries.find(|entry| !Selector::looks_like(entry)) {
        Some(other) => Err(Unfit::because(format!(
            "has {} where only selectors such as $inputs.name or $steps.name.output may stand",
            short(other)
        ))),
        None => Ok(()),
    }
}

fn element(property: &Property, json: &Json) -> Result<Arg, Unfit> {
    if Selector::looks_like(json) {
        selector(property, json).map(Arg::Ref)
    } else if matches!(property.shape, Shape::Texts(_)) {
        literal(Shape::Text, json).map(Arg::Literal)
    } else {
        Ok(Arg::Literal(Value::from(json.clone())))
    }
}

fn selector(property: &Property, json: &Json) -> Result<Selector, Unfit> {
    let text = json.as_str().unwrap_or_default();
    let usage = match property.selects {
        Selects::Nothing => {
            return Err(Unfit::because(format!(
                "takes no selector, and {text:?} is one"
            )));
        }
        Selects::Inputs => "$inputs.name",
        Selects::Outputs => "$steps.name.output",
        Selects::Anything | Selects::Entries | Selects::EveryEntry | Selects::WholeOrEveryEntry => {
            "$inputs.name or $steps.name.output"
        }
    };
    match Selector::parse(text) {
        Some(s @ Selector::Input(_)) if property.selects != Selects::Outputs => Ok(s),
        Some(s @ Selector::Output { .. }) if property.selects != Selects::Inputs => Ok(s),
        parsed => Err(Unfit {
            // Where any text may stand this one is a reference, to nothing.
            class: match parsed {
                _ if !property.shape.takes_text() => ErrorClass::WorkflowSyntaxError,
                Some(Selector::Step(_)) => ErrorClass::ExecutionGraphStructureError,
                _ => ErrorClass::InvalidReferenceTargetError,
            },
            ..Unfit::because(format!("has {text:?} where only {usage} may stand"))
        }),
    }
}

fn step_name(json: &Json) -> Result<String, Unfit> {
    match json.as_str().and_then(Selector::parse) {
        Some(Selector::Step(name)) => Ok(name),
        _ => Err(Unfit::because(format!(
            "has {json} where a step has to stand; write $steps.name"
        ))),
    }
}

fn steps(json: &Json) -> Result<Arg, Unfit> {
    let Json::Array(items) = json else {
        return Err(Unfit::because("has to be a list of steps"));
    };
    items
        .iter()
        .map(step_name)
        .collect::<Result<_, _>>()
        .map(Arg::Steps)
}

fn step_cases(json: &Json) -> Result<Arg, Unfit> {
    let Json::Object(map) = json else {
        return Err(Unfit::because("has to be a dictionary of steps"));
    };
    map.iter()
        .map(|(key, item)| Ok((Arc::from(key.as_str()), step_name(item)?)))
        .collect::<Result<_, _>>()
        .map(Arg::Cases)
}

/// Reads a literal, as lenient about numbers in strings as the peer is.
fn literal(shape: Shape, json: &Json) -> Result<Value, Unfit> {
    match shape {
        Shape::Any => Ok(Value::from(json.clone())),
        Shape::Boolean => boolean(json).map(Value::Bool),
        Shape::Integer(min, max) => match integer(json) {
            Some(i) if (min..=max).contains(&i) => Ok(Value::Int(i)),
            Some(i) if max == i64::MAX => Err(Unfit::because(format!(
                "is {i} and has to be {min} or more"
            ))),
            Some(i) => Err(Unfit::because(format!(
                "is {i} and has to be from {min} to {max}"
            ))),
            None => Err(Unfit::because(format!(
                "has to be a whole number, not {}",
                short(json)
            ))),
        },
        Shape::Number(min, max) => match number(json) {
            Some(n) if (min..=max).contains(&n) => Ok(Value::Float(n)),
            Some(n) if max.is_infinite() && min == f64::MIN_POSITIVE => {
                Err(Unfit::because(format!("is {n} and has to be above 0")))
            }
            Some(n) if max.is_infinite() => Err(Unfit::because(format!(
                "is {n} and has to be {min} or more"
            ))),
            Some(n) => Err(Unfit::because(format!(
                "is {n} and has to be from {min} to {max}"
            ))),
            None => Err(Unfit::because(format!(
                "has to be a number, not {}",
                short(json)
            ))),
        },
        Shape::Text => match json {
            Json::String(text) => Ok(Value::from(text.as_str())),
            _ => Err(Unfit::because(format!(
                "has to be a string, not {}",
                short(json)
            ))),
        },
        Shape::Scalar => match json {
            Json::String(_) | Json::Number(_) | Json::Bool(_) => Ok(Value::from(json.clone())),
            _ => Err(Unfit::because(format!(
                "has to be text, a number, or true or false, not {}",
                short(json)
            ))),
        },
        Shape::Choice(choices) => match json.as_str() {
            Some(text) if choices.contains(&text) => Ok(Value::from(text)),
            _ => Err(Unfit {
                allowed: choices.iter().map(|c| (*c).to_owned()).collect(),
                ..Unfit::because(format!("is {}, which is none of its values", short(json)))
            }),
        },
        Shape::List => match json {
            Json::Array(_) => Ok(Value::from(json.clone())),
            _ => Err(Unfit::because(format!(
                "has to be a list, not {}",
                short(json)
            ))),
        },
        Shape::Texts(least) => match json {
            Json::Array(items) if items.len() < least => Err(Unfit::because(format!(
                "is a list of {}, and has to have {least} at least",
                items.len()
            ))),
            Json::Array(items) => match items.iter().find(|item| !item.is_string()) {
                Some(other) => Err(Unfit::because(format!(
                    "has to be a list of strings, and {} is none",
                    short(other)
                ))),
                None => Ok(Value::from(json.clone())),
            },
            _ => Err(Unfit::because(format!(
                "has to be a list of strings, not {}",
                short(json)
            ))),
        },
        Shape::Dict => match json {
            Json::Object(_) => Ok(Value::from(json.clone())),
            _ => Err(Unfit::because(format!(
                "has to be a dictionary, not {}",
                short(json)
            ))),
        },
        Shape::ListOf(item, least, most) => match json {
            Json::Array(items) if (least..=most).contains(&items.len()) => {
                let items = items.iter().enumerate();
                let items = items.map(|(i, json)| part(*item, json, &format!("entry {i}")));
                items.collect::<Result<_, _>>().map(Value::list)
            }
            Json::Array(items) if least == most => Err(Unfit::because(format!(
                "is a list of {}, and has to have {least}",
                items.len()
            ))),
            Json::Array(items) => Err(Unfit::because(format!(
                "is a list of {}, and has to have {least} at least",
                items.len()
            ))),
            _ => Err(Unfit::because(format!(
                "has to be a list, not {}",
                short(json)
            ))),
        },
        Shape::DictOf(item) => match json {
            Json::Object(map) => {
                let entries = map.iter().map(|(key, json)| {
                    let value = part(*item, json, &format!("entry {key}"))?;
                    Ok((Arc::from(key.as_str()), value))
                });
                let entries: Result<BTreeMap<Arc<str>, Value>, Unfit> = entries.collect();
                entries.map(|entries| Value::Dict(Arc::new(entries)))
            }
            _ => Err(Unfit::because(format!(
                "has to be a dictionary, not {}",
                short(json)
            ))),
        },
        Shape::OneOf(shapes) => {
            let mut last = Unfit::because("takes nothing");
            for shape in shapes {
                match literal(*shape, json) {
                    Ok(value) => return Ok(value),
                    Err(unfit) => last = unfit,
                }
            }
            Err(last)
        }
        Shape::Grammar(grammar) => match (grammar.check)(json) {
            Ok(()) => Ok(Value::Null),
            Err(why) => Err(Unfit::of_grammar(grammar.what, json, &why)),
        },
        Shape::Selector => Err(Unfit::because(format!(
            "has to be a selector such as $inputs.name or $steps.name.output, not {}",
            short(json)
        ))),
        Shape::Steps => Err(Unfit::because("has to be a list of steps")),
        Shape::StepCases => Err(Unfit::because("has to be a dictionary of steps")),
    }
}

/// Reads a part of a literal; what is wrong with it says which.
fn part(shape: Shape, json: &Json, which: &str) -> Result<Value, Unfit> {
    literal(shape, json).map_err(|unfit| Unfit {
        message: format!("has a wrong {which}, which {}", unfit.message),
        ..unfit
    })
}

fn boolean(json: &Json) -> Result<bool, Unfit> {
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
    .ok_or_else(|| Unfit::because(format!("has to be true or false, not {}", short(json))))
}

/// A value as it may stand in a message.
fn short(json: &Json) -> String {
    let text = json.to_string();
    if text.chars().count() <= 60 {
        return text;
    }
    let head: String = text.chars().take(57).collect();
    format!("{head}…")
}
