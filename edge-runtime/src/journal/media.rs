//! Kept pictures: files under `<state>/media/<yyyy-mm-dd>/<id>.jpg`.
//!
//! Invariants:
//! - a picture is on stable storage, under its final name, before [`MediaStore::put`] returns – so before the event
//!   that names it is appended;
//! - an id is a ULID and its folder follows from the ULID's own time, so no id can name a file outside;
//! - ids rise in the order in which pictures were kept, over restarts and whatever the clock does: after a clock that
//!   went back they follow the last one, so an id's time is not when the picture was taken (the event says that);
//! - the pictures never take more than the bound, and don't grow on a nearly full disk: those that were kept first go
//!   first.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use ulid::Ulid;
use watchkeeper_board::storage::{StorageError, space};
use watchkeeper_contract::event::{Media, MediaKind};
use watchkeeper_store::durable;

use super::Hash;

/// MIME type of every kept picture.
pub const CONTENT_TYPE: &str = "image/jpeg";

/// Why a picture can't be kept or shown.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// No such picture, or no longer.
    #[error("there is no picture {id:?}; it may have been dropped to make room")]
    NotFound {
        /// The id as it was asked for.
        id: String,
    },
    /// The disk is full.
    #[error("the disk of {path} is full ({free} bytes free); free some space")]
    Full {
        /// The media folder.
        path: PathBuf,
        /// Bytes left.
        free: u64,
    },
    /// The system refused.
    #[error("{path}: {source}")]
    Io {
        /// File or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Bounds of the pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaLimits {
    /// Most bytes of pictures kept.
    pub max_bytes: u64,
    /// Bytes that must stay free on the disk.
    pub min_free_bytes: u64,
}

impl Default for MediaLimits {
    fn default() -> Self {
        Self {
            max_bytes: 1 << 30,
            min_free_bytes: 64 << 20,
        }
    }
}

/// The pictures. Shared by reference among threads.
#[derive(Debug)]
pub struct MediaStore {
    root: PathBuf,
    limits: MediaLimits,
    index: Mutex<Index>,
}

/// Kept pictures, oldest first.
#[derive(Debug, Default)]
struct Index {
    files: VecDeque<(Ulid, u64)>,
    bytes: u64,
    dropped: u64,
    /// The last id that was given.
    last: Ulid,
}

impl Index {
    /// An id greater than every one before it, with the clock's time where that allows it.
    fn next_id(&mut self, unix_ms: i64) -> Ulid {
        // A clock before 1970 is as wrong as one that says 1970.
        let fresh = Ulid::from_parts(u64::try_from(unix_ms).unwrap_or(0), Ulid::new().random());
        self.last = if fresh > self.last {
            fresh
        } else {
            let next_ms = || Ulid::from_parts(self.last.timestamp_ms().saturating_add(1), 0);
            self.last.increment().unwrap_or_else(next_ms)
        };
        self.last
    }
}

impl MediaStore {
    /// Opens `<state>/media`, removes what a crash left half written, and counts what is there.
    ///
    /// # Errors
    /// When the folder can't be made or read.
    pub fn open(state: &Path, limits: MediaLimits) -> Result<Self, MediaError> {
        let root = state.join("media");
        fs::create_dir_all(&root).map_err(io_at(&root))?;
        let mut files = Vec::new();
        for day in fs::read_dir(&root).map_err(io_at(&root))? {
            let day = day.map_err(io_at(&root))?.path();
            if !day.is_dir() {
                continue;
            }
            for file in fs::read_dir(&day).map_err(io_at(&day))? {
                let file = file.map_err(io_at(&day))?;
                let name = file.file_name();
                let name = name.to_string_lossy();
                if name.ends_with(".tmp") {
                    fs::remove_file(file.path()).map_err(io_at(&file.path()))?;
                } else if let Some(id) = name.strip_suffix(".jpg").and_then(|id| parse(id).ok()) {
                    let bytes = file.metadata().map_err(io_at(&file.path()))?.len();
                    files.push((id, bytes));
                }
            }
        }
        files.sort_unstable();
        let store = Self {
            root,
            limits,
            index: Mutex::new(Index {
                bytes: files.iter().map(|(_, bytes)| bytes).sum(),
                last: files.last().map_or(Ulid::nil(), |(id, _)| *id),
                files: files.into(),
                dropped: 0,
            }),
        };
        store.make_room(0);
        Ok(store)
    }

