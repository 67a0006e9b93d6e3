//! Retained refusals, so that each is cleared in the end. Sans-IO.
//!
//! An invalid request is refused and not stored as a command: the corrected request may have the
//! same id, and invalid requests must not evict executed commands. The refusal is a retained
//! status, so the box has to clear it.
//!
//! - At most [`MAX_REFUSALS`] are retained; beyond that the oldest is cleared.
//! - Each is retained for at most [`LEDGER_DAYS`] days of a synchronised clock.
//! - A topic is remembered until it has another content or the broker acknowledged its clear.
//! - At most [`MAX_CLEARING`] clears wait for that; meanwhile no further refusal is published.
//!
//! Changes are stored without urgency. A crash may forget the refusals of the last hour; such a
//! status stays until its request is refused again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_store::{JsonRecords, Keyspace, Op, Store, StoreError};

use super::board::{DAY_MS, LEDGER_DAYS};

/// Retained refusals at a time.
pub const MAX_REFUSALS: usize = 256;
/// Refusals whose clear may wait for an acknowledgement.
const MAX_CLEARING: usize = 4096;

/// Key: topic below the root of the box; value: a [`Refusal`].
const REFUSALS: JsonRecords = JsonRecords::new(Keyspace::new("refusals"), 1, "refusal");

/// A topic whose retained status is `rejected`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Refusal {
    /// Rises with every refusal.
    order: u64,
    /// Wall time of the refusal in Unix milliseconds.
    since_ms: i64,
    /// Whether the clock was synchronised then; otherwise `since_ms` has no meaning.
    is_dated: bool,
    /// Whether the topic is being cleared.
    is_over: bool,
}

/// Too many clears are pending: this refusal must not be published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMany;

/// Retained refusals by topic below the root of the box.
#[derive(Debug, Default)]
pub struct Refusals {
    active: BTreeMap<String, Refusal>,
    clearing: BTreeMap<String, Refusal>,
    next_order: u64,
    /// Topics whose latest state is not stored yet.
    changed: BTreeSet<String>,
}

impl Refusals {
    /// Restores the refusals from the store in `folder`.
    ///
    /// # Errors
    /// Fails when the store is unreadable or contains a record of a newer version.
    pub fn restore(store: &dyn Store, folder: &Path) -> Result<Self, StoreError> {
        let mut refusals = Self::default();
        REFUSALS.for_each(store, folder, |key, refusal: Option<Refusal>| {
            let Ok(topic) = String::from_utf8(key) else {
                return;
            };
            // The age of an unreadable record is unknown, so its topic is cleared.
            let refusal = refusal.unwrap_or(Refusal {
                order: 0,
                since_ms: 0,
                is_dated: false,
                is_over: true,
            });
            refusals.next_order = refusals.next_order.max(refusal.order.saturating_add(1));
            let place = match refusal.is_over {
                true => &mut refusals.clearing,
                false => &mut refusals.active,
            };
            place.insert(topic, refusal);
        })?;
        Ok(refusals)
    }

    /// Topics that are being cleared.
    pub fn clearing(&self) -> impl Iterator<Item = &str> {
        self.clearing.keys().map(String::as_str)
    }

    /// Adds a refusal on `topic`. Returns the topic that must be cleared for it, if there are too
    /// many.
    ///
    /// # Errors
    /// Returns [`TooMany`] when the refusal must not be published.
    pub fn add(&mut self, topic: &str, now: Wall) -> Result<Option<String>, TooMany> {
        // A retained request is refused in every session.
        if self.active.contains_key(topic) {
            return Ok(None);
        }
        let oldest = self.active.iter().min_by_key(|(_, refusal)| refusal.order);
        let oldest = oldest.filter(|_| self.active.len() >= MAX_REFUSALS);
        let oldest = oldest.map(|(topic, _)| topic.clone());
        if oldest.is_some() && self.clearing.len() >= MAX_CLEARING {
            return Err(TooMany);
        }
        self.clearing.remove(topic);
        let refusal = Refusal {
            order: self.next_order,
            since_ms: now.unix_ms,
            is_dated: now.quality == TimeQuality::Synced,
            is_over: false,
        };
        self.next_order = self.next_order.saturating_add(1);
        self.active.insert(topic.to_owned(), refusal);
        self.changed.insert(topic.to_owned());
        if let Some(oldest) = &oldest {
            self.end(oldest);
        }
        Ok(oldest)
    }

    /// Starts the clear of `topic`, because its requester withdrew the request. False when there is
    /// no refusal.
    pub fn withdraw(&mut self, topic: &str) -> bool {
        self.end(topic)
    }

    /// Starts the clear of refusals that are too old and returns their topics. As in the ledger, a
    /// refusal of an unsynchronised clock ages from the first synchronised moment.
    pub fn age(&mut self, now: Wall) -> Vec<String> {
        if now.quality != TimeQuality::Synced {
            return Vec::new();
        }
        let mut old = Vec::new();
        for (topic, refusal) in &mut self.active {
            if !refusal.is_dated {
                (refusal.since_ms, refusal.is_dated) = (now.unix_ms, true);
                self.changed.insert(topic.clone());
            } else if now.unix_ms.saturating_sub(refusal.since_ms) > LEDGER_DAYS * DAY_MS {
                old.push(topic.clone());
            }
        }
        old.retain(|topic| self.end(topic));
        old
    }

    /// Forgets `topic`: it has another content, or the broker has cleared it.
    pub fn remove(&mut self, topic: &str) {
        let was_active = self.active.remove(topic).is_some();
        if self.clearing.remove(topic).is_some() || was_active {
            self.changed.insert(topic.to_owned());
        }
    }

