//! Text files on the box.
//!
//! ```text
//! <folder>/<below>/<prefix>_<yyyy_mm_dd_hh_mm_ss>_<number>.<extension>
//! ```
//!
//! Invariants:
//! - Nothing is opened outside the configured folders. The path below them is opened name by name,
//!   without following symbolic links, so a link that appears meanwhile changes nothing.
//! - A text counts as written once it is on stable storage.
//! - A file holds a text once, even if the agent was killed while writing. The offset at which the
//!   text starts is stored before it is written.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use watchkeeper_board::storage::space;
use watchkeeper_config::sinks::Place;
use watchkeeper_contract::effect::FileWrite;
use watchkeeper_contract::spool::SpooledEffect;
use watchkeeper_store::{Batch, JsonRecords, Keyspace, Store};

use super::fault::Fault;
use super::naming::{stamped, step_key};
use crate::stored_records::read_sound;

/// Newest file of each step.
const LAST_FILES: Keyspace = Keyspace::new("sink_files");
const RECORDS: JsonRecords = JsonRecords::new(LAST_FILES, 1, "sink file");
/// Free bytes that files leave on their disk.
const MIN_FREE_BYTES: u64 = 64 << 20;

/// Stored record: newest file of a step, and the last text written to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct LastFile {
    /// Parts of the path that are not UTF-8 are replaced, because JSON has no such texts.
    folder: String,
    below: Vec<String>,
    name: String,
    prefix: String,
    extension: String,
    /// Number of the effect that was written last.
    number: u64,
    /// Byte offset of that effect's text in the file.
    offset: u64,
}

/// One text to write.
#[derive(Debug)]
pub struct Job {
    number: u64,
    key: [u8; 16],
    at_ms: i64,
    place: Place,
    write: FileWrite,
}

impl Job {
    /// Job that writes the text of `write`, an effect of `spooled`, to `place`.
    pub fn new(spooled: &SpooledEffect, write: &FileWrite, place: Place) -> Self {
        Self {
            number: spooled.number.0,
            key: step_key(spooled),
            at_ms: spooled.at.unix_ms,
            place,
            write: write.clone(),
        }
    }

    /// Writes the text. Blocks until it is on stable storage.
    ///
    /// # Errors
    /// [`Fault`] of the disk, of the folder or of the store.
    pub fn write(&self, store: &dyn Store) -> Result<(), Fault> {
        let shown = self.place.folder.display();
        check_free_space(&self.place, self.write.content.len(), MIN_FREE_BYTES)?;
        let folder = open_folder(&self.place)?;
        let stored = self.load_last(store)?;
        let appended = stored.filter(|last| self.write.append && self.is_same_file(last));
        let is_new = appended.is_none();
        let mut last = appended.unwrap_or_else(|| self.new_file());
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o640);
        let file = openat(&folder, &*last.name, flags, mode);
        let mut file =
            File::from(file.map_err(|errno| path_fault(&self.place, &last.name, errno))?);
        let io_fault = |error: io::Error| Fault::transient(format!("a file in {shown}: {error}"));
        let length = file.metadata().map_err(io_fault)?.len();
        if last.number == self.number {
            // A retry: the file may contain the text, whole or in part.
            let written = self.is_written_from(&mut file, last.offset, length);
            if written.map_err(io_fault)? {
                file.set_len(last.offset).map_err(io_fault)?;
            } else {
                last.offset = length;
            }
        } else {
            last.number = self.number;
            last.offset = length;
        }
        self.save_last(store, &last)?;
        file.seek(SeekFrom::Start(last.offset)).map_err(io_fault)?;
        file.write_all(self.write.content.as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(io_fault)?;
        if is_new {
            // The directory entry.
            File::from(folder).sync_all().map_err(io_fault)?;
        }
        Ok(())
    }

    /// New file, named after this effect.
    fn new_file(&self) -> LastFile {
        let FileWrite {
            prefix, extension, ..
        } = &self.write;
        LastFile {
            folder: self.place.folder.to_string_lossy().into_owned(),
            below: self.place.below.clone(),
            name: stamped(prefix, self.at_ms, self.number, extension),
            prefix: prefix.clone(),
            extension: extension.clone(),
            number: self.number,
            offset: 0,
        }
    }

