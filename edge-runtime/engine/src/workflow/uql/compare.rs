//! Comparators of the query language.
//!
//! - Only equality accepts any two values. A value without order, or that is neither text nor
//!   sequence, is an error, not false.
//! - Order and membership are Python's: texts and lists are ordered; a text is a sequence of its
//!   characters, a dictionary of its keys.

use std::cmp::Ordering;
use std::sync::Arc;

use watchkeeper_vision::geometry::Point;

use super::grammar::{Binary, Unary};
use super::python::{order, truthy};
use crate::workflow::values::value::Value;

fn text(v: &Value) -> Result<&str, String> {
    v.as_str()
        .ok_or_else(|| format!("a string expected, got {}", v.what()))
}

/// Returns whether an element is in a sequence; of a text, whether it contains the text.
fn holds_element(sequence: &Value, element: &Value) -> Result<bool, String> {
    match sequence {
        Value::Text(t) => Ok(t.contains(text(element)?)),
        Value::Dict(map) => Ok(element.as_str().is_some_and(|key| map.contains_key(key))),
        Value::List(items) => Ok(items.iter().any(|item| item.same(element))),
        other => Err(format!("a sequence expected, got {}", other.what())),
    }
}

/// Runs a test for each element of a sequence, in order.
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

/// Returns whether a detection's centre, or a point, is inside a polygon.
fn in_zone(left: &Value, zone: &Value) -> Result<bool, String> {
    let point: Point = left
        .as_detection()
        .map(|d| d.bbox.center())
        .or_else(|| left.as_point())
        .ok_or_else(|| format!("a detection or a point expected, got {}", left.what()))?;
    let polygons = zone.as_polygons()?;
    Ok(polygons.iter().any(|polygon| point.is_inside(polygon)))
}

impl Unary {
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
