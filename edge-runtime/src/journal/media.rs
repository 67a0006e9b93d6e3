//! Kept pictures and clips: files under `<state>/media/<yyyy-mm-dd>/<id>.<extension>`.
//!
//! Invariants:
//! - a picture is on stable storage, under its final name, before [`MediaStore::put`] returns – so before the event
//!   that names it is appended;
//! - a clip is written under a name that begins with a dot, which nobody is served, and gets its final name when all of it is on stable storage
//!   ([`MediaStore::keep_clip`]); what a crash leaves of one is removed at the next start;
//! - giving a clip its id waits for no disk ([`MediaStore::name_clip`]): what names need has a lock of its own, which is held for moments;
//! - an id is a ULID and its folder follows from the ULID's own time, so no id can name a file outside;
//! - ids rise in the order in which pictures were kept, over restarts and whatever the clock does: after a clock that
//!   went back they follow the last one, so an id's time is not when the picture was taken (the event says that);
//! - pictures and clips together never take more than the bound, and don't grow on a nearly full disk: those that were kept first go
//!   first. A clip that is being written is no part of that yet; it is begun only where the disk has room for the longest one beside what has to
//!   stay free, and takes no more than [`MediaStore::most_of_a_clip`].

use std::collections::{BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use ulid::Ulid;
use watchkeeper_board::storage::{StorageError, space};
use watchkeeper_contract::event::{ClipState, Media, MediaKind};
use watchkeeper_store::durable;

use super::Hash;

/// MIME type of every kept picture.
pub const CONTENT_TYPE: &str = "image/jpeg";

/// Most bytes of one clip.
const MOST_OF_A_CLIP: u64 = 32 << 20;

/// One clip takes no more than one part in so many of the bound, so that it leaves most of what is kept.
const SHARE_OF_A_CLIP: u64 = 4;

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    Jpeg,
    Mp4,
    Webm,
}

impl Form {
    const ALL: [Self; 3] = [Self::Jpeg, Self::Mp4, Self::Webm];

    fn extension(self) -> &'static str {
        match self {
            Self::Jpeg => "jpg",
            Self::Mp4 => "mp4",
            Self::Webm => "webm",
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            Self::Jpeg => CONTENT_TYPE,
            Self::Mp4 => "video/mp4",
            Self::Webm => "video/webm",
        }
    }

    fn of(extension: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|form| form.extension() == extension)
    }
}

/// A clip that is going to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewClip {
    /// Its id, which it has once it is kept.
    pub id: String,
    /// Where it is to be written; another extension of a video will do.
    pub path: PathBuf,
}

/// A kept picture or clip that is going to be read.
#[derive(Debug)]
pub struct OpenedMedia {
    /// At its beginning.
    pub file: File,
    pub bytes: u64,
    /// Its MIME type.
    pub content_type: &'static str,
}

/// Why a picture or clip can't be kept or shown.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// No such picture or clip, or no longer.
    #[error("there is no picture or clip {id:?}; it may have been dropped to make room")]
    NotFound {
        /// The id as it was asked for.
        id: String,
    },
    /// It is a clip that is being filmed.
    #[error(
        "the clip {id:?} is still being filmed; a record `clip` of its event tells when it is there"
    )]
    NotYet {
        /// The id as it was asked for.
        id: String,
    },
    /// What was written is no clip of ours.
    #[error(
        "a clip of {bytes} bytes is not kept, {most} are the most; raise runtime.media_bytes or shorten the clip"
    )]
    TooLarge {
        bytes: u64,
        /// What one may have.
        most: u64,
    },
    /// The disk is full.
    #[error("the disk of {path} is full ({free} bytes free); free some space")]
    Full {
        /// The media folder.
        path: PathBuf,
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
    /// Makes the names in a folder durable; tests have one that refuses.
    sync_folder: fn(&Path) -> io::Result<()>,
    /// Held while files go to make room.
    index: Mutex<Index>,
    /// Taken alone or after `index`, and never held over I/O.
    names: Mutex<Names>,
}

/// Kept pictures, oldest first.
#[derive(Debug, Default)]
struct Index {
    files: VecDeque<Kept>,
    bytes: u64,
    dropped: u64,
}

/// The ids that were given.
#[derive(Debug, Default)]
struct Names {
    /// Those of clips that are being written; nobody takes their folders away.
    filming: BTreeSet<Ulid>,
    last: Ulid,
}

/// A kept file. The order is that of the ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Kept {
    id: Ulid,
    form: Form,
    bytes: u64,
}

