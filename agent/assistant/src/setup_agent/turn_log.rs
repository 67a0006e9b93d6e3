//! The file that a turn is written to before it goes on.
//!
//! One file a turn, one JSON object a line, in a folder of the person's own. It is locked as long as a process works on it, and removed when what the
//! turn came to was handed over. A file that is there and not locked is of a process that died.
//!
//! Invariants: a record is on stable storage before what it says is done; a line that is torn is as if it had not been written, and what
//! stands after it was never there; a file has at most [`MAX_BYTES`].

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::job_spec::SetupSpec;
use super::turn::{PATIENCE_OF_QUESTIONS_S, PATIENCE_S, Turn, TurnHead, TurnRecord};
use crate::blueprint::Job;
use watchkeeper_store::private_folder::make_private;

/// Largest file. A turn with the most pictures of the largest kind takes some 15 MB.
pub const MAX_BYTES: u64 = 64 << 20;
/// Most turns that broke off and are looked at; the others are removed unread.
const MAX_LEFT: usize = 16;
const ENDING: &str = "jsonl";

/// Why a turn can't be written down, and so not begun or gone on with.
#[derive(Debug, thiserror::Error)]
pub enum TurnLogError {
    /// The disk refuses.
    #[error("what the model does can't be written down in {}: {source}; let this user write there", path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is too long.
    #[error("the request has grown over {MAX_BYTES} bytes; ask for less at once")]
    TooLong,
    /// A fault of this program.
    #[error("what the model said does not fit what was before ({0}); ask again")]
    OutOfPlace(#[from] super::turn::TurnError),
}

/// A turn with its file.
#[derive(Debug)]
pub struct TurnLog {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// The turn, as far as it is on the disk.
    pub turn: Turn,
}

/// What a request is recognised by.
#[derive(Debug, Clone, Copy)]
pub struct TurnKey<'a> {
    /// The person's words.
    pub request: &'a str,
    /// [`TurnHead::context`].
    pub context: &'a str,
    /// Socket of the runtime that it is about.
    pub socket: &'a str,
    /// Now.
    pub now: Timestamp,
}

/// What is left of requests whose process died.
#[derive(Debug, Default)]
pub struct UnfinishedTurns {
    /// The one that is gone on with.
    pub same: Option<TurnLog>,
    /// Those that are closed.
    pub closed: Vec<TurnHead>,
}