    fn is_same_file(&self, last: &LastFile) -> bool {
        last.folder == self.place.folder.to_string_lossy()
            && last.below == self.place.below
            && last.prefix == self.write.prefix
            && last.extension == self.write.extension
    }

    /// Whether the bytes from `offset` on are a prefix of the text, or all of it: an interrupted
    /// attempt wrote them.
    fn is_written_from(&self, file: &mut File, offset: u64, length: u64) -> io::Result<bool> {
        let content = self.write.content.as_bytes();
        let there = length.saturating_sub(offset);
        let Some(expected) = usize::try_from(there).ok().and_then(|n| content.get(..n)) else {
            return Ok(false);
        };
        if length < offset {
            return Ok(false);
        }
        let mut found = vec![0; expected.len()];
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(&mut found)?;
        Ok(found == expected)
    }

    fn load_last(&self, store: &dyn Store) -> Result<Option<LastFile>, Fault> {
        // A damaged record only costs a new file.
        let value = read_sound(store, LAST_FILES, &self.key);
        let value = value.map_err(|error| Fault::transient(error.to_string()))?;
        Ok(value.and_then(|value| RECORDS.decode(&value)))
    }

    fn save_last(&self, store: &dyn Store, last: &LastFile) -> Result<(), Fault> {
        let batch = Batch::from_iter([RECORDS.put(self.key, last)]);
        store
            .commit(batch)
            .map_err(|error| Fault::transient(error.to_string()))
    }
}

/// Opens the folder of `place` and creates missing folders below the configured one.
///
/// # Errors
/// [`Fault`]: a folder can't be opened or created, or a part of the path is a symbolic link.
pub(super) fn open_folder(place: &Place) -> Result<OwnedFd, Fault> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let allowed = &place.folder;
    let opened = openat(CWD, allowed, flags, Mode::empty());
    let mut folder = opened.map_err(|errno| {
        let error = io::Error::from(errno);
        Fault::transient(format!("sinks.folders: {}: {error}", allowed.display()))
    })?;
    for name in &place.below {
        match mkdirat(&folder, &**name, Mode::from_raw_mode(0o750)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(path_fault(place, name, errno)),
        }
        let inner = openat(&folder, &**name, flags | OFlags::NOFOLLOW, Mode::empty());
        folder = inner.map_err(|errno| path_fault(place, name, errno))?;
    }
    Ok(folder)
}

/// Fault of a file or folder `name` at `place`.
pub(super) fn path_fault(place: &Place, name: &str, errno: Errno) -> Fault {
    let folder = place.folder.display();
    match errno {
        Errno::LOOP | Errno::NOTDIR => Fault::permanent(format!(
            "{name:?} in {folder} is a symbolic link or not a folder; links are not followed"
        )),
        Errno::NAMETOOLONG | Errno::INVAL => {
            Fault::permanent(format!("file name {name:?} is invalid in {folder}"))
        }
        errno => Fault::transient(format!("{name:?} in {folder}: {}", io::Error::from(errno))),
    }
}

