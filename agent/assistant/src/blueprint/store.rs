//! The folder of blueprints, one Markdown file each, and the built-in ones.
//!
//! - A file is written whole or not at all, only if it is valid, and gets the folder's owner.
//! - Of more than [`MAX_FILES`] files the first by name count; the others are reported.
//! - An invalid or unreadable file affects only its own name. The built-in blueprint of that name
//!   stays in use only if the file certainly names no provider. So no request is sent to another
//!   one.

mod entry;

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};

use watchkeeper_store::private_folder::make_private;

use super::read::{names_no_provider, readable_when};
use super::{Blueprint, BlueprintError, BlueprintName, Job, MAX_BYTES, built_in, read};
use crate::wording::unknown;

pub use entry::{BlueprintEntry, BlueprintOrigin};

/// Maximum files that are read.
pub const MAX_FILES: usize = 32;
/// Name of the folder, below the assistant's folder.
const FOLDER: &str = "blueprints";
const EXTENSION: &str = "md";

/// Why an operation on the store failed.
#[derive(Debug, thiserror::Error)]
pub enum BlueprintStoreError {
    #[error(
        "the blueprint's file {} can't be used: {source}; give this user read and write access",
        path.display()
    )]
    Io { path: PathBuf, source: io::Error },
    /// The folder's owner could not read a file that this user writes.
    #[error(
        "{} belongs to the user with the number {owner}, who could not read files of this user; \
            run \
         the command as that user, or with sudo",
        path.display()
    )]
    Foreign { path: PathBuf, owner: u32 },
    /// A sentence with the nearest name, or all.
    #[error("{0}")]
    Unknown(String),
    #[error(
        "the blueprint {name} exists already{}; change it with `watchkeeper blueprints update \
         {name}`, or choose another name",
        if *.built_in { " (built in)" } else { "" }
    )]
    Taken { name: BlueprintName, built_in: bool },
    #[error(
        "{0} is built in and can't be deleted; replace it with a file: \
         `watchkeeper blueprints update {0}`"
    )]
    BuiltIn(BlueprintName),
    #[error("there are {MAX_FILES} blueprint files already, the maximum; delete one first")]
    Full,
    #[error("this is not a valid blueprint")]
    Invalid(Vec<BlueprintError>),
}

/// The blueprints of a folder, and the built-in ones.
#[derive(Debug, Clone)]
pub struct BlueprintStore {
    folder: PathBuf,
}

