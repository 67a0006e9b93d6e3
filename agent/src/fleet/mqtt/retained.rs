//! What the broker shall hold for later subscribers: one payload per topic, written again in every session. Sans-IO.
//!
//! Invariants:
//! - after a session began, every topic is published once, and again whenever its payload changes. A broker without
//!   persistence therefore never shows less than the truth for longer than a reconnect takes;
//! - at most [`WINDOW`] publications are under way, and never two of one topic, however many topics there are;
//! - an empty payload clears a topic and is kept as such, so that a clearing which got lost is repeated too: until the
//!   broker has it, and then for as long as it is among the last [`CLEARED_KEPT`], for a broker that comes back with an older
//!   state than it had.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Publications that may be under way.
const WINDOW: usize = 32;
/// Cleared topics that are remembered although the broker has the clearing.
const CLEARED_KEPT: usize = 256;

/// One publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    /// Its number, for [`Retained::acked`].
    pub ticket: u64,
    /// Topic.
    pub topic: String,
    /// Payload; empty clears the topic.
    pub payload: Vec<u8>,
}

/// The topics and their payloads.
#[derive(Debug, Default)]
pub struct Retained {
    wanted: BTreeMap<String, Vec<u8>>,
    dirty: BTreeSet<String>,
    /// Topics under way, by ticket, and whether the publication clears them.
    in_flight: BTreeMap<u64, (String, bool)>,
    next_ticket: u64,
    /// Cleared topics of which the broker knows, oldest first.
    cleared: VecDeque<String>,
}

impl Retained {
    /// Wants `payload` on `topic`; the same payload again changes nothing.
    pub fn set(&mut self, topic: String, payload: Vec<u8>) {
        if self.wanted.get(&topic) != Some(&payload) {
            self.cleared.retain(|cleared| *cleared != topic);
            self.dirty.insert(topic.clone());
            self.wanted.insert(topic, payload);
        }
    }

    /// Wants nothing on `topic` any more, not even that it is clear: somebody else writes it.
    pub fn leave(&mut self, topic: &str) {
        self.wanted.remove(topic);
        self.dirty.remove(topic);
        self.cleared.retain(|cleared| cleared != topic);
    }

    /// Wants nothing to be left on any topic but `kept`.
    pub fn clear_all_but(&mut self, kept: &str) {
        let is_left =
            |(topic, payload): &(&String, &Vec<u8>)| *topic != kept && !payload.is_empty();
        let left = self.wanted.iter().filter(is_left);
        let left: Vec<String> = left.map(|(topic, _)| topic.clone()).collect();
        for topic in left {
            self.set(topic, Vec::new());
        }
    }

