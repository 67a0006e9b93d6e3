//! The folder of effects: one file each, written once and removed when it is settled.
//!
//! ```text
//! <state>/effects/00000000000000000007.effect    mark (its last byte is the format) │ SHA-256 of the rest │ JSON of a `SpooledEffect`
//!                 effects.reserved               numbers up to this one may have been given
//!                 failed.json                    number of failed effects, and the last of them
//! ```
//!
//! - A file is complete under its name. A damaged one counts as failed and is removed. One that
//!   can't be read counts as failed at each start and stays; one of a newer version stays.
//! - A removal may be undone by a power cut: the effect is executed again, with the same id.
//!
//! Files, not a store: effects carry pictures, and each is written once, read once and removed.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use watchkeeper_board::storage::space;
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::spool::{
    EffectNumber, FailedEffect, MAX_FAILURES_SHOWN, SpooledEffect, WaitingEffect,
};
use watchkeeper_contract::time::Wall;
use watchkeeper_store::durable::{is_disk_refusal, remove_leftover, replace};
use watchkeeper_store::private_folder::{make_private, sync_names};

use crate::journal::Reservation;

/// Name of the folder within the state folder.
const FOLDER: &str = "effects";
const RESERVED: &str = "effects.reserved";
const FAILED: &str = "failed.json";
/// Extension of the files.
const EXTENSION: &str = ".effect";

/// First bytes of a file, before the format.
const MARK: &[u8] = b"watchkeeper effect ";
const FORMAT: u8 = 1;
const CHECKSUM_BYTES: usize = 32;

/// Maximum length of a failure's reason in characters.
const MAX_REASON_CHARS: usize = 500;

/// The spool can't be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {source}")]
pub struct EffectsError {
    path: PathBuf,
    source: io::Error,
}

impl EffectsError {
    pub(super) fn new(path: &Path, source: io::Error) -> Self {
        Self {
            path: path.to_owned(),
            source,
        }
    }
}

/// An effect before it has a number.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) id: String,
    pub(super) at: Wall,
    pub(super) pipeline: PipelineId,
    pub(super) step: String,
    pub(super) what: &'static str,
}

/// The fields of a [`SpooledEffect`], of which the last is serialised already.
#[derive(Serialize)]
struct EffectJson<'d> {
    number: EffectNumber,
    id: &'d str,
    at: Wall,
    pipeline: &'d PipelineId,
    step: &'d str,
    effect: &'d RawValue,
}

#[derive(Debug)]
pub(super) struct Folder(PathBuf);

/// The folder as found at start.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) folder: Folder,
    pub(super) numbers: Numbers,
    pub(super) failures: Failures,
    pub(super) waiting: BTreeMap<EffectNumber, WaitingEffect>,
}

/// Why a file can't be used.
#[derive(Debug, PartialEq, Eq)]
enum Unreadable {
    /// The system can't read it.
    Unread(String),
    Damaged(String),
    Newer,
}

/// Opens or creates the folder in the state folder, and reads all files. It is private to this
/// user: effects contain messages and pictures.
pub(super) fn open(state: &Path) -> Result<Opened, EffectsError> {
    open_with(state, sync_names)
}

