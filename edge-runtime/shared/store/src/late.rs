//! A store that is not open for writing at first: its disk refuses, or its records are verified
//! later.
//!
//! ```text
//!  Waiting ──(a write or check finds the disk writable)──► Open
//!  reads: the records that were stored last               the store on disk
//!  writes: refused with the disk's error
//!
//!  Unverified ──(the first write or check verifies all)──► Open
//!  reads: the records that were stored last               the store on disk
//! ```
//!
//! - Nothing is acknowledged before it is on disk: a waiting store keeps no write in memory.
//! - A full or read-only disk is waited for. Any other error of opening is returned at once.
//! - Records are the same before and after the change to open, or the store refuses everything
//!   until the process starts again. Its readers would know an old state. They differ after a
//!   repair, or after another process wrote where no lock file kept it out.
//! - The folder's lock is kept over all attempts.
//! - No reader sees the files while an attempt changes them. Verifying changes none that it reads.
//! - Not before a write or check is the disk tried again; a caller that waits does that regularly.

use std::fmt;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::batch::{Batch, Keyspace};
use crate::disk::DiskStore;
use crate::error::StoreError;
use crate::lock::FolderLock;
use crate::open::{self, OpenReport};
use crate::options::Options;
use crate::read_only::ReadOnlyStore;
use crate::waiting::Waiting;
use crate::{OpenOutcome, Page, Store};

/// Makes the note of [`DiskStore::open_noting`]; it may be called several times.
pub type Note = dyn Fn(&dyn Store, &OpenReport) -> Result<Batch, StoreError> + Send + Sync;

/// Records on a disk that may refuse at first.
pub struct LateStore {
    root: PathBuf,
    options: Options,
    note: Box<Note>,
    state: RwLock<State>,
    /// Serialises attempts to open.
    attempt: Mutex<()>,
    /// Held for writing while an attempt may change the files.
    files: RwLock<()>,
}

#[derive(Debug, Clone)]
enum State {
    Waiting(Arc<ReadOnlyStore>, Waiting),
    Unverified(Arc<ReadOnlyStore>),
    Open(Arc<DiskStore>),
    /// The records differ from those that were read, or can't be opened: the reason.
    Changed(String),
}

impl fmt::Debug for LateStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LateStore")
            .field("root", &self.root)
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

impl LateStore {
    /// Opens the store in the folder `root` like [`DiskStore::open_noting`]. On a full or read-only
    /// disk it waits, with the records that can be read.
    ///
    /// # Errors
    /// Those of [`DiskStore::open_noting`], except a full or read-only disk.
    pub fn open(
        root: &Path,
        options: &Options,
        note: Box<Note>,
    ) -> Result<(Self, OpenReport), StoreError> {
        let (state, report) = match DiskStore::open_noting(root, options, &note) {
            Ok((store, report)) => (State::Open(Arc::new(store)), report),
            Err(error) => {
                let waiting = Waiting::of(&error).ok_or(error)?;
                let (copy, report) = ReadOnlyStore::open(root, options)?;
                tracing::error!(
                    why = waiting.why,
                    records = report.records,
                    "the store waits for its disk; nothing is written meanwhile"
                );
                (State::Waiting(Arc::new(copy), waiting), report)
            }
        };
        Ok((Self::with_state(root, options, note, state), report))
    }

