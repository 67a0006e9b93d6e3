//! The folder of effects: one file each, written once and removed when it is done.
//!
//! ```text
//! <state>/effects/00000000000000000007.effect    mark (its last byte is the format) │ SHA-256 of the rest │ JSON of a `SpooledEffect`
//!                 effects.reserved               numbers up to this one may have been given
//!                 failed.json                    how many were given up ever, and the last of them
//! ```
//!
//! Invariants: a file is complete under its name; one that is damaged is counted as given up and removed, one that a newer version wrote is
//! left as it is. A removal need not outlast a power cut: what comes back is done again, with the same id.
//!
//! Files and not a store: effects carry pictures, and each is written once, read once and removed.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
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
use watchkeeper_store::durable::replace;

use crate::journal::Reservation;

/// Name of the folder within the state folder.
const FOLDER: &str = "effects";
const RESERVED: &str = "effects.reserved";
const FAILED: &str = "failed.json";
/// Ending of the files.
const ENDING: &str = ".effect";

/// By which a file is known, before the format.
const MARK: &[u8] = b"watchkeeper effect ";
const FORMAT: u8 = 1;
const SUM: usize = 32;

/// Longest reason of a failure that is kept, in characters.
const MOST_WHY: usize = 500;

/// Why what workflows want done can't be kept.
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

/// What is known of an effect before it has a number.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) id: String,
    pub(super) at: Wall,
    pub(super) pipeline: PipelineId,
    pub(super) step: String,
    pub(super) what: &'static str,
}

/// The members of a [`SpooledEffect`], whose last was written by whoever took it.
#[derive(Serialize)]
struct Written<'d> {
    number: EffectNumber,
    id: &'d str,
    at: Wall,
    pipeline: &'d PipelineId,
    step: &'d str,
    effect: &'d RawValue,
}

#[derive(Debug)]
pub(super) struct Folder(PathBuf);

/// The folder as it was found.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) folder: Folder,
    pub(super) numbers: Numbers,
    pub(super) failures: Failures,
    pub(super) waiting: BTreeMap<EffectNumber, WaitingEffect>,
}

/// What is wrong with a file.
#[derive(Debug, PartialEq, Eq)]
enum Unreadable {
    Damaged(String),
    Newer,
}

/// Opens the folder in the state folder, makes it where it is not there, and looks at everything in it.
pub(super) fn open(state: &Path) -> Result<Opened, EffectsError> {
    let path = state.join(FOLDER);
    let at = |source| EffectsError::new(&path, source);
    // Only for us: messages and pictures are nobody else's business.
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&path);
    made.map_err(at)?;
    let folder = Folder(path.clone());
    let mut failures = Failures::read(&folder);
    let mut waiting = BTreeMap::new();
    let mut last = 0;
    for entry in fs::read_dir(&path).map_err(at)? {
        let file = entry.map_err(at)?.path();
        let name = file
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or("");
        if name.ends_with(".tmp") {
            fs::remove_file(&file).map_err(at)?;
        }
        let Some(number) = name.strip_suffix(ENDING).and_then(|n| n.parse().ok()) else {
            continue;
        };
        last = last.max(number);
        match look(&file, EffectNumber(number)).map_err(at)? {
            Ok(found) => {
                waiting.insert(found.number, found);
            }
            Err(Unreadable::Newer) => {
                tracing::warn!(file = %file.display(), "a newer version wrote this effect; it waits for one");
            }
            Err(Unreadable::Damaged(why)) => {
                tracing::error!(file = %file.display(), why, "an effect is damaged and lost");
                failures.count(&folder)?;
                fs::remove_file(&file).map_err(at)?;
            }
        }
    }
    let reserved = Reservation::open(&path, RESERVED);
    let reservation = reserved.map_err(|error| EffectsError::new(&error.path, error.source))?;
    // Which numbers below the reservation were given, nothing tells: their files are gone.
    let last = reservation.end().max(last);
    Ok(Opened {
        folder,
        numbers: Numbers { reservation, last },
        failures,
        waiting,
    })
}

fn look(file: &Path, number: EffectNumber) -> io::Result<Result<WaitingEffect, Unreadable>> {
    let bytes = fs::read(file)?;
    Ok(decode(&bytes, number).map(|(_, effect)| WaitingEffect {
        number,
        id: effect.id,
        at: effect.at,
        pipeline: effect.pipeline,
        step: effect.step,
        what: effect.effect.what().to_owned(),
        bytes: bytes.len() as u64,
    }))
}

/// Mark, format, checksum, JSON.
fn encode(body: &[u8]) -> Vec<u8> {
    [MARK, &[FORMAT], Sha256::digest(body).as_slice(), body].concat()
}

/// The JSON in a file, and what it says.
fn decode(bytes: &[u8], number: EffectNumber) -> Result<(&[u8], SpooledEffect), Unreadable> {
    let damaged = |why: &str| Unreadable::Damaged(why.to_owned());
    let rest = bytes
        .strip_prefix(MARK)
        .ok_or_else(|| damaged("it is none"))?;
    let (format, rest) = rest.split_first().ok_or_else(|| damaged("it is cut off"))?;
    if *format > FORMAT {
        return Err(Unreadable::Newer);
    }
    let (sum, body) = rest
        .split_at_checked(SUM)
        .ok_or_else(|| damaged("it is cut off"))?;
    if *format != FORMAT || Sha256::digest(body).as_slice() != sum {
        return Err(damaged("its checksum is another"));
    }
    let effect: SpooledEffect =
        serde_json::from_slice(body).map_err(|e| Unreadable::Damaged(e.to_string()))?;
    if effect.number != number {
        return Err(damaged("its number is another"));
    }
    Ok((body, effect))
}