impl TurnLog {
    /// Begins a turn in `folder`.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn begin(folder: &Path, first: TurnRecord) -> Result<Self, TurnLogError> {
        let turn = Turn::begin(first.clone())?;
        let path = folder.join(format!("{}.{ENDING}", turn.head().id));
        let io = |source| TurnLogError::Io {
            path: path.clone(),
            source,
        };
        make_private(folder).map_err(io)?;
        let mut options = OpenOptions::new();
        let options = options.create_new(true).read(true).append(true).mode(0o600);
        let file = options.open(&path).map_err(io)?;
        file.try_lock().map_err(|e| io(e.into()))?;
        let mut ahead = Self {
            path: path.clone(),
            file,
            bytes: 0,
            turn,
        };
        ahead.write(&first)?;
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(io)?;
        Ok(ahead)
    }

    /// Writes what happened, and takes it.
    ///
    /// # Errors
    /// When the disk refuses; then it is not taken.
    pub fn note(&mut self, record: TurnRecord) -> Result<(), TurnLogError> {
        self.write(&record)?;
        Ok(self.turn.take(record)?)
    }

    fn write(&mut self, record: &TurnRecord) -> Result<(), TurnLogError> {
        let io = |source| TurnLogError::Io {
            path: self.path.clone(),
            source,
        };
        let mut line = serde_json::to_vec(record).map_err(|e| io(e.into()))?;
        line.push(b'\n');
        self.bytes = self.bytes.saturating_add(line.len() as u64);
        if self.bytes > MAX_BYTES {
            return Err(TurnLogError::TooLong);
        }
        self.file.write_all(&line).map_err(io)?;
        self.file.sync_data().map_err(io)
    }

    /// What the turn came to was handed over: its file goes. That it can't be removed costs a later look at it.
    pub fn forget(self) {
        fs::remove_file(&self.path).ok();
    }

    /// Looks at what is left in `folder`: a turn of the same request, not older than [`PATIENCE_S`] ([`PATIENCE_OF_QUESTIONS_S`]), is gone on with, where this
    /// version says the same to a model. What is too old is closed, and so is what the same person had begun on the box; what came over the API may
    /// be of another conversation, and is left for that one.
    ///
    /// # Errors
    /// When the disk refuses to have what must be noted written.
    pub fn left(
        folder: &Path,
        wanted: &TurnKey<'_>,
        brief: &SetupSpec,
    ) -> Result<UnfinishedTurns, TurnLogError> {
        let mut left = UnfinishedTurns::default();
        let Ok(entries) = fs::read_dir(folder) else {
            return Ok(left);
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|e| e == ENDING));
        // Ids begin with the time: the newest first.
        paths.sort();
        paths.reverse();
        for (nth, path) in paths.into_iter().enumerate() {
            let Ok(file) = OpenOptions::new().read(true).append(true).open(&path) else {
                continue;
            };
            // Somebody works on it.
            if file.try_lock().is_err() {
                continue;
            }
            let found = if nth < MAX_LEFT {
                Self::read(path.clone(), file)
            } else {
                None
            };
            let Some(mut ahead) = found else {
                fs::remove_file(&path).ok();
                continue;
            };
            let head = ahead.turn.head().clone();
            let age = wanted.now.duration_since(head.at).as_secs();
            let patience = match brief.blueprint.job {
                Job::Question => PATIENCE_OF_QUESTIONS_S,
                Job::SetUp | Job::Triage | Job::Archive => PATIENCE_S,
            };
            let fits = left.same.is_none()
                && head.request == wanted.request
                && head.context == wanted.context
                && head.socket == wanted.socket
                && (0..=patience).contains(&age)
                && head.blueprint == brief.blueprint.name.as_str()
                && ahead.says_the_same(brief);
            let is_anothers = head.channel.is_api() || brief.gate.channel.is_api();
            if fits {
                for record in ahead.turn.resumed(&brief.tools) {
                    ahead.note(record)?;
                }
                left.same = Some(ahead);
            } else if is_anothers && (0..=PATIENCE_S).contains(&age) {
                // Its lock goes with it.
                drop(ahead);
            } else {
                ahead.forget();
                left.closed.push(head);
            }
        }
        Ok(left)
    }

    /// Whether this version would begin with the same instructions and tools.
    fn says_the_same(&self, brief: &SetupSpec) -> bool {
        let talk = self.turn.talk();
        let same_tools = brief.tools.told().is_ok_and(|told| told == talk.tools());
        talk.system() == brief.system && same_tools
    }

    /// The turn in a file, as far as its records make sense. What stands behind is cut off.
    fn read(path: PathBuf, mut file: File) -> Option<Self> {
        let mut turn: Option<Turn> = None;
        let mut bytes = 0;
        let mut lines = BufReader::new(io::Read::take(&file, MAX_BYTES));
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).ok()? > 0 {
            if line.last() != Some(&b'\n') {
                break;
            }
            let Ok(record) = serde_json::from_slice::<TurnRecord>(&line) else {
                break;
            };
            match &mut turn {
                None => turn = Some(Turn::begin(record).ok()?),
                Some(turn) => {
                    if turn.take(record).is_err() {
                        break;
                    }
                }
            }
            bytes += line.len() as u64;
            line.clear();
        }
        drop(lines);
        file.set_len(bytes).ok()?;
        file.seek(SeekFrom::End(0)).ok()?;
        Some(Self {
            path,
            file,
            bytes,
            turn: turn?,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::super::prompt::FIRST_CALL;
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
        TurnLog::left(folder, &wanted(request, at_s), &brief()).unwrap()
    }

    /// A turn in which a note is about to be written.
    fn noting(folder: &Path) -> TurnLog {
        let mut ahead = TurnLog::begin(folder, begun(WORDS)).unwrap();
        for record in [
            begins(FIRST_CALL),
            came(FIRST_CALL, Vec::new()),
            says("", &[("a", "memory_note", nothing())]),
            begins("a"),
        ] {
            ahead.note(record).unwrap();
        }
        ahead
    }

    #[test]
    fn the_same_words_go_on_where_the_process_died_and_a_note_is_not_written_twice() {
        let dir = tempfile::tempdir().unwrap();
        drop(noting(dir.path()));
        let ahead = left(dir.path(), WORDS, 60).same.unwrap();
        assert_eq!(ahead.turn.next(), TurnStep::Ask { last: false });
        assert_eq!(ahead.turn.failed().get("memory_note"), Some(&1));
        ahead.forget();
        assert!(left(dir.path(), WORDS, 60).same.is_none());
    }

    #[test]
    fn what_somebody_works_on_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let _works = noting(dir.path());
        let left = left(dir.path(), WORDS, 60);
        assert!(left.same.is_none() && left.closed.is_empty());
    }

    #[test]
    fn other_words_another_box_and_old_pictures_are_closed_and_told() {
        let dir = tempfile::tempdir().unwrap();
        for (words, at) in [("something else", 60), (WORDS, PATIENCE_S + 1), (WORDS, -1)] {
            drop(noting(dir.path()));
            let left = left(dir.path(), words, at);
            assert!(left.same.is_none(), "{words} {at}");
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
            drop(noting(dir.path()));
            let left = TurnLog::left(dir.path(), &other, &brief()).unwrap();
            assert!(left.same.is_none(), "{other:?}");
            assert_eq!(left.closed.len(), 1, "{other:?}");
        }
    }

    #[test]
    fn over_the_api_one_conversation_does_not_close_what_another_may_go_on_with() {
        let dir = tempfile::tempdir().unwrap();
        let mut head = head(WORDS);
        head.channel = Entrypoint::Local;
        head.context = "what was said".to_owned();
        let TurnRecord::Begun { format, talk, .. } = begun(WORDS) else {
            unreachable!("a turn begins so");
        };
        drop(TurnLog::begin(dir.path(), TurnRecord::Begun { format, head, talk }).unwrap());
        let api = SetupSpec::new(
            built_in::of(Job::SetUp).unwrap(),
            ToolPermissions::open(Entrypoint::Local),
        );
        // Somebody else with the same words, and somebody at the box.
        for brief in [&api, &brief()] {
            let left = TurnLog::left(dir.path(), &wanted(WORDS, 60), brief).unwrap();
            assert!(left.same.is_none() && left.closed.is_empty());
        }
        let own = TurnKey {
            context: "what was said",
            ..wanted(WORDS, 60)
        };
        assert!(
            TurnLog::left(dir.path(), &own, &api)
                .unwrap()
                .same
                .is_some()
        );
        let late = wanted("something else", PATIENCE_S + 1);
        let left = TurnLog::left(dir.path(), &late, &api).unwrap();
        assert_eq!(left.closed.len(), 1);
    }

    #[test]
    fn wherever_the_file_is_torn_what_stands_before_it_holds_and_it_can_go_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = noting(dir.path()).path;
        let whole = fs::read(&path).unwrap();
        let first = whole.iter().position(|b| *b == b'\n').unwrap() + 1;
        for length in (first..=whole.len()).step_by(7) {
            fs::write(&path, &whole[..length]).unwrap();
            let mut ahead = left(dir.path(), WORDS, 60).same.unwrap();
            // It goes on: a call is answered, or the model is asked.
            match ahead.turn.next() {
                TurnStep::Run(call) => {
                    ahead.note(begins(&call.id)).unwrap();
                    ahead.note(came(&call.id, Vec::new())).unwrap();
                }
                TurnStep::Ask { .. } => ahead.note(says("done", &[])).unwrap(),
                TurnStep::End(end) => panic!("{end:?}"),
            }
            drop(ahead);
            assert!(left(dir.path(), WORDS, 60).same.is_some(), "{length}");
        }
        for length in (0..first).step_by(997) {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(left(dir.path(), WORDS, 60).same.is_none(), "{length}");
        }
    }

    #[test]
    fn nobody_else_reads_what_was_asked() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("turns");
        let ahead = TurnLog::begin(&folder, begun(WORDS)).unwrap();
        let mode = fs::metadata(&ahead.path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        assert!(matches!(
            TurnLog::begin(&folder, says("x", &[])),
            Err(TurnLogError::OutOfPlace(_))
        ));
    }
}
