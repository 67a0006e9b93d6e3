//! The folder of blueprints, one Markdown file each, and the built-in ones behind it.
//!
//! Invariants: a file is written whole or not at all; nothing is written that could not be read back; of more than [`MAX_FILES`] files the first by
//! their names are listed and routed to, and the others are told; whatever is wrong with a file, the built-in blueprint of its name serves.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::{Blueprint, Flaw, Job, MAX_BYTES, Name, built_in, flaw, read};
use crate::assistant::waiting::make_private;

/// Most files of a folder.
pub const MAX_FILES: usize = 32;
/// Name of the folder, below that of what is kept.
const FOLDER: &str = "blueprints";
const ENDING: &str = "md";

/// Where a blueprint comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
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
pub struct Listed {
    /// Its name.
    pub name: Name,
    /// Where it comes from.
    pub origin: Origin,
    /// What is wrong with its file.
    pub flaws: Vec<Flaw>,
    /// The one that serves; none where the file can't be used and nothing stands behind it.
    pub serves: Option<Blueprint>,
    /// The text of the one that serves, or of the file that can't be used.
    pub text: String,
}

impl Listed {
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
                flaw::sentence(&self.flaws)
            )
        })
    }
}

/// What does not work with the shelf.
#[derive(Debug, thiserror::Error)]
pub enum ShelfError {
    /// The disk refuses.
    #[error("the blueprint's file {} can't be used: {source}; let this user read and write there", path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
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
        name: Name,
        /// Whether it is a built-in one.
        built_in: bool,
    },
    /// Built-in ones stay.
    #[error(
        "{0} is built in and can't be deleted; a file in its place (`watchkeeper blueprints update {0}`) changes it, and can be"
    )]
    BuiltIn(Name),
    /// Too many.
    #[error(
        "there are {MAX_FILES} blueprints of yours, which is as many as are read; delete one first"
    )]
    Full,
    /// The text is none.
    #[error("this is no blueprint")]
    Flawed(Vec<Flaw>),
}

fn near(nearest: &Option<String>) -> String {
    nearest
        .as_ref()
        .map_or_else(String::new, |n| format!(" (did you mean {n}?)"))
}

/// The folder.
#[derive(Debug, Clone)]
pub struct Shelf {
    folder: PathBuf,
}

impl Shelf {
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
    pub fn list(&self) -> Result<(Vec<Listed>, Vec<String>), ShelfError> {
        let (names, notes) = self.files()?;
        let built_in = Job::ALL
            .into_iter()
            .filter_map(|job| Name::new(job.name()).ok());
        let mut all: Vec<Name> = names.into_iter().chain(built_in).collect();
        all.sort();
        all.dedup();
        let listed = all.into_iter().map(|name| self.look(name));
        let listed: Result<Vec<Option<Listed>>, _> = listed.collect();
        Ok((listed?.into_iter().flatten().collect(), notes))
    }

    /// The built-in ones alone, for a folder that can't be read.
    #[must_use]
    pub fn built_in() -> Vec<Listed> {
        let one = |job: Job| {
            Some(Listed {
                name: Name::new(job.name()).ok()?,
                origin: Origin::BuiltIn,
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
    pub fn get(&self, name: &str) -> Result<Listed, ShelfError> {
        let found = match Name::new(name) {
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
                built_in::of(job).map_err(|flaws| flaw::sentence(&flaws))?,
                trouble,
            )),
        }
    }

    /// Puts a new one there.
    ///
    /// # Errors
    /// When there is one of that name, the text is none, or the disk refuses.
    pub fn create(&self, name: &Name, text: &str) -> Result<Blueprint, ShelfError> {
        let blueprint = read(name, text).map_err(ShelfError::Flawed)?;
        if let Ok(Some(there)) = self.look(name.clone()) {
            return Err(ShelfError::Taken {
                name: name.clone(),
                built_in: there.origin == Origin::BuiltIn,
            });
        }
        self.room()?;
        self.write(name, text)?;
        Ok(blueprint)
    }

    /// Gives one another text. A built-in one gets a file in its place.
    ///
    /// # Errors
    /// When there is none of that name, the text is none, or the disk refuses.
    pub fn update(&self, name: &Name, text: &str) -> Result<Blueprint, ShelfError> {
        let blueprint = read(name, text).map_err(ShelfError::Flawed)?;
        if self.get(name.as_str())?.origin == Origin::BuiltIn {
            self.room()?;
        }
        self.write(name, text)?;
        Ok(blueprint)
    }

    /// Puts the same there under another name.
    ///
    /// # Errors
    /// As [`Self::create`]; one that can't be used can't be copied.
    pub fn duplicate(&self, name: &Name, new: &Name) -> Result<Blueprint, ShelfError> {
        let text = self.get(name.as_str())?.text;
        self.create(new, &text)
    }

    /// Removes the file of one. Where it stood in the place of a built-in one, that serves again, which is answered.
    ///
    /// # Errors
    /// When there is no such file, or the disk refuses.
    pub fn delete(&self, name: &Name) -> Result<bool, ShelfError> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Ok(()) => {
                self.sync()?;
                Ok(built_in::job_of(name).is_some())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(match built_in::job_of(name) {
                    Some(_) => ShelfError::BuiltIn(name.clone()),
                    None => self.unknown(name.as_str()),
                })
            }
            Err(source) => Err(ShelfError::Io { path, source }),
        }
    }

