//! The folder of chunks: names, retention, appending.
//!
//! - The name of a file has its start, a number that grows with each chunk, and its source. So the
//!   order of writing does not depend on the clock.
//! - Each source keeps its last chunks within its [`fair_share`] of the limit; pictures have half.
//! - Pictures lie beside the chunk of their frames. An open chunk and its pictures are not deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use watchkeeper_board::storage::space;
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_store::private_folder::make_private;

use super::chunk::{ChunkHead, SeenFrame, read_frames, read_head};
use super::pictures::{SeenPicture, read_pictures};

/// Interval of writing to the disk.
pub const FLUSH_INTERVAL: Duration = Duration::from_secs(5);
/// Greatest age of a chunk.
pub const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// Free space below which nothing is written: less than what recordings leave, more than pictures
/// and clips of events do (64 MiB).
pub const MIN_FREE_BYTES: u64 = 128 << 20;
/// Free space above [`MIN_FREE_BYTES`] from which a refused history is written again.
const RESUME_BYTES: u64 = 16 << 20;

/// Extension of a chunk.
const DETECTIONS: &str = "detections";
/// Extension of the pictures of a chunk.
const PICTURES: &str = "pictures";

/// Path of a chunk. `number` is higher than that of every chunk before, also of earlier runs.
pub(super) fn path_of(folder: &Path, start_ms: i64, number: u64, source: &SourceId) -> PathBuf {
    folder.join(format!("{start_ms:015}-{number}-{source}.{DETECTIONS}"))
}

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
    /// Grows in the order of writing, whatever the clock does.
    number: u64,
    path: PathBuf,
    /// Name of the source.
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
        let (number, source) = rest.split_once('-')?;
        Some(Self {
            start_ms: start.parse().ok()?,
            number: number.parse().ok()?,
            source: source.to_owned(),
            is_pictures,
            path,
        })
    }
}

/// All files of the folder, by the starts of their chunks.
fn list(folder: &Path) -> io::Result<Vec<Named>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        found.extend(Named::new(entry?.path()));
    }
    found.sort();
    Ok(found)
}

/// All chunks with their starts, ordered by these.
pub(super) fn all(folder: &Path) -> io::Result<Vec<(i64, PathBuf)>> {
    let chunks = list(folder)?.into_iter().filter(|file| !file.is_pictures);
    Ok(chunks.map(|file| (file.start_ms, file.path)).collect())
}

/// A number higher than that of every chunk.
pub(super) fn next_number(folder: &Path) -> u64 {
    let files = list(folder).unwrap_or_default();
    let last = files.iter().map(|file| file.number).max();
    last.map_or(0, |last| last.saturating_add(1))
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

/// Appends to chunks and their pictures, if the disk has room; more where it `was_refused`. Returns
/// the chunks that lost bytes, and the first error.
pub(super) fn append_all(
    folder: &Path,
    waiting: Vec<(PathBuf, Vec<u8>)>,
    was_refused: bool,
) -> (BTreeSet<PathBuf>, Option<io::Error>) {
    let mut error = make_ready(folder, was_refused).err();
    let is_ready = error.is_none();
    let mut lost = BTreeSet::new();
    for (path, bytes) in waiting {
        let appended = is_ready.then(|| append(&path, &bytes));
        if let Some(Ok(())) = appended {
            continue;
        }
        lost.insert(chunk_of(&path));
        error = error.or(appended.and_then(Result::err));
    }
    (lost, error)
}

/// Makes the folder, if the disk has room for chunks.
fn make_ready(folder: &Path, was_refused: bool) -> io::Result<()> {
    let free = space(folder).map_err(io::Error::other)?.free;
    if !has_room(free, was_refused) {
        let least = MIN_FREE_BYTES >> 20;
        let why = format!("its disk has less than {least} MiB free");
        return Err(io::Error::new(io::ErrorKind::StorageFull, why));
    }
    make_private(folder)
}

/// Whether chunks are written. Writing takes the space that decides, so a refusal lasts longer.
fn has_room(free: u64, was_refused: bool) -> bool {
    let margin = if was_refused { RESUME_BYTES } else { 0 };
    free >= MIN_FREE_BYTES + margin
}

/// Deletes what is older than [`MAX_AGE`], and the first written chunks of each source beyond its
/// [`fair_share`] of `max_bytes`; pictures have half of it. Those in `open` stay, with their
/// pictures. A file that can't be deleted is logged and stays.
pub(super) fn retain(
    folder: &Path,
    max_bytes: u64,
    now: Wall,
    open: &BTreeSet<PathBuf>,
) -> io::Result<()> {
    let files = list(folder)?.into_iter().map(|file| {
        let bytes = fs::metadata(&file.path).map_or(0, |found| found.len());
        (file, bytes)
    });
    let chunks = ChunkFiles::group(files, open);
    for path in surplus(&chunks, max_bytes, current(now)) {
        if let Err(error) = fs::remove_file(&path) {
            tracing::warn!(path = %path.display(), %error, "can't delete an old chunk of the detection history");
        }
    }
    Ok(())
}

/// Starts of the chunks that may stay, in milliseconds since 1970. An implausible clock makes none
/// too old. Only a synchronised one shows that a later start is from a wrong clock.
fn current(now: Wall) -> RangeInclusive<i64> {
    let max_age_ms = i64::try_from(MAX_AGE.as_millis()).unwrap_or(i64::MAX);
    let too_old = now.unix_ms.saturating_sub(max_age_ms);
    match now.quality {
        TimeQuality::Unsynced => i64::MIN..=i64::MAX,
        TimeQuality::Estimated => too_old..=i64::MAX,
        TimeQuality::Synced => too_old..=now.unix_ms,
    }
}

/// A chunk and its pictures.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ChunkFiles {
    start_ms: i64,
    path: PathBuf,
    source: String,
    /// Size of the chunk; `None` if there are only pictures.
    bytes: Option<u64>,
    /// Size of its pictures; `None` without any.
    pictures: Option<u64>,
    is_open: bool,
}

