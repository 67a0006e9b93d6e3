//! Applying operations to values.
//!
//! Invariant: every operation is charged to the budget before it is done.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use watchkeeper_vision::detections::Detections;
use watchkeeper_vision::geometry::BBox;

use super::{
    Budget, Chain, ClassificationProperty, Env, FrameProperty, ImageProperty, NumberType,
    Operation, detections, numbers, shared,
};
use crate::workflow::block_api::block::Ids;
use crate::workflow::values::codec;
use crate::workflow::values::python_json::python_json;
use crate::workflow::values::value::{Value, moment};

/// Applies a chain of operations to a value.
pub(crate) fn apply(chain: &Chain, value: Value, env: &Env<'_>) -> Result<Value, String> {
    chain.iter().try_fold(value, |v, op| {
        env.budget.charge(1)?;
        one(op, v, env)
    })
}

/// Applies named chains to the entries of a dictionary.
///
/// # Errors
/// Where an operation doesn't fit its value, or an entry is missing; `what` says of what.
pub(crate) fn apply_named(
    chains: &BTreeMap<String, Chain>,
    data: &mut Value,
    what: &str,
    ids: &Ids,
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
            .ok_or_else(|| format!("{what} has no {name} to do operations on"))?;
        map.insert(Arc::from(name.as_str()), apply_alone(chain, value, ids)?);
    }
    Ok(())
}

/// Applies a chain that refers to nothing but its value.
pub(crate) fn apply_alone(chain: &Chain, value: Value, ids: &Ids) -> Result<Value, String> {
    let env = Env {
        parameters: &Value::Null,
        element: &Value::Null,
        budget: &Budget::default(),
        ids,
    };
    apply(chain, value, &env)
}

fn expected(what: &str, got: &Value) -> String {
    format!("{what} expected, got {}", got.what())
}

fn text(v: &Value) -> Result<&str, String> {
    v.as_str().ok_or_else(|| expected("a string", v))
}

/// The elements of a sequence, which in Python a text is of its characters and a dictionary of its keys.
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

