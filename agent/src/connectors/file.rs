//! Files on the box.
//!
//! ```text
//! <folder>/<below>/<prefix>_<yyyy_mm_dd_hh_mm_ss>_<number>.<extension>
//! ```
//!
//! Invariants: nothing is opened outside the folders that the configuration names: the way below them is walked name by name, and no symbolic link is
//! followed, whoever puts one there meanwhile; a text is on stable storage before it counts as written, and stands in its file once, also where the
//! agent was killed in the middle of it: where it begins is noted before it is written.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use watchkeeper_board::storage::space;
use watchkeeper_config::sinks::Place;
use watchkeeper_contract::effect::FileWrite;
use watchkeeper_contract::spool::SpooledEffect;
use watchkeeper_store::{Batch, Keyspace, Store, StoreError};

use super::fault::Fault;
use super::naming::{stamped, step_key};

/// The file that each step began last.
const BEGUN: Keyspace = Keyspace::new("sink_files");
const VERSION: u8 = 1;
/// Bytes of a disk that workflows leave to everybody else.
const MIN_FREE_BYTES: u64 = 64 << 20;

/// The file that a step began last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct LastFile {
    folder: PathBuf,
    below: Vec<String>,
    /// Name of the file.
    name: String,
    prefix: String,
    extension: String,
    /// Effect that was written last.
    number: u64,
    /// Where its text begins in the file.
    offset: u64,
}

/// A text to be written.
#[derive(Debug)]
pub struct Job {
    number: u64,
    key: [u8; 16],
    at_ms: i64,
    place: Place,
    write: FileWrite,
}

impl Job {
    /// What `spooled` wants written at `place`.
    #[must_use]
    pub fn new(spooled: &SpooledEffect, write: &FileWrite, place: Place) -> Self {
        Self {
            number: spooled.number.0,
            key: step_key(spooled),
            at_ms: spooled.at.unix_ms,
            place,
            write: write.clone(),
        }
    }

    /// Writes it. Blocks until the disk has it.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn write(&self, store: &dyn Store) -> Result<(), Fault> {
        let shown = self.place.folder.display();
        check_free_space(&self.place, self.write.content.len(), MIN_FREE_BYTES)?;
        let folder = open_folder(&self.place)?;
        let before = self.begun(store)?;
        let goes_on = before.filter(|b| self.write.append && self.is_same_file(b));
        let is_new = goes_on.is_none();
        let mut begun = goes_on.unwrap_or_else(|| self.begin());
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o640);
        let file = openat(&folder, &*begun.name, flags, mode);
        let mut file = File::from(file.map_err(|errno| refused(&self.place, &begun.name, errno))?);
        let trouble = |error: io::Error| Fault::later(format!("a file in {shown}: {error}"));
        let length = file.metadata().map_err(trouble)?.len();
        if begun.number == self.number {
            // It was begun before, and may be there in part or as a whole.
            let written = self.is_written_from(&mut file, begun.offset, length);
            if written.map_err(trouble)? {
                file.set_len(begun.offset).map_err(trouble)?;
            } else {
                begun.offset = length;
            }
        } else {
            begun.number = self.number;
            begun.offset = length;
        }
        self.note(store, &begun)?;
        file.seek(SeekFrom::Start(begun.offset)).map_err(trouble)?;
        file.write_all(self.write.content.as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(trouble)?;
        if is_new {
            // The file's name.
            File::from(folder).sync_all().map_err(trouble)?;
        }
        Ok(())
    }

    /// The file that the first text of a step goes to.
    fn begin(&self) -> LastFile {
        let FileWrite {
            prefix, extension, ..
        } = &self.write;
        LastFile {
            folder: self.place.folder.clone(),
            below: self.place.below.clone(),
            name: stamped(prefix, self.at_ms, self.number, extension),
            prefix: prefix.clone(),
            extension: extension.clone(),
            number: self.number,
            offset: 0,
        }
    }

    fn is_same_file(&self, begun: &LastFile) -> bool {
        begun.folder == self.place.folder
            && begun.below == self.place.below
            && begun.prefix == self.write.prefix
            && begun.extension == self.write.extension
    }

    /// Whether what follows `offset` is the beginning of the text, or all of it: then it was written by an attempt that was cut.
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

    fn begun(&self, store: &dyn Store) -> Result<Option<LastFile>, Fault> {
        let value = match store.get(BEGUN, &self.key) {
            Ok(value) => value,
            // A new file is begun.
            Err(StoreError::Corrupt { .. }) => None,
            Err(error) => return Err(Fault::later(error.to_string())),
        };
        let json = value.as_deref().and_then(|v| v.strip_prefix(&[VERSION]));
        Ok(json.and_then(|json| serde_json::from_slice(json).ok()))
    }

    fn note(&self, store: &dyn Store, begun: &LastFile) -> Result<(), Fault> {
        let mut value = vec![VERSION];
        // Plain data: serde_json can't fail on it but for a path that is no text, which is another file each time.
        value.extend(serde_json::to_vec(begun).unwrap_or_default());
        let batch = Batch::new().put(BEGUN, &self.key, &value);
        store
            .commit(batch)
            .map_err(|error| Fault::later(error.to_string()))
    }
}

