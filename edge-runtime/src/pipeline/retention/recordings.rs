//! Annotated videos on disk: `<state>/recordings/<pipeline>.N.mp4`, bounded.
//!
//! Owns the names of the parts, when a part is long enough, and which old ones go. Invariants: all parts together, those of all pipelines
//! that are being written included, take no more than the bound and what is written between two looks at their size; a part is begun only while the disk has room to spare, so that a full disk never comes from recordings; the numbers
//! of the parts rise over all pipelines and restarts, and no part is written over. What is old follows from the numbers: a clock that jumps
//! changes no order. Only the bound on age reads the clock, and no part is too old by a clock that can't be right. The part that is being
//! written is never deleted.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use watchkeeper_board::clock::{self, ClockState};
use watchkeeper_board::storage::space;
use watchkeeper_contract::id::PipelineId;

use crate::media::video::is_extension;

/// Frames between two looks at the size of the part and at the disk; a few seconds of video.
const LOOK_EVERY: u32 = 64;

/// Pause before a part is tried again after one could not be begun or written.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// The parts that are being written share one part in so many of the bound, so that deleting the oldest one keeps most of what there is.
const SHARE: u64 = 4;

/// Bounds of the annotated videos.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of all parts together.
    pub max_bytes: u64,
    /// Older parts are deleted.
    pub max_age: Duration,
    /// Bytes that stay free on the disk.
    pub min_free_bytes: u64,
}

/// The folder of annotated videos.
#[derive(Debug)]
pub struct Recordings {
    folder: PathBuf,
    limits: Limits,
    /// Parts that are being written, or will be at once.
    open: Mutex<Vec<PathBuf>>,
    /// One part is begun after the other, so that each finds the ones before it among those that are being written.
    beginning: Mutex<()>,
    /// Greatest number that was given to a part, also when that was deleted meanwhile.
    last: Mutex<u64>,
}

/// A part on disk. The order is that in which the parts were begun.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    number: u64,
    path: PathBuf,
    bytes: u64,
    written: SystemTime,
}

impl Recordings {
    /// Recordings below the state folder `state`.
    #[must_use]
    pub fn new(state: &Path, limits: Limits) -> Self {
        Self {
            folder: state.join("recordings"),
            limits,
            open: Mutex::default(),
            beginning: Mutex::default(),
            last: Mutex::default(),
        }
    }

    /// Where the parts are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Bytes of all complete parts.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let parts = self.parts().unwrap_or_default();
        parts.iter().map(|part| part.bytes).sum()
    }

    /// Bytes that one part may take when so many are being written.
    fn part_bytes(&self, open: usize) -> u64 {
        self.limits.max_bytes / SHARE / (open as u64).max(1)
    }

    /// Bytes of complete parts that may stay when one more part is begun: what the bound leaves beside all that are being written,
    /// each counted with what it has or, if that is more, with what it may have.
    fn bytes_to_keep(&self) -> u64 {
        let open = self.open.lock().clone();
        let each = self.part_bytes(open.len() + 1);
        let grown = open.iter().map(|path| size_of(path).max(each));
        let reserved = grown.fold(each, u64::saturating_add);
        self.limits.max_bytes.saturating_sub(reserved)
    }

    /// Deletes the oldest complete parts until `bytes` are given back, or none is left. Answers what was given.
    pub fn give(&self, bytes: u64) -> u64 {
        let mut given = 0;
        for part in self.parts().unwrap_or_default() {
            if given >= bytes {
                break;
            }
            match fs::remove_file(&part.path) {
                Ok(()) => given += part.bytes,
                // Somebody else was quicker.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    tracing::warn!(part = %part.path.display(), %error, "an old recording is not removed");
                }
            }
        }
        given
    }

    /// The recording of one pipeline.
    #[must_use]
    pub fn of(self: &Arc<Self>, pipeline: &PipelineId) -> Recording {
        Recording {
            all: Arc::clone(self),
            stem: pipeline.to_string(),
            current: None,
            trouble: None,
            frames: 0,
            retry_at: None,
        }
    }

    /// Deletes what is too old or too much, oldest first; true when a part may be begun.
    fn make_room(&self) -> io::Result<bool> {
        fs::create_dir_all(&self.folder)?;
        let parts = self.parts()?;
        let keep = Limits {
            max_bytes: self.bytes_to_keep(),
            ..self.limits
        };
        for part in too_much(&parts, keep, trusted(SystemTime::now())) {
            tracing::info!(part = %part.path.display(), bytes = part.bytes, "an old recording makes room");
            match fs::remove_file(&part.path) {
                // Another pipeline makes room at the same time.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                done => done?,
            }
        }
        let disk = space(&self.folder).map_err(|e| e.source)?;
        Ok(disk.free > self.limits.min_free_bytes)
    }

    /// Complete parts, oldest first. What is there and is no part of ours counts as the oldest.
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

    /// A number greater than that of every part that is there or was.
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

