//! Sequences, mostly of numbers: aggregates, and picking elements by how often they occur.
//!
//! Invariant: of equal elements the first counts, so that the same list always gives the same answer; but of elements that are equally rare it is the
//! last, as in Python.

use std::cmp::Ordering;

use super::grammar::{Aggregate, PickMode};
use super::python::order;
use crate::workflow::values::value::Value;

/// Smallest or largest of what has an order, or the sum of numbers; `neutral` for an empty list.
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
            .ok_or_else(|| format!("{} is no number", v.what()))
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
            // A single element needs no order, as long as it can have one.
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

/// One element of a list; nothing of an empty one. Among equally common elements the first, among equally rare ones the last.
pub(super) fn pick(items: &[Value], mode: PickMode) -> Value {
    // Of those that are equally common the first; of those that are equally rare the last.
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

/// Different elements with how often each occurs, in the order of first occurrence.
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
