//! Checks one step against the manifest of its block.
//!
//! - A [`CheckedStep`] has one [`ArgValue`] per declared property, in the order of the manifest. It
//!   is a literal of the declared shape, or a selector that is allowed there.

use std::sync::Arc;

use serde_json::{Map, Value as Json};
use watchkeeper_contract::problem::nearest;
use watchkeeper_contract::workflow::WorkflowWarning;

use crate::workflow::block_api::manifest::{Manifest, StepOutput};
use crate::workflow::block_api::property::{Property, Selects};
use crate::workflow::block_api::shape::Shape;
use crate::workflow::language::definition::StepDef;
use crate::workflow::language::error::{ErrorClass, Problem, Problems};
use crate::workflow::language::selector::Selector;
use crate::workflow::plan::literal::{Mismatch, check_size, literal, short};
use crate::workflow::values::value::Value;

/// A step whose properties match its block.
#[derive(Debug, Clone)]
pub(crate) struct CheckedStep {
    pub(crate) name: String,
    pub(crate) manifest: &'static Manifest,
    pub(crate) args: Vec<ArgValue>,
    /// Outputs, in the order in which the block writes them.
    pub(crate) outputs: Vec<StepOutput>,
    /// Properties as written, by canonical name, with defaults.
    pub(crate) literals: Map<String, Json>,
    /// Members that are not properties of the block.
    pub(crate) ignored: Vec<String>,
    /// Properties that take no selector but have text like one.
    pub(crate) like_selectors: Vec<&'static str>,
}

#[derive(Debug, Clone)]
pub(crate) enum ArgValue {
    Literal(Value),
    Ref(Selector),
    List(Vec<ArgValue>),
    Dict(Vec<(Arc<str>, ArgValue)>),
    Steps(Vec<String>),
    /// One branch per key.
    Cases(Vec<(Arc<str>, String)>),
}

impl ArgValue {
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
    /// Branches of flow control, with the steps that they let run.
    pub(crate) fn branches(&self) -> Vec<Vec<&str>> {
        let mut branches = Vec::new();
        for arg in &self.args {
            match arg {
                ArgValue::Steps(names) => branches.push(names.iter().map(String::as_str).collect()),
                ArgValue::Cases(cases) => {
                    branches.extend(cases.iter().map(|(_, name)| vec![name.as_str()]));
                }
                _ => {}
            }
        }
        branches
    }
}

/// Checks the properties of a step; `None` if there are errors.
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
            // A default may be out of bounds: a delay of 0 means none, but a given one must be
            // above 0.
            (None, Some(json)) => {
                let literal = |_| ArgValue::Literal(Value::from(json.clone()));
                let arg = argument(property, &json).unwrap_or_else(literal);
                (json, Ok(arg))
            }
            (None, None) => {
                problems.push(missing_property(step, manifest, property));
                fit = false;
                continue;
            }
        };
        if property.selects == Selects::Nothing && Selector::looks_like(&json) {
            like_selectors.push(property.name);
        }
        match arg {
            Ok(arg) => args.push(arg),
            Err(mismatch) => {
                problems.push(invalid_property(step, property, &json, mismatch));
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
        ignored: unknown_members(step, manifest).map(str::to_owned).collect(),
        like_selectors,
    })
}

impl CheckedStep {
    /// Returns warnings about members without effect.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = WorkflowWarning> {
        let known = || self.manifest.properties.iter().map(|p| p.name);
        let ignored = self.ignored.iter().map(move |written| WorkflowWarning {
            step: self.name.clone(),
            property: written.clone(),
            message: format!(
                "step {} has no property {written}, so it is ignored",
                self.name
            ),
            nearest: nearest(written, known()).map(str::to_owned),
        });
        let like_selectors = self.like_selectors.iter().map(|name| WorkflowWarning {
            step: self.name.clone(),
            property: (*name).to_owned(),
            message: format!(
                "{name} of step {} takes no selectors, so this is used as plain text",
                self.name
            ),
            nearest: None,
        });
        let idle = self.manifest.properties.iter();
        let idle = idle.filter(|property| !property.has_effect && self.is_changed(property));
        let idle = idle.map(|property| WorkflowWarning {
            step: self.name.clone(),
            property: property.name.to_owned(),
            message: format!(
                "{} of step {} has no effect ({})",
                property.name, self.name, property.about
            ),
            nearest: None,
        });
        ignored.chain(like_selectors).chain(idle)
    }

    /// Whether a literal other than the default of a property is written. A selector names the data
    /// that Roboflow's form of the block has.
    fn is_changed(&self, property: &Property) -> bool {
        let (written, default) = (self.literals.get(property.name), property.default.to_json());
        let (Some(written), Some(default)) = (written, default) else {
            return false;
        };
        let is_equal = written.as_f64().map_or(*written == default, |number| {
            default.as_f64() == Some(number)
        });
        !is_equal && !Selector::looks_like(written)
    }
}

/// Members of a step that are not properties of its block.
fn unknown_members<'a>(step: &'a StepDef, manifest: &Manifest) -> impl Iterator<Item = &'a str> {
    step.body
        .keys()
        .map(String::as_str)
        .filter(|key| *key != "name" && *key != "type" && manifest.property(key).is_none())
}

/// The error that the value of a property does not match.
fn invalid_property(
    step: &StepDef,
    property: &Property,
    json: &Json,
    mismatch: Mismatch,
) -> Problem {
    let whole = json.as_str().unwrap_or_default();
    let found = mismatch.found.as_deref().unwrap_or(whole);
    let message = format!(
        "{} of step {} {}",
        property.name, step.name, mismatch.message
    );
    mismatch
        .class
        .problem(message)
        .allowed(found, mismatch.allowed)
        .step(&*step.name)
        .property(property.name)
}

