//! Annotated videos on disk: `<state>/recordings/<pipeline>.N.mp4`, within limits.
//!
//! - All parts together, including those being written, stay within the limit, plus what is written
//!   between two checks.
//! - A part is begun only while the disk has space to spare, so recordings never fill it.
//! - A new part has a greater number than every part on disk, of all pipelines. The number is the
//!   age, so a clock that jumps changes no order.
//! - Only the age limit uses the clock, and never an implausible one.
//! - A part that is being written is never deleted. It ends after a quarter of the age limit, so
//!   that no picture is kept for more than five quarters of it.
//!
//! Locks, in order: `beginning`, then `open` or `last`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use rustix::fs::{Access, access};
use watchkeeper_board::storage::space;
use watchkeeper_contract::id::PipelineId;

use crate::clock;
use crate::media::video::is_extension;

/// Frames between two checks of the part's size and the disk; a few seconds of video.
const CHECK_EVERY: u32 = 64;

/// Pause before the next part after a failure. It doubles with each failure without a complete part
/// between, because the thread of a pipeline waits for an encoder that hangs.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// Longest pause before the next part.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);

/// Parts being written share `1 / SHARE` of the size limit, so that deleting the oldest keeps most.
/// Each lasts at most that share of the age limit.
const SHARE: u32 = 4;

/// Limits of the annotated videos.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of all parts.
    pub max_bytes: u64,
    /// Maximum age of a part.
    pub max_age: Duration,
    /// Free bytes to leave on the disk.
    pub min_free_bytes: u64,
}

/// The folder of annotated videos.
#[derive(Debug)]
pub struct Recordings {
    folder: PathBuf,
    limits: Limits,
    /// Parts that are being written or about to be.
    open: Mutex<Vec<PathBuf>>,
    /// Serialises the beginning of parts, so that each sees the ones before.
    beginning: Mutex<()>,
    /// Highest number given to a part, even if that part is deleted.
    last: Mutex<u64>,
}

/// A part on disk, ordered by its number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    number: u64,
    path: PathBuf,
    bytes: u64,
    written: SystemTime,
}

impl Recordings {
    /// Recordings below the state folder `state`.
    pub fn new(state: &Path, limits: Limits) -> Self {
        Self {
            folder: state.join("recordings"),
            limits,
            open: Mutex::default(),
            beginning: Mutex::default(),
            last: Mutex::default(),
        }
    }

    /// The folder of the parts.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Bytes of all complete parts; 0 where this process may not delete any.
    pub fn deletable_bytes(&self) -> u64 {
        if access(&self.folder, Access::WRITE_OK | Access::EXEC_OK).is_err() {
            return 0;
        }
        let parts = self.parts().unwrap_or_default();
        parts.iter().map(|part| part.bytes).sum()
    }

    /// Maximum bytes of one part while `open` parts are written.
    fn part_bytes(&self, open: usize) -> u64 {
        self.limits.max_bytes / u64::from(SHARE) / (open as u64).max(1)
    }

    /// Bytes of complete parts to keep when one more part begins. Each part being written counts
    /// with its size or with its maximum, the larger of both.
    fn bytes_to_keep(&self) -> u64 {
        let open = self.open.lock().clone();
        let each = self.part_bytes(open.len() + 1);
        let grown = open.iter().map(|path| size_of(path).max(each));
        let reserved = grown.fold(each, u64::saturating_add);
        self.limits.max_bytes.saturating_sub(reserved)
    }

    /// Deletes the oldest complete parts until `bytes` are freed, and returns the freed bytes.
    pub fn free(&self, bytes: u64) -> u64 {
        let mut freed = 0;
        for part in self.parts().unwrap_or_default() {
            if freed >= bytes {
                break;
            }
            freed += part.delete();
        }
        freed
    }

    /// The recording of one pipeline.
    #[must_use]
    pub fn of(self: &Arc<Self>, pipeline: &PipelineId) -> Recording {
        Recording {
            all: Arc::clone(self),
            stem: pipeline.to_string(),
            current: None,
            begun: Instant::now(),
            error: None,
            frames: 0,
            retry_after: RETRY_AFTER,
            retry_at: None,
        }
    }

    /// Deletes complete parts over the age limit, also while no pipeline records; called regularly.
    pub fn delete_expired(&self) {
        let age_only = Limits {
            max_bytes: u64::MAX,
            ..self.limits
        };
        match self.parts() {
            Ok(parts) => delete_over(&parts, age_only),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(%error, "can't look for old recordings"),
        }
    }

