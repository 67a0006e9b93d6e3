//! What each channel still owes of the box's own messages: no journal has them, so the agent's store does.
//!
//! Keyspace `channels_owe`, key: the name of the channel, a zero byte and a number as a key of a log; value: a version byte and JSON. Numbers rise over
//! restarts. Invariants: what is owed is stored before what made it known is, and forgotten when its receiver has answered or it was given up; at most
//! [`MAX_PENDING`] are owed over one channel, where of one too many the least severe gives way, of those the oldest. A record that makes no sense is
//! passed over and removed; one that a newer version wrote is left as it is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::ChannelId;
use watchkeeper_contract::rule::Severity;
use watchkeeper_store::{Batch, Keyspace, Op, Store, StoreError, log_key, log_seq, pages};

use super::message::Notice;

const PENDING: Keyspace = Keyspace::new("channels_owe");
const VERSION: u8 = 1;
/// Records that are read at a time.
const PAGE: usize = 256;
/// Most messages that are owed over one channel: two looks of a heartbeat at which everything is wrong.
pub const MAX_PENDING: usize = 64;

/// The accounts of all channels.
#[derive(Debug, Default)]
pub struct PendingNotices {
    channels: BTreeMap<ChannelId, ChannelNotices>,
}

#[derive(Debug, Default)]
struct ChannelNotices {
    /// Number of the last one.
    last: u64,
    open: BTreeMap<u64, Severity>,
}

/// What is kept of a message.
#[derive(Serialize, Deserialize)]
struct Stored {
    #[serde(rename = "own")]
    notice: Notice,
}

/// What a channel owed when the agent ended, in the order in which it came.
pub type RestoredNotices = BTreeMap<ChannelId, Vec<(u64, Notice)>>;

impl PendingNotices {
    /// Reads back what is owed over these channels, and forgets what is owed over others.
    ///
    /// # Errors
    /// When the store can't be read or written.
    pub fn restore(
        store: &dyn Store,
        channels: &[ChannelId],
    ) -> Result<(Self, RestoredNotices), StoreError> {
        let (mut pending, mut restored, mut gone) =
            (Self::default(), RestoredNotices::new(), Batch::new());
        for page in pages(store, PENDING, PAGE) {
            let page = page?;
            for record in page.corrupt {
                gone.push(delete(record.key));
            }
            for entry in page.entries {
                let place = place_of(&entry.key);
                if let Some((id, number)) = &place
                    && entry.value.first().is_some_and(|v| *v > VERSION)
                {
                    let notices = pending.channels.entry(id.clone()).or_default();
                    notices.last = notices.last.max(*number);
                    continue;
                }
                let place = place.filter(|(id, _)| channels.contains(id));
                let json = entry.value.strip_prefix(&[VERSION]);
                let stored = json.and_then(|json| serde_json::from_slice::<Stored>(json).ok());
                match (place, stored) {
                    (Some((id, number)), Some(Stored { notice })) => {
                        pending.take(&id, number, notice.severity);
                        restored.entry(id).or_default().push((number, notice));
                    }
                    (place, _) => {
                        if let Some((channel, _)) = place {
                            tracing::warn!(%channel, "what was to be told there can't be read");
                        }
                        gone.push(delete(entry.key));
                    }
                }
            }
        }
        if !gone.is_empty() {
            store.write(gone)?;
        }
        Ok((pending, restored))
    }

    fn take(&mut self, channel: &ChannelId, number: u64, severity: Severity) {
        let notices = self.channels.entry(channel.clone()).or_default();
        notices.last = notices.last.max(number);
        notices.open.insert(number, severity);
    }

    /// One more is owed over this channel: its number, and the changes that keep it.
    pub fn add(&mut self, channel: &ChannelId, notice: &Notice) -> (u64, Vec<Op>) {
        let notices = self.channels.entry(channel.clone()).or_default();
        let number = notices.last.saturating_add(1);
        notices.last = number;
        notices.open.insert(number, notice.severity);
        let mut value = vec![VERSION];
        // Plain data with string keys: serde_json can't fail on it.
        value.extend(
            serde_json::to_vec(&Stored {
                notice: notice.clone(),
            })
            .unwrap_or_default(),
        );
        let mut ops = vec![Op::Put {
            keyspace: PENDING,
            key: key(channel, number),
            value,
        }];
        while notices.open.len() > MAX_PENDING {
            let least = notices
                .open
                .iter()
                .min_by_key(|(n, severity)| (**severity, **n));
            let Some(least) = least.map(|(number, _)| *number) else {
                break;
            };
            notices.open.remove(&least);
            tracing::warn!(%channel, "too much waits to be told there; the least grave is kept no longer");
            ops.push(delete(key(channel, least)));
        }
        (number, ops)
    }

    /// These were told or given up, and the store knows it.
    pub fn settled(&mut self, channel: &ChannelId, numbers: &[u64]) {
        if let Some(notices) = self.channels.get_mut(channel) {
            numbers.iter().for_each(|number| {
                notices.open.remove(number);
            });
        }
    }
}

