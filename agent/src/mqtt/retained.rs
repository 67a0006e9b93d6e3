//! What the broker shall hold for later subscribers: one payload per topic, written again in every session.
//!
//! Invariant: after a session began, every topic is published once, and again whenever its payload changes. A broker
//! without persistence therefore never shows less than the truth for longer than a reconnect takes. An empty payload
//! clears a topic and is kept as such, so that a clearing which got lost is repeated too.

use std::collections::{BTreeMap, BTreeSet};

/// The topics and their payloads.
#[derive(Debug, Default)]
pub struct Retained {
    wanted: BTreeMap<String, Vec<u8>>,
    dirty: BTreeSet<String>,
}

impl Retained {
    /// Wants `payload` on `topic`; the same payload again changes nothing.
    pub fn set(&mut self, topic: String, payload: Vec<u8>) {
        if self.wanted.get(&topic) != Some(&payload) {
            self.dirty.insert(topic.clone());
            self.wanted.insert(topic, payload);
        }
    }

    /// Clears every topic that `stale` says is stale and that is not cleared yet.
    pub fn clear_where(&mut self, stale: impl Fn(&str) -> bool) {
        for (topic, payload) in &mut self.wanted {
            if !payload.is_empty() && stale(topic) {
                payload.clear();
                self.dirty.insert(topic.clone());
            }
        }
    }

    /// Publishes `topic` again although nothing changed: somebody else overwrote it.
    pub fn repeat(&mut self, topic: &str) {
        if self.wanted.contains_key(topic) {
            self.dirty.insert(topic.to_owned());
        }
    }

    /// Everything has to be published again: a new session.
    pub fn repeat_all(&mut self) {
        self.dirty = self.wanted.keys().cloned().collect();
    }

    /// The next topic to publish. It stays next until [`Self::published`].
    #[must_use]
    pub fn next(&self) -> Option<(&str, &[u8])> {
        let topic = self.dirty.first()?;
        let payload = self.wanted.get(topic)?;
        Some((topic, payload))
    }

    /// The payload of `topic` is on its way.
    pub fn published(&mut self, topic: &str) {
        self.dirty.remove(topic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(retained: &mut Retained) -> Vec<(String, Vec<u8>)> {
        let mut out = Vec::new();
        while let Some((topic, payload)) = retained.next() {
            let (topic, payload) = (topic.to_owned(), payload.to_vec());
            retained.published(&topic);
            out.push((topic, payload));
        }
        out
    }

    #[test]
    fn a_topic_is_published_when_it_changes_and_in_every_session() {
        let mut retained = Retained::default();
        retained.set("a".into(), vec![1]);
        assert_eq!(drain(&mut retained).len(), 1);
        retained.set("a".into(), vec![1]);
        assert_eq!(drain(&mut retained).len(), 0);
        retained.repeat_all();
        assert_eq!(drain(&mut retained), [("a".to_owned(), vec![1])]);
    }

    #[test]
    fn a_cleared_topic_is_cleared_again_in_the_next_session() {
        let mut retained = Retained::default();
        retained.set("a".into(), vec![1]);
        drain(&mut retained);
        retained.clear_where(|topic| topic == "a");
        assert_eq!(drain(&mut retained), [("a".to_owned(), vec![])]);
        retained.repeat_all();
        assert_eq!(drain(&mut retained), [("a".to_owned(), vec![])]);
    }
}
