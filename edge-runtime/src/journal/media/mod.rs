//! Snapshots and clips: files under `<state>/media/<yyyy-mm-dd>/<id>.<extension>`.
//!
//! - The picture, its final name and the name of its folder are on stable storage before
//!   [`MediaStore::put`] returns, and so before its event is appended.
//! - A clip is written under a hidden name and renamed once it is on stable storage
//!   ([`MediaStore::keep_clip`]). The next start removes what a crash left. Other entries below the
//!   folder, and what can't be read or deleted, are left alone.
//! - [`MediaStore::new_clip`] waits for no disk: names have a lock that is held for moments only.
//! - An id is a ULID and its folder follows from its time, so no id names a file outside.
//! - Ids grow in the order of storing, over restarts and clock jumps. Their time is not that of the
//!   picture, which the event has.
//! - All files together stay within the limit and don't grow on a nearly full disk; the oldest are
//!   deleted first. A file that can't be deleted is tried again after [`RETRY_STUCK`], not with
//!   each deletion. A clip is begun only where the disk has space for the longest one, and takes no
//!   more than [`MediaStore::max_clip_bytes`].
//!
//! Locks, in order: `index`, `names`.

mod clips;
mod error;
mod index;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::fs::{Access, access};
use ulid::Ulid;
use watchkeeper_board::storage::{SpaceError, space};
use watchkeeper_contract::event::{Media, MediaKind};
use watchkeeper_store::durable;

pub use self::error::MediaError;
use self::error::io_at;
pub use self::index::CONTENT_TYPE;
use self::index::{Form, Index, MediaEntry, MediaIds, parse, parse_file_name, shown};
use super::chain::Hash;

/// Pause between two tries to delete a file that can't be deleted.
const RETRY_STUCK: Duration = Duration::from_secs(600);

/// A clip that is about to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewClip {
    /// The id that it gets once it is complete.
    pub id: String,
    /// Where to write it; another video extension is accepted.
    pub path: PathBuf,
}

/// A stored picture or clip, open for reading.
#[derive(Debug)]
pub struct OpenedMedia {
    /// Positioned at the beginning.
    pub file: File,
    pub bytes: u64,
    pub content_type: &'static str,
}

/// Limits of the media.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaLimits {
    /// Maximum bytes of all files.
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

/// The media store. Shared by reference among threads.
#[derive(Debug)]
pub struct MediaStore {
    root: PathBuf,
    limits: MediaLimits,
    /// Makes the names in a folder durable; replaced in tests.
    sync_folder: fn(&Path) -> io::Result<()>,
    /// Held while files are deleted, and while a folder is created and its name synced.
    index: Mutex<Index>,
    /// Locked alone or after `index`, and never during I/O.
    names: Mutex<MediaIds>,
}

impl MediaStore {
    /// Opens `<state>/media`, removes incomplete files of a crash, and counts the others.
    ///
    /// # Errors
    /// When the folder can't be created or read.
    pub fn open(state: &Path, limits: MediaLimits) -> Result<Self, MediaError> {
        let root = state.join("media");
        let mut files = Vec::new();
        let days = match fs::create_dir_all(&root) {
            Ok(()) => Some(fs::read_dir(&root).map_err(io_at(&root))?),
            // Made with the first folder of a day.
            Err(error) if durable::is_disk_refusal(&error) => None,
            Err(error) => return Err(io_at(&root)(error)),
        };
        for day in days.into_iter().flatten() {
            let day = day.map_err(io_at(&root))?.path();
            let name = day.file_name().and_then(|name| name.to_str());
            // Others are not ours, such as `lost+found`.
            if name.is_some_and(|name| name.parse::<jiff::civil::Date>().is_ok())
                && let Err(error) = list_day(&day, &mut files)
            {
                tracing::warn!(path = %day.display(), %error, "can't read a folder of pictures and clips");
            }
        }
        files.sort_unstable();
        let last = files.last().map_or(Ulid::nil(), |entry| entry.id);
        let store = Self {
            root,
            limits,
            sync_folder: durable::sync_folder,
            index: Mutex::new(Index {
                bytes: files.iter().map(|entry| entry.bytes).sum(),
                files: files.into(),
                ..Index::default()
            }),
            names: Mutex::new(MediaIds {
                active: BTreeSet::new(),
                last,
            }),
        };
        store.delete_for(0);
        Ok(store)
    }

