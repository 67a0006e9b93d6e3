//! Evaluation: applies operations to values and tests statements.
//!
//! - Every operation and every statement is charged to the budget first.
//! - Every statement of a group is evaluated.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use watchkeeper_vision::detections::Detections;

use super::budget::Budget;
use super::convert::{
    classification, frame_property, image_property, iso, jpeg, number, place, round, text,
    to_number,
};
use super::env::Env;
use super::grammar::{
    Chain, DetectionProperty, Operand, Operation, Operator, Parametrised, PickMode, Statement,
    StatementGroup,
};
use super::python::{expected, length, shared, to_int, truthy};
use super::{detections, numbers};
use crate::workflow::block_api::call::IdCounter;
use crate::workflow::values::codec;
use crate::workflow::values::python_json::python_json;
use crate::workflow::values::value::Value;

pub(crate) fn apply(chain: &Chain, value: Value, env: &Env<'_>) -> Result<Value, String> {
    chain.iter().try_fold(value, |v, op| {
        env.budget.charge(1)?;
        apply_operation(op, v, env)
    })
}

/// Applies named chains to the entries of a dictionary. Fails if an operation does not fit its
/// value, or `what` lacks an entry.
pub(crate) fn apply_named(
    chains: &BTreeMap<String, Chain>,
    data: &mut Value,
    what: &str,
    ids: &IdCounter,
) -> Result<(), String> {
    if chains.is_empty() {
        return Ok(());
    }
    let Value::Dict(map) = data else {
        return Err(expected("a dictionary", data));
    };
    let map = Arc::make_mut(map);
    for (name, chain) in chains {
        let value = map
            .get(name.as_str())
            .cloned()
            .ok_or_else(|| format!("{what} has no {name} to apply operations to"))?;
        map.insert(Arc::from(name.as_str()), apply_alone(chain, value, ids)?);
    }
    Ok(())
}

/// Applies a chain that refers only to its value.
pub(crate) fn apply_alone(chain: &Chain, value: Value, ids: &IdCounter) -> Result<Value, String> {
    let env = Env {
        parameters: &Value::Null,
        element: &Value::Null,
        budget: &Budget::default(),
        ids,
    };
    apply(chain, value, &env)
}

/// Elements of a sequence, as in Python: characters of a text, keys of a dictionary.
fn sequence<'v>(v: &'v Value, env: &Env<'_>) -> Result<Cow<'v, [Value]>, String> {
    Ok(match v {
        Value::List(items) => Cow::Borrowed(items),
        Value::Text(text) => {
            env.budget.charge(text.len())?;
            let mut one = [0; 4];
            let each = text.chars();
            Cow::Owned(
                each.map(|c| Value::from(&*c.encode_utf8(&mut one)))
                    .collect(),
            )
        }
        Value::Dict(map) => {
            env.budget.charge(map.len())?;
            Cow::Owned(map.keys().map(|key| Value::Text(Arc::clone(key))).collect())
        }
        other => return Err(expected("a sequence", other)),
    })
}

fn boxes(v: &Value) -> Result<&Arc<Detections>, String> {
    match v {
        Value::Detections(all) => Ok(all),
        other => Err(expected("detections", other)),
    }
}

/// Charges for reading a text, and returns it.
fn charged_text<'v>(value: &'v Value, env: &Env<'_>) -> Result<&'v str, String> {
    let text = text(value)?;
    env.budget.charge(text.len())?;
    Ok(text)
}

