//! Which refusals stand at the broker, so that none stands there for ever. Sans-IO.
//!
//! What is not understood is refused and not remembered as a command: the corrected request may have the same name, and whoever asks
//! nonsense must not push out what was done. But the refusal is a retained status, and somebody has to clear it.
//!
//! Invariants:
//! - at most [`MAX_STANDING`] topics say so; of too many the one that was first refused the longest ago is cleared; each says so for [`LEDGER_DAYS`] days at most by a clock that a time
//!   source vouches for;
//! - a topic is remembered until it says something else or the broker has acknowledged that it is cleared;
//! - at most [`MAX_CLEARING`] wait for that; while they do, nothing more is refused aloud.
//!
//! Kept in the store without haste: a crash may forget what was refused in the last hour, and then such a status stands until its request is
//! refused again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::Path;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_store::{Keyspace, NewerFormat, Op, Store, StoreError};

use super::board::{DAY_MS, LEDGER_DAYS};

/// Refusals that stand at the broker at a time.
pub const MAX_STANDING: usize = 256;
/// Refusals that may wait for the broker to acknowledge that they are cleared.
const MAX_CLEARING: usize = 4096;

/// Key: topic below the root of the box. Value: one version byte and the JSON of [`Mark`].
const REFUSALS: Keyspace = Keyspace::new("refusals");
const VERSION: u8 = 1;

/// What is known about a topic that says `rejected`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    /// Rises with every refusal.
    order: u64,
    /// Wall time of the refusal, in milliseconds since 1970.
    since_ms: i64,
    /// Whether a time source vouched for the clock then; otherwise `since_ms` says nothing.
    is_dated: bool,
    /// It is to be cleared.
    is_over: bool,
}

/// Too many refusals wait to be cleared: this one is not to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMany;

/// The topics, below the root of the box, on which a refusal stands.
#[derive(Debug, Default)]
pub struct Refusals {
    standing: BTreeMap<String, Mark>,
    clearing: BTreeMap<String, Mark>,
    next_order: u64,
    /// Topics of which the store does not know the latest.
    changed: BTreeSet<String>,
}

impl Refusals {
    /// What the store in `folder` remembers.
    ///
    /// # Errors
    /// When the store can't be read, or holds a record of a newer version.
    pub fn restore(store: &dyn Store, folder: &Path) -> Result<Self, StoreError> {
        let mut refusals = Self::default();
        let page = store.scan(REFUSALS, Bound::Unbounded, MAX_STANDING + MAX_CLEARING)?;
        for entry in page.entries {
            if let Some(found) = entry.value.first().filter(|v| **v > VERSION) {
                let what = format!("refusal {}", String::from_utf8_lossy(&entry.key));
                return Err(NewerFormat::new(folder, what, found, VERSION).into());
            }
            let json = entry.value.strip_prefix(&[VERSION]);
            let mark: Option<Mark> = json.and_then(|json| serde_json::from_slice(json).ok());
            let Ok(topic) = String::from_utf8(entry.key) else {
                continue;
            };
            // Of a mark that can't be read nobody knows how long it may stand, so it is over.
            let mark = mark.unwrap_or(Mark {
                order: 0,
                since_ms: 0,
                is_dated: false,
                is_over: true,
            });
            refusals.next_order = refusals.next_order.max(mark.order.saturating_add(1));
            let place = match mark.is_over {
                true => &mut refusals.clearing,
                false => &mut refusals.standing,
            };
            place.insert(topic, mark);
        }
        Ok(refusals)
    }

    /// Topics that are still to be cleared.
    pub fn clearing(&self) -> impl Iterator<Item = &str> {
        self.clearing.keys().map(String::as_str)
    }