    /// The folder of the files.
    pub fn folder(&self) -> &Path {
        &self.root
    }

    /// Stores `jpeg`, taken at `unix_ms` (Unix milliseconds); durable on return. Deletes older
    /// files if needed.
    ///
    /// # Errors
    /// When the disk is full or refuses.
    pub fn put(&self, kind: MediaKind, unix_ms: i64, jpeg: &[u8]) -> Result<Media, MediaError> {
        let bytes = jpeg.len() as u64;
        self.delete_for(bytes);
        self.check_space(bytes)?;
        let id = self.names.lock().reserve(unix_ms);
        let stored = self.store_picture(id, jpeg);
        self.names.lock().active.remove(&id);
        stored?;
        Ok(Media {
            id: id.to_string(),
            kind,
            content_type: CONTENT_TYPE.to_owned(),
            bytes,
            sha256: Hash::of(jpeg).to_string(),
        })
    }

    fn store_picture(&self, id: Ulid, jpeg: &[u8]) -> Result<(), MediaError> {
        // Under the lock, so that the folder is not removed as empty meanwhile.
        self.make_folder(&mut self.index.lock(), id)?;
        let form = Form::Jpeg;
        let path = self.path_of(id, form);
        // Opening removes what a power cut leaves of it.
        if let Err(error) = durable::replace(&path, jpeg) {
            // It may be there all the same, without a durable name.
            remove(&path);
            return Err(io_at(&path)(error));
        }
        let bytes = jpeg.len() as u64;
        self.index.lock().insert(MediaEntry { id, form, bytes });
        Ok(())
    }

    fn entry(&self, id: &str) -> Result<MediaEntry, MediaError> {
        let ulid = parse(id)?;
        if self.names.lock().active.contains(&ulid) {
            return Err(MediaError::NotYet { id: shown(id) });
        }
        let entry = self.index.lock().find(ulid);
        entry.ok_or_else(|| MediaError::NotFound { id: shown(id) })
    }

    /// The file of the picture or clip `id`.
    ///
    /// # Errors
    /// [`MediaError::NotFound`] for an unknown id, [`MediaError::NotYet`] while the clip is
    /// written.
    pub fn path(&self, id: &str) -> Result<PathBuf, MediaError> {
        let entry = self.entry(id)?;
        let path = self.path_of(entry.id, entry.form);
        if path.is_file() {
            Ok(path)
        } else {
            Err(MediaError::NotFound { id: shown(id) })
        }
    }

