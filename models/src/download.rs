//! One download, without network: which bytes to request, and when the file is good.
//!
//! ```text
//! open ── range_request() ──> the shell asks for `Range: bytes=offset-`, `If-Range: validator` ── start() ── accept()* ── check() ── place_all()
//! ```
//!
//! - Bytes go to `NAME.onnx.part`. It is kept when the connection breaks and continued next time;
//!   a part that no later attempt can continue is removed. One process at a time writes a part.
//! - Only bytes of the same file are continued: the checksum proves it afterwards, or the server's
//!   validator beforehand if no checksum is known.
//! - The final name appears by rename, after size and checksum were right and bytes were synced.
//! - Never more is written than the stated size, or [`MAX_BYTES`] if none is stated.
//! - A file of unknown checksum is placed only if the caller trusts it. Its sum is recorded, so a
//!   later change is noticed. The files of one model get their names together ([`place_all`]).

mod error;
mod package;
mod plan;
mod record;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::digest::{self, Hasher, Sha256Sum};

pub use error::DownloadError;
pub use plan::{PullPlan, Trust};
pub(crate) use record::{record_of, recorded_sum};

use record::rename_with_sum;

/// Most bytes of a file of unknown size, far above the largest model for such a machine.
pub const MAX_BYTES: u64 = 1 << 30;

/// A request for the missing bytes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeRequest {
    /// Bytes that are here.
    pub offset: u64,
    /// Validator that the server must still use for the file, so that its rest fits (`If-Range`,
    /// RFC 9110 section 13.1.5).
    pub validator: Option<String>,
}

/// Begin of the server's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// The whole file (HTTP 200): earlier bytes are dropped.
    Whole {
        /// Length of the body, where stated.
        length: Option<u64>,
        /// Strong entity tag of the file, where stated, as sent.
        validator: Option<String>,
    },
    /// The rest from [`Download::offset`] (HTTP 206).
    Rest {
        /// Length of the body, where stated.
        length: Option<u64>,
    },
    /// Nothing after the offset (HTTP 416): the file is complete.
    Nothing,
}

/// A finished download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Downloaded {
    /// The file, in place.
    pub path: PathBuf,
    pub sha256: Sha256Sum,
    /// Size in bytes.
    pub bytes: u64,
    /// Whether the checksum was known beforehand.
    pub known: bool,
}

/// A download under way.
#[derive(Debug)]
pub struct Download {
    plan: PullPlan,
    part: PathBuf,
    file: File,
    hasher: Hasher,
    expected: Option<u64>,
}

impl Download {
    /// Opens the part file, with what an earlier attempt left in it.
    ///
    /// # Errors
    /// [`DownloadError::Write`].
    pub fn open(plan: PullPlan) -> Result<Self, DownloadError> {
        let part = plan.target.with_added_extension("part");
        let failed = |source| DownloadError::Write {
            path: part.clone(),
            source,
        };
        if let Some(dir) = plan.target.parent() {
            fs::create_dir_all(dir).map_err(failed)?;
        }
        let mut file = match lock_part(&part) {
            Ok(file) => file,
            Err(TryLockError::WouldBlock) => return Err(DownloadError::Busy { name: plan.name }),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        };
        let mut hasher = Hasher::default();
        hasher.drain(&mut file).map_err(failed)?;
        let mut download = Self {
            expected: plan.bytes,
            plan,
            part,
            file,
            hasher,
        };
        if download.offset() > download.limit() {
            download.restart()?;
        }
        Ok(download)
    }

    /// Returns the file in place, if it is the wanted one.
    ///
    /// # Errors
    /// [`DownloadError::Write`] or [`DownloadError::Record`], when the file or the record of its
    /// checksum is there and can't be read.
    pub fn already(plan: &PullPlan) -> Result<Option<Downloaded>, DownloadError> {
        let Some(wanted) = plan.wanted_sum()?.filter(|_| plan.target.is_file()) else {
            return Ok(None);
        };
        let (found, bytes) =
            digest::of_file(&plan.target).map_err(|source| DownloadError::Write {
                path: plan.target.clone(),
                source,
            })?;
        Ok((found == wanted).then(|| Downloaded {
            path: plan.target.clone(),
            sha256: found,
            bytes,
            known: true,
        }))
    }