    /// Whether the broker has everything.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.dirty.is_empty() && self.in_flight.is_empty()
    }

    /// Publishes `topic` again although nothing changed: somebody else overwrote it.
    pub fn repeat(&mut self, topic: &str) {
        if self.wanted.contains_key(topic) {
            self.dirty.insert(topic.to_owned());
        }
    }

    /// A new session: nothing is under way, and everything has to be published again.
    pub fn begin_session(&mut self) {
        self.in_flight.clear();
        self.dirty = self.wanted.keys().cloned().collect();
    }

    /// The next publication; it counts as under way until [`Self::acked`]. `None` while enough are.
    pub fn take_next(&mut self) -> Option<Publication> {
        if self.in_flight.len() >= WINDOW {
            return None;
        }
        // Two of one topic at a time: nobody could tell which of them the broker holds.
        let flying: BTreeSet<&str> = self.in_flight.values().map(|(t, _)| t.as_str()).collect();
        let topic = self.dirty.iter().find(|t| !flying.contains(t.as_str()))?;
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

    /// The broker has a publication, or it can never have it. Answers the topic that is cleared by it.
    pub fn acked(&mut self, ticket: u64) -> Option<String> {
        let (topic, has_cleared) = self.in_flight.remove(&ticket)?;
        if !has_cleared || !self.wanted.contains_key(&topic) || !self.is_cleared(&topic) {
            return None;
        }
        self.cleared.retain(|cleared| *cleared != topic);
        self.cleared.push_back(topic.clone());
        while self.cleared.len() > CLEARED_KEPT {
            if let Some(oldest) = self.cleared.pop_front() {
                self.wanted.remove(&oldest);
                self.dirty.remove(&oldest);
            }
        }
        Some(topic)
    }

    /// Whether the broker knows that nothing is to be on `topic`: its clearing was acknowledged, or it was never written.
    #[must_use]
    pub fn is_cleared(&self, topic: &str) -> bool {
        let wants_nothing = self.wanted.get(topic).is_none_or(Vec::is_empty);
        let is_under_way = self.in_flight.values().any(|(flying, _)| flying == topic);
        wants_nothing && !is_under_way && !self.dirty.contains(topic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Publishes everything and acknowledges it at once.
    fn drain(retained: &mut Retained) -> Vec<(String, Vec<u8>)> {
        let mut out = Vec::new();
        while let Some(next) = retained.take_next() {
            retained.acked(next.ticket);
            out.push((next.topic, next.payload));
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
        retained.begin_session();
        assert_eq!(drain(&mut retained), [("a".to_owned(), vec![1])]);
    }

    #[test]
    fn at_the_end_of_a_box_that_never_comes_back_one_topic_stays() {
        let mut retained = Retained::default();
        for topic in ["state", "health", "gone"] {
            retained.set(topic.into(), vec![1]);
        }
        retained.set("gone".into(), vec![]);
        drain(&mut retained);
        assert!(retained.is_settled());
        retained.clear_all_but("state");
        assert!(!retained.is_settled());
        assert_eq!(drain(&mut retained), [("health".to_owned(), vec![])]);
        assert!(retained.is_settled());
    }

    #[test]
    fn a_cleared_topic_is_cleared_again_in_the_next_session() {
        let mut retained = Retained::default();
        retained.set("a".into(), vec![1]);
        drain(&mut retained);
        retained.set("a".into(), vec![]);
        assert_eq!(drain(&mut retained), [("a".to_owned(), vec![])]);
        retained.begin_session();
        assert_eq!(drain(&mut retained), [("a".to_owned(), vec![])]);
    }

    #[test]
    fn a_topic_counts_as_cleared_once_the_broker_said_so() {
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
    fn what_is_wanted_again_before_the_clearing_arrived_is_not_cleared() {
        let mut retained = Retained::default();
        retained.set("a".into(), vec![]);
        let clearing = retained.take_next().expect("the clearing");
        retained.set("a".into(), vec![1]);
        assert_eq!(retained.take_next(), None, "not two of one topic at a time");
        assert_eq!(retained.acked(clearing.ticket), None);
        assert_eq!(drain(&mut retained), [("a".to_owned(), vec![1])]);
    }

    #[test]
    fn a_topic_that_is_left_is_not_cleared_behind_anybodys_back() {
        let mut retained = Retained::default();
        for topic in ["cleared", "under way", "waiting"] {
            retained.set(topic.into(), vec![]);
        }
        let cleared = retained.take_next().expect("a clearing");
        assert_eq!(retained.acked(cleared.ticket).as_deref(), Some("cleared"));
        let under_way = retained.take_next().expect("a clearing");
        for topic in ["cleared", "under way", "waiting"] {
            retained.leave(topic);
        }
        assert_eq!(retained.acked(under_way.ticket), None);
        retained.begin_session();
        assert_eq!(retained.take_next(), None);
    }

    #[test]
    fn any_number_of_topics_goes_out_a_window_at_a_time() {
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
    fn cleared_topics_are_not_kept_for_ever() {
        let mut retained = Retained::default();
        for n in 0..CLEARED_KEPT + 100 {
            retained.set(format!("t{n}"), vec![1]);
            retained.set(format!("t{n}"), vec![]);
        }
        drain(&mut retained);
        retained.begin_session();
        assert_eq!(drain(&mut retained).len(), CLEARED_KEPT);
    }
}