    /// Opens the picture or clip `id`. It stays readable if it is deleted meanwhile.
    ///
    /// # Errors
    /// [`MediaError::NotFound`] for an unknown id, [`MediaError::NotYet`] while the clip is
    /// written; others when it can't be read.
    pub fn open_file(&self, id: &str) -> Result<OpenedMedia, MediaError> {
        let entry = self.entry(id)?;
        let path = self.path_of(entry.id, entry.form);
        let file = File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (bytes, file) = file.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => MediaError::NotFound { id: shown(id) },
            _ => MediaError::Io { path, source },
        })?;
        Ok(OpenedMedia {
            file,
            bytes,
            content_type: entry.form.content_type(),
        })
    }

    /// Reads the whole picture or clip `id`.
    #[cfg(test)]
    pub(crate) fn read(&self, id: &str) -> Result<Vec<u8>, MediaError> {
        let mut bytes = Vec::new();
        let mut file = self.open_file(id)?.file;
        let read = io::Read::read_to_end(&mut file, &mut bytes);
        read.map_err(io_at(&self.root))?;
        Ok(bytes)
    }

    /// Bytes of all pictures and clips.
    pub fn bytes(&self) -> u64 {
        self.index.lock().bytes
    }

    /// Bytes of the pictures and clips that this process can probably delete: it may write to their
    /// folders, and the last try did not fail.
    pub fn deletable_bytes(&self) -> u64 {
        let index = self.index.lock();
        let may_delete_in = Access::WRITE_OK | Access::EXEC_OK;
        let mut last = None;
        let deletable = index.files.iter().filter(|entry| {
            let folder = self.folder_of(entry.id);
            // Files of a day follow each other.
            if last.as_ref().is_none_or(|(known, _)| *known != folder) {
                let may_delete = access(&folder, may_delete_in).is_ok();
                last = Some((folder, may_delete));
            }
            last.as_ref().is_some_and(|(_, may_delete)| *may_delete)
                && !index.stuck.contains_key(&entry.id)
        });
        deletable.map(|entry| entry.bytes).sum()
    }

    /// Number of files deleted for space since the start.
    #[must_use]
    pub fn deleted(&self) -> u64 {
        self.index.lock().deleted
    }

    /// Creates the folder of `id` if it is missing, and makes its name durable. One that is there
    /// may be left by a killed run, or by a call whose sync failed.
    fn make_folder(&self, index: &mut Index, id: Ulid) -> Result<(), MediaError> {
        let folder = self.folder_of(id);
        if index.durable_folder.as_ref() == Some(&folder) && folder.is_dir() {
            return Ok(());
        }
        fs::create_dir_all(&folder).map_err(io_at(&folder))?;
        let above = self.root.parent().unwrap_or(&self.root);
        for holder in [&*self.root, above] {
            (self.sync_folder)(holder).map_err(io_at(holder))?;
        }
        index.durable_folder = Some(folder);
        Ok(())
    }

    fn path_of(&self, id: Ulid, form: Form) -> PathBuf {
        let name = format!("{id}.{}", form.extension());
        self.folder_of(id).join(name)
    }

    fn folder_of(&self, id: Ulid) -> PathBuf {
        let ms = i64::try_from(id.timestamp_ms()).unwrap_or(0);
        let day = jiff::Timestamp::from_millisecond(ms)
            .unwrap_or(jiff::Timestamp::UNIX_EPOCH)
            .to_zoned(jiff::tz::TimeZone::UTC)
            .date();
        self.root.join(day.to_string())
    }

    /// Deletes the oldest files until `bytes` are freed, and returns the freed bytes.
    pub fn free_space(&self, bytes: u64) -> u64 {
        let mut index = self.index.lock();
        let mut freed = 0;
        while freed < bytes {
            let Some(deleted) = self.delete_oldest(&mut index) else {
                break;
            };
            freed += deleted;
        }
        freed
    }

    /// Deletes the oldest files until `coming` more bytes fit within the limit.
    fn delete_for(&self, coming: u64) {
        let mut index = self.index.lock();
        while index.bytes + coming > self.limits.max_bytes
            && self.delete_oldest(&mut index).is_some()
        {}
    }

    /// Deletes the oldest file that can be deleted and returns its size. The others stay, and are
    /// logged once and skipped for a while.
    fn delete_oldest(&self, index: &mut Index) -> Option<u64> {
        let now = Instant::now();
        let mut at = 0;
        let MediaEntry { id, bytes, .. } = loop {
            let entry = *index.files.get(at)?;
            if index.stuck.get(&entry.id).is_some_and(|retry| now < *retry) {
                at += 1;
                continue;
            }
            let path = self.path_of(entry.id, entry.form);
            match fs::remove_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => return None,
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    if index.stuck.insert(entry.id, now + RETRY_STUCK).is_none() {
                        tracing::warn!(path = %path.display(), %error, "can't delete a picture or clip");
                    }
                    at += 1;
                }
                _ => break entry,
            }
        };
        index.files.remove(at);
        index.stuck.remove(&id);
        index.bytes -= bytes;
        index.deleted += 1;
        let folder = self.folder_of(id);
        let mut others = index.files.get(at).map(|next| next.id).into_iter();
        let is_used =
            others.any(|other| self.folder_of(other) == folder) || self.has_active_file_in(&folder);
        if !is_used && let Err(error) = fs::remove_dir(&folder) {
            tracing::debug!(path = %folder.display(), %error, "can't delete the folder of a past day");
        }
        Some(bytes)
    }

    fn has_active_file_in(&self, folder: &Path) -> bool {
        let names = self.names.lock();
        names.active.iter().any(|id| self.folder_of(*id) == folder)
    }

    /// Checks that `coming` bytes may be written: on a nearly full disk they replace old files.
    fn check_space(&self, coming: u64) -> Result<(), MediaError> {
        let free = space(&self.root)
            .map_err(|SpaceError { path, source }| MediaError::Io { path, source })?
            .free;
        let floor = self.limits.min_free_bytes.saturating_add(coming);
        if free >= floor
            || (free >= coming && self.bytes() >= coming && self.free_space(coming) >= coming)
        {
            return Ok(());
        }
        Err(MediaError::Full {
            path: self.root.clone(),
            free,
        })
    }
}