/// [`open`] with a function that makes the names in a folder and above it durable.
fn open_with(
    state: &Path,
    sync: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<Opened, EffectsError> {
    let path = state.join(FOLDER);
    let at = |source| EffectsError::new(&path, source);
    let files = match make_private(&path) {
        Ok(()) => {
            // A killed run may have left an effect without a durable name.
            if let Err(error) = sync(&path) {
                tracing::warn!(path = %path.display(), %error, "effects may be lost in a power cut");
            }
            Some(fs::read_dir(&path).map_err(at)?)
        }
        // Made with the first effect.
        Err(error) if is_disk_refusal(&error) => None,
        Err(error) => return Err(at(error)),
    };
    let folder = Folder(path.clone());
    let mut failures = Failures::read(&folder)?;
    let mut waiting = BTreeMap::new();
    let mut last = 0;
    for entry in files.into_iter().flatten() {
        let file = entry.map_err(at)?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".tmp")
            && let Err(error) = remove_leftover(&file)
        {
            tracing::warn!(file = %file.display(), %error, "can't delete a leftover");
        }
        let Some(number) = name.strip_suffix(EXTENSION).and_then(|n| n.parse().ok()) else {
            continue;
        };
        last = last.max(number);
        match read_waiting(&file, EffectNumber(number)) {
            Ok(found) => {
                waiting.insert(found.number, found);
            }
            Err(Unreadable::Newer) => {
                tracing::warn!(file = %file.display(), "this effect was written by a newer version; it stays for that version");
            }
            Err(Unreadable::Unread(why)) => {
                tracing::error!(file = %file.display(), why, "an effect can't be read; it stays");
                failures.count_or_log(&folder, 1);
            }
            Err(Unreadable::Damaged(why)) => {
                tracing::error!(file = %file.display(), why, "an effect is damaged and lost");
                // One that is not counted stays for a start that can.
                if failures.count_or_log(&folder, 1)
                    && let Err(error) = fs::remove_file(&file)
                {
                    tracing::warn!(file = %file.display(), %error, "can't delete a damaged effect");
                }
            }
        }
    }
    let reserved = Reservation::open(&path, RESERVED);
    let reservation = reserved.map_err(|error| EffectsError::new(&error.path, error.source))?;
    // Numbers below the reservation may have been given, but their files are gone.
    let last = reservation.end().max(last);
    Ok(Opened {
        folder,
        numbers: Numbers { reservation, last },
        failures,
        waiting,
    })
}

fn read_waiting(file: &Path, number: EffectNumber) -> Result<WaitingEffect, Unreadable> {
    let bytes = fs::read(file).map_err(|error| Unreadable::Unread(error.to_string()))?;
    decode(&bytes, number).map(|(_, effect)| WaitingEffect {
        number,
        id: effect.id,
        at: effect.at,
        pipeline: effect.pipeline,
        step: effect.step,
        what: effect.effect.what().to_owned(),
        bytes: bytes.len() as u64,
    })
}

/// Encodes mark, format, checksum and JSON.
fn encode(body: &[u8]) -> Vec<u8> {
    [MARK, &[FORMAT], Sha256::digest(body).as_slice(), body].concat()
}

/// The JSON in a file, and the effect in it.
fn decode(bytes: &[u8], number: EffectNumber) -> Result<(&[u8], SpooledEffect), Unreadable> {
    let damaged = |why: &str| Unreadable::Damaged(why.to_owned());
    let rest = bytes
        .strip_prefix(MARK)
        .ok_or_else(|| damaged("not an effect file"))?;
    let (format, rest) = rest
        .split_first()
        .ok_or_else(|| damaged("the file is cut off"))?;
    if *format > FORMAT {
        return Err(Unreadable::Newer);
    }
    let (sum, body) = rest
        .split_at_checked(CHECKSUM_BYTES)
        .ok_or_else(|| damaged("the file is cut off"))?;
    if *format != FORMAT || Sha256::digest(body).as_slice() != sum {
        return Err(damaged("the checksum does not match"));
    }
    let effect: SpooledEffect =
        serde_json::from_slice(body).map_err(|e| Unreadable::Damaged(e.to_string()))?;
    if effect.number != number {
        return Err(damaged("the number does not match the file name"));
    }
    Ok((body, effect))
}

/// The file format, for fuzz targets.
pub(crate) mod fuzzing {
    use watchkeeper_contract::spool::SpooledEffect;

    pub(crate) fn read(bytes: &[u8]) -> Option<Vec<u8>> {
        let body = bytes.get(super::MARK.len() + 1 + super::CHECKSUM_BYTES..)?;
        let effect: SpooledEffect = serde_json::from_slice(body).ok()?;
        let read = super::decode(bytes, effect.number);
        read.ok().map(|(body, _)| body.to_vec())
    }

    pub(crate) fn write(body: &[u8]) -> Vec<u8> {
        super::encode(body)
    }
}

