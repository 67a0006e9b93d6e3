//! The trace: what was asked, proposed, confirmed and done, one JSON object a line.
//!
//! - No credential is written.
//! - [`role`] decides what an entry is for. The debug log has all entries, the audit logs
//!   ([`crate::audit`]) those that must not be lost.
//! - A line of the debug log has at most [`MAX_LINE`] bytes. Two files have at most [`MAX_BYTES`]
//!   each.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::task::spawn_blocking;
use watchkeeper_client::clock::wall_now;
use watchkeeper_config::AuditConfig;
use watchkeeper_config::redact::{self, Redactor};

use super::redact::{hidden as redact_definition, structured};
use crate::audit::AuditLog;
use crate::permissions::Entrypoint;
use watchkeeper_store::file_lock::lock;
use watchkeeper_store::private_folder::make_private;

/// Largest file. At this size a new file is started; the previous one stays.
pub const MAX_BYTES: u64 = 1 << 20;
/// Longest line, in bytes. A longer entry is replaced by its length.
pub const MAX_LINE: usize = 64 * 1024;
/// Folder of the trace and the assistant's files, below the agent's state folder.
pub const TRACE_FOLDER: &str = "assistant";
const FILE: &str = "trace.jsonl";
const PREVIOUS_FILE: &str = "trace.1.jsonl";
const LOCK_FILE: &str = "trace.lock";
/// Longest wait for another process that writes the debug log. Then the entry is dropped: it is not
/// worth a task of the API that waits.
const DEBUG_TIMEOUT: Duration = Duration::from_millis(100);

/// The `channel` of entries that the agent itself writes.
pub const AGENT: &str = "agent";

/// Whether an entry may be shown over `asks`. Over TCP only entries of TCP and of the agent are.
pub fn may_see(asks: Entrypoint, entry: &Value) -> bool {
    let of = entry.get("channel").and_then(Value::as_str);
    asks != Entrypoint::Remote
        || of.is_some_and(|of| of == AGENT || of == Entrypoint::Remote.name())
}

/// When an entry was written; `None` sorts first.
pub fn at(entry: &Value) -> Option<Timestamp> {
    entry.get("at")?.as_str()?.parse().ok()
}

/// Log to which an entry belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A confirmation, or what was changed after one: kept by the audit log of decisions.
    Decision,
    /// An effect or a spend: kept by the audit log of activity.
    Activity,
    /// Explains what happened: kept while there is room.
    Debug,
}

/// Writes an entry where a trace is written; a failure is logged.
pub fn note(trace: Option<&Trace>, what: &str, details: impl FnOnce() -> Value) {
    if let Some(trace) = trace {
        trace.note_or_log(Timestamp::now(), what, details());
    }
}

/// Writes an entry where a trace is written, on a blocking thread; a failure is logged.
pub(crate) async fn note_in_background(trace: Option<&Trace>, what: &'static str, details: Value) {
    if let Some(trace) = trace {
        trace.note_or_log_in_background(what, details).await;
    }
}

/// Returns the role of an entry of the kind `what`.
///
/// | role | entries |
/// |---|---|
/// | decision | `confirmed`, `policy` that confirmed, `done`, `failed`, `monitoring`, `archive`, |
/// | | `references`, `command` |
/// | activity | `effect`, `effect_failed`; jobs of the agent; calls of a model that cost money |
/// | debug | all others; `cost`, which repeats the sum of calls |
pub fn role(what: &str, details: &Value) -> Role {
    let costs_money = || details.get("usd").and_then(Value::as_f64) > Some(0.0);
    let is_confirmed = || details.get("decision").and_then(Value::as_str) == Some("confirmed");
    match what {
        "confirmed" | "done" | "failed" | "monitoring" | "archive" | "references" | "command" => {
            Role::Decision
        }
        "policy" if is_confirmed() => Role::Decision,
        "effect" | "effect_failed" => Role::Activity,
        "job_submitted" | "job_resumed" | "job_ended" => Role::Activity,
        "model" | "model_away" if costs_money() => Role::Activity,
        _ => Role::Debug,
    }
}