/// Removes the file of a picture or clip that is lost.
fn remove(path: &Path) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "can't delete a lost picture or clip");
        }
        _ => {}
    }
}

/// Adds the files of a day to `files`, and removes incomplete ones.
fn list_day(day: &Path, files: &mut Vec<MediaEntry>) -> io::Result<()> {
    for file in fs::read_dir(day)? {
        let file = file?;
        let name = file.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') || name.ends_with(".tmp") {
            if let Err(error) = durable::remove_leftover(&file.path()) {
                tracing::warn!(path = %file.path().display(), %error, "can't delete a leftover");
            }
        } else if let Some((id, form)) = parse_file_name(&name) {
            match file.metadata() {
                Ok(found) => files.push(MediaEntry {
                    id,
                    form,
                    bytes: found.len(),
                }),
                Err(error) => {
                    tracing::warn!(path = %file.path().display(), %error, "can't read a picture or clip");
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use watchkeeper_contract::event::ClipState;

    use super::*;

    const NOV_21: i64 = 1_795_219_200_000; // 2026-11-21T00:00:00Z

    fn open(state: &Path, max_bytes: u64) -> MediaStore {
        let limits = MediaLimits {
            max_bytes,
            min_free_bytes: 0,
        };
        MediaStore::open(state, limits).unwrap()
    }

    fn begun(store: &MediaStore, unix_ms: i64) -> NewClip {
        let clip = store.new_clip(unix_ms);
        store.reserve_clip(&clip).unwrap();
        clip
    }

    #[test]
    fn clip_gets_its_id_while_others_wait_for_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), 1000);
        // Held by a thread that waits for the disk to delete files.
        let making_room = store.index.lock();
        let clip = store.new_clip(NOV_21);
        assert!(
            !clip.path.parent().unwrap().exists(),
            "a folder was created"
        );
        drop(making_room);
        store.reserve_clip(&clip).unwrap();
        assert!(clip.path.parent().unwrap().is_dir());
        assert!(matches!(
            store.path(&clip.id),
            Err(MediaError::NotYet { .. })
        ));
    }

    #[test]
    fn picture_is_found_under_its_day_after_reopening() {
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
    fn id_can_not_name_a_file_outside_the_folder() {
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
    fn oldest_pictures_and_empty_days_are_deleted() {
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
        assert_eq!((store.bytes(), store.deleted()), (8, 2));
        assert_eq!(fs::read_dir(dir.path().join("media")).unwrap().count(), 2);
    }

    #[test]
    fn file_that_can_not_be_deleted_stays_and_frees_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), 100);
        let ids = [0, 1, 2].map(|n| store.put(MediaKind::Clean, NOV_21 + n, b"1234").unwrap().id);
        let stuck = store.path(&ids[0]).unwrap();
        fs::remove_file(&stuck).unwrap();
        fs::create_dir(&stuck).unwrap();
        assert_eq!(store.free_space(4), 4);
        assert_eq!((store.bytes(), store.deleted()), (8, 1));
        let is_listed = |id: &String| store.entry(id).is_ok();
        assert_eq!(ids.each_ref().map(is_listed), [true, false, true]);
        // Nothing else is left after the next one.
        assert_eq!((store.free_space(u64::MAX), store.bytes()), (4, 4));
        assert_eq!(store.deletable_bytes(), 0);
        // It is tried again after a while only.
        fs::remove_dir(&stuck).unwrap();
        assert_eq!((store.free_space(u64::MAX), store.bytes()), (0, 4));
        let retry =
            |index: &mut Index| index.stuck.values_mut().for_each(|at| *at = Instant::now());
        retry(&mut store.index.lock());
        assert_eq!((store.free_space(u64::MAX), store.bytes()), (4, 0));
        assert!(store.index.lock().stuck.is_empty());
    }

    #[test]
    fn foreign_entries_do_not_hinder_a_start() {
        let dir = tempfile::tempdir().unwrap();
        let id = open(dir.path(), 100).put(MediaKind::Clean, NOV_21, b"1234");
        let id = id.unwrap().id;
        let root = dir.path().join("media");
        fs::create_dir(root.join("2026-11-21/.hidden")).unwrap();
        // Neither a folder of ours nor, as the next one, a folder at all.
        fs::create_dir(root.join("lost+found")).unwrap();
        fs::write(root.join("lost+found/.kept"), "x").unwrap();
        fs::write(root.join("2026-11-22"), "x").unwrap();
        let store = open(dir.path(), 100);
        assert_eq!(store.read(&id).unwrap(), b"1234");
        assert!(root.join("lost+found/.kept").exists());
    }

    #[test]
    fn jumping_clock_does_not_change_the_order_of_deletion() {
        let dir = tempfile::tempdir().unwrap();
        let century = 100 * 365 * 24 * 3600 * 1000;
        let mut ids = Vec::new();
        // Correct, back in 1970 after a cold boot, correct again, and once a century ahead.
        for ms in [NOV_21, 5, NOV_21 + 9, NOV_21 + century, NOV_21 + 20] {
            let store = open(dir.path(), 12);
            ids.push(store.put(MediaKind::Clean, ms, b"1234").unwrap().id);
        }
        let store = open(dir.path(), 12);
        let entry: Vec<bool> = ids.iter().map(|id| store.path(id).is_ok()).collect();
        assert_eq!(entry, [false, false, true, true, true]);
        assert!(ids.is_sorted(), "{ids:?}");
    }

    #[test]
    fn new_picture_replaces_the_oldest_on_a_full_disk() {
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
        assert!(
            store.path(&second.id).is_ok(),
            "nothing is deleted without effect"
        );
    }

    #[test]
    fn clip_is_served_once_complete_and_counts_like_pictures() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), 1000);
        let first = store.put(MediaKind::Clean, NOV_21, &[1; 300]).unwrap().id;
        let clip = begun(&store, NOV_21 + 1);
        fs::write(&clip.path, [2; 240]).unwrap();
        for refused in [store.read(&clip.id).err(), store.path(&clip.id).err()] {
            assert!(matches!(refused, Some(MediaError::NotYet { .. })));
        }
        let second = store.put(MediaKind::Clean, NOV_21 + 2, &[3; 500]).unwrap();
        let entry = store.keep_clip(&clip.id, &clip.path).unwrap();
        // The oldest was deleted for it, and the clip is ordered by its beginning.
        assert!(store.read(&first).is_err());
        assert_eq!(store.bytes(), 740);
        assert_eq!(store.open_file(&clip.id).unwrap().content_type, "video/mp4");
        let ClipState::Kept { bytes, sha256, .. } = &entry else {
            panic!("{entry:?}");
        };
        assert_eq!((*bytes, sha256), (240, &Hash::of(&[2; 240]).to_string()));

        let again = open(dir.path(), 1000);
        assert_eq!(again.find_clip(&clip.id), Some(entry));
        assert_eq!(again.read(&clip.id).unwrap(), [2; 240]);
        again.put(MediaKind::Clean, NOV_21 + 3, &[4; 300]).unwrap();
        assert!(again.read(&clip.id).is_err() && again.read(&second.id).is_ok());
    }

    #[test]
    fn incomplete_clip_is_removed_after_crash_or_discard() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), 1000);
        let clips: Vec<NewClip> = (0..3).map(|n| begun(&store, NOV_21 + n)).collect();
        for clip in &clips {
            fs::write(&clip.path, [2; 100]).unwrap();
        }
        store.discard_clip(&clips[0].id, &clips[0].path);
        assert!(!clips[0].path.exists());
        assert!(matches!(
            store.read(&clips[0].id),
            Err(MediaError::NotFound { .. })
        ));
        fs::write(&clips[1].path, [2; 501]).unwrap();
        let refused = store.keep_clip(&clips[1].id, &clips[1].path).unwrap_err();
        assert!(matches!(
            refused,
            MediaError::TooLarge {
                bytes: 501,
                max: 500
            }
        ));
        assert!(!clips[1].path.exists());

        let again = open(dir.path(), 1000);
        assert!(!clips[2].path.exists());
        assert_eq!((again.find_clip(&clips[2].id), again.bytes()), (None, 0));
    }

    #[test]
    fn clip_whose_name_is_not_durable_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path(), 1000);
        let clip = begun(&store, NOV_21);
        fs::write(&clip.path, [2; 100]).unwrap();
        store.sync_folder = |_| Err(io::Error::from_raw_os_error(5));
        let refused = store.keep_clip(&clip.id, &clip.path).unwrap_err();
        assert!(matches!(refused, MediaError::Io { .. }), "{refused}");
        assert_eq!(store.bytes(), 0);
        let day = clip.path.parent().unwrap();
        assert_eq!(fs::read_dir(day).unwrap().count(), 0);
        assert_eq!(open(dir.path(), 1000).find_clip(&clip.id), None);
    }

    #[test]
    fn clip_of_the_last_run_is_found_once_its_name_is_durable() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), 1000);
        let clip = begun(&store, NOV_21);
        fs::write(&clip.path, [2; 100]).unwrap();
        store.keep_clip(&clip.id, &clip.path).unwrap();
        // As after a kill between the move of the file and the sync of its folder.
        let mut again = open(dir.path(), 1000);
        again.sync_folder = |_| Err(io::Error::from_raw_os_error(5));
        assert_eq!(again.find_clip(&clip.id), None);
        again.sync_folder = durable::sync_folder;
        assert!(again.find_clip(&clip.id).is_some());
    }

    #[test]
    fn folder_whose_sync_failed_is_synced_for_the_next_picture() {
        static SYNCED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
        fn refuse_first(folder: &Path) -> io::Result<()> {
            let mut synced = SYNCED.lock();
            synced.push(folder.to_owned());
            match synced.len() {
                1 => Err(io::Error::from_raw_os_error(5)),
                _ => Ok(()),
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path(), 1000);
        store.sync_folder = refuse_first;
        let refused = store.put(MediaKind::Clean, NOV_21, b"x").unwrap_err();
        assert!(matches!(refused, MediaError::Io { .. }), "{refused}");
        let root = dir.path().join("media");
        assert!(root.join("2026-11-21").is_dir());
        for n in 0..2 {
            store.put(MediaKind::Clean, NOV_21 + n, b"x").unwrap();
        }
        assert_eq!(*SYNCED.lock(), [root.clone(), root, dir.path().to_owned()]);
    }

    #[test]
    fn folder_of_a_picture_that_is_being_written_stays() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), 1000);
        store.put(MediaKind::Clean, NOV_21, b"x").unwrap();
        let id = store.names.lock().reserve(NOV_21 + 1);
        store.make_folder(&mut store.index.lock(), id).unwrap();
        assert_eq!(store.free_space(1), 1);
        assert!(store.folder_of(id).is_dir());
    }

    #[test]
    fn clip_is_begun_only_with_enough_space() {
        let dir = tempfile::tempdir().unwrap();
        let limits = MediaLimits {
            max_bytes: 1000,
            min_free_bytes: u64::MAX - 100,
        };
        let store = MediaStore::open(dir.path(), limits).unwrap();
        let clip = store.new_clip(NOV_21);
        let refused = store.reserve_clip(&clip).unwrap_err();
        assert!(matches!(refused, MediaError::Full { .. }), "{refused}");
        assert!(!store.has_space_for_clips());
    }

    #[test]
    fn incomplete_picture_is_removed_and_full_disk_reported() {
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