impl Index {
    fn find(&self, id: Ulid) -> Option<Kept> {
        let at = self.files.partition_point(|kept| kept.id < id);
        self.files.get(at).copied().filter(|kept| kept.id == id)
    }

    fn insert(&mut self, kept: Kept) {
        let at = self.files.partition_point(|other| *other < kept);
        self.files.insert(at, kept);
        self.bytes += kept.bytes;
    }
}

impl Names {
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
                if name.starts_with('.') || name.ends_with(".tmp") {
                    fs::remove_file(file.path()).map_err(io_at(&file.path()))?;
                } else if let Some((id, form)) = named(&name) {
                    let bytes = file.metadata().map_err(io_at(&file.path()))?.len();
                    files.push(Kept { id, form, bytes });
                }
            }
        }
        files.sort_unstable();
        let last = files.last().map_or(Ulid::nil(), |kept| kept.id);
        let store = Self {
            root,
            limits,
            sync_folder: durable::sync_folder,
            index: Mutex::new(Index {
                bytes: files.iter().map(|kept| kept.bytes).sum(),
                files: files.into(),
                dropped: 0,
            }),
            names: Mutex::new(Names {
                filming: BTreeSet::new(),
                last,
            }),
        };
        store.make_room(0);
        Ok(store)
    }

    /// Where the files are.
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
        let id = self.names.lock().next_id(unix_ms);
        self.make_folder(id)?;
        let form = Form::Jpeg;
        let path = self.path_of(id, form);
        // Opening removes the half picture that a pulled plug may leave.
        durable::replace(&path, jpeg).map_err(io_at(&path))?;
        self.index.lock().insert(Kept { id, form, bytes });
        Ok(Media {
            id: id.to_string(),
            kind,
            content_type: CONTENT_TYPE.to_owned(),
            bytes,
            sha256: Hash::of(jpeg).to_string(),
        })
    }

    /// Most bytes that one clip may take.
    #[must_use]
    pub fn most_of_a_clip(&self) -> u64 {
        MOST_OF_A_CLIP.min(self.limits.max_bytes / SHARE_OF_A_CLIP)
    }

    /// Whether a clip that is being written may go on: the disk has more free than has to stay so.
    #[must_use]
    pub fn has_room_to_film(&self) -> bool {
        space(&self.root).is_ok_and(|disk| disk.free > self.limits.min_free_bytes)
    }

    /// An id for a clip whose event began at `unix_ms`, and where it is to be written once [`Self::place_clip`] has looked whether it can be. Until it
    /// is kept or given up it counts as being filmed. Waits for no disk.
    #[must_use]
    pub fn name_clip(&self, unix_ms: i64) -> NewClip {
        let mut names = self.names.lock();
        let id = names.next_id(unix_ms);
        names.filming.insert(id);
        drop(names);
        let name = format!(".{id}.{}", Form::Mp4.extension());
        NewClip {
            id: id.to_string(),
            path: self.folder_of(id).join(name),
        }
    }

    /// Sees to it that the clip can be written where it is to be.
    ///
    /// # Errors
    /// When the disk has no room for it or refuses. It is still to be given up then.
    pub fn place_clip(&self, clip: &NewClip) -> Result<(), MediaError> {
        let free = space(&self.root)
            .map_err(|StorageError { path, source }| MediaError::Io { path, source })?
            .free;
        let most = self.most_of_a_clip();
        if free < self.limits.min_free_bytes.saturating_add(most) {
            let path = self.root.clone();
            return Err(MediaError::Full { path, free });
        }
        let id = parse(&clip.id)?;
        // Under the lock, so that nobody who took the folder for an empty one takes it away behind our back.
        let _index = self.index.lock();
        self.make_folder(id)
    }

    /// Keeps the clip that was written at `written`; durable on return. Older pictures and clips give way.
    ///
    /// # Errors
    /// When it is no clip of ours, is too large, or the disk refuses. Nothing of it is left then.
    pub fn keep_clip(&self, id: &str, written: &Path) -> Result<ClipState, MediaError> {
        let kept = self.take_over(id, written);
        if kept.is_err() {
            self.give_up_clip(id, written);
        }
        kept
    }

    fn take_over(&self, id: &str, written: &Path) -> Result<ClipState, MediaError> {
        let ulid = parse(id)?;
        let extension = written.extension().and_then(|e| e.to_str());
        let form = extension.and_then(Form::of);
        let form = form.ok_or_else(|| MediaError::NotFound { id: shown(id) })?;
        let mut file = File::open(written).map_err(io_at(written))?;
        let bytes = file.metadata().map_err(io_at(written))?.len();
        // What is written between two looks at its size is on top.
        let most = 2 * self.most_of_a_clip();
        if bytes > most {
            return Err(MediaError::TooLarge { bytes, most });
        }
        let sha256 = Hash::of_all(&mut file).map_err(io_at(written))?.to_string();
        file.sync_all().map_err(io_at(written))?;
        self.make_room(bytes);
        let path = self.path_of(ulid, form);
        fs::rename(written, &path).map_err(io_at(&path))?;
        let folder = self.folder_of(ulid);
        if let Err(error) = (self.sync_folder)(&folder) {
            // It is told as lost, so the next start must not find it and count it as kept.
            remove(&path);
            return Err(io_at(&folder)(error));
        }
        let id = ulid;
        self.index.lock().insert(Kept { id, form, bytes });
        self.names.lock().filming.remove(&id);
        let content_type = form.content_type().to_owned();
        Ok(ClipState::Kept {
            content_type,
            bytes,
            sha256,
        })
    }

    /// Nothing comes of a clip: what there is of it at `written` goes.
    pub fn give_up_clip(&self, id: &str, written: &Path) {
        if let Ok(id) = parse(id) {
            self.names.lock().filming.remove(&id);
        }
        remove(written);
    }

    /// What became of a clip that was being filmed when the last run of the runtime ended.
    #[must_use]
    pub fn found_clip(&self, id: &str) -> Option<ClipState> {
        let kept = self.kept(id).ok()?;
        let path = self.path_of(kept.id, kept.form);
        let sha256 = Hash::of_all(&mut File::open(path).ok()?).ok()?.to_string();
        Some(ClipState::Kept {
            content_type: kept.form.content_type().to_owned(),
            bytes: kept.bytes,
            sha256,
        })
    }

    fn kept(&self, id: &str) -> Result<Kept, MediaError> {
        let ulid = parse(id)?;
        if self.names.lock().filming.contains(&ulid) {
            return Err(MediaError::NotYet { id: shown(id) });
        }
        let kept = self.index.lock().find(ulid);
        kept.ok_or_else(|| MediaError::NotFound { id: shown(id) })
    }

    /// File of the picture or clip `id`.
    ///
    /// # Errors
    /// [`MediaError::NotFound`] when `id` is not one of ours or it is gone, [`MediaError::NotYet`] while it is filmed.
    pub fn path(&self, id: &str) -> Result<PathBuf, MediaError> {
        let kept = self.kept(id)?;
        let path = self.path_of(kept.id, kept.form);
        if path.is_file() {
            Ok(path)
        } else {
            Err(MediaError::NotFound { id: shown(id) })
        }
    }

    /// The picture or clip `id`, to be read. It can be read to its end also where it is dropped meanwhile.
    ///
    /// # Errors
    /// [`MediaError::NotFound`] when `id` is not one of ours or it is gone, [`MediaError::NotYet`] while it is filmed; others when it can't be read.
    pub fn opened(&self, id: &str) -> Result<OpenedMedia, MediaError> {
        let kept = self.kept(id)?;
        let path = self.path_of(kept.id, kept.form);
        let file = File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (bytes, file) = file.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => MediaError::NotFound { id: shown(id) },
            _ => MediaError::Io { path, source },
        })?;
        Ok(OpenedMedia {
            file,
            bytes,
            content_type: kept.form.content_type(),
        })
    }

    /// All of the picture or clip `id`.
    #[cfg(test)]
    pub(crate) fn read(&self, id: &str) -> Result<Vec<u8>, MediaError> {
        let mut bytes = Vec::new();
        let mut file = self.opened(id)?.file;
        let read = io::Read::read_to_end(&mut file, &mut bytes);
        read.map_err(io_at(&self.root))?;
        Ok(bytes)
    }

    /// Bytes of all kept pictures and clips.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.index.lock().bytes
    }

    /// Pictures and clips dropped since the start to make room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.index.lock().dropped
    }

    /// Sees to it that the folder of `id` is there.
    fn make_folder(&self, id: Ulid) -> Result<(), MediaError> {
        let folder = self.folder_of(id);
        if !folder.is_dir() {
            fs::create_dir_all(&folder).map_err(io_at(&folder))?;
            (self.sync_folder)(&self.root).map_err(io_at(&self.root))?;
        }
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

    /// Drops the oldest pictures and clips until `bytes` are given back, or none is left. Answers what was given.
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
        let Kept { id, form, bytes } = index.files.pop_front()?;
        index.bytes -= bytes;
        index.dropped += 1;
        let path = self.path_of(id, form);
        if let Err(error) = fs::remove_file(&path) {
            tracing::warn!(path = %path.display(), %error, "picture not removed");
        }
        let folder = self.folder_of(id);
        let mut others = index.files.front().map(|next| next.id).into_iter();
        let is_used =
            others.any(|other| self.folder_of(other) == folder) || self.is_filmed_in(&folder);
        if !is_used && let Err(error) = fs::remove_dir(&folder) {
            tracing::debug!(path = %folder.display(), %error, "folder of a past day stays");
        }
        Some(bytes)
    }

    fn is_filmed_in(&self, folder: &Path) -> bool {
        let names = self.names.lock();
        names.filming.iter().any(|id| self.folder_of(*id) == folder)
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

/// Removes what there is of a clip that is lost.
fn remove(path: &Path) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "a clip that is lost is not removed");
        }
        _ => {}
    }
}