impl ChunkFiles {
    /// The chunks of these files, the first written first.
    fn group(files: impl Iterator<Item = (Named, u64)>, open: &BTreeSet<PathBuf>) -> Vec<Self> {
        let mut chunks: BTreeMap<(u64, PathBuf), Self> = BTreeMap::new();
        for (file, bytes) in files {
            let path = chunk_of(&file.path);
            let chunk = chunks.entry((file.number, path.clone()));
            let chunk = chunk.or_insert_with(|| Self {
                start_ms: file.start_ms,
                is_open: open.contains(&path),
                path,
                source: file.source,
                bytes: None,
                pictures: None,
            });
            let size = match file.is_pictures {
                true => &mut chunk.pictures,
                false => &mut chunk.bytes,
            };
            *size = Some(bytes);
        }
        chunks.into_values().collect()
    }

    fn size(&self) -> u64 {
        self.bytes.unwrap_or(0) + self.pictures.unwrap_or(0)
    }

    /// Files of the chunk, or only its pictures.
    fn paths(&self, only_pictures: bool) -> impl Iterator<Item = PathBuf> {
        let chunk = self.bytes.filter(|_| !only_pictures);
        let chunk = chunk.map(|_| self.path.clone());
        chunk
            .into_iter()
            .chain(self.pictures.map(|_| pictures_of(&self.path)))
    }
}

/// The files to delete of these chunks, which are in the order of writing. Of each source the last
/// ones are kept, and the pictures of the last of these.
fn surplus(chunks: &[ChunkFiles], max_bytes: u64, current: RangeInclusive<i64>) -> Vec<PathBuf> {
    let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
    let mut kept: BTreeMap<&str, KeptBytes> = BTreeMap::new();
    for chunk in chunks {
        *sizes.entry(&chunk.source).or_default() += chunk.size();
        if chunk.is_open {
            kept.entry(&chunk.source).or_default().add_open(chunk);
        }
    }
    let share = fair_share(sizes.into_values().collect(), max_bytes);
    let mut surplus = Vec::new();
    for chunk in chunks.iter().rev().filter(|chunk| !chunk.is_open) {
        let kept = kept.entry(&chunk.source).or_default();
        if !current.contains(&chunk.start_ms) || !kept.add_chunk(chunk, share) {
            surplus.extend(chunk.paths(false));
        } else if !kept.add_pictures(chunk, share) {
            surplus.extend(chunk.paths(true));
        }
    }
    surplus
}

/// Bytes of one source that stay: those that are open, then the last written.
#[derive(Debug, Default)]
struct KeptBytes {
    all: u64,
    pictures: u64,
    /// Whether a chunk did not fit; then all earlier ones are deleted.
    is_full: bool,
    /// Whether the pictures of a chunk did not fit; then those of all earlier ones are deleted.
    pictures_full: bool,
}

impl KeptBytes {
    fn add_open(&mut self, chunk: &ChunkFiles) {
        self.all += chunk.size();
        self.pictures += chunk.pictures.unwrap_or(0);
    }

    /// Adds a chunk without its pictures; false if it exceeds the share or is missing.
    fn add_chunk(&mut self, chunk: &ChunkFiles, share: u64) -> bool {
        let Some(bytes) = chunk.bytes else {
            return false;
        };
        self.is_full |= self.all + bytes > share;
        if !self.is_full {
            self.all += bytes;
        }
        !self.is_full
    }

