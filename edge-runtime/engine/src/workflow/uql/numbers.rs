//! Aggregates of sequences, and elements picked by how often they occur.
//!
//! - Of equal elements the first counts, but of equally rare ones the last, as in Python.

use std::cmp::Ordering;

use super::grammar::{Aggregate, PickMode};
use super::python::order;
use crate::workflow::values::value::Value;

/// Returns the smallest or largest element, or the sum of numbers; `neutral` for an empty list.
pub(super) fn aggregate(
    items: &[Value],
    function: Aggregate,
    neutral: &Value,
) -> Result<Value, String> {
    let Some(first) = items.first() else {
        return Ok(neutral.clone());
    };
    let number = |v: &Value| {
        v.as_f64()
            .ok_or_else(|| format!("{} is not a number", v.what()))
    };
    match function {
        Aggregate::Sum => {
            if let Some(sum) = items.iter().try_fold(0_i64, |sum, v| match v {
                Value::Int(i) => sum.checked_add(*i),
                _ => None,
            }) {
                return Ok(Value::Int(sum));
            }
            let mut sum = 0.0;
            for item in items {
                sum += number(item)?;
            }
            Ok(Value::Float(sum))
        }
        Aggregate::Min | Aggregate::Max => {
            let wanted = if function == Aggregate::Min {
                Ordering::Less
            } else {
                Ordering::Greater
            };
            // A single element must be comparable too.
            order(first, first)?;
            let mut best = first;
            for item in items {
                if order(item, best)? == Some(wanted) {
                    best = item;
                }
            }
            Ok(best.clone())
        }
    }
}

/// Picks one element; null from an empty list.
pub(super) fn pick(items: &[Value], mode: PickMode) -> Value {
    // Of equally common ones the first; of equally rare ones the last.
    let counted = |most: bool| {
        let counts = counts(items);
        let best = if most {
            counts.iter().rev().max_by_key(|(_, n)| *n)
        } else {
            counts.iter().rev().min_by_key(|(_, n)| *n)
        };
        best.map(|(v, _)| (*v).clone())
    };
    match mode {
        PickMode::First => items.first().cloned(),
        PickMode::Last => items.last().cloned(),
        PickMode::MostCommon => counted(true),
        PickMode::LeastCommon => counted(false),
    }
    .unwrap_or_default()
}

/// Distinct elements and their counts, in the order of first occurrence.
pub(super) fn counts(items: &[Value]) -> Vec<(&Value, usize)> {
    let mut counts: Vec<(&Value, usize)> = Vec::new();
    for item in items {
        match counts.iter_mut().find(|(v, _)| v.same(item)) {
            Some((_, n)) => *n += 1,
            None => counts.push((item, 1)),
        }
    }
    counts
}
