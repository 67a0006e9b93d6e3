//! The audit logs: decisions, and activity, each chained by hash.
//!
//! Owns the folders `audit` and `audit-activity`: segments `<first number>.jsonl`, and the file
//! `lock`.
//! - Decisions are confirmations and what was changed; activity is effects and spends. Each log has
//!   its own bounds, so a flood of effects evicts no confirmation.
//! - A record is on stable storage when [`AuditLog::append`] returns.
//! - Records are numbered without gaps, over all segments.
//! - Retention deletes whole segments, the oldest first, damaged ones too. A record in the log
//!   names number and hash at which the rest begins, and is durable before anything is deleted.
//! - Age counts only by a synchronised clock, size always: a clock that is years ahead deletes
//!   nothing.
//! - A last line that a crash left unfinished was never acknowledged: the next append removes it.
//!
//! The chain has no key: a process that can write the files can compute new hashes. So it detects
//! changed, added and removed records only against a hash that was noted elsewhere.
//!
//! Not here: which entries are audited (`trace`), redaction.

mod record;
mod segment;
mod verify;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use watchkeeper_config::AuditConfig;
use watchkeeper_contract::time::TimeQuality;
use watchkeeper_store::chain::Hash;
use watchkeeper_store::durable::sync_folder;
use watchkeeper_store::file_lock::{LOCK_TIMEOUT, lock};
use watchkeeper_store::private_folder::make_private;

pub use record::MAX_RECORD;
pub use verify::{AuditReport, Damage, verify};

use record::AuditRecord;
use segment::Segment;

/// Kind of the record about deleted segments.
const RETENTION: &str = "retention";
/// Parts into which both bounds are divided: one part more is kept at most.
const PARTS: u64 = 16;
/// Most segments that one append deletes.
const MAX_DELETED: usize = 64;
const DECISIONS: &str = "audit";
const ACTIVITY: &str = "audit-activity";
const LOCK_FILE: &str = "lock";

/// An audit log in its folder. Processes that share it take turns by a file lock.
#[derive(Debug, Clone)]
pub struct AuditLog {
    folder: PathBuf,
    limits: AuditConfig,
}

/// The record before the next one.
#[derive(Debug, Clone, Copy)]
struct Tail {
    seq: u64,
    hash: Hash,
}

impl AuditLog {
    /// The log of confirmations and changes below `home`.
    pub fn of_decisions(home: &Path, limits: AuditConfig) -> Self {
        let folder = home.join(DECISIONS);
        Self { folder, limits }
    }