    /// `topic` is about to say `rejected`. Answers the topic that is to be cleared for it, if there are too many.
    ///
    /// # Errors
    /// [`TooMany`] when it is not to say so.
    pub fn stands(&mut self, topic: &str, now: Wall) -> Result<Option<String>, TooMany> {
        // A request that waits at the broker is refused in every session.
        if self.standing.contains_key(topic) {
            return Ok(None);
        }
        let oldest = self.standing.iter().min_by_key(|(_, mark)| mark.order);
        let oldest = oldest.filter(|_| self.standing.len() >= MAX_STANDING);
        let oldest = oldest.map(|(topic, _)| topic.clone());
        if oldest.is_some() && self.clearing.len() >= MAX_CLEARING {
            return Err(TooMany);
        }
        self.clearing.remove(topic);
        let mark = Mark {
            order: self.next_order,
            since_ms: now.unix_ms,
            is_dated: now.quality == TimeQuality::Synced,
            is_over: false,
        };
        self.next_order = self.next_order.saturating_add(1);
        self.standing.insert(topic.to_owned(), mark);
        self.changed.insert(topic.to_owned());
        if let Some(oldest) = &oldest {
            self.end(oldest);
        }
        Ok(oldest)
    }

    /// The requester takes back what was asked for. Whether `topic` is to be cleared.
    pub fn taken_back(&mut self, topic: &str) -> bool {
        self.end(topic)
    }

    /// Topics that are to be cleared because they have stood for so long. As in the ledger of commands, what was refused by a clock that
    /// nobody vouched for ages from the first moment at which somebody does.
    pub fn age(&mut self, now: Wall) -> Vec<String> {
        if now.quality != TimeQuality::Synced {
            return Vec::new();
        }
        let mut old = Vec::new();
        for (topic, mark) in &mut self.standing {
            if !mark.is_dated {
                (mark.since_ms, mark.is_dated) = (now.unix_ms, true);
                self.changed.insert(topic.clone());
            } else if now.unix_ms.saturating_sub(mark.since_ms) > LEDGER_DAYS * DAY_MS {
                old.push(topic.clone());
            }
        }
        old.retain(|topic| self.end(topic));
        old
    }

    /// `topic` says something else, or nothing any more: the broker has cleared it.
    pub fn gone(&mut self, topic: &str) {
        let stood = self.standing.remove(topic).is_some();
        if self.clearing.remove(topic).is_some() || stood {
            self.changed.insert(topic.to_owned());
        }
    }

    /// Whether the store does not know everything yet.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The changes that make the store know what it does not know yet.
    pub fn riders(&mut self) -> Vec<Op> {
        let changed = std::mem::take(&mut self.changed);
        let op = |topic: String| match self.standing.get(&topic).or(self.clearing.get(&topic)) {
            Some(mark) => {
                let mut value = vec![VERSION];
                // Plain data: serde_json can't fail on it.
                value.extend(serde_json::to_vec(mark).unwrap_or_default());
                Op::Put {
                    keyspace: REFUSALS,
                    key: topic.into_bytes(),
                    value,
                }
            }
            None => Op::Delete {
                keyspace: REFUSALS,
                key: topic.into_bytes(),
            },
        };
        changed.into_iter().map(op).collect()
    }

    /// Moves `topic` to those that are to be cleared, where it stands and there is room.
    fn end(&mut self, topic: &str) -> bool {
        if self.clearing.len() >= MAX_CLEARING {
            return false;
        }
        let Some(mark) = self.standing.remove(topic) else {
            return false;
        };
        let is_over = true;
        self.clearing
            .insert(topic.to_owned(), Mark { is_over, ..mark });
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
        let mut batch = Batch::new();
        refusals.riders().into_iter().for_each(|op| batch.push(op));
        store.commit(batch).expect("commit");
        Refusals::restore(store, Path::new("/state/agent")).expect("restore")
    }

    fn clearing(refusals: &Refusals) -> Vec<&str> {
        refusals.clearing().collect()
    }

    #[test]
    fn the_oldest_refusal_is_cleared_when_there_are_too_many_and_remembered_until_it_is() {
        let (mut refusals, store) = (Refusals::default(), MemoryStore::new());
        for n in 0..MAX_STANDING {
            assert_eq!(refusals.stands(&n.to_string(), at(1)), Ok(None));
        }
        // A request that comes again in the next session is no other one.
        assert_eq!(refusals.stands("0", at(2)), Ok(None));
        let mut refusals = restarted(&mut refusals, &store);
        assert_eq!(refusals.stands("x", at(3)), Ok(Some("0".to_owned())));
        let mut refusals = restarted(&mut refusals, &store);
        assert_eq!(clearing(&refusals), ["0"]);
        refusals.gone("0");
        assert_eq!(restarted(&mut refusals, &store).clearing().count(), 0);
    }