/// The change that forgets one that was told or given up.
#[must_use]
pub fn forget(channel: &ChannelId, number: u64) -> Op {
    delete(key(channel, number))
}

fn delete(key: Vec<u8>) -> Op {
    Op::Delete {
        keyspace: PENDING,
        key,
    }
}

fn key(channel: &ChannelId, number: u64) -> Vec<u8> {
    let mut key = channel.as_str().as_bytes().to_vec();
    key.push(0);
    key.extend(log_key(number));
    key
}

fn place_of(key: &[u8]) -> Option<(ChannelId, u64)> {
    let at = key.iter().position(|byte| *byte == 0)?;
    let (name, number) = key.split_at(at);
    let channel = ChannelId::new(std::str::from_utf8(name).ok()?).ok()?;
    Some((channel, log_seq(number.get(1..)?)?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use std::ops::Bound;

    use watchkeeper_contract::time::{TimeQuality, Wall};
    use watchkeeper_store::MemoryStore;

    use super::*;

    fn notice(id: &str, severity: Severity) -> Notice {
        Notice {
            id: id.to_owned(),
            at: Wall {
                unix_ms: 5,
                quality: TimeQuality::Synced,
            },
            severity,
            notify: Vec::new(),
            reason: "the runtime does not answer".to_owned(),
            camera: None,
            by_model: None,
            payload: br#"{"schema":1}"#.to_vec(),
        }
    }

    fn commit(store: &MemoryStore, ops: Vec<Op>) {
        let mut batch = Batch::new();
        ops.into_iter().for_each(|op| batch.push(op));
        store.commit(batch).unwrap();
    }

    fn channels() -> [ChannelId; 2] {
        ["gate", "ops"].map(|name| ChannelId::new(name).unwrap())
    }

    #[test]
    fn what_is_owed_comes_back_in_order_until_it_was_told_and_numbers_go_on() {
        let (store, ids) = (MemoryStore::new(), channels());
        let mut pending = PendingNotices::default();
        for (channel, id) in [(0, "a"), (1, "b"), (0, "c")] {
            let (_, ops) = pending.add(&ids[channel], &notice(id, Severity::Critical));
            commit(&store, ops);
        }
        let (mut pending, restored) = PendingNotices::restore(&store, &ids).unwrap();
        assert_eq!(
            restored[&ids[0]],
            [
                (1, notice("a", Severity::Critical)),
                (2, notice("c", Severity::Critical))
            ]
        );
        commit(&store, vec![forget(&ids[0], 1)]);
        pending.settled(&ids[0], &[1]);
        let (number, ops) = pending.add(&ids[0], &notice("d", Severity::Info));
        assert_eq!(number, 3);
        commit(&store, ops);
        let (_, restored) = PendingNotices::restore(&store, &ids[..1]).unwrap();
        let numbers: Vec<u64> = restored[&ids[0]].iter().map(|(n, _)| *n).collect();
        assert_eq!(numbers, [2, 3]);
        // A channel that was taken out of the configuration owes nothing when it is back.
        let (_, restored) = PendingNotices::restore(&store, &ids).unwrap();
        assert!(!restored.contains_key(&ids[1]));
    }

    #[test]
    fn of_too_much_the_least_grave_gives_way_and_of_those_the_oldest() {
        let (store, [gate, _]) = (MemoryStore::new(), channels());
        let mut pending = PendingNotices::default();
        for n in 0..MAX_PENDING + 2 {
            let severity = match n {
                0 => Severity::Critical,
                _ => Severity::Warning,
            };
            commit(
                &store,
                pending.add(&gate, &notice(&n.to_string(), severity)).1,
            );
        }
        let (_, restored) = PendingNotices::restore(&store, std::slice::from_ref(&gate)).unwrap();
        let ids: Vec<&str> = restored[&gate]
            .iter()
            .map(|(_, notice)| &*notice.id)
            .collect();
        assert_eq!(ids.len(), MAX_PENDING);
        assert_eq!(ids[..3], ["0", "3", "4"]);
    }

    #[test]
    fn nonsense_is_passed_over_and_removed_and_the_future_is_left_alone() {
        let (store, ids) = (MemoryStore::new(), channels());
        let put = |key: Vec<u8>, value: &[u8]| Op::Put {
            keyspace: PENDING,
            key,
            value: value.to_vec(),
        };
        let ops = vec![
            put(b"no key".to_vec(), b"\x01{}"),
            put(key(&ids[0], 1), b""),
            put(key(&ids[0], 2), b"\x01{}"),
            put(key(&ids[0], 3), b"\x02{}"),
        ];
        commit(&store, ops);
        assert_eq!(
            PendingNotices::restore(&store, &ids).unwrap().1,
            RestoredNotices::new()
        );
        let left = store.scan(PENDING, Bound::Unbounded, PAGE).unwrap();
        let left: Vec<Vec<u8>> = left.entries.into_iter().map(|e| e.key).collect();
        assert_eq!(left, [key(&ids[0], 3)]);
    }
}
