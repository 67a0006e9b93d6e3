//! The block catalogue: descriptions of blocks for users, programs and LLMs.
//!
//! - Made from the manifests and the table of types only.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};
use watchkeeper_contract::problem::nearest_word;
use watchkeeper_contract::workflow::{BlockDetails, BlockSummary};

use crate::workflow::block_api::manifest::Manifest;
use crate::workflow::block_api::property::{Default, Property, Selects};
use crate::workflow::block_api::shape::Shape;
use crate::workflow::blocks;
use crate::workflow::language::subworkflow::INNER;
use crate::workflow::language::types;
use crate::workflow::language::types::LanguageType;

/// All blocks, in the order of the families.
pub fn catalogue() -> Vec<BlockSummary> {
    blocks::all().map(summary).collect()
}

/// Returns the description of a block by type or alias.
pub fn details(r#type: &str) -> Option<BlockDetails> {
    let manifest = blocks::find(r#type)?;
    Some(BlockDetails {
        summary: summary(manifest),
        schema: schema(manifest),
        outputs: manifest
            .outputs
            .iter()
            .map(|o| (o.name.to_owned(), o.kinds.names()))
            .collect::<BTreeMap<_, _>>(),
    })
}

/// Returns the models that a block asks for by itself, each once, that of its defaults first. Empty
/// if a step names the model, or the block has none.
pub fn models_of_block(r#type: &str) -> Vec<String> {
    let Some(block) = blocks::find(r#type) else {
        return Vec::new();
    };
    let usual = |name: &str| match block.properties.get(block.property(name)?)?.default {
        Default::Text(text) => Some(text.to_owned()),
        _ => None,
    };
    let choices = block.properties.iter().filter_map(|p| match p.shape {
        Shape::Choice(choices) => Some((p.name, choices)),
        _ => None,
    });
    let of_choices = choices.flat_map(|(name, choices)| {
        choices.iter().filter_map(move |choice| {
            let known = |asked: &str| match asked == name {
                true => Some((*choice).to_owned()),
                false => usual(asked),
            };
            (block.model)(&known)
        })
    });
    let mut models: Vec<String> = Vec::new();
    for model in (block.model)(&usual).into_iter().chain(of_choices) {
        if !models.contains(&model) {
            models.push(model);
        }
    }
    models
}

/// Returns the block with the most similar name, without namespace and version; of equal ones that
/// of the same version, else the latest.
pub fn nearest_block(wanted: &str) -> Option<String> {
    // A common namespace or version would make all of its blocks look similar.
    let (wanted, version) = own_name(wanted);
    let meant = nearest_word(wanted, blocks::all().map(|block| own_name(block.name).0))?;
    let namesakes = blocks::all().filter(|block| own_name(block.name).0 == meant);
    let best = namesakes.max_by_key(|block| {
        // Names without a namespace come from Roboflow's documents.
        let is_theirs = block.name.starts_with("roboflow_core/");
        (is_theirs, own_name(block.name).1 == version)
    });
    best.map(|block| block.name.to_owned())
}

/// Splits a type, without its namespace, into name and version.
fn own_name(r#type: &str) -> (&str, &str) {
    let own = r#type.rsplit('/').next().unwrap_or_default();
    own.split_once('@').unwrap_or((own, ""))
}

/// A family of the language that is not supported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsupportedFamily {
    pub family: String,
    /// Why, as a clause that follows "because it".
    pub reason: String,
    /// Family of the nearest supported block.
    pub nearest: Option<String>,
}

/// Families that need a cloud service, a model or a driver that is not available, each once.
pub fn unsupported_families() -> Vec<UnsupportedFamily> {
    let mut found: Vec<UnsupportedFamily> = Vec::new();
    for known in types::all() {
        let family = types::family(known.name);
        if !found.iter().any(|f| f.family == family) {
            found.extend(why_unsupported(known.name));
        }
    }
    found
}

