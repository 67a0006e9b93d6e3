//! The write-ahead log of a turn: one file per turn, one JSON record a line.
//!
//! The process that works on a turn locks its file. It removes the file after it handed over the
//! result. An unlocked file belongs to a process that died.
//!
//! - A record is on stable storage before its effect.
//! - A torn line and everything after it are ignored.
//! - A file has at most [`MAX_BYTES`].

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use tokio::task::spawn_blocking;
use ulid::Ulid;

use super::job_spec::SetupSpec;
use super::turn::{QUESTION_RESUME_WINDOW_S, RESUME_WINDOW_S, Turn};
use super::turn_record::{TurnHead, TurnRecord};
use crate::blueprint::Job;
use watchkeeper_store::durable::sync_folder;
use watchkeeper_store::private_folder::make_private;

/// Largest file, in bytes. A turn with the most and largest pictures takes about 15 MB.
pub const MAX_BYTES: u64 = 64 << 20;
/// Maximum unfinished turns that are read; others are removed unread.
const MAX_UNFINISHED: usize = 16;
const EXTENSION: &str = "jsonl";
/// Most files that are created for one turn, where others remove them while they are empty.
const CREATE_ATTEMPTS: usize = 5;

/// Why a turn log can't be written.
#[derive(Debug, thiserror::Error)]
pub enum TurnLogError {
    #[error(
        "the turn log {} can't be written: {source}; give this user write access",
        path.display()
    )]
    Io { path: PathBuf, source: io::Error },
    #[error("the request has grown beyond {MAX_BYTES} bytes; ask for less at once")]
    TooLong,
    #[error("the answer of the language model does not fit its conversation ({0}); ask again")]
    OutOfPlace(#[from] super::turn::TurnError),
}

/// A turn and its file.
#[derive(Debug)]
pub struct TurnLog {
    path: PathBuf,
    file: Arc<File>,
    bytes: u64,
    /// The turn; all of it is on disk.
    pub turn: Turn,
}

/// Identity of a request.
#[derive(Debug, Clone, Copy)]
pub struct TurnKey<'a> {
    /// The user's text.
    pub request: &'a str,
    /// Hash as in [`TurnHead::context`].
    pub context: &'a str,
    pub socket: &'a str,
    pub now: Timestamp,
}

/// Turns whose process died.
#[derive(Debug, Default)]
pub struct UnfinishedTurns {
    /// The turn of the same request.
    pub resumable: Option<TurnLog>,
    pub closed: Vec<TurnHead>,
}

