#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::time::Duration;

use parking_lot::Condvar;
use watchkeeper_contract::event::ClipState;

use super::*;

const NOV_21: i64 = 1_795_219_200_000; // 2026-11-21T00:00:00Z

fn open(state: &Path, max_bytes: u64) -> MediaStore {
    let limits = MediaLimits {
        max_bytes,
        min_free_bytes: 0,
    };
    let store = MediaStore::open(state, limits).unwrap();
    drop(store.index());
    store
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
        .put(MediaKind::Clean, RetentionRank::Normal, NOV_21 + 5, b"jpeg")
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
fn files_that_could_not_be_listed_are_counted_later() {
    let dir = tempfile::tempdir().unwrap();
    let put = |store: &MediaStore| {
        let (kind, rank) = (MediaKind::Clean, RetentionRank::Normal);
        store.put(kind, rank, NOV_21, b"jpeg").unwrap()
    };
    let first = put(&open(dir.path(), 1000));
    let folder = dir.path().join("media");
    let store = MediaStore::open(dir.path(), MediaLimits::default()).unwrap();
    fs::rename(&folder, dir.path().join("away")).unwrap();
    fs::write(&folder, "no folder").unwrap();
    assert_eq!(store.bytes(), 0);
    fs::remove_file(&folder).unwrap();
    fs::rename(dir.path().join("away"), &folder).unwrap();
    let second = put(&store);
    assert_eq!(store.bytes(), 4, "too early for another count");
    let running = begun(&store, NOV_21);
    fs::write(&running.path, "video").unwrap();
    let long_ago = Instant::now().checked_sub(RETRY_COUNT);
    store.index.lock().count_failed = Some(long_ago.unwrap());
    assert_eq!(store.bytes(), 8);
    assert!(running.path.exists(), "a clip that is written");
    for media in [first, second] {
        assert_eq!(store.read(&media.id).unwrap(), b"jpeg");
    }
}

#[test]
fn id_can_not_name_a_file_outside_the_folder() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), 1000);
    fs::write(dir.path().join("secret.jpg"), "x").unwrap();
    let lower = store
        .put(MediaKind::Clean, RetentionRank::Normal, NOV_21, b"x")
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
                .put(
                    MediaKind::Clean,
                    RetentionRank::Normal,
                    NOV_21 + n * day,
                    b"1234",
                )
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
fn critical_media_outlive_others_over_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let put = |n: i64, rank| {
        let picture = open(dir.path(), 20).put(MediaKind::Clean, rank, NOV_21 + n, b"1234");
        picture.unwrap().id
    };
    let critical = put(0, RetentionRank::Critical);
    let clip = {
        let store = open(dir.path(), 20);
        let clip = begun(&store, NOV_21 + 1);
        fs::write(&clip.path, b"1234").unwrap();
        let rank = RetentionRank::Critical;
        store.keep_clip(&clip.id, rank, &clip.path).unwrap();
        clip.id
    };
    let others: Vec<String> = (2..8).map(|n| put(n, RetentionRank::Normal)).collect();
    let store = open(dir.path(), 20);
    assert_eq!(store.read(&critical).unwrap(), b"1234");
    assert_eq!(store.read(&clip).unwrap(), b"1234");
    let left = others.iter().filter(|id| store.path(id).is_ok());
    assert_eq!(
        left.collect::<Vec<_>>(),
        [&others[3], &others[4], &others[5]]
    );
    assert_eq!(store.free_space(u64::MAX), 20, "they are deleted last");
}

#[test]
fn critical_media_over_half_of_the_limit_are_deleted_first() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), 40);
    let normal = store.put(MediaKind::Clean, RetentionRank::Normal, NOV_21, b"1234");
    for n in 1..20 {
        let rank = RetentionRank::Critical;
        store
            .put(MediaKind::Clean, rank, NOV_21 + n, b"1234")
            .unwrap();
    }
    assert!(store.path(&normal.unwrap().id).is_ok());
}

#[test]
fn frames_kept_on_request_displace_little_evidence() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), 80);
    let put = |n: i64, rank| {
        let picture = store.put(MediaKind::Clean, rank, NOV_21 + n, b"1234");
        picture.unwrap().id
    };
    let early = put(0, RetentionRank::Requested);
    let events: Vec<String> = (1..20).map(|n| put(n, RetentionRank::Normal)).collect();
    let polled: Vec<String> = (20..60).map(|n| put(n, RetentionRank::Requested)).collect();
    assert!(store.path(&early).is_err());
    let kept = |ids: &[String]| ids.iter().filter(|id| store.path(id).is_ok()).count();
    assert_eq!((kept(&events), kept(&polled)), (17, 3));
    assert!(store.path(&polled[39]).is_ok(), "the newest stays");
}

#[test]
fn frames_kept_on_request_displace_little_on_a_full_disk() {
    let dir = tempfile::tempdir().unwrap();
    let put = |store: &MediaStore, n: i64, rank| {
        let picture = store.put(MediaKind::Clean, rank, NOV_21 + n, b"1234");
        picture.unwrap().id
    };
    let store = open(dir.path(), 1 << 20);
    let events = (0..16).map(|n| put(&store, n, RetentionRank::Normal));
    let events: Vec<String> = events.collect();
    let limits = MediaLimits {
        max_bytes: 1 << 20,
        min_free_bytes: u64::MAX,
    };
    let store = MediaStore::open(dir.path(), limits).unwrap();
    let polled = (16..56).map(|n| put(&store, n, RetentionRank::Requested));
    let polled: Vec<String> = polled.collect();
    let kept = |ids: &[String]| ids.iter().filter(|id| store.path(id).is_ok()).count();
    assert_eq!((kept(&events), kept(&polled)), (13, 3));
    assert!(store.path(&polled[39]).is_ok(), "the newest stays");
}

