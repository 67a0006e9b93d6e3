//! The folder of chunks: names, retention, appending.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use watchkeeper_board::storage::space;
use watchkeeper_contract::id::SourceId;

use super::chunk::{ChunkHead, SeenFrame, read_frames, read_head};
use super::pictures::{SeenPicture, read_pictures};

/// Interval of writing to the disk.
pub const FLUSH_INTERVAL: Duration = Duration::from_secs(5);
/// Greatest age of a chunk.
pub const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// Free space below which nothing is written; as for recordings.
pub const MIN_FREE_BYTES: u64 = 512 << 20;

/// Extension of a chunk.
const DETECTIONS: &str = "detections";
/// Extension of the pictures of a chunk.
const PICTURES: &str = "pictures";

/// Path of a chunk. `number` distinguishes those that start at the same time.
pub(super) fn path_of(folder: &Path, start_ms: i64, number: u64, source: &SourceId) -> PathBuf {
    folder.join(format!("{start_ms:015}-{number}-{source}.{DETECTIONS}"))
}

/// Path of the pictures of a chunk.
pub(super) fn pictures_of(chunk: &Path) -> PathBuf {
    chunk.with_extension(PICTURES)
}

/// Path of the chunk of these pictures, or of this chunk.
pub(super) fn chunk_of(path: &Path) -> PathBuf {
    path.with_extension(DETECTIONS)
}

/// A file of the folder, as its name says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Named {
    /// Start of the chunk, in milliseconds since 1970.
    start_ms: i64,
    path: PathBuf,
    /// Name of the source; empty for a file of an earlier version.
    source: String,
    is_pictures: bool,
}

impl Named {
    fn new(path: PathBuf) -> Option<Self> {
        let extension = path.extension()?.to_str()?;
        let is_pictures = extension == PICTURES;
        if !is_pictures && extension != DETECTIONS {
            return None;
        }
        let (start, rest) = path.file_stem()?.to_str()?.split_once('-')?;
        let source = rest.split_once('-').map_or("", |(_, source)| source);
        Some(Self {
            start_ms: start.parse().ok()?,
            source: source.to_owned(),
            is_pictures,
            path,
        })
    }
}

/// All files of the folder, oldest first.
fn list(folder: &Path) -> io::Result<Vec<Named>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        found.extend(Named::new(entry?.path()));
    }
    found.sort();
    Ok(found)
}

/// All chunks with their starts, oldest first.
pub(super) fn all(folder: &Path) -> io::Result<Vec<(i64, PathBuf)>> {
    let chunks = list(folder)?.into_iter().filter(|file| !file.is_pictures);
    Ok(chunks.map(|file| (file.start_ms, file.path)).collect())
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

/// Deletes what is older than [`MAX_AGE`], and the oldest files of each source beyond its
/// [`fair_share`] of `max_bytes`; pictures have half of it. Chunks that start later than `now_ms`
/// are from a wrong clock and deleted too. Those in `open` stay, with their pictures.
pub(super) fn retain(
    folder: &Path,
    max_bytes: u64,
    now_ms: i64,
    open: &BTreeSet<PathBuf>,
) -> io::Result<()> {
    let oldest = now_ms.saturating_sub(i64::try_from(MAX_AGE.as_millis()).unwrap_or(i64::MAX));
    let files = list(folder)?.into_iter().map(|file| {
        let bytes = fs::metadata(&file.path).map_or(0, |found| found.len());
        (file, bytes)
    });
    let files: Vec<(Named, u64)> = files.collect();
    let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
    for (file, bytes) in &files {
        *sizes.entry(&file.source).or_default() += bytes;
    }
    let share = fair_share(sizes.into_values().collect(), max_bytes);
    let mut kept: BTreeMap<&str, SourceBytes> = BTreeMap::new();
    for (file, bytes) in files.iter().rev() {
        let kept = kept.entry(&file.source).or_default();
        let is_kept = kept.add(*bytes, file.is_pictures, share);
        let is_current = (oldest..=now_ms).contains(&file.start_ms);
        if !(is_kept && is_current) && !open.contains(&chunk_of(&file.path)) {
            fs::remove_file(&file.path)?;
        }
    }
    Ok(())
}

/// Bytes of one source, the newest first.
#[derive(Debug, Default)]
struct SourceBytes {
    all: u64,
    pictures: u64,
}

impl SourceBytes {
    /// Adds a file; false where it exceeds the share, and does not count then.
    fn add(&mut self, bytes: u64, is_pictures: bool, share: u64) -> bool {
        let pictures = self.pictures + if is_pictures { bytes } else { 0 };
        let all = self.all + bytes;
        let fits = all <= share && (!is_pictures || pictures <= share / 2);
        if fits {
            (self.all, self.pictures) = (all, pictures);
        }
        fits
    }
}

/// Bytes that each source may take, so that all together take at most `max_bytes`: what small ones
/// leave is shared by the large ones.
fn fair_share(mut sizes: Vec<u64>, max_bytes: u64) -> u64 {
    sizes.sort_unstable();
    let mut left = max_bytes;
    let mut sources = sizes.len() as u64;
    for size in sizes {
        let share = left / sources;
        if size > share {
            return share;
        }
        left -= size;
        sources -= 1;
    }
    max_bytes
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

    /// Reads the pictures; none where there is no file.
    #[must_use]
    pub fn pictures(&self) -> Vec<SeenPicture> {
        File::open(pictures_of(&self.path)).map_or_else(
            |_| Vec::new(),
            |file| read_pictures(&mut BufReader::new(file)),
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn name_says_start_source_and_kind() {
        let yard = SourceId::new("back-yard-2").map_or_else(
            |_| PathBuf::new(),
            |yard| path_of(Path::new("/h"), 5, 1, &yard),
        );
        for (path, is_pictures) in [(yard.clone(), false), (pictures_of(&yard), true)] {
            let named = Named::new(path.clone());
            let named = named.map(|n| (n.start_ms, n.source, n.is_pictures));
            assert_eq!(named, Some((5, "back-yard-2".to_owned(), is_pictures)));
            assert_eq!(chunk_of(&path), yard);
        }
        assert_eq!(
            Named::new(PathBuf::from("/h/5-1.detections")).map(|n| n.source),
            Some(String::new())
        );
        assert_eq!(Named::new(PathBuf::from("/h/5-1.txt")), None);
    }

    proptest! {
        /// The shares fit, no small source loses anything, and no two large ones differ.
        #[test]
        fn shares_are_fair(
            sizes in proptest::collection::vec(0u64..10_000, 1..12), max in 0u64..40_000,
        ) {
            let share = fair_share(sizes.clone(), max);
            let kept: u64 = sizes.iter().map(|size| (*size).min(share)).sum();
            prop_assert!(kept <= max);
            if sizes.iter().sum::<u64>() <= max {
                prop_assert!(sizes.iter().all(|size| *size <= share));
            } else {
                prop_assert!(kept + sizes.len() as u64 > max, "{} of {}", kept, max);
                prop_assert!(share >= max / sizes.len() as u64);
            }
        }
    }
}