impl TurnLog {
    /// Starts a turn in `folder`.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn create(folder: &Path, mut first: TurnRecord) -> Result<Self, TurnLogError> {
        let io = |path: &Path| {
            let path = path.to_path_buf();
            move |source| TurnLogError::Io { path, source }
        };
        make_private(folder).map_err(io(folder))?;
        let mut options = OpenOptions::new();
        options.create_new(true).read(true).append(true).mode(0o600);
        for _ in 0..CREATE_ATTEMPTS {
            let turn = Turn::start(first.clone())?;
            let path = folder.join(format!("{}.{EXTENSION}", turn.head().id));
            let file = options.open(&path).map_err(io(&path))?;
            if !lock_new(&file).map_err(io(&path))? {
                if let TurnRecord::Started { head, .. } = &mut first {
                    head.id = Ulid::new().to_string();
                }
                continue;
            }
            let mut log = Self {
                path: path.clone(),
                file: Arc::new(file),
                bytes: 0,
                turn,
            };
            log.prepare(&first)?().map_err(io(&path))?;
            sync_folder(folder).map_err(io(&path))?;
            return Ok(log);
        }
        let removed = "another process removed each new file";
        Err(io(folder)(io::Error::other(removed)))
    }

    /// Writes a record, then applies it to the turn.
    ///
    /// # Errors
    /// If the file can't be written. The record is not applied then.
    pub fn append(&mut self, record: TurnRecord) -> Result<(), TurnLogError> {
        let written = self.prepare(&record)?();
        self.apply(record, written)
    }

    /// Appends like [`Self::append`], on a blocking thread: other tasks do not wait for the disk.
    ///
    /// # Errors
    /// As of [`Self::append`].
    pub async fn append_in_background(&mut self, record: TurnRecord) -> Result<(), TurnLogError> {
        let written = spawn_blocking(self.prepare(&record)?).await;
        self.apply(record, written.unwrap_or_else(|e| Err(io::Error::other(e))))
    }

    /// The write of a record, which ends once it is on the disk.
    fn prepare(
        &mut self,
        record: &TurnRecord,
    ) -> Result<impl FnOnce() -> io::Result<()> + Send + use<>, TurnLogError> {
        let line = serde_json::to_vec(record);
        let mut line = line.map_err(|e| self.error(e.into()))?;
        line.push(b'\n');
        self.bytes = self.bytes.saturating_add(line.len() as u64);
        if self.bytes > MAX_BYTES {
            return Err(TurnLogError::TooLong);
        }
        let file = Arc::clone(&self.file);
        Ok(move || {
            (&*file).write_all(&line)?;
            file.sync_data()
        })
    }

    fn apply(&mut self, record: TurnRecord, written: io::Result<()>) -> Result<(), TurnLogError> {
        written.map_err(|e| self.error(e))?;
        Ok(self.turn.apply(record)?)
    }

    fn error(&self, source: io::Error) -> TurnLogError {
        let path = self.path.clone();
        TurnLogError::Io { path, source }
    }

    /// Removes the file, after the result was handed over. A file that stays is read once more.
    pub fn remove(&self) {
        fs::remove_file(&self.path).ok();
    }

    /// Reads the unfinished turns of `folder`, newest first.
    ///
    /// - A turn of the same request can resume, up to [`RESUME_WINDOW_S`]
    ///   ([`QUESTION_RESUME_WINDOW_S`]), if this version has the same instructions and tools.
    /// - Turns of the API may belong to other conversations, and stay until they are too old.
    /// - All others are removed.
    ///
    /// # Errors
    /// If the records of a resumed turn can't be written.
    pub fn find_unfinished(
        folder: &Path,
        wanted: &TurnKey<'_>,
        spec: &SetupSpec,
    ) -> Result<UnfinishedTurns, TurnLogError> {
        let mut left = UnfinishedTurns::default();
        let Ok(entries) = fs::read_dir(folder) else {
            return Ok(left);
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|e| e == EXTENSION));
        // Ids begin with the time: newest first.
        paths.sort();
        paths.reverse();
        for (nth, path) in paths.into_iter().enumerate() {
            let Ok(file) = OpenOptions::new().read(true).append(true).open(&path) else {
                continue;
            };
            // Another process works on it. The lock is held until the file is removed or kept.
            if file.try_lock().is_err() {
                continue;
            }
            // It was removed before the lock: its name may be that of another turn by now.
            if !file.metadata().is_ok_and(|held| held.nlink() > 0) {
                continue;
            }
            let file = Arc::new(file);
            let found = (nth < MAX_UNFINISHED).then(|| Self::read(path.clone(), Arc::clone(&file)));
            let Some(mut log) = found.flatten() else {
                fs::remove_file(&path).ok();
                continue;
            };
            let head = log.turn.head().clone();
            let age = wanted.now.duration_since(head.at).as_secs();
            let resume_window = match spec.blueprint.job {
                Job::Question => QUESTION_RESUME_WINDOW_S,
                Job::Identifier | Job::Retriever => QUESTION_RESUME_WINDOW_S,
                Job::SetUp
                | Job::Triage
                | Job::Notes
                | Job::Jobs
                | Job::Ingestor
                | Job::Organiser
                | Job::Coordinator => RESUME_WINDOW_S,
            };
            let fits = left.resumable.is_none()
                && head.request == wanted.request
                && head.context == wanted.context
                && head.socket == wanted.socket
                && (0..=resume_window).contains(&age)
                && head.blueprint == spec.blueprint.name.as_str()
                && log.has_instructions_of(spec);
            let may_be_of_another =
                head.entrypoint.is_api() || spec.permissions.entrypoint.is_api();
            if fits {
                for record in log.turn.records_on_resume(&spec.tools) {
                    log.append(record)?;
                }
                left.resumable = Some(log);
            } else if may_be_of_another && (0..=RESUME_WINDOW_S).contains(&age) {
                // Releases its lock.
                drop(log);
            } else {
                log.remove();
                left.closed.push(head);
            }
        }
        Ok(left)
    }

    /// Whether this version has the same instructions and tools.
    fn has_instructions_of(&self, spec: &SetupSpec) -> bool {
        let conversation = self.turn.conversation();
        let same_tools = spec
            .tools
            .to_llm_tools()
            .is_ok_and(|tools| tools == conversation.tools());
        conversation.system() == spec.system && same_tools
    }

    /// Reads a turn up to its last valid record, and truncates the file there.
    fn read(path: PathBuf, file: Arc<File>) -> Option<Self> {
        let mut turn: Option<Turn> = None;
        let mut bytes = 0;
        let mut lines = BufReader::new(io::Read::take(&*file, MAX_BYTES));
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).ok()? > 0 {
            if line.last() != Some(&b'\n') {
                break;
            }
            let Ok(record) = serde_json::from_slice::<TurnRecord>(&line) else {
                break;
            };
            match &mut turn {
                None => turn = Some(Turn::start(record).ok()?),
                Some(turn) => {
                    if turn.apply(record).is_err() {
                        break;
                    }
                }
            }
            bytes += line.len() as u64;
            line.clear();
        }
        drop(lines);
        file.set_len(bytes).ok()?;
        (&*file).seek(SeekFrom::End(0)).ok()?;
        Some(Self {
            path,
            file,
            bytes,
            turn: turn?,
        })
    }
}

