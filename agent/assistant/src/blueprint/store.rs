//! The folder of blueprints, one Markdown file each, and the built-in ones behind it.
//!
//! Invariants: a file is written whole or not at all, and belongs to whom the folder belongs; nothing is written that could not be read back; of more than
//! [`MAX_FILES`] files the first by their names are listed and routed to, and the others are told; whatever is wrong with a file (no blueprint, unreadable,
//! a folder) is wrong with that one alone, and the built-in blueprint of its name serves.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};

use super::{Blueprint, BlueprintError, BlueprintName, Job, MAX_BYTES, built_in, error, read};
use watchkeeper_store::private_folder::make_private;

/// Most files of a folder.
pub const MAX_FILES: usize = 32;
/// Name of the folder, below that of what is kept.
const FOLDER: &str = "blueprints";
const ENDING: &str = "md";

/// Where a blueprint comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BlueprintOrigin {
    /// It is compiled in.
    BuiltIn,
    /// A file.
    File,
    /// A file that takes the place of a built-in one.
    FileInPlace,
    /// The built-in one, because the file in its place can't be used.
    BuiltInForDamaged,
    /// A file that can't be used.
    Damaged,
}

/// One of the shelf.
#[derive(Debug, Clone, PartialEq)]
pub struct BlueprintEntry {
    /// Its name.
    pub name: BlueprintName,
    /// Where it comes from.
    pub origin: BlueprintOrigin,
    /// What is wrong with its file.
    pub flaws: Vec<BlueprintError>,
    /// The one that serves; none where the file can't be used and nothing stands behind it.
    pub serves: Option<Blueprint>,
    /// The text of the one that serves, or of the file that can't be used.
    pub text: String,
}

impl BlueprintEntry {
    /// What is wrong with its file and what serves instead, in one sentence; none where nothing is wrong.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        (!self.flaws.is_empty()).then(|| {
            let instead = match self.serves {
                Some(_) => "the built-in one serves",
                None => "it is not used",
            };
            format!(
                "the blueprint {} can't be used ({}); {instead}",
                self.name,
                error::sentence(&self.flaws)
            )
        })
    }
}

/// What does not work with the shelf.
#[derive(Debug, thiserror::Error)]
pub enum BlueprintStoreError {
    /// The disk refuses.
    #[error("the blueprint's file {} can't be used: {source}; let this user read and write there", path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Its owner could not read what this user would write there.
    #[error(
        "{} belongs to the user with the number {owner}, who could not read what this user writes there; do it as that user, or with sudo", path.display()
    )]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// Number of its owner.
        owner: u32,
    },
    /// There is none of that name.
    #[error("there is no blueprint {name:?}{}; there are: {known}", near(.nearest))]
    Unknown {
        /// The name.
        name: String,
        /// One that is near.
        nearest: Option<String>,
        /// All of them.
        known: String,
    },
    /// One of that name is there.
    #[error("there is a blueprint {name} already{}; `watchkeeper blueprints update {name}` changes it, or choose another name", if *.built_in { " (built in)" } else { "" })]
    Taken {
        /// The name.
        name: BlueprintName,
        /// Whether it is a built-in one.
        built_in: bool,
    },
    /// Built-in ones stay.
    #[error(
        "{0} is built in and can't be deleted; a file in its place (`watchkeeper blueprints update {0}`) changes it, and can be"
    )]
    BuiltIn(BlueprintName),
    /// Too many.
    #[error(
        "there are {MAX_FILES} blueprints of yours, which is as many as are read; delete one first"
    )]
    Full,
    /// The text is none.
    #[error("this is no blueprint")]
    Flawed(Vec<BlueprintError>),
}

fn near(nearest: &Option<String>) -> String {
    nearest
        .as_ref()
        .map_or_else(String::new, |n| format!(" (did you mean {n}?)"))
}

/// The folder.
#[derive(Debug, Clone)]
pub struct BlueprintStore {
    folder: PathBuf,
}

impl BlueprintStore {
    /// The one of this folder of what is kept. It is made when something is written.
    #[must_use]
    pub fn of(home: &Path) -> Self {
        Self {
            folder: home.join(FOLDER),
        }
    }

