//! Pending notices of each channel, in the agent's store. The journal has no record of them.
//!
//! Keyspace `channels_owe`; key: channel id, a zero byte and a number as a log key; value: a
//! version byte and JSON. Numbers rise over restarts.
//!
//! Invariants:
//! - A notice is stored before it is sent, and deleted after it was delivered or given up.
//! - A channel has at most [`MAX_PENDING`]; another one evicts the oldest of the lowest severity.
//! - An invalid record is skipped and deleted; one of a newer version is left unchanged.

use std::collections::BTreeMap;

use watchkeeper_contract::id::ChannelId;
use watchkeeper_contract::rule::Severity;
use watchkeeper_store::{
    Batch, JsonRecords, Keyspace, Op, Store, StoreError, log_key, log_seq, pages,
};

use super::message::Notice;

const PENDING: Keyspace = Keyspace::new("channels_owe");
const RECORDS: JsonRecords = JsonRecords::new(PENDING, 2, "notice");
/// Records per scan.
const PAGE: usize = 256;
/// Pending notices of one channel: two heartbeats with the maximum of findings.
pub(crate) const MAX_PENDING: usize = 64;

/// Numbers and severities of the pending notices of all channels.
#[derive(Debug, Default)]
pub(crate) struct PendingNotices {
    channels: BTreeMap<ChannelId, ChannelNotices>,
}

#[derive(Debug, Default)]
struct ChannelNotices {
    /// Highest number so far.
    last: u64,
    open: BTreeMap<u64, Severity>,
}

/// Notices that were pending when the agent ended, per channel by number.
pub(crate) type RestoredNotices = BTreeMap<ChannelId, Vec<(u64, Notice)>>;

impl PendingNotices {
    /// Loads the pending notices of `channels` and deletes those of other channels.
    ///
    /// # Errors
    /// When the store can't be read or written.
    pub(crate) fn restore(
        store: &dyn Store,
        channels: &[ChannelId],
    ) -> Result<(Self, RestoredNotices), StoreError> {
        let (mut pending, mut restored, mut removed) =
            (Self::default(), RestoredNotices::new(), Batch::new());
        for page in pages(store, PENDING, PAGE) {
            let page = page?;
            for record in page.corrupt {
                tracing::warn!(why = record.why, "damaged pending notice deleted");
                removed.push(RECORDS.delete(record.key));
            }
            for entry in page.entries {
                let parsed = parse_key(&entry.key);
                if let Some((id, number)) = &parsed
                    && RECORDS.is_newer(&entry.value)
                {
                    let notices = pending.channels.entry(id.clone()).or_default();
                    notices.last = notices.last.max(*number);
                    continue;
                }
                let parsed = parsed.filter(|(id, _)| channels.contains(id));
                match (parsed, RECORDS.decode::<Notice>(&entry.value)) {
                    (Some((id, number)), Some(notice)) => {
                        pending.take(&id, number, notice.severity);
                        restored.entry(id).or_default().push((number, notice));
                    }
                    (parsed, _) => {
                        if let Some((channel, _)) = parsed {
                            tracing::warn!(%channel, "invalid pending notice deleted");
                        }
                        removed.push(RECORDS.delete(entry.key));
                    }
                }
            }
        }
        if !removed.is_empty() {
            match store.write(removed) {
                // The next start does it.
                Err(error) if error.is_disk_refusal() => {}
                written => written?,
            }
        }
        Ok((pending, restored))
    }

    fn take(&mut self, channel: &ChannelId, number: u64, severity: Severity) {
        let notices = self.channels.entry(channel.clone()).or_default();
        notices.last = notices.last.max(number);
        notices.open.insert(number, severity);
    }

    /// Adds a notice of a channel. Returns its number and the operations that store it.
    pub(crate) fn add(&mut self, channel: &ChannelId, notice: &Notice) -> (u64, Vec<Op>) {
        let notices = self.channels.entry(channel.clone()).or_default();
        let number = notices.last.saturating_add(1);
        notices.last = number;
        notices.open.insert(number, notice.severity);
        let mut ops = vec![RECORDS.put(key(channel, number), notice)];
        while notices.open.len() > MAX_PENDING {
            let evicted = notices
                .open
                .iter()
                .min_by_key(|(n, severity)| (**severity, **n));
            let Some(evicted) = evicted.map(|(number, _)| *number) else {
                break;
            };
            notices.open.remove(&evicted);
            tracing::warn!(%channel, "too many pending notices; least severe dropped");
            ops.push(delete_op(channel, evicted));
        }
        (number, ops)
    }

    /// Removes notices that the store has deleted already.
    pub(crate) fn forget(&mut self, channel: &ChannelId, numbers: &[u64]) {
        if let Some(notices) = self.channels.get_mut(channel) {
            numbers.iter().for_each(|number| {
                notices.open.remove(number);
            });
        }
    }
}

/// Operation that deletes a delivered or given-up notice.
pub(crate) fn delete_op(channel: &ChannelId, number: u64) -> Op {
    RECORDS.delete(key(channel, number))
}

fn key(channel: &ChannelId, number: u64) -> Vec<u8> {
    let mut key = channel.as_str().as_bytes().to_vec();
    key.push(0);
    key.extend(log_key(number));
    key
}

fn parse_key(key: &[u8]) -> Option<(ChannelId, u64)> {
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
            reason: "the runtime does not answer".to_owned(),
            camera: None,
            by_model: None,
            payload: br#"{"schema":1}"#.to_vec(),
        }
    }

    fn commit(store: &MemoryStore, ops: Vec<Op>) {
        store.commit(Batch::from_iter(ops)).unwrap();
    }

    fn channels() -> [ChannelId; 2] {
        ["gate", "ops"].map(|name| ChannelId::new(name).unwrap())
    }

    #[test]
    fn pending_notices_are_restored_in_order_and_numbers_continue() {
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
        commit(&store, vec![delete_op(&ids[0], 1)]);
        pending.forget(&ids[0], &[1]);
        let (number, ops) = pending.add(&ids[0], &notice("d", Severity::Info));
        assert_eq!(number, 3);
        commit(&store, ops);
        let (_, restored) = PendingNotices::restore(&store, &ids[..1]).unwrap();
        let numbers: Vec<u64> = restored[&ids[0]].iter().map(|(n, _)| *n).collect();
        assert_eq!(numbers, [2, 3]);
        // The notices of a removed channel are deleted, even if it returns.
        let (_, restored) = PendingNotices::restore(&store, &ids).unwrap();
        assert!(!restored.contains_key(&ids[1]));
    }

    #[test]
    fn full_channel_evicts_oldest_of_lowest_severity() {
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
    fn invalid_record_is_deleted_and_newer_version_is_kept() {
        let (store, ids) = (MemoryStore::new(), channels());
        let put = |key: Vec<u8>, value: &[u8]| Op::put(PENDING, key, value);
        let ops = vec![
            put(b"no key".to_vec(), b"\x02{}"),
            put(key(&ids[0], 1), b""),
            put(key(&ids[0], 2), b"\x02{}"),
            put(key(&ids[0], 3), b"\x03{}"),
        ];
        commit(&store, ops);
        assert_eq!(
            PendingNotices::restore(&store, &ids).unwrap().1,
            RestoredNotices::new()
        );
        let page = store.scan(PENDING, Bound::Unbounded, PAGE).unwrap();
        let left: Vec<Vec<u8>> = page.entries.into_iter().map(|e| e.key).collect();
        assert_eq!(left, [key(&ids[0], 3)]);
    }
}