/// The error that a required property is missing, with the member that was probably meant.
fn missing_property(step: &StepDef, manifest: &Manifest, property: &Property) -> Problem {
    Problem::syntax(format!(
        "step {} lacks {}: {}",
        step.name, property.name, property.about
    ))
    .nearest_of(property.name, unknown_members(step, manifest))
    .step(&*step.name)
    .property(property.name)
}

/// Returns why a value from an input is not valid for a property.
///
/// Data without literals and choices accept anything: the peer runs with other choices too, and the
/// block decides.
pub(crate) fn takes(property: &Property, json: &Json) -> Result<(), String> {
    check_size(property.shape, json).map_err(|mismatch| mismatch.message)?;
    let is_data = matches!(
        property.shape,
        Shape::Selector | Shape::Any | Shape::Choice(_)
    );
    if is_data || json.is_null() && property.nullable || Selector::looks_like(json) {
        return Ok(());
    }
    literal(property.shape, json)
        .map(drop)
        .map_err(|mismatch| mismatch.message)
}

fn argument(property: &Property, json: &Json) -> Result<ArgValue, Mismatch> {
    check_size(property.shape, json)?;
    match property.shape {
        Shape::Steps => return steps(json),
        Shape::StepCases => return step_cases(json),
        _ => {}
    }
    let is_text = property.selects == Selects::Nothing && property.shape.takes_text();
    if Selector::looks_like(json) && !is_text {
        if matches!(property.selects, Selects::Entries | Selects::EveryEntry) {
            return Err(Mismatch::because(format!(
                "takes selectors only as entries of a list or dictionary, but has {json} for all \
                 of it"
            )));
        }
        return selector(property, json).map(ArgValue::Ref);
    }
    if json.is_null() && property.nullable {
        return Ok(ArgValue::Literal(Value::Null));
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
                .map(ArgValue::List)
        }
        Json::Object(map)
            if compound
                && property.shape.takes_dict()
                && map.values().any(Selector::looks_like) =>
        {
            map.iter()
                .map(|(key, item)| Ok((Arc::from(key.as_str()), element(property, item)?)))
                .collect::<Result<_, _>>()
                .map(ArgValue::Dict)
        }
        _ => literal(property.shape, json).map(ArgValue::Literal),
    }
}

/// Checks that a list or dictionary has only selectors, and a list at least one.
fn every_entry(property: &Property, json: &Json) -> Result<(), Mismatch> {
    let mut entries: Box<dyn Iterator<Item = &Json>> = match json {
        Json::Array(items) if items.is_empty() => {
            return Err(Mismatch::because(
                "is empty and needs at least one selector",
            ));
        }
        Json::Array(items) if property.shape.takes_list() => Box::new(items.iter()),
        Json::Object(map) if property.shape.takes_dict() => Box::new(map.values()),
        // The check of the shape reports a wrong type.
        _ => return Ok(()),
    };
    match entries.find(|entry| !Selector::looks_like(entry)) {
        Some(other) => Err(Mismatch::because(format!(
            "has {}, but takes only selectors such as $inputs.name or $steps.name.output",
            short(other)
        ))),
        None => Ok(()),
    }
}

fn element(property: &Property, json: &Json) -> Result<ArgValue, Mismatch> {
    if Selector::looks_like(json) {
        selector(property, json).map(ArgValue::Ref)
    } else if matches!(property.shape, Shape::Texts(_)) {
        literal(Shape::Text, json).map(ArgValue::Literal)
    } else {
        Ok(ArgValue::Literal(Value::from(json.clone())))
    }
}

fn selector(property: &Property, json: &Json) -> Result<Selector, Mismatch> {
    let text = json.as_str().unwrap_or_default();
    let usage = match property.selects {
        Selects::Nothing => {
            return Err(Mismatch::because(format!(
                "takes no selectors, but has {text:?}"
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
        parsed => Err(Mismatch {
            // Where any text is accepted, this is a reference to nothing.
            class: match parsed {
                _ if !property.shape.takes_text() => ErrorClass::WorkflowSyntaxError,
                Some(Selector::Step(_)) => ErrorClass::ExecutionGraphStructureError,
                _ => ErrorClass::InvalidReferenceTargetError,
            },
            ..Mismatch::because(format!("has {text:?}, but takes only {usage}"))
        }),
    }
}

fn step_name(json: &Json) -> Result<String, Mismatch> {
    match json.as_str().and_then(Selector::parse) {
        Some(Selector::Step(name)) => Ok(name),
        _ => Err(Mismatch::because(format!(
            "has {json}, but takes only steps; write $steps.name"
        ))),
    }
}

fn steps(json: &Json) -> Result<ArgValue, Mismatch> {
    let Json::Array(items) = json else {
        return Err(Mismatch::because("has to be a list of steps"));
    };
    items
        .iter()
        .map(step_name)
        .collect::<Result<_, _>>()
        .map(ArgValue::Steps)
}

fn step_cases(json: &Json) -> Result<ArgValue, Mismatch> {
    let Json::Object(map) = json else {
        return Err(Mismatch::because("has to be a dictionary of steps"));
    };
    map.iter()
        .map(|(key, item)| Ok((Arc::from(key.as_str()), step_name(item)?)))
        .collect::<Result<_, _>>()
        .map(ArgValue::Cases)
}