impl BlueprintStore {
    /// The store below `home`, the assistant's folder. The first write creates its folder.
    pub fn new(home: &Path) -> Self {
        Self {
            folder: home.join(FOLDER),
        }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Lists every blueprint by name, and notes about skipped files.
    ///
    /// # Errors
    /// If the folder exists and can't be read.
    pub fn list(&self) -> Result<(Vec<BlueprintEntry>, Vec<String>), BlueprintStoreError> {
        let (names, notes) = self.files()?;
        let built_in = Job::ALL
            .into_iter()
            .filter_map(|job| BlueprintName::new(job.name()).ok());
        let mut all: Vec<BlueprintName> = names.into_iter().chain(built_in).collect();
        all.sort();
        all.dedup();
        let listed = all.into_iter().map(|name| self.find(name));
        let listed: Result<Vec<Option<BlueprintEntry>>, _> = listed.collect();
        Ok((listed?.into_iter().flatten().collect(), notes))
    }

    /// Returns the entry of a name.
    ///
    /// # Errors
    /// [`BlueprintStoreError::Unknown`] or [`BlueprintStoreError::Io`].
    pub fn get(&self, name: &str) -> Result<BlueprintEntry, BlueprintStoreError> {
        let found = match BlueprintName::new(name) {
            Ok(name) => self.find(name)?,
            Err(_) => None,
        };
        found.map_or_else(|| Err(self.unknown(name)), Ok)
    }

    /// The blueprint in use for a job, with a sentence about an invalid file.
    ///
    /// # Errors
    /// A sentence about the folder, or about a file that no built-in one may replace.
    pub fn serving(&self, job: Job) -> Result<(Blueprint, Option<String>), String> {
        let listed = self.get(job.name()).map_err(|error| error.to_string())?;
        let trouble = listed.trouble();
        match listed.serves {
            Some(blueprint) => Ok((blueprint, trouble)),
            None => Err(trouble.unwrap_or_default()),
        }
    }

    /// Creates a blueprint.
    ///
    /// # Errors
    /// If the name is taken, the text is invalid, or the file can't be written.
    pub fn create(
        &self,
        name: &BlueprintName,
        text: &str,
    ) -> Result<Blueprint, BlueprintStoreError> {
        let blueprint = read(name, text).map_err(BlueprintStoreError::Invalid)?;
        if let Ok(Some(there)) = self.find(name.clone()) {
            return Err(BlueprintStoreError::Taken {
                name: name.clone(),
                built_in: there.origin == BlueprintOrigin::BuiltIn,
            });
        }
        self.check_capacity()?;
        self.write(name, text, WriteTarget::Free)?;
        Ok(blueprint)
    }

    /// Replaces the text of a blueprint. A built-in one gets a file that replaces it.
    ///
    /// # Errors
    /// If the name is unknown, the text is invalid, or the file can't be written.
    pub fn update(
        &self,
        name: &BlueprintName,
        text: &str,
    ) -> Result<Blueprint, BlueprintStoreError> {
        let blueprint = read(name, text).map_err(BlueprintStoreError::Invalid)?;
        if self.get(name.as_str())?.origin == BlueprintOrigin::BuiltIn {
            self.check_capacity()?;
        }
        self.write(name, text, WriteTarget::Any)?;
        Ok(blueprint)
    }

    /// Copies a blueprint to a new name.
    ///
    /// # Errors
    /// Those of [`Self::create`]. An invalid file can't be copied.
    pub fn duplicate(
        &self,
        name: &BlueprintName,
        new: &BlueprintName,
    ) -> Result<Blueprint, BlueprintStoreError> {
        let text = self.get(name.as_str())?.text;
        self.create(new, &text)
    }

    /// Deletes the file of a blueprint. Returns whether a built-in one is in use again.
    ///
    /// # Errors
    /// If there is no such file, or it can't be removed.
    pub fn delete(&self, name: &BlueprintName) -> Result<bool, BlueprintStoreError> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Ok(()) => {
                self.sync()?;
                Ok(Job::from_name(name.as_str()).is_some())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(match Job::from_name(name.as_str()) {
                    Some(_) => BlueprintStoreError::BuiltIn(name.clone()),
                    None => self.unknown(name.as_str()),
                })
            }
            Err(source) => Err(BlueprintStoreError::Io { path, source }),
        }
    }

    /// Names of the files that are read, and notes about the skipped ones.
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
            if path.extension().is_none_or(|e| e != EXTENSION) {
                continue;
            }
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            match BlueprintName::new(&stem) {
                Ok(name) => names.push(name),
                Err(error) if notes.len() < MAX_FILES => {
                    notes.push(format!("a file is skipped: {error}"))
                }
                Err(_) => {}
            }
        }
        names.sort();
        if names.len() > MAX_FILES {
            notes.push(format!(
                "{} files are skipped: only the first {MAX_FILES} by name are read",
                names.len() - MAX_FILES
            ));
            names.truncate(MAX_FILES);
        }
        Ok((names, notes))
    }

    fn check_capacity(&self) -> Result<(), BlueprintStoreError> {
        match self.files()?.0.len() < MAX_FILES {
            true => Ok(()),
            false => Err(BlueprintStoreError::Full),
        }
    }

    /// The entry of a name; `None` without file and built-in blueprint.
    fn find(&self, name: BlueprintName) -> Result<Option<BlueprintEntry>, BlueprintStoreError> {
        let job = Job::from_name(name.as_str());
        let text = self.read_file(&name)?;
        let built_in = |job: Option<Job>, origin, flaws| {
            job.map(|job| {
                let serves = built_in::blueprint(job).ok();
                BlueprintEntry {
                    name: name.clone(),
                    origin,
                    flaws,
                    serves,
                    refuses: None,
                    text: built_in::text(job).to_owned(),
                }
            })
        };
        let Some(text) = text else {
            return Ok(built_in(job, BlueprintOrigin::BuiltIn, Vec::new()));
        };
        let job_instead = job.filter(|_| text.as_deref().is_ok_and(names_no_provider));
        let refuses = text.as_deref().ok().and_then(readable_when);
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
                refuses: None,
                text,
            },
            Err(flaws) => {
                let origin = BlueprintOrigin::BuiltInForDamaged;
                built_in(job_instead, origin, flaws.clone()).unwrap_or_else(|| BlueprintEntry {
                    name,
                    origin: BlueprintOrigin::Damaged,
                    flaws,
                    serves: None,
                    refuses,
                    text: job.map_or_else(String::new, |job| built_in::text(job).to_owned()),
                })
            }
        }))
    }

    /// Reads the file of a name: `None` without a file, errors if it is unreadable or not UTF-8.
    fn read_file(
        &self,
        name: &BlueprintName,
    ) -> Result<Option<Result<String, Vec<BlueprintError>>>, BlueprintStoreError> {
        let path = self.path(name);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // The folder's path is a file.
            Err(source) if source.kind() == io::ErrorKind::NotADirectory => {
                return Err(BlueprintStoreError::Io { path, source });
            }
            Err(error) => return Ok(Some(Err(vec![unreadable(&error)]))),
        };
        let mut bytes = Vec::new();
        // One byte more than allowed, so that the parser rejects a longer file.
        let read = file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes);
        if let Err(error) = read {
            return Ok(Some(Err(vec![unreadable(&error)])));
        }
        let text = String::from_utf8(bytes).map_err(|_| {
            vec![BlueprintError::new(
                "file",
                "",
                "it is not UTF-8 text",
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
        // A unique name: two writers at once must not share a file.
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
            // Another writer was faster.
            io::ErrorKind::AlreadyExists => BlueprintStoreError::Taken {
                name: name.clone(),
                built_in: false,
            },
            _ => io(error.error),
        })?;
        self.sync()
    }

    /// Creates the folder and its missing parents. Each gets the owner of its parent.
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
            change_owner(path, above.unwrap_or(Path::new("."))).map_err(io)?;
        }
        Ok(())
    }

    /// Gives a new file to the folder's owner: the agent can't read a file written with sudo.
    fn give_to_owner(&self, file: &Path) -> Result<(), BlueprintStoreError> {
        change_owner(file, &self.folder).map_err(|source| {
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
        self.folder.join(format!("{name}.{EXTENSION}"))
    }

    fn unknown(&self, name: &str) -> BlueprintStoreError {
        let all = self.list().map(|(all, _)| all).unwrap_or_default();
        let names: Vec<&str> = all.iter().map(|listed| listed.name.as_str()).collect();
        BlueprintStoreError::Unknown(unknown("blueprint", name, &names))
    }
}

/// Which file a write may replace.
#[derive(Debug, Clone, Copy)]
enum WriteTarget {
    /// No file: the name must be free.
    Free,
    Any,
}

fn change_owner(path: &Path, folder: &Path) -> io::Result<()> {
    let (mine, wanted) = (fs::metadata(path)?, fs::metadata(folder)?);
    match mine.uid() == wanted.uid() {
        true => Ok(()),
        false => chown(path, Some(wanted.uid()), Some(wanted.gid())),
    }
}

fn unreadable(error: &io::Error) -> BlueprintError {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => "give it to the user who runs this command (chown)",
        io::ErrorKind::IsADirectory => "replace it with a file",
        _ => "replace the file, or check the disk",
    };
    BlueprintError::new("file", "", &format!("it can't be read: {error}"), remedy)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests;
