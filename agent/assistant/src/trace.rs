//! What was asked, proposed, confirmed and done, one JSON object a line, for whoever wants to know later why a box does what it does.
//!
//! Invariants: no credential is written; a line has at most [`MAX_LINE`] bytes and the files together at most two times [`MAX_BYTES`].

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use watchkeeper_config::redact::{self, Redactor};

use super::redact::{hidden as definition, structured};
use crate::permissions::Entrypoint;
use watchkeeper_store::private_folder::make_private;

/// Size from which a new file is begun. The one before it is kept.
pub const MAX_BYTES: u64 = 1 << 20;
/// Longest line. What is longer is left out, and the line says so.
pub const MAX_LINE: usize = 64 * 1024;
/// Folder of the trace and of what the assistant keeps, below the agent's state folder.
pub const TRACE_FOLDER: &str = "assistant";
const NAME: &str = "trace.jsonl";
const OLD: &str = "trace.1.jsonl";
const LOCK: &str = "trace.lock";

/// Channel of what the agent traces of its own.
pub const AGENT: &str = "agent";

/// Whether who asks over this channel may see an entry: over TCP what was said over TCP, and what the agent did of its own.
#[must_use]
pub fn may_see(asks: Entrypoint, entry: &Value) -> bool {
    let of = entry.get("channel").and_then(Value::as_str);
    asks != Entrypoint::Remote
        || of.is_some_and(|of| of == AGENT || of == Entrypoint::Remote.name())
}

/// When an entry was written; one that does not say so comes first.
#[must_use]
pub fn at(entry: &Value) -> Option<Timestamp> {
    entry.get("at")?.as_str()?.parse().ok()
}

/// The trace.
#[derive(Debug, Clone)]
pub struct Trace {
    folder: PathBuf,
    /// Which way it came in, such as `chat`.
    channel: &'static str,
}

impl Trace {
    /// The trace in this folder, of what comes in over this channel.
    #[must_use]
    pub fn new(folder: &Path, channel: &'static str) -> Self {
        Self {
            folder: folder.to_path_buf(),
            channel,
        }
    }

    /// Writes down that `what` happened, with its particulars.
    ///
    /// # Errors
    /// What the system says.
    pub fn note(&self, now: Timestamp, what: &str, particulars: Value) -> io::Result<()> {
        let entry = |of: Value| {
            let mut line = json!({
                "at": now.to_string(), "channel": self.channel, "what": what, "of": of,
            })
            .to_string();
            line.push('\n');
            line
        };
        let mut line = entry(hidden(None, &particulars));
        if line.len() > MAX_LINE {
            line = entry(json!({"left_out_bytes": line.len()}));
        }
        make_private(&self.folder)?;
        let lock = self.open(LOCK)?;
        lock.lock()?;
        let path = self.folder.join(NAME);
        let size = fs::metadata(&path).map_or(0, |meta| meta.len());
        if size + line.len() as u64 > MAX_BYTES {
            fs::rename(&path, self.folder.join(OLD))?;
        }
        let mut file = self.open(NAME)?;
        // A line that a power cut left unfinished ends here, and costs no other.
        if !ends_a_line(&path)? {
            file.write_all(b"\n")?;
        }
        file.write_all(line.as_bytes())
    }

    fn open(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.create(true).append(true).mode(0o600);
        options.open(self.folder.join(name))
    }

    /// The latest entries, at most so many, the oldest first. A line that is no entry is left out.
    ///
    /// # Errors
    /// What the system says; a trace that was not begun is empty.
    pub fn latest(&self, limit: usize) -> io::Result<Vec<Value>> {
        self.latest_where(limit, |_| true)
    }

