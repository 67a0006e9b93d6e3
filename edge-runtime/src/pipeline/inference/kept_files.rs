//! A folder of results that cost time and can be made again: a small JSON file for each key.
//!
//! - A file is replaced whole and synced.
//! - At most as many files as the owner says are kept; those written or used longest ago make room.
//! - Not here: what a key stands for, and what the loss of a result means.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;
use serde::de::DeserializeOwned;
use watchkeeper_models::Sha256Sum;
use watchkeeper_models::replace::{files_by_age, replace_bounded};
use watchkeeper_store::private_folder::make_private;

/// Largest file that is read; written ones are smaller.
const MAX_FILE_BYTES: u64 = 16 << 10;

/// Extension of results.
const EXTENSION: &str = "json";

/// Names a result; the name of its file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(String);

impl Key {
    /// Characters of a key.
    const LEN: usize = 32;

    /// Names a result by everything that it depends on.
    pub(super) fn of(subject: &[u8]) -> Self {
        let mut hex = Sha256Sum::of(subject).to_string();
        hex.truncate(Self::LEN);
        Self(hex)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A folder of results, one file each, with its bound.
#[derive(Debug)]
pub(super) struct KeptFiles {
    folder: PathBuf,
    max_files: usize,
}

impl KeptFiles {
    pub(super) fn new(folder: PathBuf, max_files: usize) -> Self {
        Self { folder, max_files }
    }

    pub(super) fn path(&self, key: &Key) -> PathBuf {
        self.folder.join(format!("{key}.{EXTENSION}"))
    }

    /// Reads a result.
    ///
    /// # Errors
    /// When there is none, or the file can't be read, is too large or damaged.
    pub(super) fn read<T: DeserializeOwned>(&self, key: &Key) -> io::Result<T> {
        read(&self.path(key))
    }

    /// Reads all results, except those that can't be read; the newest first.
    pub(super) fn read_all<T: DeserializeOwned>(&self) -> impl Iterator<Item = T> {
        let results = files_by_age(&self.folder, OsStr::new(EXTENSION));
        let results = results.unwrap_or_default().into_iter().rev();
        results.filter_map(|(_, path)| read(&path).ok())
    }

    /// Makes a result the newest one.
    ///
    /// # Errors
    /// When there is none, or the disk refuses.
    pub(super) fn renew(&self, key: &Key) -> io::Result<()> {
        let file = fs::File::options().append(true).open(self.path(key))?;
        file.set_modified(SystemTime::now())
    }

    /// Writes a result, durable on return, and removes the oldest others.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(super) fn write<T: Serialize>(&self, key: &Key, result: &T) -> io::Result<()> {
        let bytes = serde_json::to_vec(result).map_err(io::Error::other)?;
        make_private(&self.folder)?;
        replace_bounded(&self.path(key), &[&bytes], self.max_files)
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    if fs::metadata(path)?.len() > MAX_FILE_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that can't set up has failed")]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn damaged_file_is_an_error_and_not_listed() {
        let folder = tempfile::tempdir().unwrap();
        let files = KeptFiles::new(folder.path().join("results"), 4);
        let key = Key::of(b"one");
        assert_eq!(files.read_all::<u32>().count(), 0);
        files.write(&key, &7_u32).unwrap();
        assert_eq!(files.read::<u32>(&key).unwrap(), 7);
        assert_eq!(files.read_all::<u32>().collect::<Vec<_>>(), [7]);
        for damage in ["", "{", &" ".repeat(20 << 10)] {
            fs::write(files.path(&key), damage).unwrap();
            assert!(files.read::<u32>(&key).is_err(), "{damage:?}");
            assert_eq!(files.read_all::<u32>().count(), 0);
        }
    }

    #[test]
    fn oldest_files_make_room() {
        let folder = tempfile::tempdir().unwrap();
        let files = KeptFiles::new(folder.path().to_owned(), 4);
        let key = |n: u8| Key::of(&[n]);
        for n in 0..4 {
            let file = fs::File::create(files.path(&key(n))).unwrap();
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1000 + u64::from(n));
            file.set_modified(at).unwrap();
        }
        files.write(&key(4), &4_u32).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
        assert!(!files.path(&key(0)).exists());
        assert!(files.path(&key(1)).exists());
        // One that can't be deleted fails no write, and keeps no other.
        let stuck = files.path(&key(9));
        fs::create_dir(&stuck).unwrap();
        let oldest = fs::File::open(&stuck).unwrap();
        oldest.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        files.write(&key(5), &5_u32).unwrap();
        assert!(stuck.exists() && !files.path(&key(1)).exists());
        assert!(files.path(&key(3)).exists());
    }

    #[test]
    fn result_replaced_at_the_bound_costs_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let files = KeptFiles::new(folder.path().to_owned(), 2);
        let (one, two) = (Key::of(b"one"), Key::of(b"two"));
        files.write(&one, &1_u32).unwrap();
        files.write(&two, &2_u32).unwrap();
        files.write(&two, &3_u32).unwrap();
        assert_eq!(files.read::<u32>(&one).unwrap(), 1);
        assert_eq!(files.read::<u32>(&two).unwrap(), 3);
    }

    #[test]
    fn what_an_interrupted_write_left_is_no_result() {
        let folder = tempfile::tempdir().unwrap();
        let files = KeptFiles::new(folder.path().to_owned(), 2);
        let (one, two) = (Key::of(b"one"), Key::of(b"two"));
        files.write(&one, &1_u32).unwrap();
        let left = folder.path().join(format!(".{two}.json.tmp"));
        fs::write(&left, "2").unwrap();
        assert_eq!(files.read_all::<u32>().collect::<Vec<_>>(), [1]);
        files.write(&two, &2_u32).unwrap();
        assert_eq!(files.read_all::<u32>().count(), 2);
    }
}