/// Opens a folder, and makes those that are missing below the one that is allowed.
///
/// # Errors
/// [`Fault`]: it can't be had, or a symbolic link is in the way.
pub(super) fn open_folder(place: &Place) -> Result<OwnedFd, Fault> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let allowed = &place.folder;
    let opened = openat(CWD, allowed, flags, Mode::empty());
    let mut folder = opened.map_err(|errno| {
        let error = io::Error::from(errno);
        Fault::later(format!("sinks.folders: {}: {error}", allowed.display()))
    })?;
    for name in &place.below {
        match mkdirat(&folder, &**name, Mode::from_raw_mode(0o750)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(refused(place, name, errno)),
        }
        let inner = openat(&folder, &**name, flags | OFlags::NOFOLLOW, Mode::empty());
        folder = inner.map_err(|errno| refused(place, name, errno))?;
    }
    Ok(folder)
}

/// Why a file or a folder at a place can't be had.
pub(super) fn refused(place: &Place, name: &str, errno: Errno) -> Fault {
    let folder = place.folder.display();
    match errno {
        Errno::LOOP | Errno::NOTDIR => Fault::never(format!(
            "{name:?} in {folder} is a symbolic link or no folder, and none is followed"
        )),
        Errno::NAMETOOLONG | Errno::INVAL => {
            Fault::never(format!("{name:?} is no name for a file in {folder}"))
        }
        errno => Fault::later(format!("{name:?} in {folder}: {}", io::Error::from(errno))),
    }
}

/// Refuses to write so many bytes where they would take what others need.
///
/// # Errors
/// [`Fault`]: there is too little room now.
pub(super) fn check_free_space(place: &Place, bytes: usize, leave: u64) -> Result<(), Fault> {
    let free = space(&place.folder).map_or(u64::MAX, |space| space.free);
    if free < leave + bytes as u64 {
        return Err(Fault::later(format!(
            "only {free} bytes are free on the disk of {}; {leave} are left to others",
            place.folder.display()
        )));
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use std::fs;
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
    fn a_text_goes_to_the_end_of_the_file_that_the_step_began_last() {
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
    fn whatever_was_cut_a_text_stands_in_its_file_once() {
        let dir = tempfile::tempdir().unwrap();
        let store = MemoryStore::new();
        job(dir.path(), 1, "a\n1\n", false).write(&store).unwrap();
        let file = fs::read_dir(dir.path().join("logs")).unwrap();
        let file = file.last().unwrap().unwrap().path();
        let second = job(dir.path(), 2, "second\n", true);
        second.write(&store).unwrap();
        // Killed after so many bytes of it.
        for kept in 0.."second\n".len() {
            let cut = format!("a\n1\n{}", &"second\n"[..kept]);
            fs::write(&file, cut).unwrap();
            second.write(&store).unwrap();
            assert_eq!(texts(dir.path()), ["a\n1\nsecond\n"]);
        }
        // Somebody else wrote there meanwhile: nothing of theirs is cut off.
        fs::write(&file, "a\n1\nsecond\nsomebody\n").unwrap();
        second.write(&store).unwrap();
        assert_eq!(texts(dir.path()), ["a\n1\nsecond\nsomebody\nsecond\n"]);
    }

    #[test]
    fn no_symbolic_link_leads_out() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), dir.path().join("logs")).unwrap();
        let store = MemoryStore::new();
        let fault = job(dir.path(), 1, "a\n", false).write(&store).unwrap_err();
        assert_eq!(fault.retry, Retry::Never, "{fault}");
        fs::remove_file(dir.path().join("logs")).unwrap();
        job(dir.path(), 1, "a\n", false).write(&store).unwrap();
        // The file that the step began is exchanged for a link.
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
    fn a_folder_that_is_not_mounted_yet_is_waited_for() {
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
