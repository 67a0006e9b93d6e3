//! Random definitions of real blocks with mistakes: they compile or are refused, and never panic.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};

use super::super::uql::{Budget, Chain, Env, apply};
use super::super::{Value, blocks, compile, validate};
use super::{FixedBoxes, frame};
use crate::workflow::block_api::call::IdCounter;
use crate::workflow::block_api::manifest::Manifest;
use crate::workflow::block_api::property::{Property, Selects};
use crate::workflow::block_api::shape::Shape;
use crate::workflow::language::kinds::{Kind, KindSet};

/// Makes definitions from a seed.
pub(super) struct Maker(pub(super) fastrand::Rng);

impl Maker {
    fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.0.usize(..list.len())]
    }

    fn literal(&mut self) -> Json {
        self.pick(&[
            json!(null),
            json!(true),
            json!(-1),
            json!(0.5),
            json!(1e308),
            json!(i64::MAX),
            json!(""),
            json!("person"),
            json!("CENTER"),
            json!("$"),
            json!("$inputs.image"),
            json!([]),
            json!({}),
            json!([[0, 0], [10, 0], [10, 10]]),
            json!([[5, 0], [5, 99]]),
            json!([["a"], null]),
        ])
        .clone()
    }

    fn operation(&mut self, depth: u8) -> Json {
        let plain = [
            "StringToLowerCase",
            "SequenceLength",
            "SequenceElementsCount",
            "SequenceJoin",
            "ToString",
            "ToBoolean",
            "DetectionsToDictionary",
            "ConvertDictionaryToJSON",
            "TimestampToISOFormat",
        ];
        let with = [
            json!({"type": "ToNumber", "cast_to": "int"}),
            json!({"type": "NumberRound", "decimal_digits": 2}),
            json!({"type": "Divide", "other": 0.0}),
            json!({"type": "Multiply", "other": 1e300}),
            json!({"type": "StringSubSequence", "start": -5, "end": 2}),
            json!({"type": "StringMatches", "regex": "^p"}),
            json!({"type": "LookupTable", "lookup_table": {"person": 1}}),
            json!({"type": "NumericSequenceAggregate", "function": "min", "neutral_value": 0}),
            json!({"type": "SequenceAggregate", "mode": "most_common"}),
            json!({"type": "DetectionsPropertyExtract", "property_name": "center"}),
            json!({"type": "ExtractDetectionProperty", "property_name": "size"}),
            json!({"type": "DetectionsOffset", "offset_x": 3, "offset_y": -900}),
            json!({"type": "DetectionsRename", "class_map": {"person": "p"}, "strict": false}),
            json!({"type": "DetectionsSelection", "mode": "left_most"}),
            json!({"type": "SortDetections", "mode": "center_x"}),
            json!({"type": "PickDetectionsByParentClass", "parent_class": "car"}),
            json!({"type": "RandomNumber", "min": -5, "max": 5}),
            json!({"type": "ExtractImageProperty", "property_name": "aspect_ratio"}),
            json!({"type": "ExtractFrameMetadata", "property_name": "seconds_since_start"}),
        ];
        match self.0.u8(..4) {
            0 => json!({"type": *self.pick(&plain)}),
            1 if depth < 3 => {
                json!({"type": "SequenceApply", "operations": self.chain(depth + 1)})
            }
            2 if depth < 3 => {
                json!({"type": "DetectionsFilter", "filter_operation": self.group(depth + 1)})
            }
            _ => self.pick(&with).clone(),
        }
    }

    fn chain(&mut self, depth: u8) -> Json {
        (0..self.0.u8(..4)).map(|_| self.operation(depth)).collect()
    }

    fn group(&mut self, depth: u8) -> Json {
        let comparators = [
            "==",
            "(Number) >",
            "(Number) in range",
            "(String) startsWith",
            "in (Sequence)",
            "any in (Sequence)",
            "(Detection) in zone",
        ];
        let statement = json!({
            "type": "BinaryStatement",
            "left_operand": {"type": "DynamicOperand", "operations": self.chain(depth)},
            "comparator": {"type": *self.pick(&comparators)},
            "right_operand": {"type": "StaticOperand", "value": self.literal()},
        });
        json!({"type": "StatementGroup", "statements": [statement], "operator": "and"})
    }

    /// A selector for a property, mostly of a kind that it accepts.
    fn source(&mut self, property: &Property, sources: &[(String, KindSet)]) -> Json {
        let fitting: Vec<&String> = sources
            .iter()
            .filter(|(name, kinds)| {
                kinds.fits(property.kinds)
                    && (property.selects == Selects::Anything || name.starts_with("$inputs"))
            })
            .map(|(name, _)| name)
            .collect();
        if fitting.is_empty() || self.0.u8(..30) == 0 {
            return json!(self.pick(sources).0);
        }
        json!(self.pick(&fitting))
    }

    fn value(&mut self, property: &Property, sources: &[(String, KindSet)], steps: usize) -> Json {
        if self.0.u8(..60) == 0 {
            return self.literal();
        }
        let some_step = format!("$steps.s{}", self.0.usize(..steps));
        let takes = property.selects != Selects::Nothing;
        match property.shape {
            Shape::Selector => self.source(property, sources),
            _ if takes
                && !matches!(property.selects, Selects::Entries | Selects::EveryEntry)
                && self.0.u8(..3) == 0 =>
            {
                self.source(property, sources)
            }
            Shape::Boolean => json!(self.0.bool()),
            Shape::Integer(least, most) => json!(self.0.i64(-2..50).clamp(least, most)),
            Shape::Number(..) => json!(self.0.f64()),
            Shape::Choice(choices) => json!(self.pick(choices)),
            Shape::List
                if matches!(
                    property.selects,
                    Selects::EveryEntry | Selects::WholeOrEveryEntry
                ) =>
            {
                json!([self.source(property, sources)])
            }
            Shape::List | Shape::Points => json!([[0, 0], [30, 0], [30, 30]]),
            Shape::Texts(_) => json!(["person"]),
            Shape::Text => json!("person"),
            Shape::Dict => json!({"_": self.source(property, sources), "n": 1}),
            Shape::Steps => json!([some_step]),
            Shape::StepCases => json!({"person": some_step}),
            Shape::Grammar(_) => match property.name {
                "operations" => self.chain(0),
                "data_operations" => json!({"n": self.chain(0)}),
                "switch" => json!({"type": "CasesDefinition",
                    "cases": [{"type": "CaseDefinition", "condition": self.group(0), "result": {"type": "StaticCaseResult", "value": 1}}],
                    "default": {"type": "DynamicCaseResult", "parameter_name": "_", "operations": self.chain(0)}}),
                "rules" => json!([]),
                "tiles" => json!("2x1"),
                _ => self.group(0),
            },
            _ => self.literal(),
        }
    }

    pub(super) fn definition(&mut self) -> Json {
        let manifests: Vec<_> = blocks::all().collect();
        self.definition_after(Vec::new(), &manifests)
    }

    /// Given steps followed by random ones of these blocks.
    pub(super) fn definition_after(
        &mut self,
        mut steps: Vec<Json>,
        manifests: &[&'static Manifest],
    ) -> Json {
        let mut sources: Vec<(String, KindSet)> = [
            ("image", Kind::Image),
            ("meta", Kind::VideoMetadata),
            ("value", Kind::Any),
            ("boxes", Kind::Any),
        ]
        .iter()
        .map(|(name, kind)| (format!("$inputs.{name}"), KindSet::of(&[*kind])))
        .collect();
        for step in &steps {
            let manifest = step["type"].as_str().and_then(blocks::find);
            let name = step["name"].as_str().unwrap();
            sources.extend(outputs(manifest.unwrap(), name));
        }
        let count = self.0.usize(1..8);
        for i in 0..count {
            let manifest = *self.pick(manifests);
            let mut step = Map::new();
            step.insert("type".to_owned(), json!(manifest.name));
            step.insert("name".to_owned(), json!(format!("s{i}")));
            for property in manifest.properties {
                if property.required() || self.0.u8(..3) == 0 {
                    let value = self.value(property, &sources, count);
                    step.insert(property.name.to_owned(), value);
                }
            }
            sources.extend(outputs(manifest, &format!("s{i}")));
            steps.push(Json::Object(step));
        }
        let named = steps.iter().filter(|step| {
            let manifest = step["type"].as_str().and_then(blocks::find);
            manifest.is_some_and(|m| m.outputs.iter().any(|o| o.name == "*"))
        });
        let named = named.map(|step| format!("$steps.{}.*", step["name"].as_str().unwrap()));
        let outputs: Vec<Json> = sources
            .iter()
            .map(|(selector, _)| selector.clone())
            .chain(named)
            .enumerate()
            .map(|(i, s)| json!({"type": "JsonField", "name": format!("o{i}"), "selector": s}))
            .collect();
        json!({
            "version": "1.0",
            "inputs": [
                {"type": "WorkflowImage", "name": "image"},
                {"type": "WorkflowVideoMetadata", "name": "meta"},
                {"type": "WorkflowParameter", "name": "value", "default_value": self.literal()},
                {"type": "WorkflowParameter", "name": "boxes", "default_value": self.literal()}
            ],
            "steps": steps,
            "outputs": outputs
        })
    }
}

