//! Limits the cost of one evaluation.
//!
//! A chain of a few hundred bytes can request more elements than fit in memory. Each level of a
//! `SequenceApply` over a `SequenceMap` multiplies the elements of the level before.
//!
//! - The result is no larger, as text, than the value plus [`Budget::WHOLE`] units, and takes at
//!   most that many steps.

use std::cell::Cell;

use crate::workflow::values::value::Value;

/// Remaining units: one per step, element or byte of text.
#[derive(Debug)]
pub(crate) struct Budget(Cell<usize>);

impl Default for Budget {
    fn default() -> Self {
        Self(Cell::new(Self::WHOLE))
    }
}

impl Budget {
    /// Units of a whole evaluation, about a thousand times the cost of 300 boxes.
    pub(crate) const WHOLE: usize = 1 << 20;

    /// Takes `units` off. Fails if fewer are left.
    pub(super) fn charge(&self, units: usize) -> Result<(), String> {
        match self.0.get().checked_sub(units) {
            Some(left) => {
                self.0.set(left);
                Ok(())
            }
            None => Err(format!(
                "the operations take more than {} steps on this value; make them or the value \
                 smaller",
                Self::WHOLE
            )),
        }
    }

    /// Takes off the size of a value as text. Fails if fewer units are left.
    pub(super) fn charge_value(&self, value: &Value) -> Result<(), String> {
        self.charge(1)?;
        match value {
            Value::Text(text) => self.charge(text.len()),
            Value::List(items) => items.iter().try_for_each(|item| self.charge_value(item)),
            Value::Dict(map) => map.iter().try_for_each(|(key, item)| {
                self.charge(key.len())?;
                self.charge_value(item)
            }),
            Value::Detections(all) => self.charge(all.boxes.len()),
            Value::Bytes(bytes) => self.charge(bytes.len()),
            Value::Array(array) => self.charge(array.shape().iter().product()),
            Value::Null
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::Detection(..)
            | Value::Image(_)
            | Value::Meta(_)
            | Value::Time(_)
            | Value::Secret(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Chain, Env, apply};
    use super::*;
    use crate::workflow::block_api::call::IdCounter;

    fn applied(chain: serde_json::Value, value: serde_json::Value) -> Result<Value, String> {
        let chain: Chain = serde_json::from_value(chain).unwrap();
        let env = Env {
            parameters: &Value::Null,
            element: &Value::Null,
            budget: &Budget::default(),
            ids: &IdCounter::default(),
        };
        apply(&chain, Value::from(value), &env)
    }

    #[test]
    fn a_chain_whose_every_level_multiplies_its_work_is_stopped() {
        let mut level = json!({"type": "SequenceMap", "lookup_table": {"a": ["a", "a", "a", "a"]}});
        let mut chain = vec![level.clone()];
        for _ in 0..20 {
            level = json!({"type": "SequenceApply", "operations": [level]});
            chain.push(level.clone());
        }
        let refused = applied(json!(chain), json!(["a"])).unwrap_err();
        assert!(
            refused.contains("make them or the value smaller"),
            "{refused}"
        );
    }

    #[test]
    fn operations_on_a_long_text_are_charged_by_its_length() {
        for operation in [
            json!({"type": "StringToUpperCase"}),
            json!({"type": "StringToLowerCase"}),
            json!({"type": "StringSubSequence", "start": 0, "end": -1}),
        ] {
            let chain = json!(vec![operation; 12]);
            assert!(applied(chain.clone(), json!("a".repeat(1000))).is_ok());
            assert!(applied(chain, json!("a".repeat(100_000))).is_err());
        }
    }

    #[test]
    fn a_short_chain_can_not_make_a_long_text() {
        let table = json!({"a": "x".repeat(1000)});
        let chain =
            json!([{"type": "SequenceMap", "lookup_table": table}, {"type": "SequenceJoin"}]);
        assert!(applied(chain.clone(), json!(["a", "a"])).is_ok());
        assert!(applied(chain, json!(vec!["a"; 10_000])).is_err());
    }
}