    /// Where the files are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Every blueprint, by name, and what else is worth knowing of the folder.
    ///
    /// # Errors
    /// When the folder is there and can't be read.
    pub fn list(&self) -> Result<(Vec<BlueprintEntry>, Vec<String>), BlueprintStoreError> {
        let (names, notes) = self.files()?;
        let built_in = Job::ALL
            .into_iter()
            .filter_map(|job| BlueprintName::new(job.name()).ok());
        let mut all: Vec<BlueprintName> = names.into_iter().chain(built_in).collect();
        all.sort();
        all.dedup();
        let listed = all.into_iter().map(|name| self.look(name));
        let listed: Result<Vec<Option<BlueprintEntry>>, _> = listed.collect();
        Ok((listed?.into_iter().flatten().collect(), notes))
    }

    /// The built-in ones alone, for a folder that can't be read.
    #[must_use]
    pub fn built_in() -> Vec<BlueprintEntry> {
        let one = |job: Job| {
            Some(BlueprintEntry {
                name: BlueprintName::new(job.name()).ok()?,
                origin: BlueprintOrigin::BuiltIn,
                flaws: Vec::new(),
                serves: Some(built_in::of(job).ok()?),
                text: built_in::text(job).to_owned(),
            })
        };
        Job::ALL.into_iter().filter_map(one).collect()
    }

    /// The one of this name.
    ///
    /// # Errors
    /// When there is none, or the disk refuses.
    pub fn get(&self, name: &str) -> Result<BlueprintEntry, BlueprintStoreError> {
        let found = match BlueprintName::new(name) {
            Ok(name) => self.look(name)?,
            Err(_) => None,
        };
        found.map_or_else(|| Err(self.unknown(name)), Ok)
    }

    /// The blueprint under which this job is done, whatever is wrong with the folder or the file, which is told in a sentence.
    ///
    /// # Errors
    /// Never, in a build that passed its tests.
    pub fn serving(&self, job: Job) -> Result<(Blueprint, Option<String>), String> {
        let (found, trouble) = match self.get(job.name()) {
            Ok(listed) => {
                let trouble = listed.trouble();
                (listed.serves, trouble)
            }
            Err(error) => (None, Some(format!("{error}; the built-in one serves"))),
        };
        match found {
            Some(blueprint) => Ok((blueprint, trouble)),
            None => Ok((
                built_in::of(job).map_err(|flaws| error::sentence(&flaws))?,
                trouble,
            )),
        }
    }

    /// Puts a new one there.
    ///
    /// # Errors
    /// When there is one of that name, the text is none, or the disk refuses.
    pub fn create(
        &self,
        name: &BlueprintName,
        text: &str,
    ) -> Result<Blueprint, BlueprintStoreError> {
        let blueprint = read(name, text).map_err(BlueprintStoreError::Flawed)?;
        if let Ok(Some(there)) = self.look(name.clone()) {
            return Err(BlueprintStoreError::Taken {
                name: name.clone(),
                built_in: there.origin == BlueprintOrigin::BuiltIn,
            });
        }
        self.room()?;
        self.write(name, text, WriteTarget::Free)?;
        Ok(blueprint)
    }

    /// Gives one another text. A built-in one gets a file in its place.
    ///
    /// # Errors
    /// When there is none of that name, the text is none, or the disk refuses.
    pub fn update(
        &self,
        name: &BlueprintName,
        text: &str,
    ) -> Result<Blueprint, BlueprintStoreError> {
        let blueprint = read(name, text).map_err(BlueprintStoreError::Flawed)?;
        if self.get(name.as_str())?.origin == BlueprintOrigin::BuiltIn {
            self.room()?;
        }
        self.write(name, text, WriteTarget::Any)?;
        Ok(blueprint)
    }

    /// Puts the same there under another name.
    ///
    /// # Errors
    /// As [`Self::create`]; one that can't be used can't be copied.
    pub fn duplicate(
        &self,
        name: &BlueprintName,
        new: &BlueprintName,
    ) -> Result<Blueprint, BlueprintStoreError> {
        let text = self.get(name.as_str())?.text;
        self.create(new, &text)
    }