fn one(operation: &Operation, v: Value, env: &Env<'_>) -> Result<Value, String> {
    use Operation as O;
    Ok(match operation {
        O::StringToLowerCase => shared(&text(&v)?.to_lowercase()).into(),
        O::StringToUpperCase => shared(&text(&v)?.to_uppercase()).into(),
        O::LookupTable { lookup_table } => look_up(lookup_table, &v, env)?,
        O::ToNumber { cast_to } => to_number(&v, *cast_to)?,
        O::NumberRound { decimal_digits } => round(&v, *decimal_digits)?,
        O::SequenceMap { lookup_table } => Value::list(
            sequence(&v, env)?
                .iter()
                .map(|item| look_up(lookup_table, item, env))
                .collect::<Result<_, _>>()?,
        ),
        O::SequenceApply { operations } => Value::list(
            sequence(&v, env)?
                .iter()
                .map(|item| {
                    env.budget.charge(1)?;
                    apply(operations, item.clone(), env)
                })
                .collect::<Result<_, _>>()?,
        ),
        O::NumericSequenceAggregate {
            function,
            neutral_value,
        } => numbers::aggregate(&sequence(&v, env)?, *function, neutral_value)?,
        O::SequenceAggregate { mode } => {
            let items = sequence(&v, env)?;
            each_with_each(&items, env)?;
            numbers::pick(&items, *mode)
        }
        O::SequenceLength => Value::Int(length(&v)?),
        O::SequenceElementsCount => {
            let items = sequence(&v, env)?;
            each_with_each(&items, env)?;
            env.budget.charge_value(&v)?;
            Value::Dict(Arc::new(
                numbers::counts(&items)
                    .into_iter()
                    .map(|(item, n)| (shared(&item.python_str()), Value::Int(to_int(n))))
                    .collect(),
            ))
        }
        O::SequenceJoin { separator } => {
            let items = sequence(&v, env)?;
            env.budget.charge_value(&v)?;
            env.budget
                .charge(items.len().saturating_mul(separator.len()))?;
            let parts: Vec<String> = items.iter().map(Value::python_str).collect();
            shared(&parts.join(separator)).into()
        }
        O::ToString => {
            env.budget.charge_value(&v)?;
            shared(&v.python_str()).into()
        }
        O::ToBoolean => Value::Bool(truthy(&v)),
        O::StringSubSequence { start, end } => {
            let chars: Vec<char> = text(&v)?.chars().collect();
            let (from, to) = (place(*start, chars.len()), place(*end, chars.len()));
            let part: String = chars.get(from..to).unwrap_or_default().iter().collect();
            shared(&part).into()
        }
        // As Python's `re.search`: anywhere.
        O::StringMatches { regex } => Value::Bool(regex.0.is_match(text(&v)?)),
        O::Multiply { other } => number(&v)?.multiply(*other),
        O::Divide { other } if *other == 0.0 => return Err("division by zero".to_owned()),
        O::Divide { other } => Value::Float(number(&v)?.as_f64() / other),
        O::DetectionsPropertyExtract { property_name } => {
            let all = boxes(&v)?;
            Value::list(
                all.boxes
                    .iter()
                    .map(|d| detections::property(all, d, *property_name))
                    .collect(),
            )
        }
        O::ExtractDetectionProperty { property_name } => match &v {
            Value::Detection(all, index) => all.boxes.get(*index).map_or(Value::Null, |d| {
                detections::property(all, d, *property_name)
            }),
            other => return Err(expected("a detection", other)),
        },
        O::ClassificationPropertyExtract { property_name } => classification(&v, *property_name)?,
        O::DetectionsFilter { filter_operation } => {
            detections::filter(boxes(&v)?, filter_operation, env)?.into()
        }
        O::DetectionsOffset { offset_x, offset_y } => {
            detections::offset(boxes(&v)?, *offset_x, *offset_y).into()
        }
        O::DetectionsShift { shift_x, shift_y } => detections::map(boxes(&v)?, |b| {
            BBox::new(
                b.x1 + shift_x,
                b.y1 + shift_y,
                b.x2 + shift_x,
                b.y2 + shift_y,
            )
        })
        .into(),
        O::DetectionsRename {
            class_map,
            strict,
            new_classes_id_offset,
        } => {
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
            detections::rename(boxes(&v)?, &names, strict, *new_classes_id_offset)?.into()
        }
        O::DetectionsSelection { mode } => detections::select(boxes(&v)?, *mode).into(),
        O::SortDetections { mode, ascending } => {
            detections::sort(boxes(&v)?, *mode, *ascending).into()
        }
        O::PickDetectionsByParentClass { parent_class } => {
            detections::with_parents(boxes(&v)?, parent_class).into()
        }
        O::DetectionsToDictionary => {
            Value::from(Value::Detections(Arc::clone(boxes(&v)?)).to_json())
        }
        O::ConvertDictionaryToJSON => match &v {
            Value::Dict(_) => shared(&python_json(&v.to_json())).into(),
            other => return Err(expected("a dictionary", other)),
        },
        O::ExtractImageProperty { property_name } => image_property(&v, *property_name)?,
        O::ExtractFrameMetadata { property_name } => frame_property(&v, *property_name)?,
        O::TimestampToISOFormat => iso(&v)?,
        O::RandomNumber { min, max } => Value::Float(env.draw(*min, *max)),
        O::ConvertImageToJPEG { compression_level } => {
            Value::Bytes(jpeg(&v, *compression_level)?.into())
        }
        O::ConvertImageToBase64 => Value::from(codec::to_base64(&jpeg(&v, codec::QUALITY)?)),
    })
}

fn look_up(
    table: &std::collections::BTreeMap<String, Value>,
    key: &Value,
    env: &Env<'_>,
) -> Result<Value, String> {
    env.budget.charge_value(key)?;
    let name = key.as_str().map_or_else(|| key.python_str(), str::to_owned);
    let found = table
        .get(&name)
        .ok_or_else(|| format!("{name} is not in the look-up table"))?;
    env.budget.charge_value(found)?;
    Ok(found.clone())
}

