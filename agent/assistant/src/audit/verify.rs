//! Verifies the audit log: numbers, hashes, and where it begins.
//!
//! - Each record follows its predecessor by number and hash; the first damage is reported.
//! - A log that does not begin with record 1 is whole only if a retention record has the hash
//!   before its start.
//! - Damage is a result, not an error.
//! - Records that are cut off at the end show only by a hash that was noted earlier.

use std::io;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;
use watchkeeper_store::chain::{Hash, check_link};

use super::record::AuditRecord;
use super::{AuditLog, RETENTION, segment};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct AuditReport {
    /// Number of the first record; absent: the log is empty.
    pub first: Option<u64>,
    pub last: Option<u64>,
    /// Hash of the last record. A hash noted earlier proves that nothing after it was removed.
    pub hash: Option<String>,
    /// Records whose hash follows from their content and predecessor.
    pub verified: u64,
    /// First damage; absent: the log is whole from its start.
    pub damage: Option<Damage>,
}

/// A place at which the log is not what was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damage {
    pub file: PathBuf,
    /// Line in the file, from 1.
    pub line: u64,
    pub why: String,
}

/// The first record, until a retention record proves it.
struct Start {
    record: AuditRecord,
    file: PathBuf,
    proof: Proof,
}

/// Evidence that the log begins where retention left it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Proof {
    Absent,
    /// Retention deleted a damaged segment before it, whose hash is unknown.
    NoHash,
    Complete,
}

#[derive(Default)]
struct Verifier {
    report: AuditReport,
    start: Option<Start>,
    previous: Option<(u64, Hash)>,
}

/// Verifies all records of `log`, the oldest first.
///
/// # Errors
/// I/O errors. Damage is a result, not an error.
pub fn verify(log: &AuditLog) -> io::Result<AuditReport> {
    let mut verifier = Verifier::default();
    for segment in segment::list(log.folder())? {
        segment.each_line(|number, line| {
            let checked = match AuditRecord::decode(line) {
                Some(record) => verifier.take(record, &segment.path),
                None => Err("the line is not a record: it was changed or damaged".to_owned()),
            };
            if let Err(why) = checked {
                verifier.report.damage.get_or_insert_with(|| Damage {
                    file: segment.path.clone(),
                    line: number,
                    why,
                });
            }
        })?;
    }
    Ok(verifier.finish())
}

impl Verifier {
    fn take(&mut self, record: AuditRecord, file: &std::path::Path) -> Result<(), String> {
        let before = self.previous.replace((record.seq, record.hash));
        self.report.last = Some(record.seq);
        self.report.hash = Some(record.hash.to_string());
        let checked = match before {
            None => self.begin(&record, file),
            Some((seq, hash)) => check_next(seq, &hash, &record),
        };
        if checked.is_ok() {
            self.report.verified += 1;
            self.read_boundaries(&record)?;
        }
        checked
    }

    fn begin(&mut self, record: &AuditRecord, file: &std::path::Path) -> Result<(), String> {
        self.report.first = Some(record.seq);
        let is_proven = record.seq == 1;
        let proof = match is_proven {
            true => Proof::Complete,
            false => Proof::Absent,
        };
        self.start = Some(Start {
            record: record.clone(),
            file: file.to_path_buf(),
            proof,
        });
        if is_proven {
            return check_hash(&Hash::ZERO, record);
        }
        Ok(())
    }

    /// Compares the start with what a retention record says about it.
    fn read_boundaries(&mut self, record: &AuditRecord) -> Result<(), String> {
        let Some(start) = self
            .start
            .as_mut()
            .filter(|start| start.proof != Proof::Complete)
        else {
            return Ok(());
        };
        if record.value.get("what").and_then(Value::as_str) != Some(RETENTION) {
            return Ok(());
        }
        let deleted = record.value["of"]["deleted"].as_array();
        let boundary = deleted.into_iter().flatten().find(|boundary| {
            let through = boundary.get("through").and_then(Value::as_u64);
            through == start.record.seq.checked_sub(1)
        });
        let Some(hash) = boundary.and_then(|boundary| boundary.get("hash")) else {
            return Ok(());
        };
        if let Some(hash) = hash.as_str().and_then(Hash::parse) {
            check_hash(&hash, &start.record)?;
            start.proof = Proof::Complete;
        } else if hash.is_null() {
            start.proof = Proof::NoHash;
        }
        Ok(())
    }

    fn finish(mut self) -> AuditReport {
        if let Some(start) = self.start.filter(|start| start.proof != Proof::Complete) {
            let before = start.record.seq.saturating_sub(1);
            let why = match start.proof {
                Proof::NoHash => format!(
                    "records 1 to {before} were deleted by retention; the last of them were \
                     damaged, so it is not proven that this record follows them"
                ),
                _ => format!(
                    "records 1 to {before} are missing, and no retention record explains it"
                ),
            };
            self.report.damage.get_or_insert(Damage {
                file: start.file,
                line: 1,
                why,
            });
        }
        self.report
    }
}

fn check_next(seq: u64, hash: &Hash, record: &AuditRecord) -> Result<(), String> {
    if seq.checked_add(1) != Some(record.seq) {
        return Err(format!(
            "record {} follows record {seq}: records are missing or were moved",
            record.seq
        ));
    }
    check_hash(hash, record)
}

fn check_hash(previous: &Hash, record: &AuditRecord) -> Result<(), String> {
    check_link(previous, &record.canonical, record.hash).map_err(|broken| {
        format!(
            "record {}: hash mismatch, expected {}, found {}; this record or the one before it \
             was changed or removed",
            record.seq, broken.expected, broken.found
        )
    })
}
