//! Disk space for events: old recordings and pictures are deleted when the disk is nearly full.
//!
//! | free bytes of the disk with the state folder | what happens |
//! |---|---|
//! | below 512 MiB | no recording is written ([`super::recordings`]) |
//! | below 128 MiB | the detection history is not written ([`crate::history`]) |
//! | below 64 MiB | a new picture replaces others, in the order of [`crate::journal::RetentionRank`] ([`crate::journal::media`]); effects are refused ([`crate::effects`]) |
//! | below [`LOW`] | old recordings are deleted, then pictures and clips in that order, until [`ENOUGH`] is free or none are left |
//! | below 16 MiB | events wait in memory ([`watchkeeper_store::Options::min_free_bytes`]); frames are dropped, events are not |
//!
//! - Nothing is deleted unless that frees what is needed: [`LOW`], or what a refused write needs.
//!   What can't be deleted does not count: files of another user, pictures where deletion failed.
//! - Files on another disk are left alone.
//! - A call deletes no more than needed by the sizes of files, whatever the file system reports.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use watchkeeper_board::storage::space;

use super::recordings::Recordings;
use crate::journal::media::MediaStore;

/// Below this, media is deleted: before the journal refuses at 16 MiB.
pub const LOW: u64 = 20 << 20;

/// Target of the deletion, so that it does not start again with the next event.
pub const ENOUGH: u64 = 32 << 20;

/// Deletes media for the journal.
#[derive(Debug)]
pub struct DiskSpace {
    state: PathBuf,
    recordings: Arc<Recordings>,
    media: Arc<MediaStore>,
}

impl DiskSpace {
    /// Guards the disk of the state folder `state`.
    pub fn new(state: &Path, recordings: Arc<Recordings>, media: Arc<MediaStore>) -> Self {
        Self {
            state: state.to_owned(),
            recordings,
            media,
        }
    }

    /// Deletes expired recordings, and frees space when the disk is nearly full; called regularly.
    pub fn check(&self) {
        self.recordings.delete_expired();
        self.free_when_low();
    }

    /// Frees space when the disk is nearly full. Returns the deleted bytes.
    fn free_when_low(&self) -> u64 {
        match space(&self.state) {
            Ok(disk) if disk.free < LOW => self.free(LOW - disk.free, ENOUGH - disk.free),
            Ok(_) => 0,
            Err(error) => {
                tracing::warn!(%error, "can't read the free disk space");
                0
            }
        }
    }

    /// Frees space for a write that needs `needed` free bytes. Returns the deleted bytes; after 0,
    /// a retry is useless until space is freed elsewhere.
    pub fn free_for(&self, needed: u64) -> u64 {
        let target = needed.saturating_add(ENOUGH - LOW).max(ENOUGH);
        match space(&self.state) {
            Ok(disk) if disk.free < target => {
                self.free(needed.saturating_sub(disk.free), target - disk.free)
            }
            Ok(_) | Err(_) => 0,
        }
    }

    /// Deletes `wanted_bytes`, or what there is if that is at least `needed_bytes`.
    fn free(&self, needed_bytes: u64, wanted_bytes: u64) -> u64 {
        let recordings = self.recordings.folder();
        let can = |folder: &Path, bytes: u64| if self.same_disk(folder) { bytes } else { 0 };
        let of_recordings = can(recordings, self.recordings.deletable_bytes());
        let of_media = can(self.media.folder(), self.media.deletable_bytes());
        if of_recordings.saturating_add(of_media) < needed_bytes {
            return 0;
        }
        let mut freed = self.recordings.free(wanted_bytes.min(of_recordings));
        freed += self
            .media
            .free_space(wanted_bytes.saturating_sub(freed).min(of_media));
        if freed > 0 {
            tracing::warn!(
                needed_bytes,
                freed,
                "the disk is nearly full; deleted old recordings and pictures"
            );
        }
        freed
    }

    fn same_disk(&self, folder: &Path) -> bool {
        let device = |path: &Path| fs::metadata(path).map(|m| m.dev()).ok();
        device(folder).is_some_and(|d| Some(d) == device(&self.state))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Duration;

    use watchkeeper_contract::event::MediaKind;

    use super::*;
    use crate::journal::RetentionRank;
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
        let ids = (0..3).map(|_| {
            media
                .put(MediaKind::Clean, RetentionRank::Normal, 0, &[1; 100])
                .unwrap()
                .id
        });
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
    fn recordings_are_deleted_before_pictures() {
        let state = tempfile::tempdir().unwrap();
        let (room, ids) = filled(state.path());
        assert_eq!(room.free(10, 10), 1000);
        assert_eq!(left(&room, &ids), (vec![false, true], vec![true; 3]));
        assert_eq!(room.free(1150, 1150), 1200);
        assert_eq!(
            left(&room, &ids),
            (vec![false, false], vec![false, false, true])
        );
    }

    #[test]
    fn nothing_is_deleted_when_it_would_not_be_enough() {
        let state = tempfile::tempdir().unwrap();
        let (room, ids) = filled(state.path());
        assert_eq!(room.free(2301, 5000), 0);
        assert_eq!(left(&room, &ids), (vec![true, true], vec![true; 3]));
    }

    #[test]
    fn everything_is_deleted_when_that_is_enough_but_not_the_target() {
        let state = tempfile::tempdir().unwrap();
        let (room, ids) = filled(state.path());
        assert_eq!(room.free(2300, 5000), 2300);
        assert_eq!(left(&room, &ids), (vec![false, false], vec![false; 3]));
    }

    #[test]
    fn pictures_that_can_not_be_deleted_do_not_count() {
        let state = tempfile::tempdir().unwrap();
        let (room, ids) = filled(state.path());
        let stuck = room.media.path(&ids[0]).unwrap();
        fs::remove_file(&stuck).unwrap();
        fs::create_dir(&stuck).unwrap();
        assert_eq!(room.media.free_space(100), 100);
        assert_eq!(room.free(2101, 2101), 0);
        assert_eq!(
            left(&room, &ids),
            (vec![true, true], vec![false, false, true])
        );
    }

    #[test]
    fn nothing_is_deleted_beside_folders_of_others() {
        let state = tempfile::tempdir().unwrap();
        let (room, ids) = filled(state.path());
        let day = room.media.path(&ids[0]).unwrap();
        let day = day.parent().unwrap();
        let set_mode = |folder: &Path, mode| {
            fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
        };
        for (folder, others) in [(day, 2000), (room.recordings.folder(), 300)] {
            set_mode(folder, 0o500);
            if fs::write(folder.join("probe"), []).is_ok() {
                #[allow(clippy::print_stderr, reason = "the convention for skipped tests")]
                {
                    eprintln!("SKIPPED: this user may write everywhere");
                }
                return;
            }
            assert_eq!(room.free(others + 1, 5000), 0);
            set_mode(folder, 0o700);
            assert_eq!(left(&room, &ids), (vec![true, true], vec![true; 3]));
        }
    }

    #[test]
    fn disk_with_space_deletes_nothing() {
        let state = tempfile::tempdir().unwrap();
        let (room, ids) = filled(state.path());
        assert!(
            space(state.path()).unwrap().free > ENOUGH,
            "not enough free space for the test"
        );
        assert_eq!((room.free_when_low(), room.free_for(1)), (0, 0));
        assert_eq!(left(&room, &ids), (vec![true, true], vec![true; 3]));
    }
}