    /// Where the pictures are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.root
    }

    /// Keeps `jpeg`, taken at `unix_ms` (milliseconds since 1970, UTC); durable on return. Older pictures give way.
    ///
    /// # Errors
    /// When the disk is full or refuses.
    pub fn put(&self, kind: MediaKind, unix_ms: i64, jpeg: &[u8]) -> Result<Media, MediaError> {
        let bytes = jpeg.len() as u64;
        self.make_room(bytes);
        self.find_room(bytes)?;
        let id = self.index.lock().next_id(unix_ms);
        let path = self.path_of(id);
        let folder = path.parent().unwrap_or(&self.root);
        if !folder.is_dir() {
            fs::create_dir_all(folder).map_err(io_at(folder))?;
            durable::sync_folder(&self.root).map_err(io_at(&self.root))?;
        }
        // Opening removes the half picture that a pulled plug may leave.
        durable::replace(&path, jpeg).map_err(io_at(&path))?;

        let mut index = self.index.lock();
        let at = index.files.partition_point(|(other, _)| *other < id);
        index.files.insert(at, (id, bytes));
        index.bytes += bytes;
        Ok(Media {
            id: id.to_string(),
            kind,
            content_type: CONTENT_TYPE.to_owned(),
            bytes,
            sha256: Hash::of(jpeg).to_string(),
        })
    }

    /// File of the picture `id`.
    ///
    /// # Errors
    /// [`MediaError::NotFound`] when `id` is not one of ours or the picture is gone.
    pub fn path(&self, id: &str) -> Result<PathBuf, MediaError> {
        let path = self.path_of(parse(id)?);
        if path.is_file() {
            Ok(path)
        } else {
            Err(MediaError::NotFound { id: shown(id) })
        }
    }

    /// The picture `id`.
    ///
    /// # Errors
    /// [`MediaError::NotFound`] when `id` is not one of ours or the picture is gone; others when it can't be read.
    pub fn read(&self, id: &str) -> Result<Vec<u8>, MediaError> {
        let path = self.path_of(parse(id)?);
        fs::read(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => MediaError::NotFound { id: shown(id) },
            _ => MediaError::Io { path, source },
        })
    }

    /// Bytes of all kept pictures.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.index.lock().bytes
    }

    /// Pictures dropped since the start to make room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.index.lock().dropped
    }

    fn path_of(&self, id: Ulid) -> PathBuf {
        let ms = i64::try_from(id.timestamp_ms()).unwrap_or(0);
        let day = jiff::Timestamp::from_millisecond(ms)
            .unwrap_or(jiff::Timestamp::UNIX_EPOCH)
            .to_zoned(jiff::tz::TimeZone::UTC)
            .date();
        self.root.join(day.to_string()).join(format!("{id}.jpg"))
    }

    /// Drops the oldest pictures until `bytes` are given back, or none is left. Answers what was given.
    pub fn give(&self, bytes: u64) -> u64 {
        let mut index = self.index.lock();
        let mut given = 0;
        while given < bytes {
            let Some(dropped) = self.drop_oldest(&mut index) else {
                break;
            };
            given += dropped;
        }
        given
    }

    /// Drops the oldest pictures until `coming` more bytes fit within the bound.
    fn make_room(&self, coming: u64) {
        let mut index = self.index.lock();
        while index.bytes + coming > self.limits.max_bytes && self.drop_oldest(&mut index).is_some()
        {
        }
    }

    /// Drops the oldest picture and says how large it was. A file that can't be removed is logged and forgotten.
    fn drop_oldest(&self, index: &mut Index) -> Option<u64> {
        let (id, bytes) = index.files.pop_front()?;
        index.bytes -= bytes;
        index.dropped += 1;
        let path = self.path_of(id);
        if let Err(error) = fs::remove_file(&path) {
            tracing::warn!(path = %path.display(), %error, "picture not removed");
        }
        let next_day = index.files.front().map(|(next, _)| self.path_of(*next));
        let folder = path.parent();
        if let Some(folder) = folder
            && next_day.as_deref().and_then(Path::parent) != Some(folder)
            && let Err(error) = fs::remove_dir(folder)
        {
            tracing::debug!(path = %folder.display(), %error, "folder of a past day stays");
        }
        Some(bytes)
    }

    /// Sees to it that a picture of `coming` bytes may be written: on a nearly full disk it takes the place of old ones.
    fn find_room(&self, coming: u64) -> Result<(), MediaError> {
        let free = space(&self.root)
            .map_err(|StorageError { path, source }| MediaError::Io { path, source })?
            .free;
        let floor = self.limits.min_free_bytes.saturating_add(coming);
        if free >= floor
            || (free >= coming && self.bytes() >= coming && self.give(coming) >= coming)
        {
            return Ok(());
        }
        Err(MediaError::Full {
            path: self.root.clone(),
            free,
        })
    }
}

fn parse(id: &str) -> Result<Ulid, MediaError> {
    Ulid::from_string(id)
        .ok()
        // Only the spelling that we gave: one picture has one id.
        .filter(|ulid| ulid.to_string() == id)
        .ok_or_else(|| MediaError::NotFound { id: shown(id) })
}

fn shown(id: &str) -> String {
    id.chars().take(40).collect()
}

