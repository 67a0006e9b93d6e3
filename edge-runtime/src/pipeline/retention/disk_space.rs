//! DiskSpace on the disk for events: recordings and pictures give way to the journal, oldest first.
//!
//! What is kept free, in bytes of the disk that the state folder lies on:
//!
//! | free bytes | what happens |
//! |---|---|
//! | below 512 MiB | no recording goes on ([`super::recordings`]) |
//! | below 64 MiB | pictures don't grow: a new one takes the place of the oldest ([`crate::journal::media`]) |
//! | below [`LOW`] | old recordings are deleted, then old pictures, until [`ENOUGH`] is free |
//! | below 16 MiB | events wait in memory ([`watchkeeper_store::Options::min_free_bytes`]); frames are dropped, events are not |
//!
//! Invariants: nothing is deleted unless it brings the room that is needed, so a disk that somebody else fills costs no
//! picture for nothing; what lies on another disk is left alone; one call deletes no more than is needed by what the
//! files say of their size, whatever the file system still reports as used.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use watchkeeper_board::storage::space;

use super::recordings::Recordings;
use crate::journal::media::MediaStore;

/// Fewer free bytes than this, and media give way: before the journal has to refuse at 16 MiB.
pub const LOW: u64 = 20 << 20;

/// Free bytes that giving way ends at, so that it does not begin again with the next event.
pub const ENOUGH: u64 = 32 << 20;

/// Who gives way, and to what.
#[derive(Debug)]
pub struct DiskSpace {
    state: PathBuf,
    recordings: Arc<Recordings>,
    media: Arc<MediaStore>,
}

impl DiskSpace {
    /// DiskSpace on the disk of the state folder `state`.
    #[must_use]
    pub fn new(state: &Path, recordings: Arc<Recordings>, media: Arc<MediaStore>) -> Self {
        Self {
            state: state.to_owned(),
            recordings,
            media,
        }
    }

    /// Makes room when the disk is nearly full; to be called now and then. Answers the bytes that were deleted.
    pub fn keep(&self) -> u64 {
        match space(&self.state) {
            Ok(disk) if disk.free < LOW => self.give(ENOUGH - disk.free),
            Ok(_) => 0,
            Err(error) => {
                tracing::warn!(%error, "nobody gives way to events");
                0
            }
        }
    }

    /// Makes room for a write that needs `needed` free bytes. Answers the bytes that were deleted: with none, trying
    /// again is in vain until somebody else makes room.
    pub fn make(&self, needed: u64) -> u64 {
        let wanted = needed.saturating_add(ENOUGH - LOW).max(ENOUGH);
        match space(&self.state) {
            Ok(disk) if disk.free < wanted => self.give(wanted - disk.free),
            Ok(_) | Err(_) => 0,
        }
    }

    fn give(&self, wanted: u64) -> u64 {
        let recordings = self.recordings.folder();
        let can = |folder: &Path, bytes: u64| if self.same_disk(folder) { bytes } else { 0 };
        let of_recordings = can(recordings, self.recordings.bytes());
        let of_media = can(self.media.folder(), self.media.bytes());
        if of_recordings.saturating_add(of_media) < wanted {
            return 0;
        }
        let mut given = self.recordings.give(wanted.min(of_recordings));
        given += self.media.give(wanted.saturating_sub(given).min(of_media));
        tracing::warn!(
            wanted,
            given,
            "the disk is nearly full; old recordings and pictures made room for events"
        );
        given
    }

    fn same_disk(&self, folder: &Path) -> bool {
        let device = |path: &Path| fs::metadata(path).map(|m| m.dev()).ok();
        device(folder).is_some_and(|d| Some(d) == device(&self.state))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use std::time::Duration;

    use watchkeeper_contract::event::MediaKind;

    use super::*;
    use crate::journal::media::MediaLimits;
    use crate::pipeline::retention::recordings::Limits;

    /// Two parts of 1000 bytes and three pictures of 100.
    fn filled(state: &Path) -> (DiskSpace, Vec<String>) {
        let recordings = Recordings::new(
            state,
            Limits {
                max_bytes: u64::MAX,
                max_age: Duration::MAX,
                min_free_bytes: 0,
            },
        );
        fs::create_dir_all(state.join("recordings")).unwrap();
        for part in ["p.1.mp4", "q.2.mp4"] {
            fs::write(state.join("recordings").join(part), [0; 1000]).unwrap();
        }
        let limits = MediaLimits {
            max_bytes: u64::MAX,
            min_free_bytes: 0,
        };
        let media = MediaStore::open(state, limits).unwrap();
        let ids = (0..3).map(|_| media.put(MediaKind::Clean, 0, &[1; 100]).unwrap().id);
        let ids = ids.collect();
        (
            DiskSpace::new(state, Arc::new(recordings), Arc::new(media)),
            ids,
        )
    }

    fn left(room: &DiskSpace, ids: &[String]) -> (Vec<bool>, Vec<bool>) {
        let part = |name: &str| room.recordings.folder().join(name).exists();
        (
            vec![part("p.1.mp4"), part("q.2.mp4")],
            ids.iter().map(|id| room.media.path(id).is_ok()).collect(),
        )
    }

    #[test]
    fn the_oldest_recording_goes_first_and_pictures_only_when_none_is_left() {
        let state = tempfile::tempdir().unwrap();
        let (room, ids) = filled(state.path());
        assert_eq!(room.give(10), 1000);
        assert_eq!(left(&room, &ids), (vec![false, true], vec![true; 3]));
        assert_eq!(room.give(1150), 1200);
        assert_eq!(
            left(&room, &ids),
            (vec![false, false], vec![false, false, true])
        );
    }

    #[test]
    fn nothing_goes_when_all_of_it_would_not_be_enough() {
        let state = tempfile::tempdir().unwrap();
        let (room, ids) = filled(state.path());
        assert_eq!(room.give(2301), 0);
        assert_eq!(left(&room, &ids), (vec![true, true], vec![true; 3]));
    }

    #[test]
    fn a_disk_with_room_to_spare_costs_nothing() {
        let state = tempfile::tempdir().unwrap();
        let (room, ids) = filled(state.path());
        assert!(
            space(state.path()).unwrap().free > ENOUGH,
            "no room to test in"
        );
        assert_eq!((room.keep(), room.make(1)), (0, 0));
        assert_eq!(left(&room, &ids), (vec![true, true], vec![true; 3]));
    }
}
