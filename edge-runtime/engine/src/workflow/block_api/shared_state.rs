//! State that all steps of a running workflow share.
//!
//! - At most [`SharedState::MAX_ENTRIES`] values, of [`MAX_KEPT_BYTES`] together.
//! - Beyond it, what was set longest ago is evicted.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::workflow::values::stored_value::{MAX_KEPT_BYTES, StoredValue};
use crate::workflow::values::value::Value;

/// Values by place and key.
#[derive(Debug, Default)]
pub(crate) struct SharedState {
    values: BTreeMap<SharedKey, SharedValue>,
    /// Number of the latest setting.
    latest: u64,
    bytes: usize,
}

/// Place and key.
type SharedKey = (Arc<str>, Arc<str>);

#[derive(Debug)]
struct SharedValue {
    value: StoredValue,
    /// Number of the setting.
    number: u64,
}

impl SharedState {
    const MAX_ENTRIES: usize = 4096;

    pub(crate) fn get(&self, place: &Arc<str>, key: &Arc<str>) -> Option<&Value> {
        let found = self.values.get(&(Arc::clone(place), Arc::clone(key)));
        found.map(|found| &found.value.0)
    }

    pub(crate) fn set(&mut self, place: &Arc<str>, key: &Arc<str>, value: &Value) {
        let key = (Arc::clone(place), Arc::clone(key));
        self.remove(&key);
        self.latest += 1;
        let value = StoredValue::copied(value);
        self.bytes += value.bytes();
        let number = self.latest;
        self.values.insert(key, SharedValue { value, number });
        while self.values.len() > Self::MAX_ENTRIES || self.bytes > MAX_KEPT_BYTES {
            // Rare, so it scans.
            let oldest = self.values.iter().min_by_key(|(_, shared)| shared.number);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                break;
            };
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, key: &SharedKey) {
        if let Some(removed) = self.values.remove(key) {
            self.bytes -= removed.value.bytes();
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&SharedKey, &StoredValue)> {
        let values = self.values.iter();
        values.map(|(key, shared)| (key, &shared.value))
    }
}

#[cfg(test)]
mod tests {
    use super::{Arc, SharedState, Value};

    #[test]
    fn full_store_evicts_what_was_set_longest_ago() {
        let mut shared = SharedState::default();
        let place: Arc<str> = "p".into();
        let key = |n: i64| -> Arc<str> { (9_999 - n).to_string().into() };
        for n in 0..4_098 {
            shared.set(&place, &key(n), &Value::Int(n));
        }
        let get = |n: i64| shared.get(&place, &key(n)).and_then(Value::as_i64);
        assert_eq!(shared.iter().count(), SharedState::MAX_ENTRIES);
        assert_eq!([get(0), get(1)], [None; 2]);
        assert_eq!([get(2), get(4_097)], [Some(2), Some(4_097)]);
    }

    #[test]
    fn large_values_are_evicted_by_their_bytes() {
        let mut shared = SharedState::default();
        let place: Arc<str> = "p".into();
        let large = Value::Bytes(vec![0; 100 << 20].into());
        for key in ["c", "b", "a", "c"] {
            shared.set(&place, &key.into(), &large);
        }
        let kept: Vec<&str> = shared.iter().map(|((_, key), _)| &**key).collect();
        assert_eq!(kept, ["a", "c"]);
    }
}