/// Takes off what comparing every item of a list with every other one costs.
fn each_with_each(items: &[Value], env: &Env<'_>) -> Result<(), String> {
    let items = items.len();
    env.budget.charge(items.saturating_mul(items))
}

/// A number that stays whole as long as it can.
enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    fn as_f64(&self) -> f64 {
        match self {
            #[expect(
                clippy::cast_precision_loss,
                reason = "the peer's division rounds the same way"
            )]
            Self::Int(i) => *i as f64,
            Self::Float(f) => *f,
        }
    }

    fn multiply(&self, other: f64) -> Value {
        if let (Self::Int(i), Some(o)) = (self, Value::Float(other).as_i64())
            && let Some(product) = i.checked_mul(o)
        {
            return Value::Int(product);
        }
        Value::Float(self.as_f64() * other)
    }
}

fn number(v: &Value) -> Result<Number, String> {
    match v {
        Value::Int(i) => Ok(Number::Int(*i)),
        Value::Bool(b) => Ok(Number::Int(i64::from(*b))),
        v => v
            .as_f64()
            .map(Number::Float)
            .ok_or_else(|| expected("a number", v)),
    }
}

fn to_number(v: &Value, cast: NumberType) -> Result<Value, String> {
    let refuse = || format!("{} can't be read as a number", v.what());
    match cast {
        NumberType::Int => match v {
            Value::Text(t) => match (t.trim().parse(), t.trim().parse()) {
                (Ok(whole), _) => Ok(Value::Int(whole)),
                (Err(_), Ok(other)) => to_number(&Value::Float(other), cast),
                (Err(_), Err(_)) => Err(refuse()),
            },
            #[expect(
                clippy::cast_possible_truncation,
                reason = "towards zero, as Python's int(); `as` saturates"
            )]
            v => v
                .as_f64()
                .filter(|f| f.is_finite())
                .map(|f| Value::Int(f.trunc() as i64))
                .ok_or_else(refuse),
        },
        NumberType::Float => match v {
            Value::Text(t) => t.trim().parse().map(Value::Float).map_err(|_| refuse()),
            v => v.as_f64().map(Value::Float).ok_or_else(refuse),
        },
    }
}

fn round(v: &Value, digits: i32) -> Result<Value, String> {
    if let Value::Int(i) = v
        && digits >= 0
    {
        return Ok(Value::Int(*i));
    }
    let scale = 10_f64.powi(digits.clamp(-300, 300));
    let n = number(v)?.as_f64();
    let scaled = n * scale;
    Ok(Value::Float(if scaled.is_finite() {
        scaled.round_ties_even() / scale
    } else {
        n
    }))
}

