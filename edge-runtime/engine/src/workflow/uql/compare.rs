//! Comparators of the query language.
//!
//! Invariant: only equality takes any two values; an order, a text or a list where there is none is an error, not false.

use serde::Deserialize;
use watchkeeper_vision::analytics::zone::PolygonZone;
use watchkeeper_vision::geometry::{Anchor, Point};

use super::super::value::Value;
use super::apply::truthy;

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

fn number(v: &Value) -> Result<f64, String> {
    v.as_f64()
        .ok_or_else(|| format!("a number expected, got {}", v.what()))
}

fn text(v: &Value) -> Result<&str, String> {
    v.as_str()
        .ok_or_else(|| format!("a string expected, got {}", v.what()))
}

fn list(v: &Value) -> Result<&[Value], String> {
    v.as_list()
        .ok_or_else(|| format!("a list expected, got {}", v.what()))
}

fn holds_element(sequence: &Value, element: &Value) -> Result<bool, String> {
    match sequence {
        Value::Text(t) => Ok(t.contains(text(element)?)),
        Value::Dict(map) => Ok(element.as_str().is_some_and(|key| map.contains_key(key))),
        other => Ok(list(other)?.iter().any(|item| item.same(element))),
    }
}

impl Binary {
    /// Whether it holds between two values.
    pub(super) fn holds(self, left: &Value, right: &Value) -> Result<bool, String> {
        Ok(match self {
            Self::Equal => left.same(right),
            Self::NotEqual => !left.same(right),
            Self::Greater => number(left)? > number(right)?,
            Self::GreaterOrEqual => number(left)? >= number(right)?,
            Self::Less => number(left)? < number(right)?,
            Self::LessOrEqual => number(left)? <= number(right)?,
            Self::InRange => match list(right)? {
                [from, to] => {
                    let n = number(left)?;
                    number(from)? <= n && n <= number(to)?
                }
                _ => return Err("a range is a list of two numbers".to_owned()),
            },
            Self::StartsWith => text(left)?.starts_with(text(right)?),
            Self::EndsWith => text(left)?.ends_with(text(right)?),
            Self::Contains => text(left)?.contains(text(right)?),
            Self::In => holds_element(right, left)?,
            Self::AnyIn => {
                let mut any = false;
                for element in list(left)? {
                    any |= holds_element(right, element)?;
                }
                any
            }
            Self::AllIn => {
                let mut all = true;
                for element in list(left)? {
                    all &= holds_element(right, element)?;
                }
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
    let polygons = super::super::plan::polygons(zone)?;
    Ok(polygons
        .iter()
        .any(|p| PolygonZone::new(p, Anchor::Center).contains_point(point)))
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