    /// Deletes parts over the limits, oldest first. Returns true when a part may begin.
    fn delete_over_limits(&self) -> io::Result<bool> {
        fs::create_dir_all(&self.folder)?;
        let keep = Limits {
            max_bytes: self.bytes_to_keep(),
            ..self.limits
        };
        delete_over(&self.parts()?, keep);
        let disk = space(&self.folder).map_err(|e| e.source)?;
        Ok(disk.free > self.limits.min_free_bytes)
    }

    /// Complete parts, oldest first. Foreign files count as the oldest.
    fn parts(&self) -> io::Result<Vec<Part>> {
        let open = self.open.lock().clone();
        let mut parts = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let metadata = match entry.metadata() {
                // Deleted since the folder was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                metadata => metadata?,
            };
            if metadata.is_file() && !open.contains(&entry.path()) {
                parts.push(Part {
                    number: number(&entry.path()).unwrap_or(0),
                    path: entry.path(),
                    bytes: metadata.len(),
                    written: metadata.modified()?,
                });
            }
        }
        parts.sort_unstable();
        Ok(parts)
    }

    /// A number higher than that of every part so far.
    fn next_number(&self) -> io::Result<u64> {
        let mut last = self.last.lock();
        for entry in fs::read_dir(&self.folder)? {
            *last = (*last).max(number(&entry?.path()).unwrap_or(0));
        }
        *last += 1;
        Ok(*last)
    }

    fn close(&self, path: &Path) {
        self.open.lock().retain(|open| open != path);
    }
}

impl Part {
    /// Deletes the file, and returns the freed bytes. If that fails, it is logged and stays.
    fn delete(&self) -> u64 {
        match fs::remove_file(&self.path) {
            Ok(()) => self.bytes,
            // Another pipeline deletes parts at the same time.
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => {
                tracing::warn!(part = %self.path.display(), %error, "can't delete an old recording");
                0
            }
        }
    }
}

/// Deletes those of `parts` that are over `limits` now.
fn delete_over(parts: &[Part], limits: Limits) {
    let now_ms = u64::try_from(clock::wall().unix_ms).unwrap_or(0);
    let now = SystemTime::UNIX_EPOCH + Duration::from_millis(now_ms);
    for part in over_limits(parts, limits, plausible(now)) {
        tracing::info!(part = %part.path.display(), bytes = part.bytes, "deleting an old recording");
        part.delete();
    }
}

/// Current size of a part.
fn size_of(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |m| m.len())
}

/// The number in the name of a part.
fn number(path: &Path) -> Option<u64> {
    let (stem, extension) = path.file_name()?.to_str()?.rsplit_once('.')?;
    let (_, number) = stem.rsplit_once('.')?;
    is_extension(extension).then(|| number.parse().ok())?
}

/// A time, unless it is implausible.
fn plausible(at: SystemTime) -> Option<SystemTime> {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let seconds = i64::try_from(since.as_secs()).ok()?;
    watchkeeper_board::clock::is_plausible(seconds).then_some(at)
}

/// The parts to delete, of parts in order of their numbers. They are those over the age limit, then
/// the oldest until the rest is within the size limit. An implausible clock, now or when the part
/// was written, makes no part too old; such a part counts as old as the next one.
fn over_limits(parts: &[Part], limits: Limits, now: Option<SystemTime>) -> Vec<&Part> {
    let mut next = now;
    let mut old: Vec<bool> = Vec::with_capacity(parts.len());
    for part in parts.iter().rev() {
        next = plausible(part.written).or(next);
        let age = now.zip(next).map(|(now, at)| now.duration_since(at));
        old.push(age.is_some_and(|age| age.is_ok_and(|age| age > limits.max_age)));
    }
    let mut is_old = old.into_iter().rev();
    let (mut gone, kept): (Vec<&Part>, Vec<&Part>) =
        parts.iter().partition(|_| is_old.next().unwrap_or(false));
    let mut bytes: u64 = kept.iter().map(|part| part.bytes).sum();
    for part in kept {
        if bytes <= limits.max_bytes {
            break;
        }
        bytes -= part.bytes;
        gone.push(part);
    }
    gone
}

/// The annotated video of one pipeline, part by part.
#[derive(Debug)]
pub struct Recording {
    all: Arc<Recordings>,
    stem: String,
    current: Option<PathBuf>,
    /// When the current part began.
    begun: Instant,
    error: Option<String>,
    frames: u32,
    /// Pause after the next failure.
    retry_after: Duration,
    retry_at: Option<Instant>,
}