fn apply_operation(operation: &Operation, v: Value, env: &Env<'_>) -> Result<Value, String> {
    use Operation as O;
    Ok(match operation {
        O::StringToLowerCase => shared(&charged_text(&v, env)?.to_lowercase()).into(),
        O::StringToUpperCase => shared(&charged_text(&v, env)?.to_uppercase()).into(),
        O::LookupTable { lookup_table } => look_up(lookup_table, &v, env)?,
        O::ToNumber { cast_to } => to_number(&v, *cast_to)?,
        O::NumberRound { decimal_digits } => round(&v, *decimal_digits)?,
        O::SequenceMap { lookup_table } => {
            map_items(&v, env, |item| look_up(lookup_table, item, env))?
        }
        O::SequenceApply { operations } => apply_to_items(operations, &v, env)?,
        O::NumericSequenceAggregate {
            function,
            neutral_value,
        } => numbers::aggregate(&sequence(&v, env)?, *function, neutral_value)?,
        O::SequenceAggregate { mode } => pick_item(&v, *mode, env)?,
        O::SequenceLength => Value::Int(length(&v)?),
        O::SequenceElementsCount => count_items(&v, env)?,
        O::SequenceJoin { separator } => join_items(&v, separator, env)?,
        O::ToString => to_text(&v, env)?,
        O::ToBoolean => Value::Bool(truthy(&v)),
        O::StringSubSequence { start, end } => slice_text(charged_text(&v, env)?, *start, *end),
        // Like Python's `re.search`: at any position.
        O::StringMatches { regex } => Value::Bool(regex.0.is_match(charged_text(&v, env)?)),
        O::Multiply { other } => number(&v)?.multiply(*other),
        O::Divide { other } => divide(&v, *other)?,
        O::DetectionsPropertyExtract { property_name } => each_property(boxes(&v)?, *property_name),
        O::ExtractDetectionProperty { property_name } => one_property(&v, *property_name)?,
        O::ClassificationPropertyExtract { property_name } => classification(&v, *property_name)?,
        O::DetectionsFilter { filter_operation } => filter(boxes(&v)?, filter_operation, env)?,
        O::DetectionsOffset { offset_x, offset_y } => {
            detections::offset(boxes(&v)?, *offset_x, *offset_y).into()
        }
        O::DetectionsShift { shift_x, shift_y } => {
            detections::shift(boxes(&v)?, *shift_x, *shift_y).into()
        }
        O::DetectionsRename {
            class_map,
            strict,
            new_classes_id_offset,
        } => rename(boxes(&v)?, class_map, strict, *new_classes_id_offset, env)?,
        O::DetectionsSelection { mode } => detections::select(boxes(&v)?, *mode).into(),
        O::SortDetections { mode, ascending } => {
            detections::sort(boxes(&v)?, *mode, *ascending).into()
        }
        O::PickDetectionsByParentClass { parent_class } => {
            detections::with_parents(boxes(&v)?, parent_class).into()
        }
        O::DetectionsToDictionary => to_dictionary(boxes(&v)?),
        O::ConvertDictionaryToJSON => to_json_text(&v)?,
        O::ExtractImageProperty { property_name } => image_property(&v, *property_name)?,
        O::ExtractFrameMetadata { property_name } => frame_property(&v, *property_name)?,
        O::TimestampToISOFormat => iso(&v)?,
        O::RandomNumber { min, max } => Value::Float(env.draw(*min, *max)),
        O::ConvertImageToJPEG { compression_level } => to_jpeg(&v, *compression_level)?,
        O::ConvertImageToBase64 => Value::from(codec::to_base64(&jpeg(&v, codec::QUALITY)?)),
    })
}

fn map_items(
    v: &Value,
    env: &Env<'_>,
    map: impl FnMut(&Value) -> Result<Value, String>,
) -> Result<Value, String> {
    let items = sequence(v, env)?;
    Ok(Value::list(
        items.iter().map(map).collect::<Result<_, _>>()?,
    ))
}

fn apply_to_items(operations: &Chain, v: &Value, env: &Env<'_>) -> Result<Value, String> {
    map_items(v, env, |item| {
        env.budget.charge(1)?;
        apply(operations, item.clone(), env)
    })
}

fn pick_item(v: &Value, mode: PickMode, env: &Env<'_>) -> Result<Value, String> {
    let items = sequence(v, env)?;
    charge_for_pairs(&items, env)?;
    Ok(numbers::pick(&items, mode))
}

fn count_items(v: &Value, env: &Env<'_>) -> Result<Value, String> {
    let items = sequence(v, env)?;
    charge_for_pairs(&items, env)?;
    env.budget.charge_value(v)?;
    let counts = numbers::counts(&items).into_iter();
    Ok(Value::dict(counts.map(|(item, n)| {
        (shared(&item.python_str()), Value::Int(to_int(n)))
    })))
}

fn join_items(v: &Value, separator: &str, env: &Env<'_>) -> Result<Value, String> {
    let items = sequence(v, env)?;
    env.budget.charge_value(v)?;
    env.budget
        .charge(items.len().saturating_mul(separator.len()))?;
    let parts: Vec<String> = items.iter().map(Value::python_str).collect();
    Ok(shared(&parts.join(separator)).into())
}

fn to_text(v: &Value, env: &Env<'_>) -> Result<Value, String> {
    env.budget.charge_value(v)?;
    Ok(shared(&v.python_str()).into())
}

fn slice_text(text: &str, start: i64, end: i64) -> Value {
    let chars: Vec<char> = text.chars().collect();
    let (from, to) = (place(start, chars.len()), place(end, chars.len()));
    let part: String = chars.get(from..to).unwrap_or_default().iter().collect();
    shared(&part).into()
}

fn divide(v: &Value, other: f64) -> Result<Value, String> {
    if other == 0.0 {
        return Err("division by zero".to_owned());
    }
    Ok(Value::Float(number(v)?.as_f64() / other))
}