/// Selectors of the outputs that a block declares, with their kinds.
fn outputs(manifest: &Manifest, step: &str) -> Vec<(String, KindSet)> {
    let declared = manifest.outputs.iter().filter(|o| o.name != "*");
    declared
        .map(|o| (format!("$steps.{step}.{}", o.name), o.kinds))
        .collect()
}

#[test]
fn many_random_definitions_compile() {
    let compiled = (0..1000)
        .filter(|seed| validate(&Maker(fastrand::Rng::with_seed(*seed)).definition()).ok)
        .count();
    assert!(compiled >= 100, "only {compiled} of 1000 compile");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_definition_never_panics(seed: u64) {
        let definition = Maker(fastrand::Rng::with_seed(seed)).definition();
        let report = validate(&definition);
        prop_assert_eq!(&report, &validate(&definition), "validation is deterministic");
        match compile(&definition, &BTreeMap::new()) {
            Ok(compiled) => {
                prop_assert!(report.ok);
                let mut run = compiled.instantiate();
                for number in 1..=3 {
                    let now = Duration::from_secs(number);
                    let report = run.run(frame(number, [64, 48]), &[], now, &mut FixedBoxes::three());
                    let panicked = report.errors.iter().find(|e| e.message.starts_with("internal error"));
                    prop_assert!(panicked.is_none(), "{:?}", panicked);
                }
                prop_assert!(run.outputs_json().is_object());
                if let Some(image) = run.output_image() {
                    let picture = image.rgb();
                    let pixels = picture.width as usize * picture.height as usize;
                    prop_assert_eq!(picture.data.len(), pixels * 3);
                }
            }
            Err(errors) => {
                prop_assert!(!report.ok);
                prop_assert!(!errors.is_empty());
            }
        }
    }

    #[test]
    fn random_chain_on_a_random_value_never_panics(seed: u64) {
        let mut maker = Maker(fastrand::Rng::with_seed(seed));
        let chain: Chain = serde_json::from_value(maker.chain(0)).unwrap();
        let value = Value::from(maker.literal());
        let env = Env { parameters: &Value::Null, element: &Value::Null, budget: &Budget::default(), ids: &IdCounter::default() };
        if let Ok(result) = apply(&chain, value, &env) {
            let text = result.to_json().to_string();
            prop_assert!(!text.is_empty());
        }
    }
}