    /// The same of those that are wanted.
    ///
    /// # Errors
    /// What the system says; a trace that was not begun is empty.
    pub fn latest_where(
        &self,
        limit: usize,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> io::Result<Vec<Value>> {
        let mut entries = std::collections::VecDeque::new();
        for name in [OLD, NAME] {
            let file = match File::open(self.folder.join(name)) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            // A file that somebody else made longer is not read into memory as one line.
            let bounded = io::Read::take(file, 2 * MAX_BYTES);
            for line in BufReader::new(bounded).split(b'\n') {
                let entry = serde_json::from_slice::<Map<String, Value>>(&line?);
                if let Some(entry) = entry.ok().map(Value::Object).filter(&is_wanted) {
                    entries.push_back(entry);
                }
                if entries.len() > limit {
                    entries.pop_front();
                }
            }
        }
        Ok(entries.into())
    }
}

/// Whether the end of a line, or nothing, is the last of a file.
fn ends_a_line(path: &Path) -> io::Result<bool> {
    let file = File::open(path)?;
    let Some(end) = file.metadata()?.len().checked_sub(1) else {
        return Ok(true);
    };
    let mut last = [0];
    file.read_exact_at(&mut last, end)?;
    Ok(last == *b"\n")
}

/// A value without credentials: addresses in its texts lose theirs, and a field whose name says that it holds one is hidden whole.
fn hidden(name: Option<&str>, value: &Value) -> Value {
    match value {
        Value::String(text) => {
            let as_field = redact::json(name, value);
            if as_field == redact::MASK {
                return as_field;
            }
            Value::from(without_secrets(text))
        }
        Value::Array(items) => items.iter().map(|item| hidden(name, item)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            fields
                .map(|(name, value)| (name.clone(), hidden(Some(name), value)))
                .collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// A text without credentials. Whoever cuts one does it afterwards: half of it is no JSON any more.
#[must_use]
pub fn without_secrets(text: &str) -> String {
    match structured(text) {
        Some(inside) => hidden(None, &definition(&inside)).to_string(),
        None => Redactor::default().text(text),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn here() -> (tempfile::TempDir, Trace) {
        let dir = tempfile::tempdir().unwrap();
        let trace = Trace::new(&dir.path().join("state"), "chat");
        (dir, trace)
    }

    #[test]
    fn entries_come_back_in_order_with_their_channel_and_time() {
        let (_dir, trace) = here();
        assert!(trace.latest(5).unwrap().is_empty());
        for n in 0..7 {
            trace.note(NOW, "request", json!({"n": n})).unwrap();
        }
        let latest = trace.latest(2).unwrap();
        assert_eq!(latest[0]["of"]["n"], 5);
        assert_eq!(latest[1]["of"]["n"], 6);
        assert_eq!(latest[1]["channel"], "chat");
        assert_eq!(latest[1]["at"], "1970-01-01T00:00:00Z");
    }

    #[test]
    fn no_password_is_written() {
        let (_dir, trace) = here();
        let said = json!({
            "request": "watch rtsp://admin:pa55word@cam/live: people", "slack_token": "pa55word",
            "list": ["admin:pa55word@cam"], "plain": "I understood: count people",
        });
        trace.note(NOW, "request", said).unwrap();
        let text = fs::read_to_string(trace.folder.join(NAME)).unwrap();
        assert!(!text.contains("pa55word"), "{text}");
        assert!(text.contains("I understood: count people"), "{text}");
        let slack = json!({"type": "roboflow_core/slack_notification@v1", "name": "s", "slack_token": "pa55word", "message": "hello"});
        let hook = json!({"type": "roboflow_core/webhook_sink@v1", "name": "h", "url": "https://hooks.example/pa55word"});
        let arguments =
            json!({"workflow": json!({"steps": [slack, hook]}).to_string()}).to_string();
        trace
            .note(NOW, "tool", json!({"arguments": arguments}))
            .unwrap();
        let text = fs::read_to_string(trace.folder.join(NAME)).unwrap();
        assert!(!text.contains("pa55word"), "{text}");
        assert!(
            text.contains("hooks.example") && text.contains("hello"),
            "{text}"
        );
    }

    #[test]
    fn it_stays_within_two_files_and_a_line_within_its_bound() {
        let (_dir, trace) = here();
        let long = "x".repeat(MAX_LINE / 2);
        for _ in 0..80 {
            trace.note(NOW, "request", json!({"text": long})).unwrap();
        }
        let size = |name: &str| fs::metadata(trace.folder.join(name)).unwrap().len();
        assert!(size(NAME) <= MAX_BYTES && size(OLD) <= MAX_BYTES);
        trace
            .note(NOW, "request", json!({"text": "y".repeat(MAX_LINE)}))
            .unwrap();
        let latest = trace.latest(1).unwrap();
        assert!(latest[0]["of"]["left_out_bytes"].as_u64() > Some(MAX_LINE as u64));
    }

    #[test]
    fn a_damaged_line_costs_no_other() {
        let (_dir, trace) = here();
        trace.note(NOW, "request", json!({"n": 1})).unwrap();
        for damaged in [b"\xff{torn\n".as_slice(), b"{\"torn"] {
            trace.open(NAME).unwrap().write_all(damaged).unwrap();
            trace.note(NOW, "request", json!({"n": 2})).unwrap();
        }
        assert_eq!(trace.latest(9).unwrap().len(), 3);
    }
}
