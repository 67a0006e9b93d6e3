//! Snapshots and clips: files `<state>/media/<yyyy-mm-dd>/<id>.<extension>`, or with a retention
//! rank that is not normal before the extension, such as `<id>.critical.jpg`.
//!
//! - The picture, its final name and the name of its folder are on stable storage before
//!   [`MediaStore::put`] returns, and so before its event is appended.
//! - A clip is written under a hidden name and renamed once it is on stable storage
//!   ([`MediaStore::keep_clip`]). The next run removes what a crash left. Other entries below the
//!   folder, and what can't be read or deleted, are left alone.
//! - Files are counted by the first use of the index, before anything is written: many of them
//!   don't delay the first frame.
//! - [`MediaStore::new_clip`] waits for no disk: names have a lock that is held for moments only.
//! - An id is a ULID and its folder follows from its time, so no id names a file outside.
//! - Ids grow in the order of storing, over restarts and clock jumps. Their time is not that of the
//!   picture, which the event has.
//! - All files together stay within the limit and don't grow on a nearly full disk. Files are
//!   deleted in the order of [`RetentionRank::deletion_order`], which the journal has too. A file
//!   that can't be deleted is tried again after [`RETRY_STUCK`], not with each deletion.
//! - A clip begins and grows only while the disk has more than its minimum free, and takes no more
//!   than [`MediaStore::max_clip_bytes`].
//!
//! Locks, in order: `index`, `names`.

mod clips;
mod error;
mod index;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::civil::Date;
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{Access, access};
use ulid::Ulid;
use watchkeeper_board::storage::{SpaceError, space};
use watchkeeper_contract::event::{Media, MediaKind};
use watchkeeper_store::durable;

pub use self::error::MediaError;
use self::error::io_at;
pub use self::index::CONTENT_TYPE;
use self::index::{Form, Index, MediaEntry, MediaIds, parse, short_id};
use super::RetentionRank;
use super::chain::Hash;

/// Free bytes that pictures and clips leave on the disk.
pub const MIN_FREE_BYTES: u64 = 64 << 20;

/// Pause between two tries to delete a file that can't be deleted.
const RETRY_STUCK: Duration = Duration::from_secs(600);

/// Pause between two tries to count files whose folder can't be read.
const RETRY_COUNT: Duration = Duration::from_secs(60);

/// A clip that is about to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewClip {
    /// The id that it gets once it is complete.
    pub id: String,
    /// Path to write to; another video extension is accepted.
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

/// Limits that few tests reach; the daemon's are configured.
#[cfg(test)]
impl Default for MediaLimits {
    fn default() -> Self {
        Self {
            max_bytes: 1 << 30,
            min_free_bytes: MIN_FREE_BYTES,
        }
    }
}