    /// The log of effects and spends below `home`.
    pub fn of_activity(home: &Path, limits: AuditConfig) -> Self {
        let folder = home.join(ACTIVITY);
        Self { folder, limits }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Appends an entry at the time `now` of a clock of this quality; durable on return.
    ///
    /// # Errors
    /// I/O errors. The entry is then not in the log.
    pub fn append(
        &self,
        now: Timestamp,
        quality: TimeQuality,
        entry: Map<String, Value>,
    ) -> io::Result<()> {
        if !self.folder.exists() {
            make_private(&self.folder)?;
            if let Some(home) = self.folder.parent() {
                sync_folder(home)?;
            }
        }
        let _lock = lock(&self.folder.join(LOCK_FILE), LOCK_TIMEOUT)?;
        let mut segments = segment::list(&self.folder)?;
        let mut tail = self.repair_tail(&mut segments)?;
        let dated = Some(now).filter(|_| quality == TimeQuality::Synced);
        let deleted = self.expired(dated, &segments)?;
        if !deleted.is_empty() {
            let ends: Vec<&Value> = deleted.iter().map(|(_, end)| end).collect();
            let record = json!({"at": now.to_string(), "what": RETENTION, "of": {"deleted": ends}});
            if let Value::Object(record) = record {
                tail = self.write(now, record, tail, &mut segments)?;
            }
            for (segment, _) in &deleted {
                fs::remove_file(&segment.path)?;
            }
            sync_folder(&self.folder)?;
        }
        self.write(now, entry, tail, &mut segments).map(|_| ())
    }

    /// Returns the latest `limit` records, oldest first. Lines that are not records are skipped.
    ///
    /// # Errors
    /// I/O errors. A missing folder is empty.
    pub fn latest(&self, limit: usize) -> io::Result<Vec<Value>> {
        let mut records: Vec<Value> = Vec::new();
        for segment in segment::list(&self.folder)?.iter().rev() {
            let mut older = Vec::new();
            segment.each_line(|_, line| {
                older.extend(AuditRecord::decode(line).map(|record| record.value));
            })?;
            older.append(&mut records);
            records = older;
            if records.len() >= limit {
                break;
            }
        }
        Ok(records.split_off(records.len().saturating_sub(limit)))
    }

    /// Removes an unfinished last line, and returns the last record.
    fn repair_tail(&self, segments: &mut Vec<Segment>) -> io::Result<Tail> {
        while let Some(last) = segments.last_mut() {
            last.cut_unfinished_line()?;
            if let Some(record) = last.last_record()? {
                return Ok(Tail {
                    seq: record.seq,
                    hash: record.hash,
                });
            }
            if last.bytes > 0 {
                // Damaged throughout: it stays for `verify`; the numbers continue at its name.
                let seq = last.first.saturating_sub(1);
                return Ok(Tail {
                    seq,
                    hash: Hash::ZERO,
                });
            }
            fs::remove_file(&last.path)?;
            segments.pop();
        }
        Ok(Tail {
            seq: 0,
            hash: Hash::ZERO,
        })
    }

    /// Returns the segments that retention deletes, each with its end: its last number and hash.
    /// The hash is null where the last line is not a record. A gap before the next segment stays
    /// one. Without `now` none is too old.
    fn expired(
        &self,
        now: Option<Timestamp>,
        segments: &[Segment],
    ) -> io::Result<Vec<(Segment, Value)>> {
        let mut bytes: u64 = segments.iter().map(|segment| segment.bytes).sum();
        let oldest = now.and_then(|now| now.checked_sub(days(self.limits.max_days)).ok());
        let mut expired = Vec::new();
        let mut rest = segments;
        // The newest segment stays.
        while let [segment, later @ ..] = rest
            && let [next, ..] = later
            && expired.len() < MAX_DELETED
        {
            let last = segment.last_line()?;
            // When a damaged segment ends is unknown; those after it begin later.
            let ended = match &last {
                Some(last) => last.at(),
                None => first_time(later)?,
            };
            let is_old = oldest.is_some_and(|oldest| ended.is_some_and(|at| at < oldest));
            if !is_old && bytes <= self.limits.max_bytes {
                break;
            }
            bytes -= segment.bytes;
            let end = match last {
                Some(last) => json!({"through": last.seq, "hash": last.hash.to_string()}),
                None => json!({"through": next.first.saturating_sub(1), "hash": null}),
            };
            expired.push((segment.clone(), end));
            rest = later;
        }
        Ok(expired)
    }

    /// Writes one record after `tail`, into a new segment where the last one is full.
    fn write(
        &self,
        now: Timestamp,
        entry: Map<String, Value>,
        tail: Tail,
        segments: &mut Vec<Segment>,
    ) -> io::Result<Tail> {
        let record = AuditRecord::encode(entry, tail.seq.saturating_add(1), &tail.hash);
        let line = record.line();
        let is_full = match segments.last() {
            Some(last) => {
                last.bytes + line.len() as u64 > self.limits.max_bytes / PARTS
                    || self.is_too_long(now, last)?
            }
            None => true,
        };
        if is_full {
            segments.push(Segment::new(&self.folder, record.seq));
        }
        if let Some(last) = segments.last_mut() {
            let mut file = open(&last.path)?;
            let written = file.write_all(line.as_bytes());
            if let Err(error) = written.and_then(|()| file.sync_data()) {
                // A line that was not acknowledged must not stay in the log.
                if let Err(cause) = file.set_len(last.bytes) {
                    tracing::error!(%cause, "a failed entry stays in the audit log");
                }
                return Err(error);
            }
            last.bytes += line.len() as u64;
        }
        if is_full {
            sync_folder(&self.folder)?;
        }
        Ok(Tail {
            seq: record.seq,
            hash: record.hash,
        })
    }

    /// Returns whether `segment` covers a part of the longest time, so that days delete it.
    fn is_too_long(&self, now: Timestamp, segment: &Segment) -> io::Result<bool> {
        let part = days(self.limits.max_days.div_ceil(PARTS));
        let first = segment.first_record()?.and_then(|record| record.at());
        Ok(first.is_some_and(|first| now.duration_since(first) > part))
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o600);
    options.open(path)
}

/// Returns the time of the first readable record.
fn first_time(segments: &[Segment]) -> io::Result<Option<Timestamp>> {
    for segment in segments {
        if let Some(first) = segment.first_record()? {
            return Ok(first.at());
        }
    }
    Ok(None)
}

fn days(days: u64) -> SignedDuration {
    SignedDuration::from_hours(
        i64::try_from(days)
            .unwrap_or(i64::MAX / 24)
            .saturating_mul(24),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests;
