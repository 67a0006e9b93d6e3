//! Offers that wait for a yes between two commands: `watchkeeper ask` shows one, `watchkeeper ask --confirm ID` takes it. The agent keeps those of its
//! API the same way.
//!
//! They are in one small file of the state folder of a person, or of the agent. What is kept is what to recognise an offer by, not what it would do: on a yes the
//! request is understood again ([`super::conversation`]). Only what a model proposed is kept whole, since it would not say it again.
//!
//! Invariants: an offer is taken once, and is gone from the disk before anything is done about it; at most [`MAX_WAITING`] wait, the oldest goes first; a
//! crash leaves the old file or the new one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use watchkeeper_store::private_folder::make_private;

use super::conversation::ShownProposal;
use crate::permissions::Entrypoint;

/// Most offers that wait.
pub const MAX_WAITING: usize = 16;
/// Format of the file.
const FORMAT: u32 = 2;
/// Largest file that is read. Sixteen of the largest proposals of a model take about half.
const MAX_BYTES: u64 = 4 << 20;
const NAME: &str = "waiting.json";
/// What could not be read, the last one.
const ASIDE: &str = "waiting.unreadable.json";
const LOCK: &str = "waiting.lock";
/// Letters and digits of an id: none that look alike.
const LETTERS: [char; 28] = [
    'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'j', 'k', 'm', 'n', 'p', 'q', 'r', 's', 't', 'v', 'w',
    'x', 'y', 'z', '2', '3', '4', '6', '7', '9',
];
const ID_LENGTH: usize = 5;

/// Why no offer could be kept or taken.
#[derive(Debug, thiserror::Error)]
pub enum PendingError {
    /// There is none of this id.
    #[error(
        "no proposal {id:?} waits: it was confirmed, is older than an hour, or was never made; ask again (`watchkeeper ask \"…\"`){}",
        known(.others)
    )]
    Unknown {
        /// The id, cut.
        id: String,
        /// Those that wait.
        others: Vec<String>,
    },
    /// It was made for another runtime.
    #[error(
        "proposal {id} was made for the runtime at {made_for}, and this one is at {asked}; give --socket {made_for}, or ask again"
    )]
    OtherRuntime {
        /// The id.
        id: String,
        /// Socket it was made for.
        made_for: String,
        /// Socket that was asked.
        asked: String,
    },
    /// The disk refuses.
    #[error("proposals can't be kept in {}: {source}; let this user write there, or use `watchkeeper chat`, which keeps none", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

fn known(others: &[String]) -> String {
    match others {
        [] => String::new(),
        others => format!("; there are: {}", others.join(", ")),
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    format: u32,
    /// The oldest first.
    offers: Vec<PendingProposal>,
}

/// Who an offer of the agent's API was made for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requester {
    /// Which way the request came in.
    pub channel: Entrypoint,
    /// The conversation that it was made in.
    pub conversation: String,
}

/// An offer that waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PendingProposal {
    /// What it is asked for by.
    pub id: String,
    /// Socket of the runtime that it was made for.
    pub socket: String,
    /// Who it was made for; absent for a person's own commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Requester>,
    /// What to recognise it by.
    #[serde(flatten)]
    pub shown: ShownProposal,
}

/// The file of offers that wait.
#[derive(Debug, Clone)]
pub struct PendingProposals {
    folder: PathBuf,
}