fn file_name(number: EffectNumber) -> String {
    format!("{:020}{EXTENSION}", number.0)
}

impl Folder {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// The JSON of an effect.
    pub(super) fn read(&self, number: EffectNumber) -> Result<Option<Vec<u8>>, EffectsError> {
        let path = self.0.join(file_name(number));
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(EffectsError::new(&path, error)),
        };
        match decode(&bytes, number) {
            Ok((body, _)) => Ok(Some(body.to_vec())),
            Err(why) => {
                let source = io::Error::new(io::ErrorKind::InvalidData, format!("{why:?}"));
                Err(EffectsError::new(&path, source))
            }
        }
    }

    pub(super) fn remove(&self, number: EffectNumber) -> Result<(), EffectsError> {
        let path = self.0.join(file_name(number));
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(EffectsError::new(&path, error))
            }
            _ => Ok(()),
        }
    }
}

/// Gives numbers, each once.
#[derive(Debug)]
pub(super) struct Numbers {
    reservation: Reservation,
    last: u64,
}

impl Numbers {
    /// The last number that may have been given.
    pub(super) fn last(&self) -> EffectNumber {
        EffectNumber(self.last)
    }

    /// Writes an effect under the next number; durable on return.
    pub(super) fn write(
        &mut self,
        folder: &Folder,
        draft: &Draft,
        effect: &RawValue,
        min_free_bytes: u64,
    ) -> Result<WaitingEffect, EffectsError> {
        let at = |source| EffectsError::new(folder.path(), source);
        // If the free space can't be read, the write itself fails.
        let free = space(folder.path()).map_or(u64::MAX, |space| space.free);
        if free < min_free_bytes {
            let why = format!(
                "{free} bytes are free on the disk, and {min_free_bytes} are reserved for events"
            );
            return Err(at(io::Error::new(io::ErrorKind::StorageFull, why)));
        }
        // Missing where the disk refused it at the start.
        make_private(folder.path()).map_err(at)?;
        let number = EffectNumber(self.last.saturating_add(1));
        let covered = self.reservation.cover(number.0);
        covered.map_err(|error| EffectsError::new(&error.path, error.source))?;
        let written = EffectJson {
            number,
            id: &draft.id,
            at: draft.at,
            pipeline: &draft.pipeline,
            step: &draft.step,
            effect,
        };
        let body = serde_json::to_vec(&written).map_err(|error| at(error.into()))?;
        let bytes = encode(&body);
        replace(&folder.path().join(file_name(number)), &bytes).map_err(at)?;
        self.last = number.0;
        Ok(WaitingEffect {
            number,
            id: draft.id.clone(),
            at: draft.at,
            pipeline: draft.pipeline.clone(),
            step: draft.step.clone(),
            what: draft.what.to_owned(),
            bytes: bytes.len() as u64,
        })
    }
}

/// Failed effects.
///
/// - The state in memory is on stable storage: a failure that could not be written is not added.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Failures {
    failed: u64,
    last: VecDeque<FailedEffect>,
}

