//! State that all steps of a running workflow share.
//!
//! - Each map has at most [`SharedMap::MAX_ENTRIES`] values, of [`MAX_KEPT_BYTES`] together.
//! - Beyond it, what was set longest ago is evicted; a value that is too large alone is refused.
//! - Cached values never evict a cool-down.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::workflow::values::stored_value::{MAX_KEPT_BYTES, StoredValue};
use crate::workflow::values::value::Value;

#[derive(Debug, Default)]
pub(crate) struct SharedState {
    pub(crate) cache: SharedMap,
    /// Times of the last messages of sinks with a session key, in seconds.
    pub(crate) cooldowns: SharedMap,
}

/// Values by place and key.
#[derive(Debug, Default)]
pub(crate) struct SharedMap {
    values: BTreeMap<SharedKey, SharedValue>,
    latest: u64,
    bytes: usize,
}

/// Place and key.
pub(crate) type SharedKey = (Arc<str>, Arc<str>);

#[derive(Debug)]
struct SharedValue {
    value: StoredValue,
    number: u64,
}

impl SharedMap {
    const MAX_ENTRIES: usize = 4096;

    pub(crate) fn get(&self, place: &Arc<str>, key: &Arc<str>) -> Option<&Value> {
        let found = self.values.get(&(Arc::clone(place), Arc::clone(key)));
        found.map(|found| found.value.value())
    }

    /// Sets a value. Fails if the value is too large; nothing has changed then.
    pub(crate) fn set(&mut self, key: SharedKey, value: StoredValue) -> Result<(), String> {
        let bytes = bytes_of(&key, &value);
        if bytes > MAX_KEPT_BYTES {
            return Err(format!(
                "the value takes {} MiB, but all values of one workflow have {}; use a smaller one",
                bytes.div_ceil(1 << 20),
                MAX_KEPT_BYTES >> 20
            ));
        }
        self.remove(&key);
        self.latest += 1;
        self.bytes += bytes;
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
        Ok(())
    }

    fn remove(&mut self, key: &SharedKey) {
        if let Some(removed) = self.values.remove(key) {
            self.bytes -= bytes_of(key, &removed.value);
        }
    }

    /// Returns each key with its value and the number of its setting.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&SharedKey, &StoredValue, u64)> {
        let values = self.values.iter();
        values.map(|(key, shared)| (key, &shared.value, shared.number))
    }
}

fn bytes_of((place, key): &SharedKey, value: &StoredValue) -> usize {
    place.len() + key.len() + value.bytes()
}

#[cfg(test)]
mod tests {
    use super::{Arc, SharedKey, SharedMap, StoredValue, Value};

    fn key(key: &str) -> SharedKey {
        ("p".into(), key.into())
    }

    fn set(map: &mut SharedMap, name: &str, value: &Value) -> Result<(), String> {
        map.set(key(name), StoredValue::copied(value))
    }

    fn bytes(mebibytes: usize) -> Value {
        Value::Bytes(vec![0; mebibytes << 20].into())
    }

    fn keys(map: &SharedMap) -> Vec<&str> {
        map.iter().map(|((_, key), ..)| &**key).collect()
    }

    #[test]
    fn full_map_evicts_what_was_set_longest_ago() {
        let mut map = SharedMap::default();
        let name = |n: i64| (9_999 - n).to_string();
        for n in 0..4_098 {
            set(&mut map, &name(n), &Value::Int(n)).unwrap();
        }
        let place: Arc<str> = "p".into();
        let get = |n: i64| map.get(&place, &name(n).into()).and_then(Value::as_i64);
        assert_eq!(map.iter().count(), SharedMap::MAX_ENTRIES);
        assert_eq!([get(0), get(1)], [None; 2]);
        assert_eq!([get(2), get(4_097)], [Some(2), Some(4_097)]);
    }

    #[test]
    fn large_values_are_evicted_by_their_bytes() {
        let mut map = SharedMap::default();
        let large = bytes(100);
        for name in ["c", "b", "a", "c"] {
            set(&mut map, name, &large).unwrap();
        }
        assert_eq!(keys(&map), ["a", "c"]);
    }

    #[test]
    fn value_that_is_too_large_is_refused_and_evicts_nothing() {
        let mut map = SharedMap::default();
        set(&mut map, "a", &Value::Int(1)).unwrap();
        let why = set(&mut map, "a", &bytes(256)).unwrap_err();
        assert!(why.starts_with("the value takes 257 MiB"), "{why}");
        let one = map.get(&"p".into(), &"a".into()).and_then(Value::as_i64);
        assert_eq!(one, Some(1));
    }
}