/// Bytes of a part that is being written.
fn size_of(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |m| m.len())
}

/// The number in the name of a part.
fn number(path: &Path) -> Option<u64> {
    let (stem, extension) = path.file_name()?.to_str()?.rsplit_once('.')?;
    let (_, number) = stem.rsplit_once('.')?;
    is_extension(extension).then(|| number.parse().ok())?
}

/// What the clock says, where that can be right.
fn trusted(at: SystemTime) -> Option<SystemTime> {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let seconds = i64::try_from(since.as_secs()).ok()?;
    (clock::state(Path::new("/"), seconds) != ClockState::Wrong).then_some(at)
}

/// Which parts have to go, of those in the order in which they were begun: those over the age, and the oldest until the
/// rest is within the bound. Nothing is too old by a clock that can't be right, be it the one that
/// says what time it is (`now`, then none) or the one that stamped the part; such a part is as old as the next one.
fn too_much(parts: &[Part], limits: Limits, now: Option<SystemTime>) -> Vec<&Part> {
    let mut next = now;
    let mut old: Vec<bool> = Vec::with_capacity(parts.len());
    for part in parts.iter().rev() {
        next = trusted(part.written).or(next);
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
    trouble: Option<String>,
    frames: u32,
    retry_at: Option<Instant>,
}

impl Recording {
    /// Path of the next part, which counts as being written from now on; none while the disk has no room to spare or refuses, which is logged and tried again later.
    pub fn next_part(&mut self) -> Option<PathBuf> {
        self.done();
        if self.retry_at.is_some_and(|at| Instant::now() < at) {
            return None;
        }
        self.retry_at = None;
        let all = Arc::clone(&self.all);
        let beginning = all.beginning.lock();
        let why = match all.make_room() {
            Ok(true) => match all.next_number() {
                Ok(number) => {
                    let path = all.folder.join(format!("{}.{number}.mp4", self.stem));
                    self.opened(&path);
                    return Some(path);
                }
                Err(error) => error.to_string(),
            },
            Ok(false) => "the disk has no room to spare".to_owned(),
            Err(error) => error.to_string(),
        };
        drop(beginning);
        self.failed(why);
        None
    }

    /// The part could not be begun, written or completed: nothing is recorded for a while, then the next part is tried. A file in which nothing is
    /// would only be in the way.
    pub fn failed(&mut self, why: String) {
        tracing::warn!(pipeline = %self.stem, why, "not recording now");
        if let Some(path) = &self.current
            && fs::metadata(path).is_ok_and(|m| m.len() == 0)
            && let Err(error) = fs::remove_file(path)
        {
            tracing::warn!(part = %path.display(), %error, "an empty recording is not removed");
        }
        self.done();
        self.trouble = Some(why);
        self.retry_at = Some(Instant::now() + RETRY_AFTER);
    }

    /// Nothing more is recorded: what kept it from that is no matter any more.
    pub fn end(&mut self) {
        self.trouble = None;
    }

    /// Why nothing is being recorded, if nothing is.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Says that the part is being written at `path`, which may be another one than was given.
    pub fn writing(&mut self, path: &Path) {
        self.opened(path);
        self.trouble = None;
    }

    /// The part at `path` counts as being written; that it can be is not known yet.
    fn opened(&mut self, path: &Path) {
        let before = self.current.replace(path.to_owned());
        let mut open = self.all.open.lock();
        open.retain(|open| Some(open) != before.as_ref());
        open.push(path.to_owned());
        self.frames = 0;
    }

    /// Whether the part that is being written is long enough, or the disk runs out of room. To be asked before each frame.
    pub fn is_full(&mut self) -> bool {
        let Some(path) = &self.current else {
            return false;
        };
        self.frames += 1;
        if !self.frames.is_multiple_of(LOOK_EVERY) {
            return false;
        }
        let share = self.all.part_bytes(self.all.open.lock().len());
        let free = space(&self.all.folder).map_or(u64::MAX, |disk| disk.free);
        size_of(path) >= share || free <= self.all.limits.min_free_bytes
    }

    /// The part that was being written is complete, or of no use.
    pub fn done(&mut self) {
        if let Some(path) = self.current.take() {
            self.all.close(&path);
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.done();
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
    fn the_bound_is_that_of_all_pipelines_together() {
        let folder = tempfile::tempdir().unwrap();
        let all = recordings(folder.path(), LIMITS);
        let pipelines = ["a", "b", "c", "d", "e", "f", "g", "h"].map(pipeline);
        let mut recording = pipelines.map(|name| all.of(&name));
        for round in 0..6 {
            for one in &mut recording {
                let path = one.next_part().unwrap();
                fs::write(&path, []).unwrap();
                one.writing(&path);
                // Grows until it is full.
                for bytes in (0..).step_by(25) {
                    fs::write(&path, vec![0; bytes]).unwrap();
                    if (0..LOOK_EVERY).any(|_| one.is_full()) {
                        break;
                    }
                }
                let files = fs::read_dir(folder.path().join("recordings")).unwrap();
                let bytes: u64 = files.map(|f| f.unwrap().metadata().unwrap().len()).sum();
                // One look's worth for each part that is being written.
                assert!(bytes <= 4000 + 8 * 25, "round {round}: {bytes}");
            }
        }
    }

    #[test]
    fn pipelines_that_make_room_at_the_same_time_do_not_keep_each_other_from_recording() {
        let folder = tempfile::tempdir().unwrap();
        let all = recordings(folder.path(), LIMITS);
        std::thread::scope(|scope| {
            for name in ["a", "b", "c", "d"] {
                let mut recording = all.of(&pipeline(name));
                scope.spawn(move || {
                    // Every other part is too much, so that there is always something to delete.
                    for _ in 0..200 {
                        assert!(
                            record(&mut recording, 1000),
                            "it was deleted while it was written"
                        );
                    }
                });
            }
        });
    }

    /// Writes a part of `bytes` as a pipeline would.
    fn record(recording: &mut Recording, bytes: usize) -> bool {
        let path = recording.next_part().unwrap();
        fs::write(&path, vec![0; bytes]).unwrap();
        recording.writing(&path);
        (0..LOOK_EVERY).any(|_| recording.is_full())
    }

    #[test]
    fn a_part_is_full_at_a_quarter_of_the_bound() {
        let folder = tempfile::tempdir().unwrap();
        let mut recording = recordings(folder.path(), LIMITS).of(&pipeline("p"));
        assert!(!record(&mut recording, 999));
        assert!(record(&mut recording, 1000));
    }

    #[test]
    fn numbers_rise_over_restarts_and_nothing_is_written_over() {
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
    fn a_full_disk_is_not_recorded_upon_and_tried_again_later() {
        let folder = tempfile::tempdir().unwrap();
        let full = Limits {
            min_free_bytes: u64::MAX,
            ..LIMITS
        };
        let mut recording = recordings(folder.path(), full).of(&pipeline("p"));
        assert_eq!(recording.next_part(), None);
        assert!(recording.retry_at.is_some() && recording.trouble().is_some());
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[test]
    fn a_part_that_is_too_old_goes_and_the_one_being_written_stays() {
        let folder = tempfile::tempdir().unwrap();
        let brief = Limits {
            max_age: Duration::ZERO,
            ..LIMITS
        };
        let all = recordings(folder.path(), brief);
        let (mut a, mut b) = (all.of(&pipeline("a")), all.of(&pipeline("b")));
        record(&mut a, 10);
        record(&mut b, 10);
        record(&mut b, 10);
        assert_eq!(names(folder.path()), ["a.1.mp4", "b.3.mp4"]);
    }

    #[test]
    fn a_part_is_numbered_whatever_it_was_written_with() {
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

    /// A part of each of these times, in seconds since 1970.
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

    /// A second of the year 2033.
    const NOW: u64 = 2_000_000_000;

    fn at(seconds: u64) -> Option<SystemTime> {
        trusted(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
    }

    fn numbers(parts: Vec<&Part>) -> Vec<u64> {
        parts.into_iter().map(|part| part.number).collect()
    }

    #[test]
    fn a_clock_that_jumps_back_does_not_make_the_newest_part_the_oldest() {
        let folder = tempfile::tempdir().unwrap();
        // Written in 2033, and after a cold boot in 1970.
        let parts = stamped(folder.path(), &[NOW, NOW + 10, 5, 15]);
        let three = Limits {
            max_bytes: 3000,
            ..LIMITS
        };
        assert_eq!(numbers(too_much(&parts, three, at(25))), [1]);
    }

    #[test]
    fn no_part_is_too_old_by_a_clock_that_can_not_be_right() {
        let folder = tempfile::tempdir().unwrap();
        let old = NOW - 2_000_000;
        let roomy = Limits {
            max_bytes: 40_000,
            ..LIMITS
        };
        let parts = stamped(folder.path(), &[old, old + 10, 5, NOW - 5, 15]);
        assert_eq!(numbers(too_much(&parts, roomy, at(25))), [0; 0]);
        // Once the clock is right the old ones go; what was stamped in 1970 is as old as what came after it.
        assert_eq!(numbers(too_much(&parts, roomy, at(NOW))), [1, 2]);
        assert_eq!(
            numbers(too_much(&parts, roomy, at(NOW + 1_000_000))),
            [1, 2, 3, 4]
        );
    }

    proptest! {
        #[test]
        fn what_is_kept_is_within_the_bound_and_the_oldest_go_first(
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
            let gone = too_much(&parts, LIMITS, Some(now));
            let kept: u64 = parts[gone.len()..].iter().map(|p| p.bytes).sum();
            prop_assert!(kept <= 4000);
            let oldest: Vec<&Part> = parts.iter().take(gone.len()).collect();
            prop_assert_eq!(gone, oldest);
        }
    }
}