    #[test]
    fn a_refusal_is_cleared_after_the_days_of_the_ledger_and_never_by_a_clock_that_nobody_vouches_for()
     {
        let month = LEDGER_DAYS * DAY_MS;
        let free = |unix_ms| Wall {
            unix_ms,
            quality: TimeQuality::Estimated,
        };
        let mut refusals = Refusals::default();
        assert_eq!(refusals.stands("free", free(5)), Ok(None));
        assert_eq!(refusals.stands("a", at(10)), Ok(None));
        assert_eq!(refusals.age(free(9 * month)), [""; 0]);
        assert_eq!(refusals.age(at(10 + month)), [""; 0]);
        assert_eq!(refusals.age(at(11 + month)), ["a"]);
        assert_eq!(refusals.age(at(12 + 2 * month)), ["free"]);
        assert_eq!(clearing(&refusals), ["a", "free"]);
    }

    #[test]
    fn a_request_that_is_taken_back_clears_its_refusal_and_no_other_status() {
        let mut refusals = Refusals::default();
        assert_eq!(refusals.stands("a", at(1)), Ok(None));
        assert!(refusals.taken_back("a"));
        assert!(!refusals.taken_back("a") && !refusals.taken_back("b"));
        assert_eq!(clearing(&refusals), ["a"]);
        // Asked and refused again before the broker had cleared it: it stands.
        assert_eq!(refusals.stands("a", at(1)), Ok(None));
        assert_eq!(refusals.clearing().count(), 0);
    }

    #[test]
    fn a_mark_that_can_not_be_read_is_cleared_and_then_forgotten() {
        let store = MemoryStore::new();
        let unreadable = Batch::new().put(REFUSALS, b"a", &[VERSION, b'?']);
        store.commit(unreadable).expect("commit");
        let mut refusals = restarted(&mut Refusals::default(), &store);
        assert_eq!(clearing(&refusals), ["a"]);
        refusals.gone("a");
        restarted(&mut refusals, &store);
        assert_eq!(store.get(REFUSALS, b"a").ok(), Some(None));
    }

    #[test]
    fn a_corrected_request_is_no_refusal_any_more() {
        let mut refusals = Refusals::default();
        assert_eq!(refusals.stands("a", at(1)), Ok(None));
        refusals.gone("a");
        assert!(!refusals.taken_back("a"));
    }

    #[test]
    fn a_broker_that_never_acknowledges_can_not_make_it_grow() {
        let mut refusals = Refusals::default();
        let all = MAX_STANDING + MAX_CLEARING;
        for n in 0..all {
            assert!(refusals.stands(&n.to_string(), at(1)).is_ok());
        }
        assert_eq!(refusals.stands("x", at(1)), Err(TooMany));
        assert!(!refusals.taken_back(&(all - 1).to_string()));
        refusals.gone("0");
        assert!(refusals.stands("x", at(1)).is_ok());
    }

    #[test]
    fn only_what_changed_is_stored_and_a_newer_version_is_left_alone() {
        let (mut refusals, store) = (Refusals::default(), MemoryStore::new());
        assert_eq!(refusals.stands("a", at(1)), Ok(None));
        assert_eq!(refusals.riders().len(), 1);
        assert_eq!(refusals.stands("a", at(2)), Ok(None));
        refusals.gone("b");
        assert!(!refusals.is_changed());
        let newer = Batch::new().put(REFUSALS, b"c", &[VERSION + 1]);
        store.commit(newer).expect("commit");
        let refused = Refusals::restore(&store, Path::new("/state/agent")).expect_err("newer");
        assert!(
            refused.to_string().contains("refusal c has format 2"),
            "{refused}"
        );
    }
}