#[test]
fn file_that_can_not_be_deleted_stays_and_frees_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), 100);
    let ids = [0, 1, 2].map(|n| {
        store
            .put(MediaKind::Clean, RetentionRank::Normal, NOV_21 + n, b"1234")
            .unwrap()
            .id
    });
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
    let retry = |index: &mut Index| index.stuck.values_mut().for_each(|at| *at = Instant::now());
    retry(&mut store.index.lock());
    assert_eq!((store.free_space(u64::MAX), store.bytes()), (4, 0));
    assert!(store.index.lock().stuck.is_empty());
}

#[test]
fn foreign_entries_do_not_hinder_a_start() {
    let dir = tempfile::tempdir().unwrap();
    let id = open(dir.path(), 100).put(MediaKind::Clean, RetentionRank::Normal, NOV_21, b"1234");
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
        ids.push(
            store
                .put(MediaKind::Clean, RetentionRank::Normal, ms, b"1234")
                .unwrap()
                .id,
        );
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
        .put(MediaKind::Clean, RetentionRank::Normal, NOV_21, b"1234")
        .unwrap();
    let limits = MediaLimits {
        max_bytes: 100,
        min_free_bytes: u64::MAX,
    };
    let store = MediaStore::open(dir.path(), limits).unwrap();
    let second = store
        .put(MediaKind::Clean, RetentionRank::Normal, NOV_21, b"123")
        .unwrap();
    assert!(store.path(&first.id).is_err());
    assert_eq!(store.bytes(), 3);
    let refused = store
        .put(MediaKind::Clean, RetentionRank::Normal, NOV_21, b"1234")
        .unwrap_err();
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
    let first = store
        .put(MediaKind::Clean, RetentionRank::Normal, NOV_21, &[1; 300])
        .unwrap()
        .id;
    let clip = begun(&store, NOV_21 + 1);
    fs::write(&clip.path, [2; 240]).unwrap();
    for refused in [store.read(&clip.id).err(), store.path(&clip.id).err()] {
        assert!(matches!(refused, Some(MediaError::NotYet { .. })));
    }
    let second = store
        .put(
            MediaKind::Clean,
            RetentionRank::Normal,
            NOV_21 + 2,
            &[3; 500],
        )
        .unwrap();
    let entry = store
        .keep_clip(&clip.id, RetentionRank::Normal, &clip.path)
        .unwrap();
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
    again
        .put(
            MediaKind::Clean,
            RetentionRank::Normal,
            NOV_21 + 3,
            &[4; 300],
        )
        .unwrap();
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
    let refused = store
        .keep_clip(&clips[1].id, RetentionRank::Normal, &clips[1].path)
        .unwrap_err();
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
    let refused = store
        .keep_clip(&clip.id, RetentionRank::Normal, &clip.path)
        .unwrap_err();
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
    store
        .keep_clip(&clip.id, RetentionRank::Normal, &clip.path)
        .unwrap();
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
    let refused = store
        .put(MediaKind::Clean, RetentionRank::Normal, NOV_21, b"x")
        .unwrap_err();
    assert!(matches!(refused, MediaError::Io { .. }), "{refused}");
    let root = dir.path().join("media");
    assert!(root.join("2026-11-21").is_dir());
    for n in 0..2 {
        store
            .put(MediaKind::Clean, RetentionRank::Normal, NOV_21 + n, b"x")
            .unwrap();
    }
    assert_eq!(*SYNCED.lock(), [root.clone(), root, dir.path().to_owned()]);
}

#[test]
fn folder_of_a_picture_that_is_being_written_stays() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), 1000);
    store
        .put(MediaKind::Clean, RetentionRank::Normal, NOV_21, b"x")
        .unwrap();
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
    assert_eq!(store.bytes(), 0);
    assert_eq!(fs::read_dir(&day).unwrap().count(), 0);
    let refused = store
        .put(MediaKind::Clean, RetentionRank::Normal, NOV_21, b"x")
        .unwrap_err();
    assert!(refused.to_string().contains("is full"), "{refused}");
}

#[test]
fn clip_gets_its_id_while_a_new_folder_is_synced() {
    #[derive(PartialEq, Eq)]
    enum Sync {
        Coming,
        Runs,
        Ends,
    }
    static SYNC: Mutex<Sync> = Mutex::new(Sync::Coming);
    static MOVED: Condvar = Condvar::new();
    const TIMEOUT: Duration = Duration::from_secs(60);
    fn wait_in_sync(_: &Path) -> io::Result<()> {
        let mut sync = SYNC.lock();
        if *sync == Sync::Coming {
            *sync = Sync::Runs;
            MOVED.notify_all();
        }
        MOVED.wait_while_for(&mut sync, |sync| *sync == Sync::Runs, TIMEOUT);
        Ok(())
    }
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path(), 1000);
    store.sync_folder = wait_in_sync;
    std::thread::scope(|scope| {
        let storing =
            scope.spawn(|| store.put(MediaKind::Clean, RetentionRank::Normal, NOV_21, b"x"));
        let mut sync = SYNC.lock();
        let waited = MOVED.wait_while_for(&mut sync, |sync| *sync == Sync::Coming, TIMEOUT);
        drop(sync);
        let holds_index = store.index.try_lock().is_none();
        let clip = store.new_clip(NOV_21);
        *SYNC.lock() = Sync::Ends;
        MOVED.notify_all();
        assert!(!waited.timed_out(), "the new folder is not synced");
        assert!(holds_index, "the disk is used without the lock");
        let picture = storing.join().unwrap().unwrap();
        assert!(picture.id < clip.id);
    });
}