    /// Removes the file of one. Where it stood in the place of a built-in one, that serves again, which is answered.
    ///
    /// # Errors
    /// When there is no such file, or the disk refuses.
    pub fn delete(&self, name: &BlueprintName) -> Result<bool, BlueprintStoreError> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Ok(()) => {
                self.sync()?;
                Ok(built_in::job_of(name).is_some())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(match built_in::job_of(name) {
                    Some(_) => BlueprintStoreError::BuiltIn(name.clone()),
                    None => self.unknown(name.as_str()),
                })
            }
            Err(source) => Err(BlueprintStoreError::Io { path, source }),
        }
    }

    /// The names of the files that count, and what is told of the others.
    fn files(&self) -> Result<(Vec<BlueprintName>, Vec<String>), BlueprintStoreError> {
        let io = |source| BlueprintStoreError::Io {
            path: self.folder.clone(),
            source,
        };
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok((Vec::new(), Vec::new()));
            }
            Err(error) => return Err(io(error)),
        };
        let (mut names, mut notes) = (Vec::new(), Vec::new());
        for entry in entries {
            let path = entry.map_err(io)?.path();
            if path.extension().is_none_or(|e| e != ENDING) {
                continue;
            }
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            match BlueprintName::new(&stem) {
                Ok(name) => names.push(name),
                Err(error) if notes.len() < MAX_FILES => {
                    notes.push(format!("a file is not read: {error}"))
                }
                Err(_) => {}
            }
        }
        names.sort();
        if names.len() > MAX_FILES {
            notes.push(format!(
                "{} files are not read: at most {MAX_FILES} are, by their names",
                names.len() - MAX_FILES
            ));
            names.truncate(MAX_FILES);
        }
        Ok((names, notes))
    }

    fn room(&self) -> Result<(), BlueprintStoreError> {
        match self.files()?.0.len() < MAX_FILES {
            true => Ok(()),
            false => Err(BlueprintStoreError::Full),
        }
    }

    /// What this name stands for; none for nothing.
    fn look(&self, name: BlueprintName) -> Result<Option<BlueprintEntry>, BlueprintStoreError> {
        let job = built_in::job_of(&name);
        let text = self.read_file(&name)?;
        let built_in = |origin, flaws| {
            job.map(|job| {
                let serves = built_in::of(job).ok();
                BlueprintEntry {
                    name: name.clone(),
                    origin,
                    flaws,
                    serves,
                    text: built_in::text(job).to_owned(),
                }
            })
        };
        let Some(text) = text else {
            return Ok(built_in(BlueprintOrigin::BuiltIn, Vec::new()));
        };
        let read = text.and_then(|text| match read(&name, &text) {
            Ok(blueprint) => Ok((blueprint, text)),
            Err(flaws) => Err(flaws),
        });
        Ok(Some(match read {
            Ok((blueprint, text)) => BlueprintEntry {
                name,
                origin: if job.is_some() {
                    BlueprintOrigin::FileInPlace
                } else {
                    BlueprintOrigin::File
                },
                flaws: Vec::new(),
                serves: Some(blueprint),
                text,
            },
            Err(flaws) => match built_in(BlueprintOrigin::BuiltInForDamaged, flaws.clone()) {
                Some(listed) => listed,
                None => BlueprintEntry {
                    name,
                    origin: BlueprintOrigin::Damaged,
                    flaws,
                    serves: None,
                    text: String::new(),
                },
            },
        }))
    }

    /// The text of a file; none where there is none, a flaw where it can't be read or is no text.
    fn read_file(
        &self,
        name: &BlueprintName,
    ) -> Result<Option<Result<String, Vec<BlueprintError>>>, BlueprintStoreError> {
        let path = self.path(name);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // What should be the folder is none.
            Err(source) if source.kind() == io::ErrorKind::NotADirectory => {
                return Err(BlueprintStoreError::Io { path, source });
            }
            Err(error) => return Ok(Some(Err(vec![unreadable(&error)]))),
        };
        let mut bytes = Vec::new();
        // One more than there may be: a longer one is seen to be too long.
        let read = file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes);
        if let Err(error) = read {
            return Ok(Some(Err(vec![unreadable(&error)])));
        }
        let text = String::from_utf8(bytes).map_err(|_| {
            vec![BlueprintError::new(
                "file",
                "",
                "it is no UTF-8 text",
                "save it as UTF-8",
            )]
        });
        Ok(Some(text))
    }

    fn write(
        &self,
        name: &BlueprintName,
        text: &str,
        place: WriteTarget,
    ) -> Result<(), BlueprintStoreError> {
        let path = self.path(name);
        let io = |source| BlueprintStoreError::Io {
            path: path.clone(),
            source,
        };
        self.make_folder()?;
        // A name of its own, so that two who write at once do not write into each other's.
        let new = tempfile::Builder::new()
            .prefix(&format!(".{name}-"))
            .suffix(".new")
            .tempfile_in(&self.folder);
        let mut new = new.map_err(io)?;
        new.write_all(text.as_bytes()).map_err(io)?;
        self.give_to_owner(new.path())?;
        new.as_file().sync_all().map_err(io)?;
        let put = match place {
            WriteTarget::Any => new.persist(&path),
            WriteTarget::Free => new.persist_noclobber(&path),
        };
        put.map_err(|error| match error.error.kind() {
            // Somebody was faster.
            io::ErrorKind::AlreadyExists => BlueprintStoreError::Taken {
                name: name.clone(),
                built_in: false,
            },
            _ => io(error.error),
        })?;
        self.sync()
    }

    /// Makes the folder and those above it that are not there, each for the owner of the one above it.
    fn make_folder(&self) -> Result<(), BlueprintStoreError> {
        let ancestors = self.folder.ancestors();
        let missing: Vec<&Path> = ancestors
            .take_while(|path| !path.as_os_str().is_empty() && !path.exists())
            .collect();
        let io = |source| BlueprintStoreError::Io {
            path: self.folder.clone(),
            source,
        };
        make_private(&self.folder).map_err(io)?;
        for path in missing.into_iter().rev() {
            let above = path.parent().filter(|above| !above.as_os_str().is_empty());
            give(path, above.unwrap_or(Path::new("."))).map_err(io)?;
        }
        Ok(())
    }

    /// Gives a file that was just written to the owner of the folder: written with sudo, it would be nothing to the agent.
    fn give_to_owner(&self, file: &Path) -> Result<(), BlueprintStoreError> {
        give(file, &self.folder).map_err(|source| {
            let owner = fs::metadata(&self.folder).map(|folder| folder.uid());
            let path = self.folder.clone();
            match owner {
                Ok(owner) if source.kind() == io::ErrorKind::PermissionDenied => {
                    BlueprintStoreError::Foreign { path, owner }
                }
                _ => BlueprintStoreError::Io { path, source },
            }
        })
    }

    fn sync(&self) -> Result<(), BlueprintStoreError> {
        let synced = File::open(&self.folder).and_then(|folder| folder.sync_all());
        synced.map_err(|source| BlueprintStoreError::Io {
            path: self.folder.clone(),
            source,
        })
    }

    fn path(&self, name: &BlueprintName) -> PathBuf {
        self.folder.join(format!("{name}.{ENDING}"))
    }

    fn unknown(&self, name: &str) -> BlueprintStoreError {
        let all = self.list().map(|(all, _)| all).unwrap_or_default();
        let names: Vec<&str> = all.iter().map(|listed| listed.name.as_str()).collect();
        BlueprintStoreError::Unknown {
            nearest: watchkeeper_plain::scene::nearest(name, names.iter().copied())
                .map(str::to_owned),
            known: names.join(", "),
            name: name.chars().take(60).collect(),
        }
    }
}