/// Returns why a type of the language is not supported; a type without version means its family.
pub fn why_unsupported(r#type: &str) -> Option<UnsupportedFamily> {
    let known = types::find(r#type).or_else(|| {
        let of_family = |known: &&LanguageType| types::family(known.name) == r#type;
        types::all().iter().find(of_family)
    })?;
    let elsewhere = types::elsewhere(known)?;
    Some(UnsupportedFamily {
        family: types::family(known.name).to_owned(),
        reason: elsewhere.reason.to_owned(),
        nearest: elsewhere
            .nearest
            .filter(|n| blocks::latest(n).is_some())
            .map(str::to_owned),
    })
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FamilyState {
    Supported(Vec<&'static str>),
    /// Replaced by the steps of its definition, without a block.
    Inlined,
    Unsupported(UnsupportedFamily),
    /// Supported in principle, but has no block yet.
    Missing,
}

/// All families of the language and of this project, by name.
pub fn families() -> BTreeMap<&'static str, FamilyState> {
    let mut found = BTreeMap::new();
    for manifest in blocks::all() {
        let (name, version) = manifest.name.split_once('@').unwrap_or((manifest.name, ""));
        let state = found
            .entry(name)
            .or_insert(FamilyState::Supported(Vec::new()));
        if let FamilyState::Supported(versions) = state {
            versions.push(version);
        }
    }
    for known in types::all() {
        found.entry(types::family(known.name)).or_insert_with(|| {
            match why_unsupported(known.name) {
                _ if known.name == INNER => FamilyState::Inlined,
                Some(why) => FamilyState::Unsupported(why),
                None => FamilyState::Missing,
            }
        });
    }
    found
}

/// Types without a block yet.
pub fn missing() -> Vec<&'static str> {
    let is_known = |k: &LanguageType| blocks::find(k.name).is_some() || k.name == INNER;
    let is_missing = |k: &&LanguageType| types::elsewhere(k).is_none() && !is_known(k);
    types::all()
        .iter()
        .filter(is_missing)
        .map(|k| k.name)
        .collect()
}

fn summary(manifest: &Manifest) -> BlockSummary {
    BlockSummary {
        r#type: manifest.name.to_owned(),
        aliases: types::aliases(manifest.name)
            .iter()
            .map(|t| (*t).to_owned())
            .collect(),
        category: manifest.category.to_owned(),
        summary: manifest.summary.to_owned(),
    }
}

/// Returns the JSON Schema (2020-12) of a step of this block.
fn schema(manifest: &Manifest) -> Json {
    let aliases = types::aliases(manifest.name);
    let names: Vec<&str> = std::iter::once(manifest.name)
        .chain(aliases.iter().copied())
        .collect();
    let mut properties = Map::new();
    properties.insert("type".into(), json!({"enum": names}));
    properties.insert("name".into(), json!({"type": "string", "minLength": 1}));
    let mut required = vec!["type", "name"];
    for property in manifest.properties {
        properties.insert(property.name.to_owned(), property_schema(property));
        if property.required() {
            required.push(property.name);
        }
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": manifest.name,
        "description": manifest.summary,
        "type": "object",
        "properties": properties,
        "required": required,
    })
}