    /// Returns the request for the rest of a partial file, or `None` for all of it.
    ///
    /// Bytes that neither a checksum nor the server's validator covers are not continued.
    pub fn range_request(&self) -> Option<RangeRequest> {
        let validator = fs::read_to_string(self.validator_file()).ok();
        let is_proved = matches!(self.plan.wanted_sum(), Ok(Some(_)));
        (self.offset() > 0 && (is_proved || validator.is_some())).then(|| RangeRequest {
            offset: self.offset(),
            validator,
        })
    }

    /// Returns the number of bytes here.
    pub fn offset(&self) -> u64 {
        self.hasher.bytes()
    }

    /// Returns the size of the whole file, where known.
    pub fn expected(&self) -> Option<u64> {
        self.expected
    }

    /// Returns whether every byte is here already, so that nothing need be requested.
    pub fn is_complete(&self) -> bool {
        self.plan.bytes == Some(self.offset())
    }

    /// Returns the bytes still to come, where known and not zero.
    pub fn missing(&self) -> Option<u64> {
        let missing = self.expected?.saturating_sub(self.offset());
        (missing > 0).then_some(missing)
    }

    /// Handles the begin of the answer.
    ///
    /// # Errors
    /// [`DownloadError`]: the server states more bytes than allowed, or the part can't be written.
    pub fn start(&mut self, start: Start) -> Result<(), DownloadError> {
        let length = match start {
            Start::Whole { length, validator } => {
                self.restart()?;
                self.note_validator(validator.as_deref())?;
                length
            }
            Start::Rest { length } => length,
            Start::Nothing => Some(0),
        };
        let stated = length.and_then(|length| self.offset().checked_add(length));
        if stated.is_some_and(|stated| stated > self.limit()) {
            return Err(self.refuse_too_long());
        }
        self.expected = self.plan.bytes.or(stated);
        Ok(())
    }

    /// Adds the next bytes and returns how many there are now.
    ///
    /// # Errors
    /// [`DownloadError`]: too many, or the part can't be written.
    pub fn accept(&mut self, bytes: &[u8]) -> Result<u64, DownloadError> {
        let most = self.expected.unwrap_or(MAX_BYTES).min(self.limit());
        if self.offset().saturating_add(bytes.len() as u64) > most {
            return Err(self.refuse_too_long());
        }
        self.file
            .write_all(bytes)
            .map_err(|source| self.failed(source))?;
        self.hasher.update(bytes);
        Ok(self.offset())
    }

    /// Checks size and checksum. A good file keeps its part's name until it is [placed](place_all).
    ///
    /// # Errors
    /// [`DownloadError`]; the message says whether the part was kept.
    pub fn check(self) -> Result<Checked, DownloadError> {
        let received = self.offset();
        if let Some(expected) = self.expected.filter(|expected| received < *expected) {
            return Err(DownloadError::TooShort {
                url: self.plan.url,
                received,
                expected,
            });
        }
        let found = self.hasher.clone().finish();
        let wanted = self.plan.wanted_sum()?;
        if wanted.is_none() && self.plan.trust == Trust::KnownOnly {
            return Err(DownloadError::Untrusted {
                name: self.plan.name,
                url: self.plan.url,
                found,
            });
        }
        if let Some(expected) = wanted.filter(|wanted| *wanted != found) {
            self.remove_part()?;
            return Err(self.plan.wrong_sum(found, expected));
        }
        Ok(Checked {
            download: self,
            sum: found,
            known: wanted.is_some(),
        })
    }

    /// Checks the file and puts it in place by itself.
    ///
    /// # Errors
    /// [`DownloadError`]; the message says whether the part was kept.
    pub fn finish(self) -> Result<Downloaded, DownloadError> {
        self.check()?.place()
    }

    /// Ends the attempt without the file. Only a part that a later attempt can continue is kept.
    ///
    /// # Errors
    /// [`DownloadError::Write`].
    pub fn give_up(self) -> Result<(), DownloadError> {
        match self.range_request() {
            Some(_) => Ok(()),
            None => self.remove_part(),
        }
    }

    fn limit(&self) -> u64 {
        self.plan.bytes.unwrap_or(MAX_BYTES)
    }