    /// Opens the store like [`Self::open`]. Where the last run left the file whole, reading and
    /// checking all of its records is left to the first write or check.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_unverified(
        root: &Path,
        options: &Options,
        note: Box<Note>,
    ) -> Result<(Self, OpenReport), StoreError> {
        let Some(copy) = ReadOnlyStore::open_unverified(root, options) else {
            return Self::open(root, options, note);
        };
        let state = State::Unverified(Arc::new(copy));
        let store = Self::with_state(root, options, note, state);
        Ok((store, OpenReport::empty()))
    }

    fn with_state(root: &Path, options: &Options, note: Box<Note>, state: State) -> Self {
        Self {
            root: root.to_owned(),
            options: options.clone(),
            note,
            state: RwLock::new(state),
            attempt: Mutex::default(),
            files: RwLock::default(),
        }
    }

    fn state(&self) -> State {
        let state = self.state.read();
        state.clone()
    }

    fn set(&self, state: State) {
        *self.state.write() = state;
    }

    /// Returns the store on disk, after an attempt to open it where it waits.
    fn on_disk(&self) -> Result<Arc<DiskStore>, StoreError> {
        if let State::Open(store) = self.state() {
            return Ok(store);
        }
        let _attempt = self.attempt.lock();
        let copy = match self.state() {
            State::Open(store) => return Ok(store),
            State::Changed(why) => return Err(self.changed(why)),
            State::Waiting(copy, _) | State::Unverified(copy) => copy,
        };
        match open::take_folder(&self.root, &self.options, copy.lock()) {
            Ok(lock) => self.open_locked(lock, &copy),
            Err(error) => Err(self.refused(copy, error)),
        }
    }

    /// Opens the store for writing, in place of `copy`.
    fn open_locked(
        &self,
        lock: FolderLock,
        copy: &ReadOnlyStore,
    ) -> Result<Arc<DiskStore>, StoreError> {
        let held = lock.share();
        let held = held.map_err(|e| StoreError::from_io(&self.root, "keep the lock", e))?;
        // Readers wait from then on.
        let mut files = None;
        let begin_changes = || {
            files = Some(self.files.write());
        };
        let mut is_same = false;
        let note = |store: &dyn Store, report: &OpenReport| {
            is_same = copy.is_found_by(report, store.mark());
            (self.note)(store, report)
        };
        let opened = DiskStore::open_locked(lock, &self.root, &self.options, begin_changes, note);
        let result = match opened {
            Ok((store, _)) if is_same => {
                tracing::info!(root = %self.root.display(), "the store is verified and open");
                let store = Arc::new(store);
                self.set(State::Open(Arc::clone(&store)));
                Ok(store)
            }
            Ok((_, report)) => Err(self.set_changed(match report.outcome {
                OpenOutcome::Clean if report.corrupt.is_empty() => {
                    "another process wrote to the store before it was opened for writing".to_owned()
                }
                outcome => format!("the store was repaired after it was read: {outcome:?}"),
            })),
            // The attempt may have changed the files under the copy.
            Err(error) => match ReadOnlyStore::open_locked(Some(held), &self.root, &self.options) {
                Ok((again, _)) if again.is_same(copy) => Err(self.refused(Arc::new(again), error)),
                Ok(_) | Err(_) => Err(self.set_changed(error.to_string())),
            },
        };
        drop(files);
        result
    }

    /// Waits with `copy` where `error` is a reason to wait; returns it.
    fn refused(&self, copy: Arc<ReadOnlyStore>, error: StoreError) -> StoreError {
        match Waiting::of(&error) {
            Some(waiting) => self.set(State::Waiting(copy, waiting)),
            // Opening it again at the next start reports what is wrong.
            None => self.set(State::Changed(error.to_string())),
        }
        error
    }

    fn set_changed(&self, why: String) -> StoreError {
        self.set(State::Changed(why.clone()));
        self.changed(why)
    }

    fn changed(&self, why: String) -> StoreError {
        StoreError::Poisoned {
            path: self.root.clone(),
            why,
        }
    }

    /// Runs `read` on the present records, once no attempt changes the files.
    fn read<T>(
        &self,
        read: impl FnOnce(&dyn Store) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let _files = self.files.read();
        match self.state() {
            State::Open(store) => read(&*store),
            State::Waiting(copy, _) | State::Unverified(copy) => read(&*copy),
            State::Changed(why) => Err(self.changed(why)),
        }
    }
}

