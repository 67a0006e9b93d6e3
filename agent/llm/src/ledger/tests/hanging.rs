//! A disk that does not answer.

use std::ops::Bound;

use watchkeeper_store::{Batch, Keyspace, MemoryStore, Page};

use super::*;

/// A store whose writes wait until a test releases them.
#[derive(Debug, Default)]
struct HangingStore {
    inner: MemoryStore,
    disk: Mutex<()>,
}

impl Store for HangingStore {
    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.get(keyspace, key)
    }
    fn scan(&self, from: Keyspace, at: Bound<&[u8]>, limit: usize) -> Result<Page, StoreError> {
        self.inner.scan(from, at, limit)
    }
    fn write(&self, batch: Batch) -> Result<(), StoreError> {
        let _disk = self.disk.lock();
        self.inner.write(batch)
    }
    fn sync(&self) -> Result<(), StoreError> {
        self.inner.sync()
    }
    fn check(&self) -> Result<(), StoreError> {
        self.inner.check()
    }
    fn poison(&self) -> Option<String> {
        self.inner.poison()
    }
    fn size_on_disk(&self) -> Result<u64, StoreError> {
        self.inner.size_on_disk()
    }
}

#[test]
fn report_does_not_wait_for_a_disk_that_hangs() {
    let store = Arc::new(HangingStore::default());
    let ledger =
        Arc::new(Ledger::open(store.clone(), Path::new("/state"), limits()).expect("open"));
    let (now, wall) = (Instant::now(), wall(NOON));
    let disk = store.disk.lock();
    let reserving = {
        let ledger = Arc::clone(&ledger);
        std::thread::spawn(move || ledger.reserve(now, wall, &entry(CENT)))
    };
    let (sender, reported) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // The reservation counts before it is on disk.
        while ledger.report(now, wall).day == Money::ZERO {
            std::thread::yield_now();
        }
        sender.send(ledger.economy(now, wall))
    });
    // A deadlock fails the test instead of hanging it.
    let economy = reported.recv_timeout(Duration::from_secs(30));
    assert_eq!(economy, Ok(Economy::Full));
    drop(disk);
    let _ticket = reserving.join().expect("no panic").expect("reserved");
}
