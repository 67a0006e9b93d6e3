//! Values of a workflow, as rules and counts read them.
//!
//! - A value of another kind than wanted is missing; no value becomes another one.
//! - A count is a finite number of at least 0, rounded down.

use watchkeeper_engine::rules::{NeedKind, NeedValue};
use watchkeeper_engine::workflow::{Execution, SlotId};

pub(super) fn whole(number: Option<f64>) -> Option<u64> {
    number
        .filter(|n| n.is_finite() && *n >= 0.0)
        .map(|n| n as u64)
}

/// The latest value of what a rule reads.
pub(super) fn need_value<'a>(
    execution: &'a Execution,
    need: Option<&(SlotId, NeedKind)>,
) -> NeedValue<'a> {
    let Some(&(slot, kind)) = need else {
        return NeedValue::Missing;
    };
    match kind {
        NeedKind::Detections => execution
            .detections(slot)
            .map_or(NeedValue::Missing, NeedValue::Detections),
        NeedKind::Number => execution
            .number(slot)
            .map_or(NeedValue::Missing, NeedValue::Number),
        NeedKind::Boolean => execution
            .boolean(slot)
            .map_or(NeedValue::Missing, NeedValue::Boolean),
        NeedKind::NumberOrBoolean => match (execution.boolean(slot), execution.number(slot)) {
            (Some(b), _) => NeedValue::Boolean(b),
            (None, Some(n)) => NeedValue::Number(n),
            (None, None) => NeedValue::Missing,
        },
        NeedKind::Text => match (execution.text(slot), execution.detections(slot)) {
            (Some(text), _) => NeedValue::Text(text),
            (None, Some(found)) => NeedValue::Detections(found),
            (None, None) => NeedValue::Missing,
        },
    }
}