/// Checks that `leave` bytes stay free after `bytes` are written.
///
/// # Errors
/// Transient [`Fault`] when the disk has too little free space.
pub(super) fn check_free_space(place: &Place, bytes: usize, leave: u64) -> Result<(), Fault> {
    let free = space(&place.folder).map_or(u64::MAX, |space| space.free);
    if free < leave + bytes as u64 {
        return Err(Fault::transient(format!(
            "disk of {}: {free} bytes free, at least {leave} must stay free; delete old files",
            place.folder.display()
        )));
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::Path;

    use watchkeeper_contract::effect::Effect;
    use watchkeeper_contract::id::PipelineId;
    use watchkeeper_contract::spool::EffectNumber;
    use watchkeeper_contract::time::{TimeQuality, Wall};
    use watchkeeper_store::MemoryStore;

    use super::super::fault::Retry;
    use super::*;

    fn job(dir: &Path, number: u64, content: &str, append: bool) -> Job {
        let write = FileWrite {
            directory: "logs".to_owned(),
            prefix: "counts".to_owned(),
            extension: "csv".to_owned(),
            content: content.to_owned(),
            append,
        };
        let spooled = SpooledEffect {
            number: EffectNumber(number),
            id: "id".to_owned(),
            at: Wall {
                unix_ms: 1_798_761_600_000,
                quality: TimeQuality::Synced,
            },
            pipeline: PipelineId::new("gate").unwrap(),
            step: "save".to_owned(),
            effect: Effect::File(write.clone()),
        };
        let place = Place {
            folder: dir.to_owned(),
            below: vec!["logs".to_owned()],
        };
        Job::new(&spooled, &write, place)
    }

    fn texts(dir: &Path) -> Vec<String> {
        let mut files: Vec<_> = fs::read_dir(dir.join("logs"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        files
            .iter()
            .map(|f| fs::read_to_string(f).unwrap())
            .collect()
    }

    #[test]
    fn text_is_appended_to_the_newest_file_of_its_step() {
        let dir = tempfile::tempdir().unwrap();
        let store = MemoryStore::new();
        let all = [
            ("a\n1\n", false),
            ("2\n", true),
            ("a\n3\n", false),
            ("4\n", true),
        ];
        for (number, (content, append)) in (1..).zip(all) {
            job(dir.path(), number, content, append)
                .write(&store)
                .unwrap();
        }
        assert_eq!(texts(dir.path()), ["a\n1\n2\n", "a\n3\n4\n"]);
        let names = fs::read_dir(dir.path().join("logs")).unwrap();
        let mut names: Vec<_> = names.map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names[0], "counts_2027_01_01_00_00_00_1.csv");
    }

    #[test]
    fn folder_that_is_not_utf8_has_a_newest_file_too() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join(OsStr::from_bytes(b"caf\xe9"));
        fs::create_dir(&folder).unwrap();
        let store = MemoryStore::new();
        job(&folder, 1, "1\n", true).write(&store).unwrap();
        job(&folder, 2, "2\n", true).write(&store).unwrap();
        assert_eq!(texts(&folder), ["1\n2\n"]);
    }

    #[test]
    fn retry_after_any_interruption_writes_the_text_once() {
        let dir = tempfile::tempdir().unwrap();
        let store = MemoryStore::new();
        job(dir.path(), 1, "a\n1\n", false).write(&store).unwrap();
        let file = fs::read_dir(dir.path().join("logs")).unwrap();
        let file = file.last().unwrap().unwrap().path();
        let second = job(dir.path(), 2, "second\n", true);
        second.write(&store).unwrap();
        // Killed after `kept` bytes of the text.
        for kept in 0.."second\n".len() {
            let cut = format!("a\n1\n{}", &"second\n"[..kept]);
            fs::write(&file, cut).unwrap();
            second.write(&store).unwrap();
            assert_eq!(texts(dir.path()), ["a\n1\nsecond\n"]);
        }
        // Another program appended meanwhile: its bytes stay.
        fs::write(&file, "a\n1\nsecond\nsomebody\n").unwrap();
        second.write(&store).unwrap();
        assert_eq!(texts(dir.path()), ["a\n1\nsecond\nsomebody\nsecond\n"]);
    }

    #[test]
    fn symbolic_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), dir.path().join("logs")).unwrap();
        let store = MemoryStore::new();
        let fault = job(dir.path(), 1, "a\n", false).write(&store).unwrap_err();
        assert_eq!(fault.retry, Retry::Never, "{fault}");
        fs::remove_file(dir.path().join("logs")).unwrap();
        job(dir.path(), 1, "a\n", false).write(&store).unwrap();
        // The newest file of the step is replaced by a link.
        let file = fs::read_dir(dir.path().join("logs")).unwrap();
        let file = file.last().unwrap().unwrap().path();
        fs::remove_file(&file).unwrap();
        let target = outside.path().join("target");
        fs::write(&target, "theirs").unwrap();
        std::os::unix::fs::symlink(&target, &file).unwrap();
        let fault = job(dir.path(), 2, "b\n", true).write(&store).unwrap_err();
        assert_eq!(fault.retry, Retry::Never, "{fault}");
        assert_eq!(fs::read_to_string(&target).unwrap(), "theirs");
    }

    #[test]
    fn missing_configured_folder_is_a_transient_fault() {
        let dir = tempfile::tempdir().unwrap();
        let absent = dir.path().join("usb");
        let fault = job(&absent, 1, "a\n", false)
            .write(&MemoryStore::new())
            .unwrap_err();
        assert!(
            matches!(fault.retry, Retry::After(_)) && fault.why.contains("sinks.folders"),
            "{fault}"
        );
    }
}