    /// The names of the files that count, and what is told of the others.
    fn files(&self) -> Result<(Vec<Name>, Vec<String>), ShelfError> {
        let io = |source| ShelfError::Io {
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
            match Name::new(&stem) {
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

    fn room(&self) -> Result<(), ShelfError> {
        match self.files()?.0.len() < MAX_FILES {
            true => Ok(()),
            false => Err(ShelfError::Full),
        }
    }

    /// What this name stands for; none for nothing.
    fn look(&self, name: Name) -> Result<Option<Listed>, ShelfError> {
        let job = built_in::job_of(&name);
        let text = self.read_file(&name)?;
        let built_in = |origin, flaws| {
            job.map(|job| {
                let serves = built_in::of(job).ok();
                Listed {
                    name: name.clone(),
                    origin,
                    flaws,
                    serves,
                    text: built_in::text(job).to_owned(),
                }
            })
        };
        let Some(text) = text else {
            return Ok(built_in(Origin::BuiltIn, Vec::new()));
        };
        let read = text.and_then(|text| match read(&name, &text) {
            Ok(blueprint) => Ok((blueprint, text)),
            Err(flaws) => Err(flaws),
        });
        Ok(Some(match read {
            Ok((blueprint, text)) => Listed {
                name,
                origin: if job.is_some() {
                    Origin::FileInPlace
                } else {
                    Origin::File
                },
                flaws: Vec::new(),
                serves: Some(blueprint),
                text,
            },
            Err(flaws) => match built_in(Origin::BuiltInForDamaged, flaws.clone()) {
                Some(listed) => listed,
                None => Listed {
                    name,
                    origin: Origin::Damaged,
                    flaws,
                    serves: None,
                    text: String::new(),
                },
            },
        }))
    }

    /// The text of a file; none where there is none, a flaw where it is no text.
    fn read_file(&self, name: &Name) -> Result<Option<Result<String, Vec<Flaw>>>, ShelfError> {
        let path = self.path(name);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(ShelfError::Io { path, source }),
        };
        let mut bytes = Vec::new();
        // One more than there may be: a longer one is seen to be too long.
        let read = file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|source| ShelfError::Io { path, source })?;
        let text = String::from_utf8(bytes).map_err(|_| {
            vec![Flaw::new(
                "file",
                "",
                "it is no UTF-8 text",
                "save it as UTF-8",
            )]
        });
        Ok(Some(text))
    }

    fn write(&self, name: &Name, text: &str) -> Result<(), ShelfError> {
        let path = self.path(name);
        let io = |source| ShelfError::Io {
            path: path.clone(),
            source,
        };
        make_private(&self.folder).map_err(io)?;
        let new = path.with_extension("new");
        let mut options = fs::OpenOptions::new();
        let file = options
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&new);
        let mut file = file.map_err(io)?;
        file.write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&new, &path))
            .map_err(io)?;
        self.sync()
    }

    fn sync(&self) -> Result<(), ShelfError> {
        let synced = File::open(&self.folder).and_then(|folder| folder.sync_all());
        synced.map_err(|source| ShelfError::Io {
            path: self.folder.clone(),
            source,
        })
    }

    fn path(&self, name: &Name) -> PathBuf {
        self.folder.join(format!("{name}.{ENDING}"))
    }

    fn unknown(&self, name: &str) -> ShelfError {
        let all = self.list().map(|(all, _)| all).unwrap_or_default();
        let names: Vec<&str> = all.iter().map(|listed| listed.name.as_str()).collect();
        ShelfError::Unknown {
            nearest: watchkeeper_plain::scene::nearest(name, names.iter().copied())
                .map(str::to_owned),
            known: names.join(", "),
            name: name.chars().take(60).collect(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    const DOCK: &str =
        "+++\njob = \"question\"\nwhen = \"About the dock.\"\n+++\nAnswer in Polish.\n";

    fn name(name: &str) -> Name {
        Name::new(name).unwrap()
    }

    fn shelf() -> (tempfile::TempDir, Shelf) {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::of(dir.path());
        (dir, shelf)
    }

    fn names(shelf: &Shelf) -> Vec<(String, Origin)> {
        let (all, notes) = shelf.list().unwrap();
        assert_eq!(notes, Vec::<String>::new());
        all.iter().map(|l| (l.name.to_string(), l.origin)).collect()
    }

    #[test]
    fn the_built_in_ones_are_there_without_a_folder() {
        let (_dir, shelf) = shelf();
        let all = names(&shelf);
        assert_eq!(all.len(), Job::ALL.len());
        assert!(all.iter().all(|(_, origin)| *origin == Origin::BuiltIn));
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
            Err(ShelfError::Taken { built_in: true, .. })
        ));
        shelf.update(&name("question"), &own).unwrap();
        assert_eq!(shelf.serving(Job::Question).unwrap().0.steps, 3);
        assert!(names(&shelf).contains(&("question".to_owned(), Origin::FileInPlace)));
        assert!(shelf.delete(&name("question")).unwrap());
        assert_eq!(shelf.serving(Job::Question).unwrap().0.steps, 8);
        assert!(matches!(
            shelf.delete(&name("question")),
            Err(ShelfError::BuiltIn(_))
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
                (Origin::Damaged, true)
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
    fn what_is_no_blueprint_is_not_written() {
        let (_dir, shelf) = shelf();
        let wrong = DOCK.replace("question", "triag");
        assert!(matches!(
            shelf.create(&name("dock"), &wrong),
            Err(ShelfError::Flawed(_))
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
            Err(ShelfError::Full)
        ));
        assert!(matches!(
            shelf.update(&name("question"), DOCK),
            Err(ShelfError::Full)
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
        let blocked = Shelf::of(&dir.path().join("blueprints/dock.md"));
        let (blueprint, trouble) = blocked.serving(Job::Question).unwrap();
        assert_eq!(blueprint.name.as_str(), "question");
        assert!(trouble.is_some());
        assert!(matches!(
            blocked.create(&name("x"), DOCK),
            Err(ShelfError::Io { .. })
        ));
    }
}