impl PendingProposals {
    /// The one in this folder, which is made when the first offer comes.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_path_buf(),
        }
    }

    /// Keeps an offer for the runtime at `socket` and answers its id.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn keep(
        &self,
        socket: &Path,
        shown: &ShownProposal,
        by: Option<Requester>,
        now: Timestamp,
    ) -> Result<String, PendingError> {
        let _lock = self.lock()?;
        let mut offers = self.read(now)?;
        let id = loop {
            let letters = (0..ID_LENGTH).filter_map(|_| fastrand::choice(LETTERS));
            let id: String = letters.collect();
            if offers.iter().all(|offer| offer.id != id) {
                break id;
            }
        };
        offers.push(PendingProposal {
            id: id.clone(),
            socket: socket.display().to_string(),
            by,
            shown: shown.clone(),
        });
        let spare = offers.len().saturating_sub(MAX_WAITING);
        offers.drain(..spare);
        self.write(offers)?;
        Ok(id)
    }

    /// Those that wait, the oldest first.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn list(&self, now: Timestamp) -> Result<Vec<PendingProposal>, PendingError> {
        let _lock = self.lock()?;
        self.read(now)
    }

    /// Takes an offer out.
    ///
    /// # Errors
    /// When there is none of this id for the runtime at `socket`, or the disk refuses; then it still waits.
    pub fn take(
        &self,
        id: &str,
        socket: &Path,
        now: Timestamp,
    ) -> Result<ShownProposal, PendingError> {
        let _lock = self.lock()?;
        let mut offers = self.read(now)?;
        let wanted = id.trim().to_lowercase();
        let Some(at) = offers.iter().position(|offer| offer.id == wanted) else {
            return Err(PendingError::Unknown {
                id: id.chars().take(40).collect(),
                others: offers.into_iter().map(|offer| offer.id).collect(),
            });
        };
        let socket = socket.display().to_string();
        if let Some(offer) = offers.get(at).filter(|offer| offer.socket != socket) {
            return Err(PendingError::OtherRuntime {
                id: offer.id.clone(),
                made_for: offer.socket.clone(),
                asked: socket,
            });
        }
        let offer = offers.remove(at);
        self.write(offers)?;
        Ok(offer.shown)
    }

    /// Those that still wait. A file that makes no sense, or is of another version, is set aside: what stands in it would wait an hour at most, and the way of a
    /// box without a keyboard must not be barred by it.
    fn read(&self, now: Timestamp) -> Result<Vec<PendingProposal>, PendingError> {
        let path = self.path();
        let io = |source| PendingError::Io {
            path: path.clone(),
            source,
        };
        let mut bytes = Vec::new();
        match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(io(error)),
            Ok(file) => file
                .take(MAX_BYTES + 1)
                .read_to_end(&mut bytes)
                .map_err(io)?,
        };
        match stored(&bytes) {
            Ok(mut offers) => {
                offers.retain(|offer| offer.shown.is_fresh(now));
                Ok(offers)
            }
            Err(cause) => {
                let aside = self.folder.join(ASIDE);
                fs::rename(&path, &aside).map_err(io)?;
                tracing::warn!(%cause, aside = %aside.display(), "proposals that waited can't be read and are set aside; ask again");
                Ok(Vec::new())
            }
        }
    }

    fn write(&self, offers: Vec<PendingProposal>) -> Result<(), PendingError> {
        let path = self.path();
        let io = |source| PendingError::Io {
            path: path.clone(),
            source,
        };
        let stored = Stored {
            format: FORMAT,
            offers,
        };
        // Texts and numbers always serialise.
        let text = serde_json::to_string(&stored).unwrap_or_default();
        let mut file = tempfile::NamedTempFile::new_in(&self.folder).map_err(io)?;
        file.write_all(text.as_bytes()).map_err(io)?;
        file.as_file().sync_all().map_err(io)?;
        file.persist(&path).map_err(|e| io(e.error))?;
        File::open(&self.folder)
            .and_then(|folder| folder.sync_all())
            .map_err(io)
    }

    /// Holds off other commands until it is dropped.
    fn lock(&self) -> Result<File, PendingError> {
        let path = self.folder.join(LOCK);
        make_private(&self.folder)
            .and_then(|()| {
                let mut options = OpenOptions::new();
                let file = options.create(true).append(true).mode(0o600).open(&path)?;
                file.lock()?;
                Ok(file)
            })
            .map_err(|source| PendingError::Io { path, source })
    }

    fn path(&self) -> PathBuf {
        self.folder.join(NAME)
    }
}