    /// Adds the pictures of a chunk; false if they exceed the share or its half.
    fn add_pictures(&mut self, chunk: &ChunkFiles, share: u64) -> bool {
        let bytes = chunk.pictures.unwrap_or(0);
        let is_too_much = self.all + bytes > share || self.pictures + bytes > share / 2;
        self.pictures_full |= is_too_much;
        if !self.pictures_full {
            self.all += bytes;
            self.pictures += bytes;
        }
        !self.pictures_full
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
    /// Reads the head; `None` if the file is gone, damaged or of another version.
    pub(super) fn open(path: PathBuf) -> Option<Self> {
        let file = File::open(&path).ok()?;
        let bytes = file.metadata().ok()?.len();
        let head = read_head(&mut BufReader::new(file))?;
        Some(Self { path, head, bytes })
    }

    /// Reads the frames; none where the file is gone.
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

    /// Reads the pictures; none if there is no file.
    pub fn pictures(&self) -> Vec<SeenPicture> {
        File::open(pictures_of(&self.path)).map_or_else(
            |_| Vec::new(),
            |file| read_pictures(&mut BufReader::new(file)),
        )
    }

    /// A chunk without frames, with one picture at its start.
    #[cfg(test)]
    pub(crate) fn with_picture(folder: &Path, head: ChunkHead, jpeg: Vec<u8>) -> Self {
        let path = path_of(folder, head.start_ms, 1, &head.source);
        let picture = super::pictures::encode(0, jpeg);
        append(&pictures_of(&path), &picture).expect("a writable folder");
        let bytes = picture.len() as u64;
        Self { path, head, bytes }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn refused_history_resumes_above_the_limit() {
        assert!(has_room(MIN_FREE_BYTES, false));
        assert!(!has_room(MIN_FREE_BYTES - 1, false));
        assert!(!has_room(MIN_FREE_BYTES, true));
        assert!(has_room(MIN_FREE_BYTES + RESUME_BYTES, true));
    }

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
        for other in ["/h/5-1.detections", "/h/5-1.txt"] {
            assert_eq!(Named::new(PathBuf::from(other)), None, "{other}");
        }
    }

    fn chunk(nth: usize, (source, bytes, pictures, kind): (u8, u64, u64, u8)) -> ChunkFiles {
        ChunkFiles {
            start_ms: i64::try_from(nth).unwrap_or(0),
            path: PathBuf::from(format!("/h/{nth:015}-{nth}-{source}.{DETECTIONS}")),
            source: source.to_string(),
            bytes: (kind != 1).then_some(bytes),
            pictures: (kind > 2).then_some(pictures),
            is_open: kind == 0,
        }
    }

    proptest! {
        /// The remaining files fit next to the open chunks, are the newest of each source, and no
        /// pictures outlive their chunk.
        #[test]
        fn newest_chunks_of_each_source_stay_within_the_bound(
            files in proptest::collection::vec(
                (0u8..3, 0u64..2_000, 0u64..2_000, 0u8..9), 0..30,
            ),
            max in 0u64..20_000,
        ) {
            let chunks: Vec<ChunkFiles> =
                files.into_iter().enumerate().map(|(nth, of)| chunk(nth, of)).collect();
            let deleted = surplus(&chunks, max, 0..=1_000);
            let stays = |path: &PathBuf| !deleted.contains(path);
            let has_chunk = |of: &ChunkFiles| of.bytes.is_some() && stays(&of.path);
            let has_pictures =
                |of: &ChunkFiles| of.pictures.is_some() && stays(&pictures_of(&of.path));
            let mut open = 0;
            let mut closed = 0;
            for of in &chunks {
                let stayed = of.bytes.filter(|_| has_chunk(of)).unwrap_or(0)
                    + of.pictures.filter(|_| has_pictures(of)).unwrap_or(0);
                *(if of.is_open { &mut open } else { &mut closed }) += stayed;
                prop_assert!(!of.is_open || stayed == of.size());
                prop_assert!(of.is_open || !has_pictures(of) || has_chunk(of));
            }
            prop_assert!(closed <= max, "{closed} of {max} beside {open}");
            for source in ["0", "1", "2"] {
                let closed = chunks.iter().filter(|of| of.source == source && !of.is_open);
                let closed: Vec<&ChunkFiles> = closed.filter(|of| of.bytes.is_some()).collect();
                let kept: Vec<bool> = closed.iter().map(|of| has_chunk(of)).collect();
                prop_assert!(kept.is_sorted(), "{:?}", kept);
                let with_pictures = closed.iter().filter(|of| of.pictures.is_some());
                let kept: Vec<bool> = with_pictures.map(|of| has_pictures(of)).collect();
                prop_assert!(kept.is_sorted(), "{:?}", kept);
            }
        }

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