/// Locks a new file. `false`: a process that looks for turns of dead ones found it empty, and
/// removes it.
fn lock_new(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(file.metadata()?.nlink() > 0),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::super::job_spec::FIRST_CALL;
    use super::super::turn::TurnStep;
    use super::super::turn::testing::{begins, begun, brief, came, head, nothing, says};
    use super::*;
    use crate::blueprint::built_in;
    use crate::permissions::{Entrypoint, ToolPermissions};

    const WORDS: &str = "count the goats";

    fn wanted(request: &str, at_s: i64) -> TurnKey<'_> {
        TurnKey {
            request,
            context: "",
            socket: "/run/a.sock",
            now: Timestamp::from_second(at_s).unwrap(),
        }
    }

    fn left(folder: &Path, request: &str, at_s: i64) -> UnfinishedTurns {
        TurnLog::find_unfinished(folder, &wanted(request, at_s), &brief()).unwrap()
    }

    /// A turn that is about to write a note.
    fn turn_with_started_note(folder: &Path) -> TurnLog {
        let mut log = TurnLog::create(folder, begun(WORDS)).unwrap();
        for record in [
            begins(FIRST_CALL),
            came(FIRST_CALL, Vec::new()),
            says("", &[("a", "memory_note", nothing())]),
            begins("a"),
        ] {
            log.append(record).unwrap();
        }
        log
    }

    #[test]
    fn same_request_resumes_without_repeating_a_note() {
        let dir = tempfile::tempdir().unwrap();
        drop(turn_with_started_note(dir.path()));
        let log = left(dir.path(), WORDS, 60).resumable.unwrap();
        assert_eq!(log.turn.next(), TurnStep::Ask { last: false });
        assert_eq!(log.turn.failed().get("memory_note"), Some(&1));
        log.remove();
        assert!(left(dir.path(), WORDS, 60).resumable.is_none());
    }

    #[test]
    fn locked_turn_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let _works = turn_with_started_note(dir.path());
        let left = left(dir.path(), WORDS, 60);
        assert!(left.resumable.is_none() && left.closed.is_empty());
    }

    #[test]
    fn file_that_a_scanner_locked_or_removed_holds_no_new_turn() {
        let dir = tempfile::tempdir().unwrap();
        let create = |name: &str| File::create_new(dir.path().join(name)).unwrap();
        assert!(lock_new(&create("free")).unwrap());
        let locked = create("locked");
        let scanner = File::open(dir.path().join("locked")).unwrap();
        scanner.lock().unwrap();
        assert!(!lock_new(&locked).unwrap());
        let removed = create("removed");
        fs::remove_file(dir.path().join("removed")).unwrap();
        assert!(!lock_new(&removed).unwrap());
    }

    #[test]
    fn other_request_box_context_or_old_turn_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        for (words, at) in [
            ("something else", 60),
            (WORDS, RESUME_WINDOW_S + 1),
            (WORDS, -1),
        ] {
            drop(turn_with_started_note(dir.path()));
            let left = left(dir.path(), words, at);
            assert!(left.resumable.is_none(), "{words} {at}");
            assert_eq!(left.closed.len(), 1, "{words} {at}");
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        }
        for other in [
            TurnKey {
                socket: "/run/b.sock",
                ..wanted(WORDS, 60)
            },
            TurnKey {
                context: "another picture",
                ..wanted(WORDS, 60)
            },
        ] {
            drop(turn_with_started_note(dir.path()));
            let left = TurnLog::find_unfinished(dir.path(), &other, &brief()).unwrap();
            assert!(left.resumable.is_none(), "{other:?}");
            assert_eq!(left.closed.len(), 1, "{other:?}");
        }
    }

    #[test]
    fn api_conversation_leaves_turns_of_others() {
        let dir = tempfile::tempdir().unwrap();
        let mut head = head(WORDS);
        head.entrypoint = Entrypoint::Local;
        head.context = "what was said".to_owned();
        let TurnRecord::Started {
            format,
            conversation,
            ..
        } = begun(WORDS)
        else {
            unreachable!("a turn begins so");
        };
        drop(
            TurnLog::create(
                dir.path(),
                TurnRecord::Started {
                    format,
                    head,
                    conversation,
                },
            )
            .unwrap(),
        );
        let api = SetupSpec::new(
            built_in::blueprint(Job::SetUp).unwrap(),
            ToolPermissions::unrestricted(Entrypoint::Local),
        );
        // Another conversation with the same text, and a user at the box.
        for brief in [&api, &brief()] {
            let left = TurnLog::find_unfinished(dir.path(), &wanted(WORDS, 60), brief).unwrap();
            assert!(left.resumable.is_none() && left.closed.is_empty());
        }
        let own = TurnKey {
            context: "what was said",
            ..wanted(WORDS, 60)
        };
        assert!(
            TurnLog::find_unfinished(dir.path(), &own, &api)
                .unwrap()
                .resumable
                .is_some()
        );
        let late = wanted("something else", RESUME_WINDOW_S + 1);
        let left = TurnLog::find_unfinished(dir.path(), &late, &api).unwrap();
        assert_eq!(left.closed.len(), 1);
    }

    #[test]
    fn torn_file_resumes_from_its_last_whole_record() {
        let dir = tempfile::tempdir().unwrap();
        let path = turn_with_started_note(dir.path()).path;
        let whole = fs::read(&path).unwrap();
        let first = whole.iter().position(|b| *b == b'\n').unwrap() + 1;
        for length in (first..=whole.len()).step_by(7) {
            fs::write(&path, &whole[..length]).unwrap();
            let mut log = left(dir.path(), WORDS, 60).resumable.unwrap();
            match log.turn.next() {
                TurnStep::Run(call) => {
                    log.append(begins(&call.id)).unwrap();
                    log.append(came(&call.id, Vec::new())).unwrap();
                }
                TurnStep::Ask { .. } => log.append(says("done", &[])).unwrap(),
                TurnStep::End(end) => panic!("{end:?}"),
            }
            drop(log);
            assert!(left(dir.path(), WORDS, 60).resumable.is_some(), "{length}");
        }
        for length in (0..first).step_by(997) {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(left(dir.path(), WORDS, 60).resumable.is_none(), "{length}");
        }
    }

    #[test]
    fn turn_log_is_private_and_starts_with_a_start() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("turns");
        let log = TurnLog::create(&folder, begun(WORDS)).unwrap();
        let mode = fs::metadata(&log.path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        assert!(matches!(
            TurnLog::create(&folder, says("x", &[])),
            Err(TurnLogError::OutOfPlace(_))
        ));
    }
}