impl Recording {
    /// The path of the next part, which counts as being written. `None` while the disk has no space
    /// to spare or refuses, which is logged and retried later.
    pub fn next_part(&mut self) -> Option<PathBuf> {
        self.end_part();
        if self.retry_at.is_some_and(|at| Instant::now() < at) {
            return None;
        }
        self.retry_at = None;
        let all = Arc::clone(&self.all);
        let beginning = all.beginning.lock();
        let why = match all.delete_over_limits() {
            Ok(true) => match all.next_number() {
                Ok(number) => {
                    let path = all.folder.join(format!("{}.{number}.mp4", self.stem));
                    self.mark_open(&path);
                    return Some(path);
                }
                Err(error) => error.to_string(),
            },
            Ok(false) => "the disk is nearly full".to_owned(),
            Err(error) => error.to_string(),
        };
        drop(beginning);
        self.pause_after_error(why);
        None
    }

    /// Ends a part that could not be begun, written or completed; the next one is tried after a
    /// pause. An empty file is removed.
    pub fn pause_after_error(&mut self, why: String) {
        tracing::warn!(pipeline = %self.stem, why, "recording paused");
        if let Some(path) = &self.current
            && fs::metadata(path).is_ok_and(|m| m.len() == 0)
            && let Err(error) = fs::remove_file(path)
        {
            tracing::warn!(part = %path.display(), %error, "can't delete an empty recording");
        }
        self.end_part();
        self.error = Some(why);
        self.retry_at = Some(Instant::now() + self.retry_after);
        self.retry_after = (self.retry_after * 2).min(MAX_RETRY_AFTER);
    }

    /// Clears the error, because nothing more is recorded.
    pub fn clear_error(&mut self) {
        self.error = None;
    }

    /// Why nothing is recorded, if so.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Sets the path of the part that is being written, which may differ from the one given.
    pub fn set_path(&mut self, path: &Path) {
        self.mark_open(path);
        self.error = None;
    }

    /// Adds the part at `path` to those being written.
    fn mark_open(&mut self, path: &Path) {
        let before = self.current.replace(path.to_owned());
        let mut open = self.all.open.lock();
        open.retain(|open| Some(open) != before.as_ref());
        open.push(path.to_owned());
        self.begun = Instant::now();
        self.frames = 0;
    }

    /// Whether the part has lasted its share of the age limit, with or without frames.
    pub fn is_old(&self) -> bool {
        self.current.is_some() && self.begun.elapsed() >= self.all.limits.max_age / SHARE
    }

    /// Whether the part is large enough or the disk is full; called before each frame.
    pub fn is_full(&mut self) -> bool {
        let Some(path) = &self.current else {
            return false;
        };
        self.frames += 1;
        if !self.frames.is_multiple_of(CHECK_EVERY) {
            return false;
        }
        let share = self.all.part_bytes(self.all.open.lock().len());
        let free = space(&self.all.folder).map_or(u64::MAX, |disk| disk.free);
        size_of(path) >= share || free <= self.all.limits.min_free_bytes
    }

    /// Ends a part that is complete.
    pub fn complete_part(&mut self) {
        self.end_part();
        self.retry_after = RETRY_AFTER;
    }

