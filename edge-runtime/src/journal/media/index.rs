//! The index of stored files, and the ids given to them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::Instant;

use ulid::Ulid;

use super::error::MediaError;
use crate::journal::RetentionRank;

/// MIME type of every snapshot.
pub const CONTENT_TYPE: &str = "image/jpeg";

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Form {
    Jpeg,
    Mp4,
    Webm,
}

impl Form {
    pub(super) const ALL: [Self; 3] = [Self::Jpeg, Self::Mp4, Self::Webm];

    pub(super) fn extension(self) -> &'static str {
        match self {
            Self::Jpeg => "jpg",
            Self::Mp4 => "mp4",
            Self::Webm => "webm",
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Jpeg => CONTENT_TYPE,
            Self::Mp4 => "video/mp4",
            Self::Webm => "video/webm",
        }
    }

    pub(super) fn of(extension: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|form| form.extension() == extension)
    }
}

/// What file names say of a rank, before the extension; nothing of a normal one.
const RANKS: [(RetentionRank, &str); 2] = [
    (RetentionRank::Requested, "requested"),
    (RetentionRank::Critical, "critical"),
];

/// Stored files, by their rank.
#[derive(Debug, Default)]
pub(super) struct Index {
    queues: BTreeMap<RetentionRank, RankQueue>,
    /// Whether the files of earlier runs are in it.
    pub(super) is_counted: bool,
    /// When a folder of them could not be read.
    pub(super) count_failed: Option<Instant>,
    /// Files that can't be deleted, with the time of the next try.
    pub(super) stuck: BTreeMap<Ulid, Instant>,
    pub(super) deleted: u64,
    /// The last folder whose name is on stable storage.
    pub(super) durable_folder: Option<PathBuf>,
}

/// Files of one rank, oldest first.
#[derive(Debug, Default)]
struct RankQueue {
    files: VecDeque<MediaEntry>,
    bytes: u64,
}

/// Reserves the ids of files.
#[derive(Debug, Default)]
pub(super) struct MediaIds {
    /// Ids whose files are being written; their folders are not removed.
    pub(super) active: BTreeSet<Ulid>,
    pub(super) last: Ulid,
}

/// A stored file, ordered by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MediaEntry {
    pub(super) id: Ulid,
    pub(super) form: Form,
    pub(super) rank: RetentionRank,
    pub(super) bytes: u64,
}

impl MediaEntry {
    pub(super) fn file_name(&self) -> String {
        let (id, extension) = (self.id, self.form.extension());
        match RANKS.iter().find(|(rank, _)| *rank == self.rank) {
            Some((_, rank)) => format!("{id}.{rank}.{extension}"),
            None => format!("{id}.{extension}"),
        }
    }

    /// The entry of a file with this name; its size is not known yet. `None` for foreign names.
    pub(super) fn of_file(name: &str) -> Option<Self> {
        let (id, rest) = name.split_once('.')?;
        let (rank, extension) = match rest.split_once('.') {
            Some((rank, extension)) => {
                let (rank, _) = RANKS.into_iter().find(|(_, name)| *name == rank)?;
                (rank, extension)
            }
            None => (RetentionRank::Normal, rest),
        };
        Some(Self {
            id: parse(id).ok()?,
            form: Form::of(extension)?,
            rank,
            bytes: 0,
        })
    }
}

impl RankQueue {
    fn find(&self, id: Ulid) -> Option<MediaEntry> {
        let at = self.files.partition_point(|entry| entry.id < id);
        self.files.get(at).copied().filter(|entry| entry.id == id)
    }

    fn insert(&mut self, entry: MediaEntry) {
        let at = self.files.partition_point(|other| *other < entry);
        self.files.insert(at, entry);
        self.bytes += entry.bytes;
    }

    fn remove(&mut self, entry: &MediaEntry) {
        let at = self.files.partition_point(|other| other < entry);
        if let Some(removed) = self.files.remove(at) {
            self.bytes -= removed.bytes;
        }
    }

    /// The ids of the files around `id`, which has no file here.
    fn neighbours(&self, id: Ulid) -> [Option<Ulid>; 2] {
        let at = self.files.partition_point(|entry| entry.id < id);
        [at.checked_sub(1), Some(at)].map(|at| Some(self.files.get(at?)?.id))
    }
}

impl Index {
    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.queues.values().map(|queue| queue.bytes).sum()
    }

    /// All files, by rank and then oldest first.
    pub(super) fn files(&self) -> impl Iterator<Item = &MediaEntry> {
        self.queues.values().flat_map(|queue| &queue.files)
    }

    pub(super) fn find(&self, id: Ulid) -> Option<MediaEntry> {
        self.queues.values().find_map(|queue| queue.find(id))
    }

    pub(super) fn insert(&mut self, entry: MediaEntry) {
        self.queues.entry(entry.rank).or_default().insert(entry);
    }

    /// The file to delete next within `max_bytes`, of those that can be deleted at `now`.
    pub(super) fn next_to_delete(&self, max_bytes: u64, now: Instant) -> Option<MediaEntry> {
        // On a nearly full disk the files never fill the limit, so the shares are of what is here.
        let bound = max_bytes.min(self.bytes());
        let exceeds = |rank: RetentionRank, share: u64| {
            let queue = self.queues.get(&rank);
            queue.is_some_and(|queue| queue.bytes > bound / share)
        };
        RetentionRank::deletion_order(exceeds)
            .find_map(|group| {
                let oldest = group.iter().filter_map(|rank| self.oldest(*rank, now));
                oldest.min()
            })
            .copied()
    }

    /// The oldest file of `rank` that can be deleted at `now`.
    fn oldest(&self, rank: RetentionRank, now: Instant) -> Option<&MediaEntry> {
        let can_delete = |id: &Ulid| self.stuck.get(id).is_none_or(|retry| *retry <= now);
        let mut files = self.queues.get(&rank)?.files.iter();
        files.find(|entry| can_delete(&entry.id))
    }

    /// Removes a deleted file; returns the ids of the files before and after it, of each rank.
    pub(super) fn remove(&mut self, entry: &MediaEntry) -> Vec<Ulid> {
        if let Some(queue) = self.queues.get_mut(&entry.rank) {
            queue.remove(entry);
        }
        self.stuck.remove(&entry.id);
        self.deleted += 1;
        let neighbours = self.queues.values().map(|queue| queue.neighbours(entry.id));
        neighbours.flatten().flatten().collect()
    }
}

impl MediaIds {
    /// The id of a file that is going to be written.
    pub(super) fn reserve(&mut self, unix_ms: i64) -> Ulid {
        let id = self.next_id(unix_ms);
        self.active.insert(id);
        id
    }

    /// The next id, higher than all others, with the clock's time if possible.
    fn next_id(&mut self, unix_ms: i64) -> Ulid {
        // A time before 1970 is as wrong as 1970.
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

pub(super) fn parse(id: &str) -> Result<Ulid, MediaError> {
    Ulid::from_string(id)
        .ok()
        // Only our spelling: one picture has one id.
        .filter(|ulid| ulid.to_string() == id)
        .ok_or_else(|| MediaError::NotFound { id: short_id(id) })
}

pub(super) fn short_id(id: &str) -> String {
    id.chars().take(40).collect()
}