/// The offers in a file; the error says what is wrong with it.
fn stored(bytes: &[u8]) -> Result<Vec<PendingProposal>, String> {
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("it is larger than {MAX_BYTES} bytes"));
    }
    let stored: Stored = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    match stored.format {
        FORMAT => Ok(stored.offers),
        other => Err(format!(
            "it has format {other}, this version reads {FORMAT}"
        )),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::conversation::PATIENCE_S;
    use super::super::llm_proposal::LlmProposal;
    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn later(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn shown(request: &str) -> ShownProposal {
        ShownProposal {
            request: request.to_owned(),
            corrections: Vec::new(),
            at: NOW,
            mark: "m".to_owned(),
            made: None,
            tried: Vec::new(),
        }
    }

    fn here() -> (tempfile::TempDir, PendingProposals) {
        let dir = tempfile::tempdir().unwrap();
        let waiting = PendingProposals::new(&dir.path().join("state/watchkeeper"));
        (dir, waiting)
    }

    #[test]
    fn an_offer_is_taken_once_by_its_id_and_by_another_process() {
        let (_dir, waiting) = here();
        let socket = Path::new("/run/a.sock");
        let id = waiting
            .keep(socket, &shown("count cars"), None, NOW)
            .unwrap();
        let other = PendingProposals::new(&waiting.folder);
        assert_eq!(
            other.take(&id.to_uppercase(), socket, later(10)).unwrap(),
            shown("count cars")
        );
        let again = other.take(&id, socket, later(10)).unwrap_err().to_string();
        assert!(again.contains("ask again"), "{again}");
    }

    #[test]
    fn an_offer_comes_back_with_its_moment_to_the_nanosecond() {
        let (_dir, waiting) = here();
        let shown = ShownProposal {
            at: Timestamp::new(1, 234_567_891).unwrap(),
            ..shown("pause gate for two hours")
        };
        let id = waiting
            .keep(Path::new("/a"), &shown, None, later(2))
            .unwrap();
        assert_eq!(waiting.take(&id, Path::new("/a"), later(3)).unwrap(), shown);
    }

    #[test]
    fn what_a_model_proposed_is_kept_whole() {
        let (_dir, waiting) = here();
        let made = LlmProposal {
            model: "m".to_owned(),
            says: "Stops it.".to_owned(),
            assumed: Vec::new(),
            not_possible: Vec::new(),
            evidence: vec!["tried on 10 s".to_owned()],
            changes: vec![crate::proposal::llm_proposal::ProposedChange::Stop {
                pipeline: watchkeeper_contract::id::PipelineId::new("p").unwrap(),
            }],
        };
        let shown = ShownProposal {
            made: Some(made),
            ..shown("räum auf")
        };
        let id = waiting.keep(Path::new("/a"), &shown, None, NOW).unwrap();
        assert_eq!(waiting.take(&id, Path::new("/a"), NOW).unwrap(), shown);
    }

    #[test]
    fn an_offer_for_another_runtime_is_refused_and_still_waits() {
        let (_dir, waiting) = here();
        let id = waiting
            .keep(Path::new("/a"), &shown("x"), None, NOW)
            .unwrap();
        let error = waiting
            .take(&id, Path::new("/b"), NOW)
            .unwrap_err()
            .to_string();
        assert!(error.contains("--socket /a"), "{error}");
        waiting.take(&id, Path::new("/a"), NOW).unwrap();
    }

    #[test]
    fn only_so_many_wait_and_none_longer_than_an_hour() {
        let (_dir, waiting) = here();
        let socket = Path::new("/a");
        let keep = |n: usize| {
            waiting
                .keep(socket, &shown(&n.to_string()), None, NOW)
                .unwrap()
        };
        let ids: Vec<String> = (0..=MAX_WAITING).map(keep).collect();
        assert!(
            waiting.take(&ids[0], socket, NOW).is_err(),
            "the oldest gave way"
        );
        assert!(waiting.take(&ids[1], socket, later(PATIENCE_S)).is_ok());
        assert!(
            waiting
                .take(&ids[2], socket, later(PATIENCE_S + 1))
                .is_err()
        );
    }

    #[test]
    fn nobody_else_can_read_what_was_asked_and_a_file_of_another_version_bars_no_way() {
        let (_dir, waiting) = here();
        let id = waiting
            .keep(Path::new("/a"), &shown("x"), None, NOW)
            .unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(
            (mode(&waiting.folder), mode(&waiting.path())),
            (0o700, 0o600)
        );
        for text in ["{", "[]", r#"{"format": 3, "offers": []}"#, "\u{0}"] {
            fs::write(waiting.path(), text).unwrap();
            let error = waiting.take(&id, Path::new("/a"), NOW).unwrap_err();
            assert!(matches!(error, PendingError::Unknown { .. }), "{error}");
            assert_eq!(
                fs::read_to_string(waiting.folder.join(ASIDE)).unwrap(),
                text
            );
            fs::write(waiting.path(), text).unwrap();
            let next = waiting
                .keep(Path::new("/a"), &shown("y"), None, NOW)
                .unwrap();
            assert!(waiting.take(&next, Path::new("/a"), NOW).is_ok(), "{text}");
        }
    }
}