    /// Whether there are unstored changes.
    pub fn is_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Takes the changes that the store does not have yet.
    pub(crate) fn take_ops(&mut self) -> Vec<Op> {
        let changed = std::mem::take(&mut self.changed);
        let op = |topic: String| match self.active.get(&topic).or(self.clearing.get(&topic)) {
            Some(refusal) => REFUSALS.put(topic, refusal),
            None => REFUSALS.delete(topic),
        };
        changed.into_iter().map(op).collect()
    }

    /// Moves `topic` to the topics being cleared, if it has a refusal and there is capacity.
    fn end(&mut self, topic: &str) -> bool {
        if self.clearing.len() >= MAX_CLEARING {
            return false;
        }
        let Some(refusal) = self.active.remove(topic) else {
            return false;
        };
        let is_over = true;
        self.clearing
            .insert(topic.to_owned(), Refusal { is_over, ..refusal });
        self.changed.insert(topic.to_owned());
        true
    }
}

#[cfg(test)]
mod tests {
    use watchkeeper_store::{Batch, MemoryStore};

    use super::*;

    fn at(unix_ms: i64) -> Wall {
        Wall {
            unix_ms,
            quality: TimeQuality::Synced,
        }
    }

    fn restarted(refusals: &mut Refusals, store: &MemoryStore) -> Refusals {
        let batch = Batch::from_iter(refusals.take_ops());
        store.commit(batch).expect("commit");
        Refusals::restore(store, Path::new("/state/agent")).expect("restore")
    }

    fn clearing(refusals: &Refusals) -> Vec<&str> {
        refusals.clearing().collect()
    }

    #[test]
    fn oldest_refusal_is_cleared_when_there_are_too_many() {
        let (mut refusals, store) = (Refusals::default(), MemoryStore::new());
        for n in 0..MAX_REFUSALS {
            assert_eq!(refusals.add(&n.to_string(), at(1)), Ok(None));
        }
        // The same request in the next session is not a second refusal.
        assert_eq!(refusals.add("0", at(2)), Ok(None));
        let mut refusals = restarted(&mut refusals, &store);
        assert_eq!(refusals.add("x", at(3)), Ok(Some("0".to_owned())));
        let mut refusals = restarted(&mut refusals, &store);
        assert_eq!(clearing(&refusals), ["0"]);
        refusals.remove("0");
        assert_eq!(restarted(&mut refusals, &store).clearing().count(), 0);
    }

    #[test]
    fn refusal_ages_only_by_a_synchronised_clock() {
        let month = LEDGER_DAYS * DAY_MS;
        let free = |unix_ms| Wall {
            unix_ms,
            quality: TimeQuality::Estimated,
        };
        let mut refusals = Refusals::default();
        assert_eq!(refusals.add("free", free(5)), Ok(None));
        assert_eq!(refusals.add("a", at(10)), Ok(None));
        assert_eq!(refusals.age(free(9 * month)), [""; 0]);
        assert_eq!(refusals.age(at(10 + month)), [""; 0]);
        assert_eq!(refusals.age(at(11 + month)), ["a"]);
        assert_eq!(refusals.age(at(12 + 2 * month)), ["free"]);
        assert_eq!(clearing(&refusals), ["a", "free"]);
    }

    #[test]
    fn withdrawn_request_clears_only_its_refusal() {
        let mut refusals = Refusals::default();
        assert_eq!(refusals.add("a", at(1)), Ok(None));
        assert!(refusals.withdraw("a"));
        assert!(!refusals.withdraw("a") && !refusals.withdraw("b"));
        assert_eq!(clearing(&refusals), ["a"]);
        // Requested and refused again before the broker cleared the topic.
        assert_eq!(refusals.add("a", at(1)), Ok(None));
        assert_eq!(refusals.clearing().count(), 0);
    }

    #[test]
    fn unreadable_record_is_cleared_then_deleted() {
        let store = MemoryStore::new();
        let keyspace = Keyspace::new("refusals");
        let unreadable = Batch::new().put(keyspace, b"a", b"\x01?");
        store.commit(unreadable).expect("commit");
        let mut refusals = restarted(&mut Refusals::default(), &store);
        assert_eq!(clearing(&refusals), ["a"]);
        refusals.remove("a");
        restarted(&mut refusals, &store);
        assert_eq!(store.get(keyspace, b"a").ok(), Some(None));
    }

    #[test]
    fn corrected_request_has_no_refusal() {
        let mut refusals = Refusals::default();
        assert_eq!(refusals.add("a", at(1)), Ok(None));
        refusals.remove("a");
        assert!(!refusals.withdraw("a"));
    }

    #[test]
    fn unacknowledged_clears_are_bounded() {
        let mut refusals = Refusals::default();
        let all = MAX_REFUSALS + MAX_CLEARING;
        for n in 0..all {
            assert!(refusals.add(&n.to_string(), at(1)).is_ok());
        }
        assert_eq!(refusals.add("x", at(1)), Err(TooMany));
        assert!(!refusals.withdraw(&(all - 1).to_string()));
        refusals.remove("0");
        assert!(refusals.add("x", at(1)).is_ok());
    }

    #[test]
    fn only_changes_are_stored_and_newer_records_refused() {
        let (mut refusals, store) = (Refusals::default(), MemoryStore::new());
        assert_eq!(refusals.add("a", at(1)), Ok(None));
        assert_eq!(refusals.take_ops().len(), 1);
        assert_eq!(refusals.add("a", at(2)), Ok(None));
        refusals.remove("b");
        assert!(!refusals.is_changed());
        let newer = Batch::new().put(Keyspace::new("refusals"), b"c", b"\x02");
        store.commit(newer).expect("commit");
        let refused = Refusals::restore(&store, Path::new("/state/agent")).expect_err("newer");
        assert!(
            refused.to_string().contains("refusal c has format 2"),
            "{refused}"
        );
    }
}
