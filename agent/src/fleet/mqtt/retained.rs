//! Retained messages of the box: one payload per topic, published again in every session. Sans-IO.
//!
//! - Every topic is published once per session, and again whenever its payload changes. A broker
//!   without persistence is therefore complete again after a reconnect.
//! - At most [`WINDOW`] publications are in flight, and never two of one topic.
//! - An empty payload clears a topic. A lost clear is repeated until the broker acknowledges it.
//! - The last [`MAX_CLEARED`] acknowledged clears are repeated too: a broker may come back with an
//!   older state.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Publications in flight at a time.
const WINDOW: usize = 32;
/// Acknowledged clears that a new session repeats.
const MAX_CLEARED: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    /// Number for [`Retained::acked`].
    pub ticket: u64,
    pub topic: String,
    /// Payload; empty clears the topic.
    pub payload: Vec<u8>,
}

/// The retained topics of the box and their payloads.
#[derive(Debug, Default)]
pub struct Retained {
    wanted: BTreeMap<String, Vec<u8>>,
    dirty: BTreeSet<String>,
    /// Topics in flight by ticket, and whether the publication clears the topic.
    in_flight: BTreeMap<u64, (String, bool)>,
    next_ticket: u64,
    /// Topics whose clear the broker has acknowledged, oldest first.
    cleared: VecDeque<String>,
}

impl Retained {
    /// Sets the payload of `topic`. An unchanged payload is not published again.
    pub fn set(&mut self, topic: String, payload: Vec<u8>) {
        if self.wanted.get(&topic) != Some(&payload) {
            self.cleared.retain(|cleared| *cleared != topic);
            self.dirty.insert(topic.clone());
            self.wanted.insert(topic, payload);
        }
    }

    /// Clears every topic but `kept`.
    pub(crate) fn clear_all_but(&mut self, kept: &str) {
        let is_set = |(topic, payload): &(&String, &Vec<u8>)| *topic != kept && !payload.is_empty();
        let set = self.wanted.iter().filter(is_set);
        let set: Vec<String> = set.map(|(topic, _)| topic.clone()).collect();
        for topic in set {
            self.set(topic, Vec::new());
        }
    }

    /// Whether the broker has acknowledged every publication.
    pub fn is_acked(&self) -> bool {
        self.dirty.is_empty() && self.in_flight.is_empty()
    }

    /// Publishes `topic` again although its payload is unchanged: another client overwrote it.
    pub fn repeat(&mut self, topic: &str) {
        if self.wanted.contains_key(topic) {
            self.dirty.insert(topic.to_owned());
        }
    }

    /// Starts a new session: nothing is in flight, and every topic is published again.
    pub fn begin_session(&mut self) {
        self.in_flight.clear();
        self.dirty = self.wanted.keys().cloned().collect();
    }

    /// Next publication, in flight until [`Self::acked`]. `None` while the window is full.
    pub(crate) fn take_next(&mut self) -> Option<Publication> {
        if self.in_flight.len() >= WINDOW {
            return None;
        }
        // With two of one topic in flight, the order at the broker would be unknown.
        let in_flight: BTreeSet<&str> = self.in_flight.values().map(|(t, _)| t.as_str()).collect();
        let topic = self
            .dirty
            .iter()
            .find(|t| !in_flight.contains(t.as_str()))?;
        let topic = topic.clone();
        self.dirty.remove(&topic);
        let payload = self.wanted.get(&topic)?.clone();
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.in_flight
            .insert(ticket, (topic.clone(), payload.is_empty()));
        Some(Publication {
            ticket,
            topic,
            payload,
        })
    }

    /// Marks a publication as acknowledged, or as one that can never be sent. Returns the topic
    /// that it cleared.
    pub fn acked(&mut self, ticket: u64) -> Option<String> {
        let (topic, has_cleared) = self.in_flight.remove(&ticket)?;
        if !has_cleared || !self.wanted.contains_key(&topic) || !self.is_cleared(&topic) {
            return None;
        }
        self.cleared.retain(|cleared| *cleared != topic);
        self.cleared.push_back(topic.clone());
        while self.cleared.len() > MAX_CLEARED {
            if let Some(oldest) = self.cleared.pop_front() {
                self.wanted.remove(&oldest);
                self.dirty.remove(&oldest);
            }
        }
        Some(topic)
    }

