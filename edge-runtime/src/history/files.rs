//! The folder of chunks: names, retention, appending.

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

/// Whether the disk has room for chunks.
pub(super) fn has_space(folder: &Path) -> bool {
    space(folder).is_ok_and(|disk| disk.free >= MIN_FREE_BYTES)
}

/// Deletes the oldest chunks beyond `max_bytes` and those older than [`MAX_AGE`]. Chunks that start
/// later than `now_ms` are from a wrong clock and deleted too.
pub(super) fn retain(folder: &Path, max_bytes: u64, now_ms: i64) -> io::Result<()> {
    let oldest = now_ms.saturating_sub(i64::try_from(MAX_AGE.as_millis()).unwrap_or(i64::MAX));
    let mut bytes = 0;
    for (start, path) in all(folder)?.into_iter().rev() {
        bytes += fs::metadata(&path)?.len();
        if bytes > max_bytes || start < oldest || start > now_ms {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Reads the head of a chunk.
pub(super) fn head(path: &Path) -> Option<ChunkHead> {
    read_head(&mut BufReader::new(File::open(path).ok()?))
}

/// Reads a chunk.
pub(super) fn chunk(path: &Path) -> Option<(ChunkHead, Vec<SeenFrame>)> {
    let mut from = BufReader::new(File::open(path).ok()?);
    Some((read_head(&mut from)?, read_frames(&mut from)))
}