/// Whose file this is the name of.
fn named(name: &str) -> Option<(Ulid, Form)> {
    let (id, extension) = name.split_once('.')?;
    Some((parse(id).ok()?, Form::of(extension)?))
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

    fn begun(store: &MediaStore, unix_ms: i64) -> NewClip {
        let clip = store.name_clip(unix_ms);
        store.place_clip(&clip).unwrap();
        clip
    }

    #[test]
    fn a_clip_gets_its_id_while_the_disk_keeps_others_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), 1000);
        // Whoever makes room holds this for as long as the disk takes.
        let making_room = store.index.lock();
        let clip = store.name_clip(NOV_21);
        assert!(!clip.path.parent().unwrap().exists(), "a folder was made");
        drop(making_room);
        store.place_clip(&clip).unwrap();
        assert!(clip.path.parent().unwrap().is_dir());
        assert!(matches!(
            store.path(&clip.id),
            Err(MediaError::NotYet { .. })
        ));
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
    fn a_clip_is_served_when_it_is_whole_and_counts_like_pictures() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), 1000);
        let first = store.put(MediaKind::Clean, NOV_21, &[1; 300]).unwrap().id;
        let clip = begun(&store, NOV_21 + 1);
        fs::write(&clip.path, [2; 240]).unwrap();
        for refused in [store.read(&clip.id).err(), store.path(&clip.id).err()] {
            assert!(matches!(refused, Some(MediaError::NotYet { .. })));
        }
        let second = store.put(MediaKind::Clean, NOV_21 + 2, &[3; 500]).unwrap();
        let kept = store.keep_clip(&clip.id, &clip.path).unwrap();
        // The oldest went for it, and it lies in the order in which it was begun.
        assert!(store.read(&first).is_err());
        assert_eq!(store.bytes(), 740);
        assert_eq!(store.opened(&clip.id).unwrap().content_type, "video/mp4");
        let ClipState::Kept { bytes, sha256, .. } = &kept else {
            panic!("{kept:?}");
        };
        assert_eq!((*bytes, sha256), (240, &Hash::of(&[2; 240]).to_string()));

        let again = open(dir.path(), 1000);
        assert_eq!(again.found_clip(&clip.id), Some(kept));
        assert_eq!(again.read(&clip.id).unwrap(), [2; 240]);
        again.put(MediaKind::Clean, NOV_21 + 3, &[4; 300]).unwrap();
        assert!(again.read(&clip.id).is_err() && again.read(&second.id).is_ok());
    }

    #[test]
    fn half_a_clip_is_nothing_after_a_crash_and_nothing_when_it_is_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), 1000);
        let clips: Vec<NewClip> = (0..3).map(|n| begun(&store, NOV_21 + n)).collect();
        for clip in &clips {
            fs::write(&clip.path, [2; 100]).unwrap();
        }
        store.give_up_clip(&clips[0].id, &clips[0].path);
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
                most: 500
            }
        ));
        assert!(!clips[1].path.exists());

        let again = open(dir.path(), 1000);
        assert!(!clips[2].path.exists());
        assert_eq!((again.found_clip(&clips[2].id), again.bytes()), (None, 0));
    }

    #[test]
    fn a_clip_whose_name_is_not_durable_is_there_under_no_name() {
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
        assert_eq!(open(dir.path(), 1000).found_clip(&clip.id), None);
    }

    #[test]
    fn a_clip_is_begun_only_where_there_is_room_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let limits = MediaLimits {
            max_bytes: 1000,
            min_free_bytes: u64::MAX - 100,
        };
        let store = MediaStore::open(dir.path(), limits).unwrap();
        let clip = store.name_clip(NOV_21);
        let refused = store.place_clip(&clip).unwrap_err();
        assert!(matches!(refused, MediaError::Full { .. }), "{refused}");
        assert!(!store.has_room_to_film());
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