/// The form of a file, open to the fuzz targets only.
pub(crate) mod fuzzing {
    use watchkeeper_contract::spool::SpooledEffect;

    pub(crate) fn read(bytes: &[u8]) -> Option<Vec<u8>> {
        let body = bytes.get(super::MARK.len() + 1 + super::SUM..)?;
        let effect: SpooledEffect = serde_json::from_slice(body).ok()?;
        let read = super::decode(bytes, effect.number);
        read.ok().map(|(body, _)| body.to_vec())
    }

    pub(crate) fn write(body: &[u8]) -> Vec<u8> {
        super::encode(body)
    }
}

fn file_name(number: EffectNumber) -> String {
    format!("{:020}{ENDING}", number.0)
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
    /// The last one that may have been given.
    pub(super) fn last(&self) -> EffectNumber {
        EffectNumber(self.last)
    }

    /// Writes an effect under the next number; on stable storage before it answers.
    pub(super) fn write(
        &mut self,
        folder: &Folder,
        draft: &Draft,
        effect: &RawValue,
        min_free_bytes: u64,
    ) -> Result<WaitingEffect, EffectsError> {
        let at = |source| EffectsError::new(folder.path(), source);
        // Where nobody can tell the room, the write itself will.
        let free = space(folder.path()).map_or(u64::MAX, |space| space.free);
        if free < min_free_bytes {
            let why =
                format!("{free} bytes of the disk are free; {min_free_bytes} are left to events");
            return Err(at(io::Error::new(io::ErrorKind::StorageFull, why)));
        }
        let number = EffectNumber(self.last.saturating_add(1));
        let covered = self.reservation.cover(number.0);
        covered.map_err(|error| EffectsError::new(&error.path, error.source))?;
        let written = Written {
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

/// What was given up.
///
/// Invariant: what is here is on stable storage. What could not be written has not been noted, so that it can be tried again.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Failures {
    failed: u64,
    last: VecDeque<FailedEffect>,
}

impl Failures {
    /// Those of the folder; none where the file makes no sense.
    fn read(folder: &Folder) -> Self {
        let path = folder.path().join(FAILED);
        let read = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| error.to_string()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error.to_string()),
        };
        read.unwrap_or_else(|why| {
            tracing::warn!(file = %path.display(), why, "failures are counted from nought");
            Self::default()
        })
    }

    /// How many there were, and the last of them.
    pub(super) fn shown(&self) -> (u64, Vec<FailedEffect>) {
        (self.failed, self.last.iter().cloned().collect())
    }

    /// Counts one; on stable storage before it answers. One that was noted before, and whose file came back, is not counted twice.
    pub(super) fn note(
        &mut self,
        folder: &Folder,
        waiting: &WaitingEffect,
        why: &str,
    ) -> Result<(), EffectsError> {
        if self.last.iter().any(|f| f.number == waiting.number) {
            return Ok(());
        }
        let mut noted = self.clone();
        noted.last.push_back(FailedEffect {
            number: waiting.number,
            at: waiting.at,
            pipeline: waiting.pipeline.clone(),
            step: waiting.step.clone(),
            what: waiting.what.clone(),
            why: why.chars().take(MOST_WHY).collect(),
        });
        while noted.last.len() > MAX_FAILURES_SHOWN {
            noted.last.pop_front();
        }
        noted.count(folder)?;
        *self = noted;
        Ok(())
    }

    /// Counts one more and writes all of them.
    fn count(&mut self, folder: &Folder) -> Result<(), EffectsError> {
        self.failed += 1;
        let at = |source| EffectsError::new(folder.path(), source);
        let json = serde_json::to_vec(self).map_err(|error| at(error.into()))?;
        replace(&folder.path().join(FAILED), &json).map_err(at)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use watchkeeper_contract::time::TimeQuality;

    use super::*;

    #[test]
    fn a_failure_that_could_not_be_written_is_noted_when_it_is_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let Opened {
            folder,
            mut failures,
            ..
        } = open(dir.path()).unwrap();
        let waiting = WaitingEffect {
            number: EffectNumber(1),
            id: "e".to_owned(),
            at: Wall {
                unix_ms: 0,
                quality: TimeQuality::Synced,
            },
            pipeline: PipelineId::new("gate").unwrap(),
            step: "hook".to_owned(),
            what: "request".to_owned(),
            bytes: 1,
        };
        // A disk that refuses: the file can't be put in the place of a folder with something in it.
        let in_the_way = folder.path().join(FAILED);
        fs::create_dir_all(in_the_way.join("x")).unwrap();
        failures.note(&folder, &waiting, "404").unwrap_err();
        assert_eq!(failures.shown(), (0, Vec::new()));
        fs::remove_dir_all(&in_the_way).unwrap();
        failures.note(&folder, &waiting, "404").unwrap();
        let (failed, last) = Failures::read(&folder).shown();
        assert_eq!((failed, last.len()), (1, 1));
        assert_eq!(last[0].why, "404");
    }
}
