//! Lists and dictionaries as arguments, refilled in place.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::workflow::values::value::Value;

/// Lists and dictionaries assembled as arguments of one step, refilled for each element.
///
/// Between calls they hold no values, so that producers can reuse their memory; the constant keys
/// of a dictionary stay.
#[derive(Debug, Default)]
pub(super) struct Bundles(Vec<Value>);

impl Bundles {
    pub(super) fn new(count: usize) -> Self {
        Self(vec![Value::Null; count])
    }

    pub(super) fn take(&mut self, number: usize) -> Value {
        self.0
            .get_mut(number)
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Returns an empty list without other holders.
    pub(super) fn list(&mut self, number: usize) -> Arc<Vec<Value>> {
        // `empty` dropped those with other holders.
        match self.take(number) {
            Value::List(list) => list,
            _ => Arc::default(),
        }
    }

    /// Returns a dictionary without other holders, with its former keys and null values.
    pub(super) fn dict(&mut self, number: usize) -> Arc<BTreeMap<Arc<str>, Value>> {
        match self.take(number) {
            Value::Dict(dict) => dict,
            _ => Arc::default(),
        }
    }

    pub(super) fn keep(&mut self, number: usize, bundle: Value) {
        if let Some(place) = self.0.get_mut(number) {
            *place = bundle;
        }
    }

    /// Empties all bundles, outer ones first. Values that a block keeps are no longer shared.
    pub(super) fn empty(&mut self) {
        for bundle in &mut self.0 {
            let is_free = match bundle {
                Value::List(list) => Arc::get_mut(list).map(Vec::clear).is_some(),
                Value::Dict(dict) => Arc::get_mut(dict)
                    .map(|dict| dict.values_mut().for_each(|value| *value = Value::Null))
                    .is_some(),
                _ => true,
            };
            if !is_free {
                *bundle = Value::Null;
            }
        }
    }
}