fn io_at(path: &Path) -> impl FnOnce(io::Error) -> MediaError {
    let path = path.to_owned();
    move |source| match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            MediaError::Full { path, free: 0 }
        }
        _ => MediaError::Io { path, source },
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    const NOV_21: i64 = 1_795_219_200_000; // 2026-11-21T00:00:00Z

    fn open(state: &Path, max_bytes: u64) -> MediaStore {
        let limits = MediaLimits {
            max_bytes,
            min_free_bytes: 0,
        };
        MediaStore::open(state, limits).unwrap()
    }

    #[test]
    fn a_kept_picture_is_found_under_its_day_also_after_reopening() {
        let dir = tempfile::tempdir().unwrap();
        let media = open(dir.path(), 1000)
            .put(MediaKind::Clean, NOV_21 + 5, b"jpeg")
            .unwrap();
        assert_eq!(media.bytes, 4);
        assert_eq!(media.sha256, Hash::of(b"jpeg").to_string());
        let again = open(dir.path(), 1000);
        assert_eq!(again.read(&media.id).unwrap(), b"jpeg");
        let path = again.path(&media.id).unwrap();
        assert!(
            path.ends_with(format!("media/2026-11-21/{}.jpg", media.id)),
            "{path:?}"
        );
    }

    #[test]
    fn an_id_can_not_climb_out_of_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), 1000);
        fs::write(dir.path().join("secret.jpg"), "x").unwrap();
        let lower = store
            .put(MediaKind::Clean, NOV_21, b"x")
            .unwrap()
            .id
            .to_lowercase();
        for id in [
            "../secret",
            "../../secret",
            "/etc/passwd",
            "",
            "..",
            "%2e%2e",
            lower.as_str(),
        ] {
            assert!(
                matches!(store.read(id), Err(MediaError::NotFound { .. })),
                "{id}"
            );
            assert!(store.path(id).is_err(), "{id}");
        }
    }

    #[test]
    fn the_oldest_pictures_give_way_and_empty_days_go_with_them() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), 10);
        let day = 24 * 3600 * 1000;
        let ids: Vec<_> = (0..4)
            .map(|n| {
                store
                    .put(MediaKind::Clean, NOV_21 + n * day, b"1234")
                    .unwrap()
                    .id
            })
            .collect();
        assert!(store.read(&ids[0]).is_err() && store.read(&ids[1]).is_err());
        assert!(store.read(&ids[2]).is_ok() && store.read(&ids[3]).is_ok());
        assert_eq!((store.bytes(), store.dropped()), (8, 2));
        assert_eq!(fs::read_dir(dir.path().join("media")).unwrap().count(), 2);
    }

    #[test]
    fn a_clock_that_jumps_changes_nothing_about_which_pictures_go_also_after_reopening() {
        let dir = tempfile::tempdir().unwrap();
        let century = 100 * 365 * 24 * 3600 * 1000;
        let mut ids = Vec::new();
        // Right, back in 1970 after a cold boot, right again, and once a century ahead.
        for ms in [NOV_21, 5, NOV_21 + 9, NOV_21 + century, NOV_21 + 20] {
            let store = open(dir.path(), 12);
            ids.push(store.put(MediaKind::Clean, ms, b"1234").unwrap().id);
        }
        let store = open(dir.path(), 12);
        let kept: Vec<bool> = ids.iter().map(|id| store.path(id).is_ok()).collect();
        assert_eq!(kept, [false, false, true, true, true]);
        assert!(ids.is_sorted(), "{ids:?}");
    }

    #[test]
    fn on_a_nearly_full_disk_a_new_picture_takes_the_place_of_the_oldest() {
        let dir = tempfile::tempdir().unwrap();
        let first = open(dir.path(), 100)
            .put(MediaKind::Clean, NOV_21, b"1234")
            .unwrap();
        let limits = MediaLimits {
            max_bytes: 100,
            min_free_bytes: u64::MAX,
        };
        let store = MediaStore::open(dir.path(), limits).unwrap();
        let second = store.put(MediaKind::Clean, NOV_21, b"123").unwrap();
        assert!(store.path(&first.id).is_err());
        assert_eq!(store.bytes(), 3);
        let refused = store.put(MediaKind::Clean, NOV_21, b"1234").unwrap_err();
        assert!(matches!(refused, MediaError::Full { .. }), "{refused}");
        assert!(store.path(&second.id).is_ok(), "nothing goes for nothing");
    }

    #[test]
    fn what_a_crash_left_half_written_is_removed_and_a_full_disk_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let day = dir.path().join("media/2026-11-21");
        fs::create_dir_all(&day).unwrap();
        fs::write(day.join(".01JABCDEFGHJKMNPQRSTVWXYZ0.tmp"), "ha").unwrap();
        let limits = MediaLimits {
            max_bytes: 100,
            min_free_bytes: u64::MAX,
        };
        let store = MediaStore::open(dir.path(), limits).unwrap();
        assert_eq!(fs::read_dir(&day).unwrap().count(), 0);
        let refused = store.put(MediaKind::Clean, NOV_21, b"x").unwrap_err();
        assert!(refused.to_string().contains("is full"), "{refused}");
    }
}
