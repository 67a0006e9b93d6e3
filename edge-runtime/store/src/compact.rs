//! Giving disk space back: sound records are copied into a new folder, which then takes the old one's place.
//!
//! sled 0.34 can keep far more disk than it has data (spacejam/sled #1333, #1484). Only at opening, when nobody
//! else holds the store.
//!
//! Invariant: at every instant either `data` is complete, or `data` is absent and `data.compact` is complete.

use std::fs;
use std::io;
use std::path::Path;

use crate::durable::sync_folder;
use crate::guard::{self, Fault};
use crate::open::{Options, sled_config};
use crate::record;

const COPY: &str = "data.compact";
const OLD: &str = "data.old";
const BATCH: usize = 256;

pub(crate) fn is_worth_it(on_disk: u64, live: u64, options: &Options) -> bool {
    on_disk > options.compact_floor_bytes && on_disk as f64 > options.compact_ratio * live as f64
}

/// Copies every sound record of `db` to a new folder and makes the copy durable.
pub(crate) fn run(root: &Path, db: &sled::Db, options: &Options) -> Result<(), Fault> {
    let copy = root.join(COPY);
    remove(&copy).map_err(Fault::Io)?;
    guard::call(|| {
        let to = sled_config(&copy, options).open()?;
        let mut batch = sled::Batch::default();
        let mut waiting = 0;
        for item in db.iter() {
            let (key, value) = item?;
            if record::decode(&key, &value).is_ok() {
                batch.insert(key, value);
                waiting += 1;
            }
            if waiting == BATCH {
                to.apply_batch(std::mem::take(&mut batch))?;
                waiting = 0;
            }
        }
        to.apply_batch(batch)?;
        to.flush()?;
        Ok(())
    })?;
    sync_tree(&copy).map_err(Fault::Io)
}

/// Puts the finished copy in the place of `data`.
pub(crate) fn swap(root: &Path) -> io::Result<()> {
    fs::rename(root.join("data"), root.join(OLD))?;
    finish_interrupted(root)
}

/// Completes a swap that was cut, and removes what a cut copy left.
pub(crate) fn finish_interrupted(root: &Path) -> io::Result<()> {
    let data = root.join("data");
    if !data.exists() && root.join(OLD).exists() {
        // The first rename of `swap` was done, so the copy was complete; without a copy the old folder is the truth.
        let truth = if root.join(COPY).exists() { COPY } else { OLD };
        fs::rename(root.join(truth), &data)?;
        sync_folder(root)?;
    }
    remove(&root.join(OLD))?;
    discard(root)
}

/// Removes an unfinished copy.
pub(crate) fn discard(root: &Path) -> io::Result<()> {
    remove(&root.join(COPY))
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

fn sync_tree(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_tree(&entry.path())?;
        } else {
            fs::File::open(entry.path())?.sync_all()?;
        }
    }
    sync_folder(path)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    fn folders(root: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(root)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn folder_with_mark(root: &Path, name: &str) {
        fs::create_dir(root.join(name)).unwrap();
        fs::write(root.join(name).join("mark"), name).unwrap();
    }

    fn after_finishing(present: &[&str]) -> (Vec<String>, String) {
        let root = tempfile::tempdir().unwrap();
        for name in present {
            folder_with_mark(root.path(), name);
        }
        finish_interrupted(root.path()).unwrap();
        let mark = fs::read_to_string(root.path().join("data/mark")).unwrap();
        (folders(root.path()), mark)
    }

    #[test]
    fn a_swap_cut_at_any_point_ends_with_one_complete_folder() {
        let one = vec!["data".to_owned()];
        // Cut while copying, between the renames, and before the old one was removed.
        assert_eq!(
            after_finishing(&["data", COPY]),
            (one.clone(), "data".into())
        );
        assert_eq!(after_finishing(&[OLD, COPY]), (one.clone(), COPY.into()));
        assert_eq!(after_finishing(&["data", OLD]), (one, "data".into()));
    }
}
