//! Annotated videos on disk: `<state>/recordings/<pipeline>.N.mp4`, bounded.
//!
//! Owns the names of the parts, when a part is long enough, and which old ones go. Invariants: all parts together never take more than the bound
//! and one part beyond it; a part is begun only while the disk has room to spare, so that a full disk never comes from recordings; the numbers
//! of a pipeline's parts rise, over restarts too, and no part is written over. The part that is being written is never deleted.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use watchkeeper_contract::id::PipelineId;

/// Frames between two looks at the size of the part and at the disk; a few seconds of video.
const LOOK_EVERY: u32 = 64;

/// Pause before a full disk is looked at again, in frames.
const RETRY_EVERY: u32 = 256;

/// A part is this share of the bound at most, so that deleting the oldest one keeps most of what there is.
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
    /// Parts that are being written.
    open: Mutex<Vec<PathBuf>>,
}

/// A part on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
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
        }
    }

    /// The recording of one pipeline.
    #[must_use]
    pub fn of(self: &Arc<Self>, pipeline: &PipelineId) -> Recording {
        Recording {
            all: Arc::clone(self),
            stem: pipeline.to_string(),
            current: None,
            last: 0,
            frames: 0,
            waits: 0,
        }
    }

    /// Deletes what is too old or too much, oldest first; true when a part may be begun.
    fn make_room(&self) -> io::Result<bool> {
        fs::create_dir_all(&self.folder)?;
        let parts = self.parts()?;
        let now = SystemTime::now();
        for part in too_much(&parts, self.limits, now) {
            tracing::info!(part = %part.path.display(), bytes = part.bytes, "an old recording makes room");
            fs::remove_file(&part.path)?;
        }
        Ok(self.free()? > self.limits.min_free_bytes)
    }

    /// Complete parts, oldest first.
    fn parts(&self) -> io::Result<Vec<Part>> {
        let open = self.open.lock().clone();
        let mut parts = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_file() && !open.contains(&entry.path()) {
                parts.push(Part {
                    path: entry.path(),
                    bytes: metadata.len(),
                    written: metadata.modified()?,
                });
            }
        }
        parts.sort_by(|a, b| (a.written, &a.path).cmp(&(b.written, &b.path)));
        Ok(parts)
    }

    fn free(&self) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(&self.folder)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn close(&self, path: &Path) {
        self.open.lock().retain(|open| open != path);
    }
}

/// Which parts have to go: those over the age, and the oldest until the rest leaves room for one part within the bound.
fn too_much(parts: &[Part], limits: Limits, now: SystemTime) -> Vec<&Part> {
    let is_old = |part: &Part| {
        now.duration_since(part.written)
            .is_ok_and(|age| age > limits.max_age)
    };
    let (mut gone, kept): (Vec<&Part>, Vec<&Part>) = parts.iter().partition(|part| is_old(part));
    let room = limits.max_bytes - limits.max_bytes / SHARE;
    let mut bytes: u64 = kept.iter().map(|part| part.bytes).sum();
    for part in kept {
        if bytes <= room {
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
    /// Number of the last part, also when that was deleted meanwhile.
    last: u64,
    frames: u32,
    waits: u32,
}

impl Recording {
    /// Path of the next part; none while the disk has no room to spare or refuses, which is logged and tried again later.
    pub fn next_part(&mut self) -> Option<PathBuf> {
        self.done();
        if self.waits > 0 {
            self.waits -= 1;
            return None;
        }
        let why = match self.all.make_room() {
            Ok(true) => match self.next_number() {
                Ok(number) => {
                    return Some(self.all.folder.join(format!("{}.{number}.mp4", self.stem)));
                }
                Err(error) => error.to_string(),
            },
            Ok(false) => "the disk has no room to spare".to_owned(),
            Err(error) => error.to_string(),
        };
        tracing::warn!(pipeline = %self.stem, why, "not recording now");
        self.waits = RETRY_EVERY;
        None
    }

    /// Says that a part is being written at `path`.
    pub fn writing(&mut self, path: &Path) {
        self.all.open.lock().push(path.to_owned());
        self.current = Some(path.to_owned());
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
        let bytes = fs::metadata(path).map_or(0, |m| m.len());
        let free = self.all.free().unwrap_or(u64::MAX);
        bytes >= self.all.limits.max_bytes / SHARE || free <= self.all.limits.min_free_bytes
    }

    /// The part that was being written is complete.
    fn done(&mut self) {
        if let Some(path) = self.current.take() {
            self.all.close(&path);
        }
    }

    fn next_number(&mut self) -> io::Result<u64> {
        let mut last = self.last;
        for entry in fs::read_dir(&self.all.folder)? {
            let name = entry?.file_name();
            let number = name
                .to_str()
                .and_then(|name| name.strip_prefix(&self.stem)?.strip_prefix('.'))
                .and_then(|rest| rest.split_once('.')?.0.parse::<u64>().ok());
            last = last.max(number.unwrap_or(0));
        }
        self.last = last + 1;
        Ok(self.last)
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
        let wanted = ["p-2.1.mp4", "p-2.2.mp4", "p.1.mp4", "p.2.mp4"];
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
        assert_eq!(recording.waits, RETRY_EVERY);
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
        assert_eq!(names(folder.path()), ["a.1.mp4", "b.2.mp4"]);
    }

    proptest! {
        #[test]
        fn what_is_kept_leaves_room_for_one_part_and_the_oldest_go_first(
            sizes in prop::collection::vec(1..1500_u64, 0..40),
        ) {
            let now = SystemTime::now();
            let parts: Vec<Part> = sizes
                .iter()
                .enumerate()
                .map(|(n, bytes)| Part {
                    path: PathBuf::from(n.to_string()),
                    bytes: *bytes,
                    written: now - Duration::from_secs(1000 - n as u64),
                })
                .collect();
            let gone = too_much(&parts, LIMITS, now);
            let kept: u64 = parts[gone.len()..].iter().map(|p| p.bytes).sum();
            prop_assert!(kept <= 3000);
            let oldest: Vec<&Part> = parts.iter().take(gone.len()).collect();
            prop_assert_eq!(gone, oldest);
        }
    }
}