fn to_int(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn length(v: &Value) -> Result<i64, String> {
    Ok(to_int(match v {
        Value::List(items) => items.len(),
        Value::Dict(map) => map.len(),
        Value::Text(t) => t.chars().count(),
        Value::Detections(all) => all.boxes.len(),
        other => return Err(expected("a sequence", other)),
    }))
}

/// Truth as Python sees it.
pub(super) fn truthy(v: &Value) -> bool {
    match v {
        Value::Null => false,
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => v.as_f64() != Some(0.0),
        Value::Text(_) | Value::List(_) | Value::Dict(_) | Value::Detections(_) => {
            length(v) != Ok(0)
        }
        Value::Bytes(bytes) => !bytes.is_empty(),
        Value::Detection(..)
        | Value::Image(_)
        | Value::Meta(_)
        | Value::Array(_)
        | Value::Time(_)
        | Value::Secret(_) => true,
    }
}

/// Position of a Python index in a sequence of `len`.
fn place(index: i64, len: usize) -> usize {
    let len = to_int(len);
    let at = if index < 0 {
        index.saturating_add(len)
    } else {
        index
    };
    usize::try_from(at.clamp(0, len)).unwrap_or(0)
}

fn classification(v: &Value, property: ClassificationProperty) -> Result<Value, String> {
    use ClassificationProperty as P;
    let Value::Dict(map) = v else {
        return Err(expected("a classification", v));
    };
    // A list of rows from a model with one label for a picture; a dictionary by class from one with several.
    let row = |row: &Value, class: Option<&Arc<str>>| {
        let named = class.map(|c| Value::Text(Arc::clone(c)));
        let class = named
            .or_else(|| row.get("class").cloned())
            .unwrap_or_default();
        (class, row.get("confidence").cloned().unwrap_or_default())
    };
    let rows: Vec<(Value, Value)> = match map.get("predictions") {
        Some(Value::List(rows)) => rows.iter().map(|r| row(r, None)).collect(),
        // In the order of the model's classes.
        Some(Value::Dict(rows)) => {
            let mut rows: Vec<_> = rows.iter().collect();
            rows.sort_by_key(|(_, r)| r.get("class_id").and_then(Value::as_i64));
            let rows = rows.into_iter();
            rows.map(|(class, r)| row(r, Some(class))).collect()
        }
        _ => Vec::new(),
    };
    let several = map.get("predicted_classes");
    let score_of = |class: &Value| {
        let found = rows.iter().find(|(c, _)| c.same(class));
        found.map(|(_, score)| score.clone()).unwrap_or_default()
    };
    Ok(match (property, several) {
        (P::TopClass, Some(classes)) => classes.clone(),
        (P::TopClassConfidence, Some(classes)) => Value::list(
            classes
                .as_list()
                .unwrap_or_default()
                .iter()
                .map(score_of)
                .collect(),
        ),
        (P::TopClassConfidenceSingle, Some(classes)) => {
            let scores = classes.as_list().unwrap_or_default().iter().map(score_of);
            let best = scores.filter_map(|s| s.as_f64()).fold(f64::NAN, f64::max);
            Value::Float(if best.is_nan() { 0.0 } else { best })
        }
        (P::TopClass, None) => map.get("top").cloned().unwrap_or_default(),
        (P::TopClassConfidence | P::TopClassConfidenceSingle, None) => {
            map.get("confidence").cloned().unwrap_or_default()
        }
        (P::AllClasses, _) => Value::list(rows.into_iter().map(|(class, _)| class).collect()),
        (P::AllConfidences, _) => Value::list(rows.into_iter().map(|(_, score)| score).collect()),
    })
}

fn jpeg(v: &Value, quality: u8) -> Result<Vec<u8>, String> {
    match v {
        Value::Image(image) => codec::jpeg(&image.pixels.rgb(), quality),
        other => Err(expected("an image", other)),
    }
}

fn image_property(v: &Value, property: ImageProperty) -> Result<Value, String> {
    let Value::Image(image) = v else {
        return Err(expected("an image", v));
    };
    let [width, height] = image.size().map(i64::from);
    Ok(match property {
        ImageProperty::Size => Value::Int(width * height),
        ImageProperty::Height => Value::Int(height),
        ImageProperty::Width => Value::Int(width),
        #[expect(clippy::cast_precision_loss, reason = "picture sizes are small")]
        ImageProperty::AspectRatio => Value::Float(if height == 0 {
            0.0
        } else {
            width as f64 / height as f64
        }),
    })
}

fn frame_property(v: &Value, property: FrameProperty) -> Result<Value, String> {
    let meta = match v {
        Value::Image(image) => &image.meta,
        Value::Meta(meta) => meta,
        other => return Err(expected("an image", other)),
    };
    Ok(match property {
        FrameProperty::FrameNumber => {
            Value::Int(i64::try_from(meta.frame_number).unwrap_or(i64::MAX))
        }
        FrameProperty::FrameTimestamp => Value::Float(meta.frame_timestamp),
        FrameProperty::SecondsSinceStart => Value::Float(meta.time_s()),
    })
}

/// A time in seconds since the Unix epoch, as UTC in ISO 8601.
fn iso(v: &Value) -> Result<Value, String> {
    if let Value::Time(_) = v {
        return Ok(Value::from(v.to_json()));
    }
    let seconds = number(v)?.as_f64();
    moment(seconds)
        .map(|t| shared(&t.to_string()).into())
        .ok_or_else(|| format!("{seconds} is no time"))
}