    /// Whether `topic` is empty at the broker: its clear was acknowledged, or it was never written.
    pub(crate) fn is_cleared(&self, topic: &str) -> bool {
        let is_empty = self.wanted.get(topic).is_none_or(Vec::is_empty);
        let is_in_flight = self.in_flight.values().any(|(t, _)| t == topic);
        is_empty && !is_in_flight && !self.dirty.contains(topic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Publishes every pending topic and acknowledges it at once.
    fn drain(retained: &mut Retained) -> Vec<(String, Vec<u8>)> {
        let mut out = Vec::new();
        while let Some(next) = retained.take_next() {
            retained.acked(next.ticket);
            out.push((next.topic, next.payload));
        }
        out
    }

    #[test]
    fn topic_is_published_on_change_and_in_every_session() {
        let mut retained = Retained::default();
        retained.set("a".into(), vec![1]);
        assert_eq!(drain(&mut retained).len(), 1);
        retained.set("a".into(), vec![1]);
        assert_eq!(drain(&mut retained).len(), 0);
        retained.begin_session();
        assert_eq!(drain(&mut retained), [("a".to_owned(), vec![1])]);
    }

    #[test]
    fn clear_all_but_keeps_one_topic() {
        let mut retained = Retained::default();
        for topic in ["state", "health", "gone"] {
            retained.set(topic.into(), vec![1]);
        }
        retained.set("gone".into(), vec![]);
        drain(&mut retained);
        assert!(retained.is_acked());
        retained.clear_all_but("state");
        assert!(!retained.is_acked());
        assert_eq!(drain(&mut retained), [("health".to_owned(), vec![])]);
        assert!(retained.is_acked());
    }

    #[test]
    fn clear_is_repeated_in_the_next_session() {
        let mut retained = Retained::default();
        retained.set("a".into(), vec![1]);
        drain(&mut retained);
        retained.set("a".into(), vec![]);
        assert_eq!(drain(&mut retained), [("a".to_owned(), vec![])]);
        retained.begin_session();
        assert_eq!(drain(&mut retained), [("a".to_owned(), vec![])]);
    }

    #[test]
    fn topic_is_cleared_once_the_broker_acknowledged() {
        let mut retained = Retained::default();
        retained.set("a".into(), vec![]);
        assert!(!retained.is_cleared("a"));
        let lost = retained.take_next().expect("the clearing");
        assert!(!retained.is_cleared("a"));
        // The session breaks before the acknowledgement.
        retained.begin_session();
        assert_eq!(retained.acked(lost.ticket), None);
        let next = retained.take_next().expect("the clearing again");
        assert_eq!(retained.acked(next.ticket).as_deref(), Some("a"));
        assert!(retained.is_cleared("a"));
    }

    #[test]
    fn topic_set_again_before_its_clear_arrives_is_not_cleared() {
        let mut retained = Retained::default();
        retained.set("a".into(), vec![]);
        let clearing = retained.take_next().expect("the clearing");
        retained.set("a".into(), vec![1]);
        assert_eq!(retained.take_next(), None, "not two of one topic at a time");
        assert_eq!(retained.acked(clearing.ticket), None);
        assert_eq!(drain(&mut retained), [("a".to_owned(), vec![1])]);
    }

    #[test]
    fn many_topics_leave_one_window_at_a_time() {
        let mut retained = Retained::default();
        for n in 0..5000 {
            retained.set(format!("t{n}"), vec![1]);
        }
        let mut published = 0;
        loop {
            let mut burst = Vec::new();
            burst.extend(std::iter::from_fn(|| retained.take_next()));
            assert!(burst.len() <= WINDOW, "{} at once", burst.len());
            if burst.is_empty() {
                break;
            }
            published += burst.len();
            for publication in burst {
                retained.acked(publication.ticket);
            }
        }
        assert_eq!(published, 5000);
    }

    #[test]
    fn number_of_remembered_clears_is_bounded() {
        let mut retained = Retained::default();
        for n in 0..MAX_CLEARED + 100 {
            retained.set(format!("t{n}"), vec![1]);
            retained.set(format!("t{n}"), vec![]);
        }
        drain(&mut retained);
        retained.begin_session();
        assert_eq!(drain(&mut retained).len(), MAX_CLEARED);
    }
}
