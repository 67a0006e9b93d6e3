//! A mark on disk that events wait in memory: what a power cut would lose is known afterwards.
//!
//! `<state>/journal.waiting` is allocated while the disk has room and overwritten in place, which a
//! full disk allows. It holds one line of JSON, filled up with spaces; spaces alone mean that
//! nothing waits.
//!
//! - The mark is durable before the first retry of a refused write. It is renewed every
//!   [`RENEW_INTERVAL`] while events wait, and once more before the process ends.
//! - It is cleared once all events are stored, those about the loss of an earlier run included.
//! - A write or clearing that failed is tried again at the next occasion. A file that can't be
//!   written, as on a read-only disk, leaves no mark.
//! - A file that can't be read is a possible loss. Only a missing one says that nothing waited.
//!
//! Not here: when events wait (the recorder decides).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use watchkeeper_contract::time::Wall;
use watchkeeper_store::durable::sync_folder;

use crate::clock;
use crate::journal::Loss;

const NAME: &str = "journal.waiting";

/// Bytes of the file: one sector, so that a cut leaves the old line or the new one.
const BYTES: usize = 512;

/// Longest reason in the file, in characters.
const MAX_REASON_CHARS: usize = 160;

/// Pause between two renewals of a mark, and the uncertainty of its end.
const RENEW_INTERVAL: Duration = Duration::from_secs(10);

/// The mark, and the file that keeps it.
#[derive(Debug, Default)]
pub struct UnstoredMark {
    path: PathBuf,
    /// Absent while the disk refuses to open it for writing.
    file: Option<File>,
    /// Since when events wait, over runs that ended meanwhile.
    since: Option<Wall>,
    /// Events of earlier runs that the journal does not report yet.
    earlier: u64,
    /// Whether the file may hold a mark.
    is_set: bool,
    /// When the present mark was last written.
    renewed: Option<Instant>,
    has_failed: bool,
}

/// The content of the file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Line {
    since: Wall,
    last: Wall,
    events: u64,
    why: String,
}

/// Content of the file at the start.
#[derive(Debug, PartialEq, Eq)]
enum FileContent {
    Nothing,
    Line(Line),
    Damaged,
}

/// When a mark is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// Unless one was written within [`RENEW_INTERVAL`].
    Bounded,
    /// Now, because the process is about to end.
    AtOnce,
}

impl UnstoredMark {
    /// Opens the file in the state folder `state`, and creates it if the disk has room. Returns the
    /// loss of the last run, if its events still waited when it ended.
    #[must_use]
    pub fn open(state: &Path) -> (Self, Option<Loss>) {
        let path = state.join(NAME);
        let mut mark = Self {
            path,
            ..Self::default()
        };
        mark.open_for_writing();
        let content = match &mark.file {
            Some(file) => read_all(file),
            None => std::fs::read(&mark.path),
        };
        let loss = match content.map(|bytes| parse(&bytes)) {
            Ok(FileContent::Nothing) => None,
            Ok(FileContent::Line(line)) => {
                (mark.since, mark.earlier) = (Some(line.since), line.events);
                Some(line.loss())
            }
            Ok(FileContent::Damaged) => Some(mark.unknown_loss("it is damaged")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(mark.unknown_loss(&format!(
                "{error}; make it a file that this user may read and write, or delete it"
            ))),
        };
        mark.is_set = loss.is_some();
        (mark, loss)
    }

    fn unknown_loss(&self, why: &str) -> Loss {
        let message = format!(
            "events may be lost: whether any waited in memory when the runtime ended is not \
             known, because {} can't be read: {why}",
            self.path.display()
        );
        Loss::new("recorder", 0, message)
    }

    /// The journal reports the events of earlier runs as lost.
    pub(super) fn settle_earlier(&mut self) {
        self.earlier = 0;
    }

    /// Marks that `events` events of this run wait at `now`, because of `why`.
    pub(super) fn hold(&mut self, now: Wall, events: u64, why: &str, pace: Pace) {
        let is_recent = |renewed: Instant| renewed.elapsed() < RENEW_INTERVAL;
        if pace == Pace::Bounded && self.renewed.is_some_and(is_recent) {
            return;
        }
        let mut line = Line {
            since: *self.since.get_or_insert(now),
            last: now,
            events: events.saturating_add(self.earlier),
            why: why.chars().take(MAX_REASON_CHARS).collect(),
        };
        let mut text = serde_json::to_vec(&line).unwrap_or_default();
        if text.len() > BYTES {
            // Of wide characters. The times matter more.
            line.why.clear();
            text = serde_json::to_vec(&line).unwrap_or_default();
        }
        self.is_set = true;
        if self.write(text) {
            self.renewed = Some(Instant::now());
        }
    }

    /// Clears the mark: nothing waits any more.
    pub fn clear(&mut self) {
        (self.renewed, self.since, self.earlier) = (None, None, 0);
        if self.is_set && self.write(Vec::new()) {
            self.is_set = false;
        }
    }

    /// Writes `text` over the file, and returns whether that succeeded.
    fn write(&mut self, mut text: Vec<u8>) -> bool {
        text.resize(BYTES, b' ');
        self.open_for_writing();
        let Some(file) = &self.file else { return false };
        match file.write_all_at(&text, 0) {
            Ok(()) => self.has_failed = false,
            Err(error) => self.log_once(&error),
        }
        !self.has_failed
    }

    fn open_for_writing(&mut self) {
        // The default is the mark of tests without a state folder.
        if self.file.is_some() || self.path.as_os_str().is_empty() {
            return;
        }
        match open_file(&self.path) {
            Ok(file) => self.file = Some(file),
            Err(error) => self.log_once(&error),
        }
    }

    fn log_once(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.has_failed, true) {
            tracing::warn!(path = %self.path.display(), %error, "can't mark that events wait for the disk; a power cut would lose them without a record");
        }
    }
}

