//! Comparators of the query language.
//!
//! Invariant: only equality takes any two values; an order, a text or a sequence where there is none is an error, not false. Order and membership are
//! Python's: texts and lists have an order too, and a text is a sequence of its characters, a dictionary of its keys.

use std::cmp::Ordering;
use std::sync::Arc;

use serde::Deserialize;
use watchkeeper_vision::geometry::Point;

use super::apply::truthy;
use crate::workflow::values::value::Value;

/// Comparator of two values.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) enum Binary {
    #[serde(rename = "==", alias = "(Number) ==")]
    Equal,
    #[serde(rename = "!=", alias = "(Number) !=")]
    NotEqual,
    #[serde(rename = "(Number) >")]
    Greater,
    #[serde(rename = "(Number) >=")]
    GreaterOrEqual,
    #[serde(rename = "(Number) <")]
    Less,
    #[serde(rename = "(Number) <=")]
    LessOrEqual,
    #[serde(rename = "(Number) in range")]
    InRange,
    #[serde(rename = "(String) startsWith")]
    StartsWith,
    #[serde(rename = "(String) endsWith")]
    EndsWith,
    #[serde(rename = "(String) contains")]
    Contains,
    #[serde(rename = "in (Sequence)")]
    In,
    #[serde(rename = "any in (Sequence)")]
    AnyIn,
    #[serde(rename = "all in (Sequence)")]
    AllIn,
    #[serde(rename = "(Detection) in zone")]
    InZone,
}

/// Test of one value.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) enum Unary {
    Exists,
    DoesNotExist,
    #[serde(rename = "(Boolean) is True")]
    IsTrue,
    #[serde(rename = "(Boolean) is False")]
    IsFalse,
    #[serde(rename = "(Sequence) is empty")]
    IsEmpty,
    #[serde(rename = "(Sequence) is not empty")]
    IsNotEmpty,
}

/// How two numbers, texts or lists are ordered; nothing where one is not a number.
///
/// # Errors
/// Where values of these types have no order.
pub(super) fn order(left: &Value, right: &Value) -> Result<Option<Ordering>, String> {
    match (left, right) {
        (Value::Text(a), Value::Text(b)) => Ok(Some(a.cmp(b))),
        (Value::List(a), Value::List(b)) => {
            let mut pairs = a.iter().zip(b.iter());
            match pairs.find(|(a, b)| !a.same(b)) {
                Some((a, b)) => order(a, b),
                None => Ok(Some(a.len().cmp(&b.len()))),
            }
        }
        _ => match (left.as_f64(), right.as_f64()) {
            (Some(a), Some(b)) => Ok(a.partial_cmp(&b)),
            (None, _) => Err(format!("a number expected, got {}", left.what())),
            (_, None) => Err(format!("a number expected, got {}", right.what())),
        },
    }
}

fn text(v: &Value) -> Result<&str, String> {
    v.as_str()
        .ok_or_else(|| format!("a string expected, got {}", v.what()))
}

/// Whether an element is in a sequence; of a text, whether a text is part of it.
fn holds_element(sequence: &Value, element: &Value) -> Result<bool, String> {
    match sequence {
        Value::Text(t) => Ok(t.contains(text(element)?)),
        Value::Dict(map) => Ok(element.as_str().is_some_and(|key| map.contains_key(key))),
        Value::List(items) => Ok(items.iter().any(|item| item.same(element))),
        other => Err(format!("a sequence expected, got {}", other.what())),
    }
}

/// Whether a test holds for each element of a sequence, in order.
fn each(
    sequence: &Value,
    mut test: impl FnMut(&Value) -> Result<(), String>,
) -> Result<(), String> {
    match sequence {
        Value::List(items) => items.iter().try_for_each(test),
        Value::Text(text) => {
            let mut one = [0; 4];
            let mut chars = text.chars();
            chars.try_for_each(|c| test(&Value::from(&*c.encode_utf8(&mut one))))
        }
        Value::Dict(map) => {
            let mut keys = map.keys();
            keys.try_for_each(|key| test(&Value::Text(Arc::clone(key))))
        }
        other => Err(format!("a sequence expected, got {}", other.what())),
    }
}

impl Binary {
    /// Whether it holds between two values.
    pub(super) fn holds(self, left: &Value, right: &Value) -> Result<bool, String> {
        Ok(match self {
            Self::Equal => left.same(right),
            Self::NotEqual => !left.same(right),
            Self::Greater => order(left, right)?.is_some_and(Ordering::is_gt),
            Self::GreaterOrEqual => order(left, right)?.is_some_and(Ordering::is_ge),
            Self::Less => order(left, right)?.is_some_and(Ordering::is_lt),
            Self::LessOrEqual => order(left, right)?.is_some_and(Ordering::is_le),
            Self::InRange => match right.as_list() {
                Some([from, to, ..]) => {
                    order(from, left)?.is_some_and(Ordering::is_le)
                        && order(left, to)?.is_some_and(Ordering::is_le)
                }
                _ => return Err("a range is a list of two numbers".to_owned()),
            },
            Self::StartsWith => text(left)?.starts_with(text(right)?),
            Self::EndsWith => text(left)?.ends_with(text(right)?),
            Self::Contains => holds_element(left, right)?,
            Self::In => holds_element(right, left)?,
            Self::AnyIn => {
                let mut any = false;
                each(left, |element| {
                    any |= holds_element(right, element)?;
                    Ok(())
                })?;
                any
            }
            Self::AllIn => {
                let mut all = true;
                each(left, |element| {
                    all &= holds_element(right, element)?;
                    Ok(())
                })?;
                all
            }
            Self::InZone => in_zone(left, right)?,
        })
    }
}

/// Whether a detection's centre, or a point, lies in a polygon.
fn in_zone(left: &Value, zone: &Value) -> Result<bool, String> {
    let point: Point = left
        .as_detection()
        .map(|d| d.bbox.center())
        .or_else(|| left.as_point())
        .ok_or_else(|| format!("a detection or a point expected, got {}", left.what()))?;
    let polygons = crate::workflow::plan::compiled::polygons(zone)?;
    Ok(polygons.iter().any(|polygon| point.is_inside(polygon)))
}

impl Unary {
    /// Whether it holds for a value.
    pub(super) fn holds(self, v: &Value) -> Result<bool, String> {
        Ok(match self {
            Self::Exists => !v.is_null(),
            Self::DoesNotExist => v.is_null(),
            Self::IsTrue => matches!(v, Value::Bool(true)),
            Self::IsFalse => matches!(v, Value::Bool(false)),
            Self::IsEmpty | Self::IsNotEmpty => {
                let empty = match v {
                    Value::Text(_) | Value::List(_) | Value::Dict(_) | Value::Detections(_) => {
                        !truthy(v)
                    }
                    other => {
                        return Err(format!("a sequence expected, got {}", other.what()));
                    }
                };
                empty == matches!(self, Self::IsEmpty)
            }
        })
    }
}