/// Where a file may be written.
#[derive(Debug, Clone, Copy)]
enum WriteTarget {
    /// Where none is.
    Free,
    /// Also in the place of one.
    Any,
}

/// Gives what is at `path` to the owner of `folder`, where that is another one.
fn give(path: &Path, folder: &Path) -> io::Result<()> {
    let (mine, wanted) = (fs::metadata(path)?, fs::metadata(folder)?);
    match mine.uid() == wanted.uid() {
        true => Ok(()),
        false => chown(path, Some(wanted.uid()), Some(wanted.gid())),
    }
}

/// What is wrong with a file that can't be read.
fn unreadable(error: &io::Error) -> BlueprintError {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => "give it to the user who reads it here (chown)",
        io::ErrorKind::IsADirectory => "put a file in its place",
        _ => "put another file in its place, or look at the disk",
    };
    BlueprintError::new("file", "", &format!("it can't be read: {error}"), remedy)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    const DOCK: &str =
        "+++\njob = \"question\"\nwhen = \"About the dock.\"\n+++\nAnswer in Polish.\n";

    fn name(name: &str) -> BlueprintName {
        BlueprintName::new(name).unwrap()
    }

    fn shelf() -> (tempfile::TempDir, BlueprintStore) {
        let dir = tempfile::tempdir().unwrap();
        let shelf = BlueprintStore::of(dir.path());
        (dir, shelf)
    }

    fn names(shelf: &BlueprintStore) -> Vec<(String, BlueprintOrigin)> {
        let (all, notes) = shelf.list().unwrap();
        assert_eq!(notes, Vec::<String>::new());
        all.iter().map(|l| (l.name.to_string(), l.origin)).collect()
    }

    #[test]
    fn the_built_in_ones_are_there_without_a_folder() {
        let (_dir, shelf) = shelf();
        let all = names(&shelf);
        assert_eq!(all.len(), Job::ALL.len());
        assert!(
            all.iter()
                .all(|(_, origin)| *origin == BlueprintOrigin::BuiltIn)
        );
        assert!(!shelf.folder().exists(), "a look makes nothing");
    }

    #[test]
    fn one_is_created_shown_changed_copied_and_deleted() {
        let (_dir, shelf) = shelf();
        shelf.create(&name("dock"), DOCK).unwrap();
        assert_eq!(shelf.get("dock").unwrap().text, DOCK);
        let taken = shelf.create(&name("dock"), DOCK).unwrap_err();
        assert!(taken.to_string().contains("update dock"), "{taken}");
        let other = DOCK.replace("Polish", "Czech");
        shelf.update(&name("dock"), &other).unwrap();
        shelf.duplicate(&name("dock"), &name("yard")).unwrap();
        assert_eq!(
            shelf.get("yard").unwrap().serves.unwrap().instructions,
            "Answer in Czech."
        );
        assert!(!shelf.delete(&name("dock")).unwrap());
        let gone = shelf.get("dock").unwrap_err().to_string();
        assert!(
            gone.contains("no blueprint \"dock\"") && gone.contains("yard"),
            "{gone}"
        );
        let near = shelf.delete(&name("yart")).unwrap_err().to_string();
        assert!(near.contains("did you mean yard?"), "{near}");
    }

    #[test]
    fn a_file_takes_the_place_of_a_built_in_one_until_it_is_deleted() {
        let (_dir, shelf) = shelf();
        let own = built_in::text(Job::Question).replace("steps = 8", "steps = 3");
        assert!(matches!(
            shelf.create(&name("question"), &own),
            Err(BlueprintStoreError::Taken { built_in: true, .. })
        ));
        shelf.update(&name("question"), &own).unwrap();
        assert_eq!(shelf.serving(Job::Question).unwrap().0.steps, 3);
        assert!(names(&shelf).contains(&("question".to_owned(), BlueprintOrigin::FileInPlace)));
        assert!(shelf.delete(&name("question")).unwrap());
        assert_eq!(shelf.serving(Job::Question).unwrap().0.steps, 8);
        assert!(matches!(
            shelf.delete(&name("question")),
            Err(BlueprintStoreError::BuiltIn(_))
        ));
    }

    #[test]
    fn a_damaged_file_is_told_and_the_built_in_one_serves() {
        let (_dir, shelf) = shelf();
        shelf
            .update(&name("triage"), built_in::text(Job::Triage))
            .unwrap();
        shelf.create(&name("dock"), DOCK).unwrap();
        for damage in [
            &b"+++\njob = \"tri"[..],
            b"\xff\xfe",
            &[b'x'; MAX_BYTES + 9],
        ] {
            for file in ["triage.md", "dock.md"] {
                fs::write(shelf.folder().join(file), damage).unwrap();
            }
            let (blueprint, trouble) = shelf.serving(Job::Triage).unwrap();
            assert_eq!(blueprint.job, Job::Triage);
            assert!(trouble.unwrap().contains("the built-in one serves"));
            let dock = shelf.get("dock").unwrap();
            assert_eq!(
                (dock.origin, dock.serves.is_none()),
                (BlueprintOrigin::Damaged, true)
            );
            assert!(dock.trouble().unwrap().contains("not used"));
            assert!(shelf.duplicate(&name("dock"), &name("yard")).is_err());
        }
        // It can be mended in place, and taken away.
        shelf.update(&name("dock"), DOCK).unwrap();
        shelf.delete(&name("triage")).unwrap();
        assert!(shelf.list().unwrap().0.iter().all(|l| l.flaws.is_empty()));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_that_files_trouble_alone() {
        let (_dir, shelf) = shelf();
        shelf.create(&name("dock"), DOCK).unwrap();
        fs::create_dir(shelf.folder().join("yard.md")).unwrap();
        fs::create_dir(shelf.folder().join("question.md")).unwrap();
        // Whoever reads it is sent round and round; root would read a file without permissions all the same.
        std::os::unix::fs::symlink("gate.md", shelf.folder().join("gate.md")).unwrap();
        let (all, _) = shelf.list().unwrap();
        let of = |name: &str| all.iter().find(|l| l.name.as_str() == name).unwrap();
        assert_eq!(of("dock").origin, BlueprintOrigin::File);
        assert_eq!(of("question").origin, BlueprintOrigin::BuiltInForDamaged);
        for damaged in ["yard", "gate"] {
            assert_eq!(of(damaged).origin, BlueprintOrigin::Damaged);
            let told = of(damaged).trouble().unwrap();
            assert!(told.contains("it can't be read"), "{told}");
        }
        assert!(shelf.serving(Job::Question).unwrap().1.is_some());
        let denied = unreadable(&io::ErrorKind::PermissionDenied.into());
        assert!(denied.to_string().contains("chown"), "{denied}");
    }

    #[test]
    fn what_is_written_belongs_to_the_owner_of_the_folder() {
        let (dir, _) = shelf();
        // Only root can give files away; everybody else is that owner, or is refused.
        if chown(dir.path(), Some(12_345), Some(12_345)).is_err() {
            return;
        }
        let shelf = BlueprintStore::of(&dir.path().join("assistant"));
        shelf.create(&name("dock"), DOCK).unwrap();
        shelf
            .update(&name("question"), built_in::text(Job::Question))
            .unwrap();
        let folder = shelf.folder();
        let made = ["dock.md", "question.md"].map(|file| folder.join(file));
        for path in made
            .iter()
            .map(PathBuf::as_path)
            .chain([folder, folder.parent().unwrap()])
        {
            let there = fs::metadata(path).unwrap();
            assert_eq!(
                (there.uid(), there.gid()),
                (12_345, 12_345),
                "{}",
                path.display()
            );
        }
    }

    #[test]
    fn of_two_who_create_the_same_one_is_told_that_it_is_taken() {
        let (_dir, shelf) = shelf();
        let many: Vec<_> = (0..8)
            .map(|n| {
                let shelf = shelf.clone();
                let text = DOCK.replace("Polish", &format!("Polish {n}"));
                std::thread::spawn(move || {
                    (shelf.write(&name("dock"), &text, WriteTarget::Free), text)
                })
            })
            .collect();
        let many: Vec<_> = many.into_iter().map(|one| one.join().unwrap()).collect();
        let (made, refused): (Vec<_>, Vec<_>) =
            many.into_iter().partition(|(done, _)| done.is_ok());
        assert_eq!((made.len(), refused.len()), (1, 7));
        assert!(
            refused
                .iter()
                .all(|(done, _)| matches!(done, Err(BlueprintStoreError::Taken { .. })))
        );
        assert_eq!(shelf.get("dock").unwrap().text, made[0].1);
        assert_eq!(
            fs::read_dir(shelf.folder()).unwrap().count(),
            1,
            "nothing is left over"
        );
    }

    #[test]
    fn what_is_no_blueprint_is_not_written() {
        let (_dir, shelf) = shelf();
        let wrong = DOCK.replace("question", "triag");
        assert!(matches!(
            shelf.create(&name("dock"), &wrong),
            Err(BlueprintStoreError::Flawed(_))
        ));
        assert!(!shelf.folder().exists());
    }

    #[test]
    fn there_are_as_many_as_are_read_and_the_others_are_told() {
        let (_dir, shelf) = shelf();
        for n in 0..MAX_FILES {
            shelf.create(&name(&format!("b{n:02}")), DOCK).unwrap();
        }
        assert!(matches!(
            shelf.create(&name("more"), DOCK),
            Err(BlueprintStoreError::Full)
        ));
        assert!(matches!(
            shelf.update(&name("question"), DOCK),
            Err(BlueprintStoreError::Full)
        ));
        fs::write(shelf.folder().join("zz.md"), DOCK).unwrap();
        fs::write(shelf.folder().join("Not A Name.md"), DOCK).unwrap();
        let (all, notes) = shelf.list().unwrap();
        assert_eq!(all.len(), MAX_FILES + Job::ALL.len());
        assert_eq!(notes.len(), 2, "{notes:?}");
    }

    #[test]
    fn nobody_else_reads_them_and_a_disk_that_refuses_leaves_the_built_in_ones() {
        use std::os::unix::fs::PermissionsExt as _;
        let (dir, shelf) = shelf();
        shelf.create(&name("dock"), DOCK).unwrap();
        let mode = fs::metadata(shelf.folder().join("dock.md"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        // A file where the folder would be: nothing can be read or written there.
        let blocked = BlueprintStore::of(&dir.path().join("blueprints/dock.md"));
        let (blueprint, trouble) = blocked.serving(Job::Question).unwrap();
        assert_eq!(blueprint.name.as_str(), "question");
        assert!(trouble.is_some());
        assert!(matches!(
            blocked.create(&name("x"), DOCK),
            Err(BlueprintStoreError::Io { .. })
        ));
    }
}