fn each_property(all: &Detections, property: DetectionProperty) -> Value {
    let values = all
        .boxes
        .iter()
        .map(|d| detections::property(all, d, property));
    Value::list(values.collect())
}

fn one_property(v: &Value, property: DetectionProperty) -> Result<Value, String> {
    let Value::Detection(all, index) = v else {
        return Err(expected("a detection", v));
    };
    let detection = all.boxes.get(*index);
    Ok(detection.map_or(Value::Null, |d| detections::property(all, d, property)))
}

fn filter(
    all: &Arc<Detections>,
    condition: &StatementGroup,
    env: &Env<'_>,
) -> Result<Value, String> {
    let keep = |element: &Value| condition.holds(&Env { element, ..*env });
    Ok(detections::filter(all, keep)?.into())
}

fn rename(
    all: &Detections,
    class_map: &Parametrised<BTreeMap<String, String>>,
    strict: &Parametrised<bool>,
    new_ids: i64,
    env: &Env<'_>,
) -> Result<Value, String> {
    let names = class_map.resolve(env, |v| match v {
        Value::Dict(map) => map
            .iter()
            .map(|(k, v)| Some((k.to_string(), v.as_str()?.to_owned())))
            .collect(),
        _ => None,
    })?;
    let strict = strict.resolve(env, |v| match v {
        Value::Bool(b) => Some(*b),
        _ => None,
    })?;
    Ok(detections::rename(all, &names, strict, new_ids)?.into())
}

fn to_dictionary(all: &Arc<Detections>) -> Value {
    Value::from(Value::Detections(Arc::clone(all)).to_json())
}

fn to_jpeg(v: &Value, quality: u8) -> Result<Value, String> {
    Ok(Value::Bytes(jpeg(v, quality)?.into()))
}

fn to_json_text(v: &Value) -> Result<Value, String> {
    match v {
        Value::Dict(_) => Ok(shared(&python_json(&v.to_json())).into()),
        other => Err(expected("a dictionary", other)),
    }
}

fn look_up(table: &BTreeMap<String, Value>, key: &Value, env: &Env<'_>) -> Result<Value, String> {
    env.budget.charge_value(key)?;
    let name = key.as_str().map_or_else(|| key.python_str(), str::to_owned);
    let found = table
        .get(&name)
        .ok_or_else(|| format!("{name} is not in the look-up table"))?;
    env.budget.charge_value(found)?;
    Ok(found.clone())
}

/// Charges for comparing every item of a list with every other one.
fn charge_for_pairs(items: &[Value], env: &Env<'_>) -> Result<(), String> {
    let items = items.len();
    env.budget.charge(items.saturating_mul(items))
}

impl StatementGroup {
    pub(crate) fn holds(&self, env: &Env<'_>) -> Result<bool, String> {
        join(&self.statements, self.operator, env)
    }
}

fn join(statements: &[Statement], operator: Operator, env: &Env<'_>) -> Result<bool, String> {
    let mut result = matches!(operator, Operator::And);
    for statement in statements {
        let holds = statement.holds(env)?;
        result = match operator {
            Operator::And => result && holds,
            Operator::Or => result || holds,
        };
    }
    Ok(result)
}

impl Statement {
    fn holds(&self, env: &Env<'_>) -> Result<bool, String> {
        env.budget.charge(1)?;
        match self {
            Self::BinaryStatement {
                left_operand,
                comparator,
                right_operand,
                negate,
            } => {
                let (left, right) = (left_operand.value(env)?, right_operand.value(env)?);
                let items = |v: &Value| v.as_list().map_or(1, <[Value]>::len);
                env.budget
                    .charge(items(&left).saturating_mul(items(&right)))?;
                Ok(comparator.name.holds(&left, &right)? != *negate)
            }
            Self::UnaryStatement {
                operand,
                operator,
                negate,
            } => Ok(operator.name.holds(&operand.value_or_null(env)?)? != *negate),
            Self::StatementGroup {
                statements,
                operator,
            } => join(statements, *operator, env),
        }
    }
}

impl Operand {
    fn value(&self, env: &Env<'_>) -> Result<Value, String> {
        match self {
            Self::StaticOperand { value, operations } => apply(operations, value.clone(), env),
            Self::DynamicOperand {
                operand_name,
                operations,
            } => {
                let value = env
                    .get(operand_name)
                    .ok_or_else(|| format!("there is no value called {operand_name}"))?;
                apply(operations, value, env)
            }
        }
    }

    /// Like [`Self::value`], but null for an unknown name, so that existence can be tested.
    fn value_or_null(&self, env: &Env<'_>) -> Result<Value, String> {
        match self {
            Self::DynamicOperand { operand_name, .. } if env.get(operand_name).is_none() => {
                Ok(Value::Null)
            }
            _ => self.value(env),
        }
    }
}