/// The trace in a folder, as one entrypoint writes it.
#[derive(Debug, Clone)]
pub struct Trace {
    folder: PathBuf,
    decisions: AuditLog,
    activity: AuditLog,
    /// [`Entrypoint::name`], or [`AGENT`].
    channel: &'static str,
}

impl Trace {
    pub fn new(folder: &Path, channel: &'static str) -> Self {
        Self {
            folder: folder.to_path_buf(),
            decisions: AuditLog::of_decisions(folder, AuditConfig::default()),
            activity: AuditLog::of_activity(folder, AuditConfig::default()),
            channel,
        }
    }

    /// Sets the retention of each audit log.
    #[must_use]
    pub fn with_audit_limits(mut self, limits: AuditConfig) -> Self {
        self.decisions = AuditLog::of_decisions(&self.folder, limits);
        self.activity = AuditLog::of_activity(&self.folder, limits);
        self
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Appends an entry of the kind `what`. An audited one is on stable storage on return.
    ///
    /// # Errors
    /// I/O errors. Those of the debug log are only logged where the entry is audited.
    pub fn note(&self, now: Timestamp, what: &str, details: Value) -> io::Result<()> {
        let entry = |of: Value| {
            let mut entry = Map::new();
            entry.insert("at".to_owned(), json!(now.to_string()));
            entry.insert("channel".to_owned(), json!(self.channel));
            entry.insert("what".to_owned(), json!(what));
            entry.insert("of".to_owned(), of);
            entry
        };
        let audit = self.audit_log(role(what, &details));
        let whole = entry(redact_value(None, &details));
        if let Some(audit) = audit {
            audit.append(now, wall_now().quality, whole.clone())?;
        }
        let mut line = Value::Object(whole).to_string();
        if line.len() >= MAX_LINE {
            line = Value::Object(entry(json!({"left_out_bytes": line.len()}))).to_string();
        }
        line.push('\n');
        match self.append_debug(&line) {
            Err(error) if audit.is_some() => {
                tracing::debug!(%error, "cannot write the debug log");
                Ok(())
            }
            written => written,
        }
    }

    /// Appends an entry whose loss stops nothing: a failure is logged.
    pub fn note_or_log(&self, now: Timestamp, what: &str, details: Value) {
        let role = role(what, &details);
        match (self.note(now, what, details), role) {
            (Ok(()), _) => {}
            (Err(error), Role::Decision | Role::Activity) => {
                let folder = self.folder.display();
                tracing::error!(%error, %folder, what, "cannot write the audit log");
            }
            (Err(error), Role::Debug) => tracing::debug!(%error, "cannot write the trace"),
        }
    }

    /// Appends an entry like [`Self::note`], on a blocking thread: other tasks do not wait for the
    /// disk. An entry that follows the returned one follows it in the log too.
    ///
    /// # Errors
    /// I/O errors, as of [`Self::note`]. Dropping the future loses no entry.
    pub(crate) async fn note_in_background(
        &self,
        what: &'static str,
        details: Value,
    ) -> io::Result<()> {
        let trace = self.clone();
        let noted = spawn_blocking(move || trace.note(Timestamp::now(), what, details));
        noted.await.unwrap_or_else(|e| Err(io::Error::other(e)))
    }

    /// Appends an entry like [`Self::note_or_log`], on a blocking thread. The write is queued when
    /// this returns; the future waits for it, and may be dropped.
    pub fn note_or_log_in_background(
        &self,
        what: &'static str,
        details: Value,
    ) -> impl Future<Output = ()> + use<> {
        let trace = self.clone();
        let noted = spawn_blocking(move || trace.note_or_log(Timestamp::now(), what, details));
        // A panic of the writer does not stop the caller.
        async { drop(noted.await) }
    }

    /// The audit log of entries with this role.
    fn audit_log(&self, role: Role) -> Option<&AuditLog> {
        match role {
            Role::Decision => Some(&self.decisions),
            Role::Activity => Some(&self.activity),
            Role::Debug => None,
        }
    }

    fn append_debug(&self, line: &str) -> io::Result<()> {
        make_private(&self.folder)?;
        let _lock = lock(&self.folder.join(LOCK_FILE), DEBUG_TIMEOUT)?;
        let path = self.folder.join(FILE);
        let size = fs::metadata(&path).map_or(0, |meta| meta.len());
        if size + line.len() as u64 > MAX_BYTES {
            fs::rename(&path, self.folder.join(PREVIOUS_FILE))?;
        }
        let mut file = self.open(FILE)?;
        // Ends a line that a power cut left unfinished, so that no other is lost.
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

    /// Returns the latest `limit` entries, oldest first. Invalid lines are skipped.
    ///
    /// # Errors
    /// I/O errors. A missing file is empty.
    pub fn latest(&self, limit: usize) -> io::Result<Vec<Value>> {
        self.latest_where(limit, |_| true)
    }

    /// Returns the latest `limit` entries that `is_wanted` accepts, oldest first.
    ///
    /// # Errors
    /// I/O errors. A missing file is empty.
    pub fn latest_where(
        &self,
        limit: usize,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> io::Result<Vec<Value>> {
        let mut entries = std::collections::VecDeque::new();
        for name in [PREVIOUS_FILE, FILE] {
            let file = match File::open(self.folder.join(name)) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            // Bounded: another program may have made the file longer.
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

/// Whether a file is empty or ends with a line feed.
fn ends_a_line(path: &Path) -> io::Result<bool> {
    let file = File::open(path)?;
    let Some(end) = file.metadata()?.len().checked_sub(1) else {
        return Ok(true);
    };
    let mut last = [0];
    file.read_exact_at(&mut last, end)?;
    Ok(last == *b"\n")
}

/// Removes credentials: from addresses in texts, and the whole value of a field with a secret's
/// name.
pub(crate) fn redact_value(name: Option<&str>, value: &Value) -> Value {
    match value {
        Value::String(text) => {
            let as_field = redact::json(name, value);
            if as_field == redact::MASK {
                return as_field;
            }
            Value::from(without_secrets(text))
        }
        Value::Array(items) => items.iter().map(|item| redact_value(name, item)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            fields
                .map(|(name, value)| (name.clone(), redact_value(Some(name), value)))
                .collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// A text without credentials. Cut it afterwards: a part of JSON can't be parsed.
pub(crate) fn without_secrets(text: &str) -> String {
    match structured(text) {
        Some(inside) => redact_value(None, &redact_definition(&inside)).to_string(),
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
    fn entries_keep_order_channel_and_time() {
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
        let text = fs::read_to_string(trace.folder.join(FILE)).unwrap();
        assert!(!text.contains("pa55word"), "{text}");
        assert!(text.contains("I understood: count people"), "{text}");
        let slack = json!({"type": "roboflow_core/slack_notification@v1", "name": "s",
        "slack_token": "pa55word", "message": "hello"});
        let hook = json!({"type": "roboflow_core/webhook_sink@v1", "name": "h",
        "url": "https://hooks.example/pa55word"});
        let arguments =
            json!({"workflow": json!({"steps": [slack, hook]}).to_string()}).to_string();
        trace
            .note(NOW, "tool", json!({"arguments": arguments}))
            .unwrap();
        let text = fs::read_to_string(trace.folder.join(FILE)).unwrap();
        assert!(!text.contains("pa55word"), "{text}");
        assert!(
            text.contains("hooks.example") && text.contains("hello"),
            "{text}"
        );
    }

    #[test]
    fn trace_keeps_its_bounds_of_files_and_lines() {
        let (_dir, trace) = here();
        let long = "x".repeat(MAX_LINE / 2);
        for _ in 0..80 {
            trace.note(NOW, "request", json!({"text": long})).unwrap();
        }
        let size = |name: &str| fs::metadata(trace.folder.join(name)).unwrap().len();
        assert!(size(FILE) <= MAX_BYTES && size(PREVIOUS_FILE) <= MAX_BYTES);
        trace
            .note(NOW, "request", json!({"text": "y".repeat(MAX_LINE)}))
            .unwrap();
        let latest = trace.latest(1).unwrap();
        assert!(latest[0]["of"]["left_out_bytes"].as_u64() > Some(MAX_LINE as u64));
    }

    fn kinds(audit: &AuditLog) -> Vec<String> {
        let audited = audit.latest(usize::MAX).unwrap();
        let kinds = audited.iter().filter_map(|entry| entry["what"].as_str());
        kinds.map(str::to_owned).collect()
    }

    #[test]
    fn flood_of_no_opinion_evicts_no_audit() {
        let (_dir, trace) = here();
        let offer = json!({"changes": [{"pipeline": "gate", "url": "rtsp://a:pa55word@cam"}]});
        trace.note(NOW, "confirmed", offer).unwrap();
        let why = "the budget of the hour is used".repeat(900);
        for _ in 0..120 {
            let flood = json!({"sentence": why, "event": "01J"});
            trace.note(NOW, "no_opinion", flood).unwrap();
            let unpaid = json!({"model": "m", "usd": 0.0, "sentence": why});
            trace.note(NOW, "model_away", unpaid).unwrap();
        }
        let spent = json!({"model": "m", "usd": 0.002});
        trace.note(NOW, "model", spent).unwrap();
        let left = trace.latest(usize::MAX).unwrap();
        assert!(left.iter().all(|entry| entry["what"] != "confirmed"));
        assert_eq!(kinds(&trace.activity), ["model"]);
        assert_eq!(kinds(&trace.decisions), ["confirmed"]);
        let confirmed = &trace.decisions.latest(1).unwrap()[0];
        assert_eq!(confirmed["channel"], "chat");
        assert!(!confirmed.to_string().contains("pa55word"), "{confirmed}");
    }

    #[test]
    fn flood_of_effects_and_spends_evicts_no_confirmation() {
        let (_dir, trace) = here();
        let limits = AuditConfig {
            max_days: 365,
            max_bytes: 64 << 10,
        };
        let trace = trace.with_audit_limits(limits);
        trace
            .note(NOW, "confirmed", json!({"changes": []}))
            .unwrap();
        for number in 0..400 {
            let sent = json!({"number": number, "sentence": "x".repeat(200)});
            trace.note(NOW, "effect", sent).unwrap();
        }
        let effects = kinds(&trace.activity);
        assert!((100..400).contains(&effects.len()), "{}", effects.len());
        assert_eq!(kinds(&trace.decisions), ["confirmed"]);
    }

    #[test]
    fn audited_entry_stops_no_other_task_and_keeps_its_place() {
        let (_dir, trace) = here();
        trace.note(NOW, "confirmed", json!({"n": 0})).unwrap();
        let lock = trace.decisions.folder().join("lock");
        let lock = File::open(lock).unwrap();
        lock.lock().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_time().build().unwrap();
        runtime.block_on(async {
            let writes = async {
                for n in 1..4 {
                    let noted = trace.note_in_background("confirmed", json!({"n": n}));
                    noted.await.unwrap();
                    // Acknowledged: it is in the file.
                    let last = trace.decisions.latest(1).unwrap();
                    assert_eq!(last[0]["of"]["n"], n);
                }
            };
            // The only thread runs this while the disk, here the lock, lets the writer wait.
            let other = async {
                assert_eq!(kinds(&trace.decisions).len(), 1);
                lock.unlock().unwrap();
            };
            tokio::join!(writes, other);
        });
        assert_eq!(kinds(&trace.decisions).len(), 4);
    }

    #[test]
    fn audited_entry_that_cannot_be_stored_is_an_error() {
        let (_dir, trace) = here();
        fs::create_dir_all(&trace.folder).unwrap();
        fs::write(trace.folder.join("audit"), "a file in the way").unwrap();
        assert!(trace.note(NOW, "confirmed", json!({})).is_err());
        assert!(trace.note(NOW, "request", json!({})).is_ok());
    }

    #[test]
    fn damaged_line_loses_no_other_entry() {
        let (_dir, trace) = here();
        trace.note(NOW, "request", json!({"n": 1})).unwrap();
        for damaged in [b"\xff{torn\n".as_slice(), b"{\"torn"] {
            trace.open(FILE).unwrap().write_all(damaged).unwrap();
            trace.note(NOW, "request", json!({"n": 2})).unwrap();
        }
        assert_eq!(trace.latest(9).unwrap().len(), 3);
    }
}
