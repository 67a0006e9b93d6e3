//! The folder of chunks: names, retention, appending.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use watchkeeper_board::storage::space;

use super::chunk::{ChunkHead, SeenFrame, read_frames, read_head};

/// Interval of writing to the disk.
pub const FLUSH_INTERVAL: Duration = Duration::from_secs(5);
/// Greatest age of a chunk.
pub const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// Free space below which nothing is written; as for recordings.
pub const MIN_FREE_BYTES: u64 = 512 << 20;

const SUFFIX: &str = ".detections";

/// Path of a chunk. `number` distinguishes those that start at the same time.
pub(super) fn path_of(folder: &Path, start_ms: i64, number: u64) -> PathBuf {
    folder.join(format!("{start_ms:015}-{number}{SUFFIX}"))
}

/// Start of the chunk in this file, in milliseconds since 1970.
fn start_of(path: &Path) -> Option<i64> {
    let name = path.file_name()?.to_str()?.strip_suffix(SUFFIX)?;
    name.split_once('-')?.0.parse().ok()
}

/// All chunks with their starts, oldest first.
pub(super) fn all(folder: &Path) -> io::Result<Vec<(i64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        found.extend(start_of(&path).map(|start| (start, path)));
    }
    found.sort();
    Ok(found)
}

/// Appends to a chunk.
pub(super) fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(bytes)
}

/// Deletes all chunks with their folder.
pub(super) fn delete_all(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Whether the disk has room for chunks.
pub(super) fn has_space(folder: &Path) -> bool {
    space(folder).is_ok_and(|disk| disk.free >= MIN_FREE_BYTES)
}

/// Deletes the oldest chunks beyond `max_bytes` and those older than [`MAX_AGE`]. Chunks that start
/// later than `now_ms` are from a wrong clock and deleted too. Those in `open` stay.
pub(super) fn retain(
    folder: &Path,
    max_bytes: u64,
    now_ms: i64,
    open: &BTreeSet<PathBuf>,
) -> io::Result<()> {
    let oldest = now_ms.saturating_sub(i64::try_from(MAX_AGE.as_millis()).unwrap_or(i64::MAX));
    let mut bytes = 0;
    for (start, path) in all(folder)?.into_iter().rev() {
        bytes += fs::metadata(&path).map_or(0, |file| file.len());
        let is_surplus = bytes > max_bytes || start < oldest || start > now_ms;
        if is_surplus && !open.contains(&path) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// A chunk on the disk.
#[derive(Debug, Clone)]
pub struct StoredChunk {
    path: PathBuf,
    pub head: ChunkHead,
    /// Size of its file.
    pub bytes: u64,
}

impl StoredChunk {
    /// Reads the head; `None` where the file is gone, damaged or of another version.
    pub(super) fn open(path: PathBuf) -> Option<Self> {
        let file = File::open(&path).ok()?;
        let bytes = file.metadata().ok()?.len();
        let head = read_head(&mut BufReader::new(file))?;
        Some(Self { path, head, bytes })
    }

    /// Reads the frames; none where the file is gone.
    #[must_use]
    pub fn frames(&self) -> Vec<SeenFrame> {
        let Ok(file) = File::open(&self.path) else {
            return Vec::new();
        };
        let mut from = BufReader::new(file);
        match read_head(&mut from) {
            Some(_) => read_frames(&mut from),
            None => Vec::new(),
        }
    }
}