fn property_schema(property: &Property) -> Json {
    let mut any = Vec::new();
    match (literal_schema(property.shape), property.selects) {
        (
            Some(Json::Object(mut map)),
            Selects::Entries | Selects::EveryEntry | Selects::WholeOrEveryEntry,
        ) => {
            let entries = json!({"kinds": property.kinds.names()});
            let key = if property.shape.takes_dict() {
                "additionalProperties"
            } else {
                "items"
            };
            map.insert(key.to_owned(), entries);
            any.push(Json::Object(map));
        }
        (Some(Json::Object(mut map)), _) => match map.remove("anyOf") {
            Some(Json::Array(ways)) => any.extend(ways),
            _ => any.push(Json::Object(map)),
        },
        _ => {}
    }
    if property.nullable {
        any.push(json!({"type": "null"}));
    }
    match property.selects {
        Selects::Nothing | Selects::Entries | Selects::EveryEntry => {}
        Selects::Outputs => any.push(json!({
            "type": "string",
            "pattern": r"^\$steps\.[A-Za-z_0-9-]+\.[A-Za-z_0-9-]+$",
            "kinds": property.kinds.names(),
        })),
        Selects::Inputs => any.push(json!({
            "type": "string",
            "pattern": r"^\$inputs\.[A-Za-z_0-9-]+$",
            "kinds": property.kinds.names(),
        })),
        Selects::Anything | Selects::WholeOrEveryEntry => any.push(json!({
            "type": "string",
            "pattern": r"^\$(inputs\.[A-Za-z_0-9-]+|steps\.[A-Za-z_0-9-]+\.[A-Za-z_0-9-]+)$",
            "kinds": property.kinds.names(),
        })),
    }
    let mut schema = match any.as_slice() {
        [Json::Object(one)] => one.clone(),
        _ => {
            let mut map = Map::new();
            map.insert("anyOf".into(), Json::Array(any));
            map
        }
    };
    schema.insert("description".into(), property.about.into());
    if let Some(default) = property.default.to_json() {
        schema.insert("default".into(), default);
    }
    if !property.aliases.is_empty() {
        schema.insert("aliases".into(), json!(property.aliases));
    }
    Json::Object(schema)
}

fn literal_schema(shape: Shape) -> Option<Json> {
    Some(match shape {
        Shape::Selector => return None,
        Shape::Any => json!({}),
        Shape::Boolean => json!({"type": "boolean"}),
        Shape::Integer(min, max) => integer_schema(min, max),
        Shape::Number(min, max) => number_schema(min, max),
        Shape::Text => json!({"type": "string"}),
        Shape::Scalar => json!({"type": ["string", "number", "boolean"]}),
        Shape::Choice(choices) => json!({"enum": choices}),
        Shape::List | Shape::Points => json!({"type": "array"}),
        Shape::Texts(0) => json!({"type": "array", "items": {"type": "string"}}),
        Shape::Texts(least) => {
            json!({"type": "array", "items": {"type": "string"}, "minItems": least})
        }
        Shape::ListOf(item, least, most) => list_schema(*item, least, most),
        Shape::DictOf(item) => {
            json!({"type": "object", "additionalProperties": literal_schema(*item)})
        }
        Shape::Dict => json!({"type": "object"}),
        Shape::Steps => json!({
            "type": "array",
            "items": {"type": "string", "pattern": r"^\$steps\.[A-Za-z_0-9-]+$"},
        }),
        Shape::StepCases => json!({
            "type": "object",
            "additionalProperties": {"type": "string", "pattern": r"^\$steps\.[A-Za-z_0-9-]+$"},
        }),
        Shape::OneOf(shapes) => {
            json!({"anyOf": shapes.iter().filter_map(|s| literal_schema(*s)).collect::<Vec<_>>()})
        }
        Shape::Grammar(grammar) => json!({"type": grammar.json, "format": grammar.what}),
    })
}

fn integer_schema(min: i64, max: i64) -> Json {
    let mut map = Map::new();
    map.insert("type".into(), "integer".into());
    if min > i64::MIN {
        map.insert("minimum".into(), min.into());
    }
    if max < i64::MAX {
        map.insert("maximum".into(), max.into());
    }
    Json::Object(map)
}

fn number_schema(min: f64, max: f64) -> Json {
    let mut map = Map::new();
    map.insert("type".into(), "number".into());
    if min == f64::MIN_POSITIVE {
        map.insert("exclusiveMinimum".into(), 0.into());
    } else if min.is_finite() {
        map.insert("minimum".into(), min.into());
    }
    if max.is_finite() {
        map.insert("maximum".into(), max.into());
    }
    Json::Object(map)
}

fn list_schema(item: Shape, min_items: usize, max_items: usize) -> Json {
    let mut map = Map::new();
    map.insert("type".into(), "array".into());
    map.extend(literal_schema(item).map(|item| ("items".to_owned(), item)));
    if min_items > 0 {
        map.insert("minItems".into(), min_items.into());
    }
    if max_items < usize::MAX {
        map.insert("maxItems".into(), max_items.into());
    }
    Json::Object(map)
}