impl Store for LateStore {
    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(|store| store.get(keyspace, key))
    }

    fn scan(
        &self,
        keyspace: Keyspace,
        from: Bound<&[u8]>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        self.read(|store| store.scan(keyspace, from, limit))
    }

    fn write(&self, batch: Batch) -> Result<(), StoreError> {
        self.on_disk()?.write(batch)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.on_disk()?.sync()
    }

    fn check(&self) -> Result<(), StoreError> {
        self.on_disk()?.check()
    }

    fn mark(&self) -> Option<Vec<u8>> {
        self.read(|store| Ok(store.mark())).ok().flatten()
    }

    fn poison(&self) -> Option<String> {
        match self.state() {
            State::Open(store) => store.poison(),
            State::Waiting(..) | State::Unverified(_) => None,
            State::Changed(why) => Some(why),
        }
    }

    fn waiting(&self) -> Option<Waiting> {
        match self.state() {
            State::Waiting(_, waiting) => Some(waiting),
            State::Unverified(_) | State::Open(_) | State::Changed(_) => None,
        }
    }

    fn size_on_disk(&self) -> Result<u64, StoreError> {
        self.read(|store| store.size_on_disk())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::table::FILE;

    const EVENTS: Keyspace = Keyspace::new("events");

    /// Opens the store as on a disk that is full until `needed` bytes are free.
    fn open(root: &Path, needed: u64) -> LateStore {
        open_with(root, needed, Box::new(|_, _| Ok(Batch::new())))
    }

    fn open_with(root: &Path, needed: u64, note: Box<Note>) -> LateStore {
        let options = Options {
            min_free_bytes: needed,
            ..Options::default()
        };
        LateStore::open(root, &options, note).unwrap().0
    }

    fn put(value: &[u8]) -> Batch {
        Batch::new().put(EVENTS, value, value).mark(value)
    }

    fn keys(store: &LateStore) -> Vec<Vec<u8>> {
        let page = store.scan(EVENTS, Bound::Unbounded, 99).unwrap();
        page.entries.into_iter().map(|entry| entry.key).collect()
    }

    /// The files of a folder with their contents.
    fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.extend(files(&path));
            } else {
                found.push((path.clone(), std::fs::read(&path).unwrap()));
            }
        }
        found.sort();
        found
    }

    /// A copy of an open store's folder: what a kill would leave.
    fn killed(running: &Path) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        for (path, content) in files(running) {
            let to = copy.path().join(path.strip_prefix(running).unwrap());
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::write(to, content).unwrap();
        }
        copy
    }

    fn open_unverified(root: &Path) -> LateStore {
        let note: Box<Note> = Box::new(|_, _| Ok(Batch::new()));
        LateStore::open_unverified(root, &Options::default(), note)
            .unwrap()
            .0
    }

    #[test]
    fn store_left_whole_is_read_before_it_is_verified() {
        let closed = tempfile::tempdir().unwrap();
        let running = open(closed.path(), 0);
        running.commit(put(b"a")).unwrap();
        let (now, rebooted) = (killed(closed.path()), killed(closed.path()));
        std::fs::write(rebooted.path().join("lock"), "1\nanother boot\n").unwrap();
        drop(running);
        for (folder, is_early) in [(closed, true), (now, true), (rebooted, false)] {
            let store = open_unverified(folder.path());
            assert_eq!(matches!(store.state(), State::Unverified(_)), is_early);
            assert_eq!(keys(&store), [b"a"]);
            assert_eq!(store.mark().as_deref(), Some(&b"a"[..]));
            assert!(crate::in_use(folder.path()).is_some());
            store.check().unwrap();
            store.commit(put(b"b")).unwrap();
            assert_eq!(keys(&store), [b"a", b"b"]);
        }
    }

    #[test]
    fn damage_found_after_a_read_asks_for_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), 0);
        let records = Batch::new().put(EVENTS, b"a", &[7; 600]);
        store.commit(records.put(EVENTS, b"b", b"b")).unwrap();
        drop(store);
        let file = dir.path().join("data").join(FILE);
        let mut bytes = std::fs::read(&file).unwrap();
        let run = |at: &usize| bytes[*at..].starts_with(&[7; 100]);
        let at = (0..bytes.len()).find(run).unwrap();
        bytes[at] ^= 1;
        std::fs::write(&file, bytes).unwrap();

        let store = open_unverified(dir.path());
        assert_eq!(store.get(EVENTS, b"b").unwrap().as_deref(), Some(&b"b"[..]));
        let refused = store.check().unwrap_err();
        assert!(matches!(refused, StoreError::Poisoned { .. }), "{refused}");
        assert!(store.poison().unwrap().contains("repaired"));
        assert!(store.commit(put(b"c")).is_err());
        drop(store);
        let store = open_unverified(dir.path());
        store.check().unwrap();
        store.commit(put(b"c")).unwrap();
    }

    #[test]
    fn full_disk_gives_stored_records_and_refuses_writes() {
        let dir = tempfile::tempdir().unwrap();
        let running = open(dir.path(), 0);
        running.commit(put(b"a")).unwrap();
        let copy = killed(dir.path());
        let before = files(copy.path());
        let mut store = open(copy.path(), u64::MAX);
        assert_eq!(keys(&store), [b"a"]);
        assert_eq!(store.mark().as_deref(), Some(&b"a"[..]));
        let refused = store.commit(put(b"b")).unwrap_err();
        assert!(matches!(refused, StoreError::Full { .. }), "{refused}");
        assert!(store.check().is_err());
        assert_eq!(store.waiting().unwrap().needed, Some(u64::MAX));
        assert!(store.poison().is_none());
        assert_eq!(files(copy.path()), before, "the disk was written");
        // Another process does not get the folder meanwhile.
        assert!(crate::in_use(copy.path()).is_some());

        store.options.min_free_bytes = 0;
        store.commit(put(b"b")).unwrap();
        assert_eq!(store.waiting(), None);
        assert_eq!(keys(&store), [b"a", b"b"]);
        drop(store);
        assert_eq!(keys(&open(copy.path(), 0)), [b"a", b"b"]);
    }

    #[test]
    fn new_store_opens_once_its_disk_has_space() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("new");
        let mut store = open(&root, u64::MAX);
        assert!(store.commit(put(b"a")).is_err());
        assert_eq!(keys(&store), [[0; 0]; 0]);
        store.options.min_free_bytes = 0;
        store.check().unwrap();
        store.commit(put(b"a")).unwrap();
        assert_eq!(keys(&store), [b"a"]);
    }

    #[test]
    fn store_that_another_process_wrote_asks_for_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        open(dir.path(), 0).commit(put(b"a")).unwrap();
        // Without this file nothing keeps the other one out.
        std::fs::remove_file(dir.path().join("lock")).unwrap();
        let mut store = open(dir.path(), u64::MAX);
        assert!(store.check().is_err());
        open(dir.path(), 0).commit(put(b"b")).unwrap();

        store.options.min_free_bytes = 0;
        let refused = store.commit(put(b"c")).unwrap_err();
        assert!(matches!(refused, StoreError::Poisoned { .. }), "{refused}");
        assert!(store.poison().unwrap().contains("another process"));
        assert!(store.scan(EVENTS, Bound::Unbounded, 9).is_err());
        drop(store);
        assert_eq!(keys(&open(dir.path(), 0)), [b"a", b"b"]);
    }

    #[test]
    fn lock_is_kept_over_attempts_that_fail() {
        let dir = tempfile::tempdir().unwrap();
        open(dir.path(), 0).commit(put(b"a")).unwrap();
        let store = open(dir.path(), u64::MAX);
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    assert!(crate::in_use(dir.path()).is_some(), "the lock was released");
                }
            });
            for _ in 0..2000 {
                assert!(store.check().is_err());
            }
            ends.store(true, Ordering::Relaxed);
            watcher.join().unwrap();
        });
    }

    #[test]
    fn disk_that_refuses_during_the_opening_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        open(dir.path(), 0).commit(put(b"a")).unwrap();
        let refuses = Arc::new(AtomicBool::new(true));
        let now = Arc::clone(&refuses);
        let note: Box<Note> = Box::new(move |_, _| match now.load(Ordering::Relaxed) {
            true => Err(StoreError::Full {
                path: PathBuf::new(),
                free: 0,
                needed: 1,
            }),
            false => Ok(Batch::new()),
        });
        let store = open_with(dir.path(), 0, note);
        for _ in 0..3 {
            let refused = store.commit(put(b"b")).unwrap_err();
            assert!(matches!(refused, StoreError::Full { .. }), "{refused}");
            assert_eq!(keys(&store), [b"a"]);
            assert!(store.waiting().is_some() && store.poison().is_none());
            assert!(crate::in_use(dir.path()).is_some());
        }
        refuses.store(false, Ordering::Relaxed);
        store.commit(put(b"b")).unwrap();
        assert_eq!(keys(&store), [b"a", b"b"]);
    }

    #[test]
    fn reader_waits_while_an_attempt_changes_the_files() {
        let dir = tempfile::tempdir().unwrap();
        open(dir.path(), 0).commit(put(b"a")).unwrap();
        let (begun, begins) = std::sync::mpsc::sync_channel(1);
        let note: Box<Note> = Box::new(move |_, _| {
            begun.send(()).unwrap();
            // For a reader that does not wait.
            std::thread::sleep(std::time::Duration::from_millis(300));
            Ok(put(b"note"))
        });
        let mut store = open_with(dir.path(), u64::MAX, note);
        store.options.min_free_bytes = 0;
        let seen = std::thread::scope(|scope| {
            let reading = &store;
            let reader = scope.spawn(move || {
                begins.recv().unwrap();
                keys(reading)
            });
            store.check().unwrap();
            reader.join().unwrap()
        });
        assert_eq!(seen, [&b"a"[..], b"note"]);
    }

    #[test]
    fn store_that_needed_repair_asks_for_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        open(dir.path(), 0).commit(put(b"a")).unwrap();
        std::fs::write(dir.path().join("data").join(FILE), [7; 9000]).unwrap();
        let mut store = open(dir.path(), u64::MAX);
        assert_eq!(keys(&store), [[0; 0]; 0]);
        store.options.min_free_bytes = 0;
        assert!(matches!(
            store.commit(put(b"b")),
            Err(StoreError::Poisoned { .. })
        ));
        assert!(store.poison().unwrap().contains("repaired"));
        assert_eq!(store.waiting(), None);
    }
}