/// What a count does with incomplete files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leftovers {
    Remove,
    Keep,
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
    /// Opens `<state>/media`, and finds the last id.
    ///
    /// # Errors
    /// When the folder can't be created or read.
    pub fn open(state: &Path, limits: MediaLimits) -> Result<Self, MediaError> {
        let root = state.join("media");
        let mut days = match fs::create_dir_all(&root) {
            Ok(()) => days(&root).map_err(io_at(&root))?,
            // Made with the first folder of a day.
            Err(error) if durable::is_disk_refusal(&error) => Vec::new(),
            Err(error) => return Err(io_at(&root)(error)),
        };
        days.sort_unstable();
        let last = days.iter().rev().find_map(|day| last_id(day));
        Ok(Self {
            root,
            limits,
            sync_folder: durable::sync_folder,
            index: Mutex::default(),
            names: Mutex::new(MediaIds {
                active: BTreeSet::new(),
                last: last.unwrap_or(Ulid::nil()),
            }),
        })
    }

    /// Locks the index. The first call counts the files, removes incomplete ones of a crash, and
    /// deletes what is over the limit. A failed count is repeated after [`RETRY_COUNT`]; by then
    /// incomplete files may be in use, and stay.
    fn index(&self) -> MutexGuard<'_, Index> {
        let mut index = self.index.lock();
        let waits = |at: Instant| at.elapsed() < RETRY_COUNT;
        if index.is_counted || index.count_failed.is_some_and(waits) {
            return index;
        }
        let mut files = Vec::new();
        let leftovers = match index.count_failed {
            None => Leftovers::Remove,
            Some(_) => Leftovers::Keep,
        };
        index.is_counted = self.list(&mut files, leftovers);
        index.count_failed = (!index.is_counted).then(Instant::now);
        files.sort_unstable();
        for entry in files {
            // Known by an earlier count, or written since.
            if index.find(entry.id).is_none() {
                index.insert(entry);
            }
        }
        self.delete_over(&mut index, 0);
        index
    }

    /// Lists all files. Returns false when a folder can't be read.
    fn list(&self, files: &mut Vec<MediaEntry>, leftovers: Leftovers) -> bool {
        let warn = |folder: &Path, error: &io::Error| {
            tracing::warn!(path = %folder.display(), %error, "can't read a folder of pictures and clips");
        };
        let listed = days(&self.root).inspect_err(|error| warn(&self.root, error));
        let mut is_complete = listed.is_ok();
        for day in listed.into_iter().flatten() {
            let listed = list_day(&day, files, leftovers).inspect_err(|error| warn(&day, error));
            is_complete &= listed.is_ok();
        }
        is_complete
    }

    /// The folder of the files.
    pub fn folder(&self) -> &Path {
        &self.root
    }

    /// Stores `jpeg`, taken at `unix_ms` (Unix milliseconds); durable on return. Deletes other
    /// files if needed.
    ///
    /// # Errors
    /// When the disk is full or refuses.
    pub fn put(
        &self,
        kind: MediaKind,
        rank: RetentionRank,
        unix_ms: i64,
        jpeg: &[u8],
    ) -> Result<Media, MediaError> {
        let bytes = jpeg.len() as u64;
        self.delete_for(bytes);
        self.check_space(bytes)?;
        let id = self.names.lock().reserve(unix_ms);
        let form = Form::Jpeg;
        let entry = MediaEntry {
            id,
            form,
            rank,
            bytes,
        };
        let stored = self.store_picture(entry, jpeg);
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

    fn store_picture(&self, entry: MediaEntry, jpeg: &[u8]) -> Result<(), MediaError> {
        // Under the lock, so that the folder is not removed as empty meanwhile.
        self.make_folder(&mut self.index(), entry.id)?;
        let path = self.path_of(&entry);
        // Opening removes what a power cut leaves of it.
        if let Err(error) = durable::replace(&path, jpeg) {
            // The file may still exist, without a durable name.
            remove(&path);
            return Err(io_at(&path)(error));
        }
        self.index().insert(entry);
        Ok(())
    }

    fn entry(&self, id: &str) -> Result<MediaEntry, MediaError> {
        let ulid = parse(id)?;
        if self.names.lock().active.contains(&ulid) {
            return Err(MediaError::NotYet { id: short_id(id) });
        }
        let entry = self.index().find(ulid);
        entry.ok_or_else(|| MediaError::NotFound { id: short_id(id) })
    }

    /// The file of the picture or clip `id`.
    ///
    /// # Errors
    /// [`MediaError::NotFound`] for an unknown id, [`MediaError::NotYet`] while the clip is
    /// written.
    pub fn path(&self, id: &str) -> Result<PathBuf, MediaError> {
        let entry = self.entry(id)?;
        let path = self.path_of(&entry);
        if path.is_file() {
            Ok(path)
        } else {
            Err(MediaError::NotFound { id: short_id(id) })
        }
    }

    /// Opens the picture or clip `id`. It stays readable if it is deleted meanwhile.
    ///
    /// # Errors
    /// [`MediaError::NotFound`] for an unknown id, [`MediaError::NotYet`] while the clip is
    /// written; others when it can't be read.
    pub fn open_file(&self, id: &str) -> Result<OpenedMedia, MediaError> {
        let entry = self.entry(id)?;
        let path = self.path_of(&entry);
        let file = File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (bytes, file) = file.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => MediaError::NotFound { id: short_id(id) },
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
        self.index().bytes()
    }

    /// Bytes of the pictures and clips that this process can probably delete: it may write to their
    /// folders, and the last try did not fail.
    pub fn deletable_bytes(&self) -> u64 {
        let index = self.index();
        let may_delete_in = Access::WRITE_OK | Access::EXEC_OK;
        let mut last = None;
        let deletable = index.files().filter(|entry| {
            let folder = self.folder_of(entry.id);
            // Files of a day follow each other, in each rank.
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
        self.index().deleted
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

    fn path_of(&self, entry: &MediaEntry) -> PathBuf {
        self.folder_of(entry.id).join(entry.file_name())
    }

    fn folder_of(&self, id: Ulid) -> PathBuf {
        let ms = i64::try_from(id.timestamp_ms()).unwrap_or(0);
        let day = jiff::Timestamp::from_millisecond(ms)
            .unwrap_or(jiff::Timestamp::UNIX_EPOCH)
            .to_zoned(jiff::tz::TimeZone::UTC)
            .date();
        self.root.join(day.to_string())
    }

    /// Deletes files until `bytes` are freed, and returns the freed bytes.
    pub fn free_space(&self, bytes: u64) -> u64 {
        let mut index = self.index();
        let mut freed = 0;
        while freed < bytes {
            let Some(deleted) = self.delete_next(&mut index) else {
                break;
            };
            freed += deleted;
        }
        freed
    }

    /// Deletes files until `coming` more bytes fit within the limit.
    fn delete_for(&self, coming: u64) {
        self.delete_over(&mut self.index(), coming);
    }

    fn delete_over(&self, index: &mut Index, coming: u64) {
        while index.bytes() + coming > self.limits.max_bytes && self.delete_next(index).is_some() {}
    }

    /// Deletes the next file that can be deleted and returns its size. The others stay, and are
    /// logged once and skipped for a while.
    fn delete_next(&self, index: &mut Index) -> Option<u64> {
        let now = Instant::now();
        let entry = loop {
            let entry = index.next_to_delete(self.limits.max_bytes, now)?;
            let path = self.path_of(&entry);
            match fs::remove_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => return None,
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    if index.stuck.insert(entry.id, now + RETRY_STUCK).is_none() {
                        tracing::warn!(path = %path.display(), %error, "can't delete a picture or clip");
                    }
                }
                _ => break entry,
            }
        };
        let folder = self.folder_of(entry.id);
        let mut neighbours = index.remove(&entry).into_iter();
        let is_used = neighbours.any(|other| self.folder_of(other) == folder)
            || self.has_active_file_in(&folder);
        if !is_used && let Err(error) = fs::remove_dir(&folder) {
            tracing::debug!(path = %folder.display(), %error, "can't delete the folder of a past day");
        }
        Some(entry.bytes)
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

/// The folders of days in `root`. Others are not ours, such as `lost+found`.
fn days(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut days = Vec::new();
    let entries = match fs::read_dir(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(days),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(OsStr::to_str);
        if name.is_some_and(|name| name.parse::<Date>().is_ok()) {
            days.push(path);
        }
    }
    Ok(days)
}

/// The highest id of the files of a day.
fn last_id(day: &Path) -> Option<Ulid> {
    let files = fs::read_dir(day).ok()?.flatten();
    let entries = files.filter_map(|file| MediaEntry::of_file(&file.file_name().to_string_lossy()));
    entries.map(|entry| entry.id).max()
}

/// Adds the complete files of a day to `files`.
fn list_day(day: &Path, files: &mut Vec<MediaEntry>, leftovers: Leftovers) -> io::Result<()> {
    for file in fs::read_dir(day)? {
        let file = file?;
        let name = file.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') || name.ends_with(".tmp") {
            if leftovers == Leftovers::Remove
                && let Err(error) = durable::remove_leftover(&file.path())
            {
                tracing::warn!(path = %file.path().display(), %error, "can't delete a leftover");
            }
        } else if let Some(entry) = MediaEntry::of_file(&name) {
            match file.metadata() {
                Ok(found) => files.push(MediaEntry {
                    bytes: found.len(),
                    ..entry
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
mod tests;