impl Failures {
    /// Reads the file in the folder; starts empty if it is missing or damaged.
    ///
    /// # Errors
    /// When the file is there and can't be read: the next write would replace it.
    fn read(folder: &Folder) -> Result<Self, EffectsError> {
        let path = folder.path().join(FAILED);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(EffectsError::new(&path, error)),
        };
        Ok(serde_json::from_slice(&bytes).unwrap_or_else(|error| {
            tracing::warn!(file = %path.display(), %error, "the file of failures is damaged; counting from zero");
            Self::default()
        }))
    }

    /// The number of failures, and the last of them.
    pub(super) fn summary(&self) -> (u64, Vec<FailedEffect>) {
        (self.failed, self.last.iter().cloned().collect())
    }

    /// Adds a failure; durable on return. One whose file came back after a power cut is not added
    /// twice.
    pub(super) fn add(
        &mut self,
        folder: &Folder,
        waiting: &WaitingEffect,
        why: &str,
    ) -> Result<(), EffectsError> {
        if self.last.iter().any(|f| f.number == waiting.number) {
            return Ok(());
        }
        let mut updated = self.clone();
        updated.last.push_back(FailedEffect {
            number: waiting.number,
            at: waiting.at,
            pipeline: waiting.pipeline.clone(),
            step: waiting.step.clone(),
            what: waiting.what.clone(),
            why: why.chars().take(MAX_REASON_CHARS).collect(),
        });
        while updated.last.len() > MAX_FAILURES_SHOWN {
            updated.last.pop_front();
        }
        updated.count(folder, 1)?;
        *self = updated;
        Ok(())
    }

    /// Counts `lost` more failures, of which nothing else is known; false if they can't be written,
    /// which is logged.
    pub(super) fn count_or_log(&mut self, folder: &Folder, lost: u64) -> bool {
        let mut updated = self.clone();
        if let Err(error) = updated.count(folder, lost) {
            tracing::error!(%error, lost, "can't count failed effects");
            return false;
        }
        *self = updated;
        true
    }

    /// Counts `lost` more and writes all of them.
    fn count(&mut self, folder: &Folder, lost: u64) -> Result<(), EffectsError> {
        self.failed += lost;
        let at = |source| EffectsError::new(folder.path(), source);
        let json = serde_json::to_vec(self).map_err(|error| at(error.into()))?;
        replace(&folder.path().join(FAILED), &json).map_err(at)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use watchkeeper_contract::effect::{Effect, HttpBody, HttpCall, HttpMethod};
    use watchkeeper_contract::time::TimeQuality;

    use super::*;

    const AT: Wall = Wall {
        unix_ms: 0,
        quality: TimeQuality::Synced,
    };

    #[test]
    fn failure_that_could_not_be_written_is_added_on_retry() {
        let dir = tempfile::tempdir().unwrap();
        let Opened {
            folder,
            mut failures,
            ..
        } = open(dir.path()).unwrap();
        let waiting = WaitingEffect {
            number: EffectNumber(1),
            id: "e".to_owned(),
            at: AT,
            pipeline: PipelineId::new("gate").unwrap(),
            step: "hook".to_owned(),
            what: "request".to_owned(),
            bytes: 1,
        };
        // A write fails: a file can't replace a folder that is not empty.
        let in_the_way = folder.path().join(FAILED);
        fs::create_dir_all(in_the_way.join("x")).unwrap();
        failures.add(&folder, &waiting, "404").unwrap_err();
        assert_eq!(failures.summary(), (0, Vec::new()));
        // What can't be read is not replaced by an empty file.
        Failures::read(&folder).unwrap_err();
        fs::remove_dir_all(&in_the_way).unwrap();
        failures.add(&folder, &waiting, "404").unwrap();
        let (failed, last) = Failures::read(&folder).unwrap().summary();
        assert_eq!((failed, last.len()), (1, 1));
        assert_eq!(last[0].why, "404");
    }

    #[test]
    fn waiting_effects_are_read_where_names_cannot_be_synced() {
        let dir = tempfile::tempdir().unwrap();
        let mut opened = open(dir.path()).unwrap();
        let draft = Draft {
            id: "e".to_owned(),
            at: AT,
            pipeline: PipelineId::new("gate").unwrap(),
            step: "hook".to_owned(),
            what: "request",
        };
        let effect = Effect::Http(HttpCall {
            url: "https://hooks.example.org/in".to_owned(),
            method: HttpMethod::Post,
            query: Vec::new(),
            headers: BTreeMap::new(),
            body: HttpBody::Json {
                document: "one".into(),
            },
            timeout_s: 2.0,
        });
        let effect = serde_json::value::to_raw_value(&effect).unwrap();
        let written = opened.numbers.write(&opened.folder, &draft, &effect, 0);
        let number = written.unwrap().number;
        for refusal in [
            io::ErrorKind::ReadOnlyFilesystem,
            io::ErrorKind::StorageFull,
            io::ErrorKind::Other,
        ] {
            let opened = open_with(dir.path(), |_| Err(refusal.into())).unwrap();
            assert!(opened.waiting.contains_key(&number), "{refusal}");
        }
    }
}
