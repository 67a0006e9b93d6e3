//! The durable log of a job: one JSON record a line, in the order in which things happened.
//!
//! - A record is on stable storage when [`JobLog::append`] returns.
//! - A line that a crash cut off is removed when the log is opened for writing, and ignored by
//!   readers. Any other damaged line is an error.
//! - It has at most [`MAX_BYTES`]: a record that does not fit is refused, so it stays readable.
//! - After a failed write nothing more is written: the next line would be damaged.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::error::{JobFolderError, damaged, io_error};
use super::execution::Ended;

/// Largest log in bytes.
const MAX_BYTES: u64 = 64 << 20;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogLine {
    /// Milliseconds since 1970.
    pub at_ms: i64,
    #[serde(flatten)]
    pub record: LogRecord,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum LogRecord {
    /// A process began to run the job, went on with it, or queued it again.
    Opened,
    Started {
        step: String,
        tool: String,
        /// As written, with references.
        params: Map<String, Value>,
        attempt: u64,
    },
    /// A step is about to write this name in the output folder.
    Claimed {
        step: String,
        name: String,
    },
    Finished {
        step: String,
        result: StepResult,
    },
    Failed {
        step: String,
        why: String,
        /// Pause before the next try; none if the step is given up or has an alternative.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        again_in_s: Option<f64>,
    },
    Skipped {
        step: String,
        because: String,
    },
    Ended {
        how: Ended,
    },
}

/// Location of a step's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepResult {
    /// SHA-256 of the file with the values, in hexadecimal.
    pub sha256: String,
    pub summary: String,
    /// Names in the output folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// The attempts that ended, in the order in which they ended: places of the records that began and
/// ended each. One that a crash cut off ends where the job is opened again.
pub(super) fn attempts(log: &[LogLine]) -> Vec<(usize, usize)> {
    let mut begun: BTreeMap<&str, usize> = BTreeMap::new();
    let mut ended = Vec::new();
    for (place, line) in log.iter().enumerate() {
        match &line.record {
            LogRecord::Started { step, .. } => {
                begun.insert(step, place);
            }
            LogRecord::Finished { step, .. } | LogRecord::Failed { step, .. } => {
                let begin = begun.remove(step.as_str());
                ended.extend(begin.map(|begin| (begin, place)));
            }
            LogRecord::Opened => {
                let cut_off = std::mem::take(&mut begun).into_values();
                ended.extend(cut_off.map(|begin| (begin, place)));
            }
            LogRecord::Claimed { .. } | LogRecord::Skipped { .. } | LogRecord::Ended { .. } => {}
        }
    }
    ended
}

/// A log that is written.
#[derive(Debug)]
pub(crate) struct JobLog {
    path: PathBuf,
    /// `None` after a failed write.
    file: Mutex<Option<File>>,
}

impl JobLog {
    /// Opens the log for writing and returns what it holds.
    ///
    /// # Errors
    /// If it can't be read or written, or is damaged.
    pub(crate) fn open(path: &Path) -> Result<(Self, Vec<LogLine>), JobFolderError> {
        let mut options = OpenOptions::new();
        let mut file = (options.read(true).append(true).create(true))
            .open(path)
            .map_err(io_error(path))?;
        let text = content(path, &mut file)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let lines = parse(path, text.get(..whole).unwrap_or_default())?;
        if whole < text.len() {
            file.set_len(whole as u64).map_err(io_error(path))?;
        }
        file.seek(SeekFrom::End(0)).map_err(io_error(path))?;
        let log = Self {
            path: path.to_owned(),
            file: Mutex::new(Some(file)),
        };
        Ok((log, lines))
    }

    /// Writes a record; durable on return.
    ///
    /// # Errors
    /// If the disk is full or refuses.
    pub(crate) fn append(&self, record: LogRecord) -> Result<(), JobFolderError> {
        let at_ms = jiff::Timestamp::now().as_millisecond();
        let line = serde_json::to_vec(&LogLine { at_ms, record });
        let mut line = line.map_err(|e| io_error(&self.path)(e.into()))?;
        line.push(b'\n');
        let mut slot = self.file.lock();
        let Some(file) = slot.as_mut() else {
            let failed = io::Error::other("an earlier write failed");
            return Err(io_error(&self.path)(failed));
        };
        let written = file.metadata().and_then(|before| {
            if before.len() + line.len() as u64 > MAX_BYTES {
                let full =
                    format!("the log of the job is full: {MAX_BYTES} bytes; start a new job");
                return Err(io::Error::other(full));
            }
            file.write_all(&line)?;
            file.sync_data()
        });
        if written.is_err() {
            *slot = None;
        }
        written.map_err(io_error(&self.path))
    }
}

/// Reads a log that another process may be writing, from byte `begin` on. Returns the byte at which
/// its whole lines end.
///
/// # Errors
/// If it can't be read or is damaged.
pub(super) fn read_from(path: &Path, begin: u64) -> Result<(Vec<LogLine>, u64), JobFolderError> {
    let mut file = File::open(path).map_err(io_error(path))?;
    file.seek(SeekFrom::Start(begin)).map_err(io_error(path))?;
    let text = content(path, &mut file)?;
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let lines = parse(path, text.get(..whole).unwrap_or_default())?;
    Ok((lines, begin.saturating_add(whole as u64)))
}

fn content(path: &Path, file: &mut File) -> Result<String, JobFolderError> {
    let mut bytes = Vec::new();
    let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(io_error(path))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(damaged(path, format!("it has more than {MAX_BYTES} bytes")));
    }
    // A cut may fall into a letter; a damaged line is found by its parser.
    Ok(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

fn parse(path: &Path, text: &str) -> Result<Vec<LogLine>, JobFolderError> {
    let lines = text.lines().enumerate();
    let parsed = lines.map(|(n, line)| {
        let read = serde_json::from_str(line);
        read.map_err(|error| damaged(path, format!("line {}: {error}", n + 1)))
    });
    parsed.collect()
}
