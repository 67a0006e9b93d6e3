//! Sequences of numbers: aggregates, and picking elements by how often they occur.
//!
//! Invariant: of equal elements the first counts, so that the same list always gives the same answer.

use super::super::value::Value;
use super::{Aggregate, PickMode};

/// Smallest, largest or sum of a list of numbers; `neutral` for an empty list.
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
            let mut best = (number(first)?, first);
            for item in items {
                let n = number(item)?;
                let better = match function {
                    Aggregate::Min => n < best.0,
                    _ => n > best.0,
                };
                if better {
                    best = (n, item);
                }
            }
            Ok(best.1.clone())
        }
    }
}

/// One element of a list; nothing of an empty one. Among equally common elements, the first.
pub(super) fn pick(items: &[Value], mode: PickMode) -> Value {
    let counted = |most: bool| {
        let counts = counts(items);
        let best = counts.iter().map(|(_, n)| *n);
        let best = if most { best.max() } else { best.min() };
        counts
            .iter()
            .find(|(_, n)| Some(*n) == best)
            .map(|(v, _)| (*v).clone())
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