    fn validator_file(&self) -> PathBuf {
        self.part.with_added_extension("etag")
    }

    /// Stores or removes the server's validator of the part.
    fn note_validator(&self, validator: Option<&str>) -> Result<(), DownloadError> {
        let path = self.validator_file();
        let done = match validator {
            Some(validator) => fs::write(&path, validator),
            None => match fs::remove_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                done => done,
            },
        };
        done.map_err(|source| DownloadError::Write { path, source })
    }

    fn restart(&mut self) -> Result<(), DownloadError> {
        self.file
            .set_len(0)
            .and_then(|()| self.file.seek(SeekFrom::Start(0)))
            .map_err(|source| self.failed(source))?;
        self.hasher = Hasher::default();
        Ok(())
    }

    fn failed(&self, source: io::Error) -> DownloadError {
        DownloadError::Write {
            path: self.part.clone(),
            source,
        }
    }

    /// Removes the part: its bytes belong to another file than the wanted one.
    fn refuse_too_long(&self) -> DownloadError {
        if let Err(error) = self.remove_part() {
            return error;
        }
        DownloadError::TooLong {
            url: self.plan.url.clone(),
            limit: self.expected.unwrap_or(MAX_BYTES).min(self.limit()),
        }
    }

    /// Removes the part with its validator; a part that was removed before is not an error.
    fn remove_part(&self) -> Result<(), DownloadError> {
        self.note_validator(None)?;
        match fs::remove_file(&self.part) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.failed(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// Opens a part and locks it. A part that another process placed before it was locked is now an
/// installed file, so the name is opened again.
fn lock_part(part: &Path) -> Result<File, TryLockError> {
    loop {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(part)
            .map_err(TryLockError::Error)?;
        file.try_lock()?;
        if is_at(&file, part).map_err(TryLockError::Error)? {
            return Ok(file);
        }
    }
}

/// Returns whether `path` is the name of the open `file`.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let open = file.metadata()?;
    match fs::metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (open.dev(), open.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// A whole and good file without its final name. No other process writes it meanwhile.
#[derive(Debug)]
pub struct Checked {
    download: Download,
    sum: Sha256Sum,
    known: bool,
}

impl Checked {
    /// Syncs it and gives it its name.
    fn place(self) -> Result<Downloaded, DownloadError> {
        let Self {
            download,
            sum,
            known,
        } = self;
        let bytes = download.offset();
        put_in_place(&download.part, &download.plan.target, sum)
            .map_err(|source| download.failed(source))?;
        download.note_validator(None)?;
        Ok(Downloaded {
            path: download.plan.target,
            sha256: sum,
            bytes,
            known,
        })
    }
}

/// Gives the files of one model their names; the network, at `network` or the last of them, after
/// all others.
///
/// An earlier network loses its name first, so no network is ever found with files of another
/// version. A cut in between leaves an absent model, and files that the next pull need not fetch
/// again. A network that is not among `checked` keeps its name if none of them can be placed.
///
/// # Errors
/// [`DownloadError::Write`].
pub fn place_all(checked: Vec<Checked>, network: &Path) -> Result<Vec<Downloaded>, DownloadError> {
    if checked.is_empty() {
        return Ok(Vec::new());
    }
    let write = |done: io::Result<()>| match done {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(DownloadError::Write {
            path: network.to_owned(),
            source,
        }),
        done => Ok(done.is_ok()),
    };
    let is_new = checked.iter().any(|c| c.download.plan.target == network);
    let part = network.with_added_extension("part");
    let was_here = write(if is_new {
        fs::remove_file(network)
    } else {
        fs::rename(network, &part)
    })?;
    let mut placed = Vec::new();
    let done = checked.into_iter().try_for_each(|file| {
        placed.push(file.place()?);
        Ok(())
    });
    if was_here && !is_new && (done.is_ok() || placed.is_empty()) {
        write(fs::rename(&part, network))?;
    }
    done.map(|()| placed)
}

/// Syncs a finished file, renames it into place and records its checksum.
pub(crate) fn put_in_place(part: &Path, target: &Path, sum: Sha256Sum) -> io::Result<()> {
    File::open(part)?.sync_all()?;
    rename_with_sum(part, target, sum)?;
    match target.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