impl Line {
    fn loss(&self) -> Loss {
        let uncertain = i64::try_from(RENEW_INTERVAL.as_millis()).unwrap_or(0);
        let message = format!(
            "events from {} to {} may be lost: {} waited in memory when they were last counted, {} s before the end at most, and the runtime ended before the disk took them ({})",
            clock::utc(self.since.unix_ms),
            clock::utc(self.last.unix_ms.saturating_add(uncertain)),
            self.events,
            RENEW_INTERVAL.as_secs(),
            self.why
        );
        Loss::new("recorder", self.events, message)
    }
}

/// Opens the file for synced writes, and gives a new one its blocks. What a short one holds stays.
fn open_file(path: &Path) -> io::Result<File> {
    // `O_DSYNC`: a write is on stable storage when it returns.
    let flags = rustix::fs::OFlags::DSYNC.bits().cast_signed();
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .custom_flags(flags)
        .open(path)?;
    let len = file.metadata()?.len();
    if len < BYTES as u64 {
        let missing = BYTES - usize::try_from(len).unwrap_or(BYTES);
        file.write_all_at(&vec![b' '; missing], len)?;
        path.parent().map_or(Ok(()), sync_folder)?;
    }
    Ok(file)
}

fn read_all(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; BYTES];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

fn parse(bytes: &[u8]) -> FileContent {
    let text = bytes.trim_ascii();
    if text.is_empty() || text.iter().all(|byte| *byte == 0) {
        return FileContent::Nothing;
    }
    serde_json::from_slice(text).map_or(FileContent::Damaged, FileContent::Line)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use proptest::prelude::*;
    use watchkeeper_contract::time::TimeQuality;

    use super::*;

    fn at(unix_ms: i64) -> Wall {
        Wall {
            unix_ms,
            quality: TimeQuality::Synced,
        }
    }

    #[test]
    fn mark_becomes_a_loss_until_it_is_cleared() {
        let state = tempfile::tempdir().unwrap();
        let (mut mark, loss) = UnstoredMark::open(state.path());
        assert_eq!(loss, None);
        mark.hold(at(1_000_000), 3, "the disk is full", Pace::Bounded);
        drop(mark);
        let (mut again, loss) = UnstoredMark::open(state.path());
        let loss = loss.unwrap();
        assert_eq!(loss.count, 3);
        for part in [
            "from 1970-01-01T00:16:40Z to 1970-01-01T00:16:50Z",
            "the disk is full",
        ] {
            assert!(loss.message.contains(part), "{}", loss.message);
        }
        // The next run is killed too, before it has reported that.
        again.hold(at(9_000_000), 1, "the disk is full", Pace::Bounded);
        drop(again);
        let (mut last, loss) = UnstoredMark::open(state.path());
        let loss = loss.unwrap();
        assert_eq!(loss.count, 4);
        assert!(loss.message.contains("1970-01-01T00:16:40Z"));
        last.clear();
        assert_eq!(UnstoredMark::open(state.path()).1, None);
    }

    #[test]
    fn mark_never_grows_and_is_written_at_a_bounded_pace() {
        let state = tempfile::tempdir().unwrap();
        let (mut mark, _) = UnstoredMark::open(state.path());
        let path = state.path().join(NAME);
        mark.hold(at(1), 1, &"long ".repeat(1000), Pace::Bounded);
        let first = std::fs::read(&path).unwrap();
        assert_eq!(first.len(), BYTES);
        assert!(UnstoredMark::open(state.path()).1.is_some());
        mark.hold(at(2), 2, "again", Pace::Bounded);
        assert_eq!(std::fs::read(&path).unwrap(), first);
    }

    #[test]
    fn failed_mark_is_written_at_the_next_refusal() {
        let above = tempfile::tempdir().unwrap();
        let state = above.path().join("later");
        let (mut mark, _) = UnstoredMark::open(&state);
        mark.hold(at(1), 1, "full", Pace::Bounded);
        std::fs::create_dir(&state).unwrap();
        mark.hold(at(2), 2, "full", Pace::Bounded);
        assert_eq!(UnstoredMark::open(&state).1.unwrap().count, 2);
    }

    #[test]
    fn mark_before_the_end_does_not_wait_for_the_pace() {
        let state = tempfile::tempdir().unwrap();
        let (mut mark, _) = UnstoredMark::open(state.path());
        mark.hold(at(1), 1, "full", Pace::Bounded);
        mark.hold(at(2), 7, "full", Pace::AtOnce);
        assert_eq!(UnstoredMark::open(state.path()).1.unwrap().count, 7);
    }

    #[test]
    fn unreadable_mark_is_a_loss_and_its_clearing_is_retried() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join(NAME);
        // It can neither be read nor written.
        std::fs::create_dir(&path).unwrap();
        let (mut mark, loss) = UnstoredMark::open(state.path());
        let message = loss.unwrap().message;
        assert!(
            message.contains(NAME) && message.contains("delete it"),
            "{message}"
        );
        mark.clear();
        std::fs::remove_dir(&path).unwrap();
        std::fs::write(&path, [b'{'; BYTES]).unwrap();
        mark.clear();
        assert_eq!(UnstoredMark::open(state.path()).1, None);
    }

    proptest! {
        #[test]
        fn any_content_gives_a_loss_or_none(
            since: i64, last: i64, events: u64, why: String, other: Vec<u8>,
        ) {
            let line = Line { since: at(since), last: at(last), events, why };
            let text = serde_json::to_vec(&line).unwrap();
            let FileContent::Line(found) = parse(&text) else { panic!("{line:?}") };
            prop_assert_eq!(found.loss().count, events);
            prop_assert_eq!(&found, &line);
            let latest = Line { last: at(i64::MAX), ..found };
            prop_assert_eq!(latest.loss().count, events);
            if let FileContent::Line(line) = parse(&other) {
                line.loss();
            }
        }
    }

    #[test]
    fn damaged_mark_is_a_loss_of_unknown_time() {
        let state = tempfile::tempdir().unwrap();
        for bytes in [BYTES, 200, 1] {
            std::fs::write(state.path().join(NAME), vec![b'{'; bytes]).unwrap();
            // A run that is killed before it has reported the loss leaves the mark.
            UnstoredMark::open(state.path()).1.unwrap();
            let (mut mark, loss) = UnstoredMark::open(state.path());
            assert!(loss.unwrap().message.contains("not known"), "{bytes}");
            mark.clear();
            assert_eq!(UnstoredMark::open(state.path()).1, None);
        }
    }
}