    /// Ends the part, complete or not.
    fn end_part(&mut self) {
        if let Some(path) = self.current.take() {
            self.all.close(&path);
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.end_part();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: Limits = Limits {
        max_bytes: 4000,
        max_age: Duration::from_secs(1_000_000),
        min_free_bytes: 0,
    };

    fn recordings(folder: &Path, limits: Limits) -> Arc<Recordings> {
        Arc::new(Recordings::new(folder, limits))
    }

    fn pipeline(name: &str) -> PipelineId {
        PipelineId::new(name).unwrap()
    }

    fn names(folder: &Path) -> Vec<String> {
        let files = fs::read_dir(folder.join("recordings")).unwrap();
        let mut names: Vec<String> = files
            .map(|f| f.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn limit_holds_for_all_pipelines_together() {
        let folder = tempfile::tempdir().unwrap();
        let all = recordings(folder.path(), LIMITS);
        let pipelines = ["a", "b", "c", "d", "e", "f", "g", "h"].map(pipeline);
        let mut recording = pipelines.map(|name| all.of(&name));
        for round in 0..6 {
            for recording in &mut recording {
                let path = recording.next_part().unwrap();
                fs::write(&path, []).unwrap();
                recording.set_path(&path);
                // Grows until it is full.
                for bytes in (0..).step_by(25) {
                    fs::write(&path, vec![0; bytes]).unwrap();
                    if (0..CHECK_EVERY).any(|_| recording.is_full()) {
                        break;
                    }
                }
                let files = fs::read_dir(folder.path().join("recordings")).unwrap();
                let bytes: u64 = files.map(|f| f.unwrap().metadata().unwrap().len()).sum();
                // One check interval per part being written.
                assert!(bytes <= 4000 + 8 * 25, "round {round}: {bytes}");
            }
        }
    }

    #[test]
    fn pipelines_that_delete_in_parallel_keep_recording() {
        let folder = tempfile::tempdir().unwrap();
        let all = recordings(folder.path(), LIMITS);
        std::thread::scope(|scope| {
            for name in ["a", "b", "c", "d"] {
                let mut recording = all.of(&pipeline(name));
                scope.spawn(move || {
                    // Every other part exceeds the limit, so that there is always something to
                    // delete.
                    for _ in 0..200 {
                        assert!(record(&mut recording, 1000), "an open part was deleted");
                    }
                });
            }
        });
    }

    /// Writes a part of `bytes` as a pipeline would.
    fn record(recording: &mut Recording, bytes: usize) -> bool {
        let path = recording.next_part().unwrap();
        fs::write(&path, vec![0; bytes]).unwrap();
        recording.set_path(&path);
        (0..CHECK_EVERY).any(|_| recording.is_full())
    }

    #[test]
    fn part_is_full_at_a_quarter_of_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let mut recording = recordings(folder.path(), LIMITS).of(&pipeline("p"));
        assert!(!record(&mut recording, 999));
        assert!(record(&mut recording, 1000));
    }

    #[test]
    fn numbers_grow_over_restarts_and_nothing_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            let all = recordings(folder.path(), LIMITS);
            record(&mut all.of(&pipeline("p")), 10);
            record(&mut all.of(&pipeline("p-2")), 10);
        }
        let wanted = ["p-2.2.mp4", "p-2.4.mp4", "p.1.mp4", "p.3.mp4"];
        assert_eq!(names(folder.path()), wanted);
    }

    #[test]
    fn full_disk_pauses_recording_and_is_retried() {
        let folder = tempfile::tempdir().unwrap();
        let full = Limits {
            min_free_bytes: u64::MAX,
            ..LIMITS
        };
        let mut recording = recordings(folder.path(), full).of(&pipeline("p"));
        assert_eq!(recording.next_part(), None);
        assert!(recording.retry_at.is_some() && recording.error().is_some());
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[test]
    fn pause_doubles_until_a_part_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let mut recording = recordings(folder.path(), LIMITS).of(&pipeline("p"));
        for _ in 0..10 {
            recording.pause_after_error("the encoder hangs".to_owned());
        }
        assert_eq!(recording.retry_after, MAX_RETRY_AFTER);
        recording.complete_part();
        assert_eq!(recording.retry_after, RETRY_AFTER);
    }

    #[test]
    fn old_part_is_deleted_and_open_part_stays() {
        let folder = tempfile::tempdir().unwrap();
        let brief = Limits {
            max_age: Duration::ZERO,
            ..LIMITS
        };
        let all = recordings(folder.path(), brief);
        let (mut a, mut b) = (all.of(&pipeline("a")), all.of(&pipeline("b")));
        record(&mut a, 10);
        record(&mut b, 10);
        // The clock has whole milliseconds.
        std::thread::sleep(Duration::from_millis(2));
        record(&mut b, 10);
        assert_eq!(names(folder.path()), ["a.1.mp4", "b.3.mp4"]);
    }

    #[test]
    fn expired_parts_are_deleted_while_nothing_records() {
        let folder = tempfile::tempdir().unwrap();
        let all = recordings(folder.path(), LIMITS);
        all.delete_expired();
        assert!(
            !all.folder().exists(),
            "the folder is made with its first part"
        );
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.unwrap().as_secs();
        stamped(
            folder.path(),
            &[now - 2_000_000, now - 5, now - 5, now - 5, now - 5],
        );
        all.delete_expired();
        let kept = ["p.2.mp4", "p.3.mp4", "p.4.mp4", "p.5.mp4"];
        assert_eq!(names(folder.path()), kept);
    }

    #[test]
    fn part_lasts_at_most_its_share_of_the_age_limit() {
        let folder = tempfile::tempdir().unwrap();
        let mut recording = recordings(folder.path(), LIMITS).of(&pipeline("p"));
        assert!(!record(&mut recording, 10) && !recording.is_old());
        recording.begun = Instant::now().checked_sub(LIMITS.max_age / SHARE).unwrap();
        assert!(recording.is_old());
        recording.complete_part();
        assert!(!recording.is_old());
    }

    #[test]
    fn part_that_can_not_be_deleted_is_not_counted_as_freed() {
        let folder = tempfile::tempdir().unwrap();
        let mut parts = stamped(folder.path(), &[1, 2]);
        parts[0].path = folder.path().join("recordings");
        let freed: Vec<u64> = parts.iter().map(Part::delete).collect();
        assert_eq!(
            (freed, names(folder.path())),
            (vec![0, 1000], vec!["p.1.mp4".to_owned()])
        );
    }

    #[test]
    fn part_is_numbered_with_any_extension() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("recordings")).unwrap();
        for name in ["p.9.webm", "p.10.webm", "p.2.mp4", "p.99.txt", "notes"] {
            fs::write(folder.path().join("recordings").join(name), b"-").unwrap();
        }
        let all = recordings(folder.path(), LIMITS);
        let parts = all.parts().unwrap();
        assert_eq!(numbers(parts.iter().collect()), [0, 0, 2, 9, 10]);
        assert_eq!(all.next_number().unwrap(), 11);
    }

    /// A part for each of these times, in seconds since 1970.
    fn stamped(folder: &Path, times: &[u64]) -> Vec<Part> {
        fs::create_dir_all(folder.join("recordings")).unwrap();
        for (n, seconds) in times.iter().enumerate() {
            let path = folder.join(format!("recordings/p.{}.mp4", n + 1));
            let file = fs::File::create(&path).unwrap();
            file.set_len(1000).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(*seconds))
                .unwrap();
        }
        recordings(folder, LIMITS).parts().unwrap()
    }

    /// A moment in 2033.
    const NOW: u64 = 2_000_000_000;

    fn at(seconds: u64) -> Option<SystemTime> {
        plausible(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
    }

    fn numbers(parts: Vec<&Part>) -> Vec<u64> {
        parts.into_iter().map(|part| part.number).collect()
    }

    #[test]
    fn clock_that_jumps_back_keeps_the_order_of_parts() {
        let folder = tempfile::tempdir().unwrap();
        // Written in 2033, and after a cold boot in 1970.
        let parts = stamped(folder.path(), &[NOW, NOW + 10, 5, 15]);
        let three = Limits {
            max_bytes: 3000,
            ..LIMITS
        };
        assert_eq!(numbers(over_limits(&parts, three, at(25))), [1]);
    }

    #[test]
    fn implausible_clock_makes_no_part_too_old() {
        let folder = tempfile::tempdir().unwrap();
        let old = NOW - 2_000_000;
        let roomy = Limits {
            max_bytes: 40_000,
            ..LIMITS
        };
        let parts = stamped(folder.path(), &[old, old + 10, 5, NOW - 5, 15]);
        assert_eq!(numbers(over_limits(&parts, roomy, at(25))), [0; 0]);
        // With a correct clock the old parts go; one stamped in 1970 counts as old as the next one.
        assert_eq!(numbers(over_limits(&parts, roomy, at(NOW))), [1, 2]);
        assert_eq!(
            numbers(over_limits(&parts, roomy, at(NOW + 1_000_000))),
            [1, 2, 3, 4]
        );
    }

    proptest! {
        #[test]
        fn oldest_parts_are_deleted_until_within_the_limit(
            sizes in prop::collection::vec(1..1500_u64, 0..40),
        ) {
            let now = SystemTime::now();
            let parts: Vec<Part> = sizes
                .iter()
                .enumerate()
                .map(|(n, bytes)| Part {
                    number: n as u64,
                    path: PathBuf::from(n.to_string()),
                    bytes: *bytes,
                    written: now - Duration::from_secs(1000 - n as u64),
                })
                .collect();
            let gone = over_limits(&parts, LIMITS, Some(now));
            let kept: u64 = parts[gone.len()..].iter().map(|p| p.bytes).sum();
            prop_assert!(kept <= 4000);
            let oldest: Vec<&Part> = parts.iter().take(gone.len()).collect();
            prop_assert_eq!(gone, oldest);
        }
    }
}
