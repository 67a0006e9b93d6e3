//! Proposals that wait for a user's confirmation, kept on disk between two commands and over
//! restarts.
//!
//! `watchkeeper ask` shows one, `watchkeeper ask --confirm ID` confirms it. The agent keeps those
//! of its API the same way. One small file in the state folder of the user, or of the agent, holds
//! the request and its fingerprint. On a yes the request is parsed again ([`super::conversation`]).
//! An LLM's proposal is kept whole, because the LLM would not repeat it.
//!
//! Invariants:
//! - A proposal is taken once, and is deleted from disk before it is applied.
//! - At most [`MAX_PENDING`] of one entrypoint wait; its oldest is evicted, and none of another.
//! - A crash leaves the old file or the new one.
//! - An update of the program drops only proposals that it can't read. A trial of another form is
//!   left out of its proposal.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use watchkeeper_store::durable::replace_private;
use watchkeeper_store::file_lock::{LOCK_TIMEOUT, lock};
use watchkeeper_store::private_folder::make_private;

use super::conversation::{ShownProposal, readable};
use crate::permissions::Entrypoint;

/// Most pending proposals of one entrypoint.
pub const MAX_PENDING: usize = 16;
/// Version of the file format.
const FORMAT: u32 = 3;
/// Largest file that is read, in bytes. Sixteen of the largest proposals of an LLM take a quarter
/// of it, and two entrypoints share the file of the agent.
const MAX_BYTES: u64 = 8 << 20;
const NAME: &str = "waiting.json";
/// Name that the last damaged file is renamed to.
const DAMAGED_NAME: &str = "waiting.unreadable.json";
const LOCK: &str = "waiting.lock";
/// Letters and digits of an id, without look-alikes.
const ID_ALPHABET: [char; 28] = [
    'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'j', 'k', 'm', 'n', 'p', 'q', 'r', 's', 't', 'v', 'w',
    'x', 'y', 'z', '2', '3', '4', '6', '7', '9',
];
const ID_LENGTH: usize = 5;

/// Why a proposal could not be stored or taken.
#[derive(Debug, thiserror::Error)]
pub enum PendingError {
    /// No pending proposal has this id.
    #[error(
        "no pending proposal {id:?}: it was confirmed, expired after an hour, was replaced by newer ones, or never existed; ask again (`watchkeeper ask \"…\"`){}",
        list_ids(.others)
    )]
    Unknown {
        /// The id, shortened.
        id: String,
        /// Ids of the pending proposals.
        others: Vec<String>,
    },
    /// The proposal is for another runtime.
    #[error(
        "proposal {id} is for the runtime at {made_for}, not for {asked}; use --socket {made_for}, or ask again"
    )]
    OtherRuntime {
        id: String,
        /// Socket of its runtime.
        made_for: String,
        /// Socket in use.
        asked: String,
    },
    /// Reading or writing failed.
    #[error("cannot store proposals in {}: {source}; allow this user to write there, or use `watchkeeper chat`, which stores none", path.display())]
    Io { path: PathBuf, source: io::Error },
}

fn list_ids(others: &[String]) -> String {
    match others {
        [] => String::new(),
        others => format!("; pending: {}", others.join(", ")),
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    format: u32,
    /// Proposals, oldest first.
    #[serde(deserialize_with = "readable")]
    offers: Vec<PendingProposal>,
}

/// The session of the agent's API that a proposal belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requester {
    pub entrypoint: Entrypoint,
    /// Id of the session.
    pub conversation: String,
}

/// A proposal that waits for confirmation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PendingProposal {
    /// Id that confirms it.
    pub id: String,
    /// Socket of its runtime.
    pub socket: String,
    /// Session of the proposal; `None` for the commands of a user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester: Option<Requester>,
    /// The request and its fingerprint.
    #[serde(flatten)]
    pub shown: ShownProposal,
}

impl PendingProposal {
    /// Entrypoint of its session; `None` for the commands of a user.
    fn entrypoint(&self) -> Option<Entrypoint> {
        self.requester.as_ref().map(|by| by.entrypoint)
    }
}

#[derive(Debug, Clone)]
pub struct PendingProposals {
    folder: PathBuf,
}

impl PendingProposals {
    /// Uses the file in `folder`, which [`Self::keep`] creates.
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_path_buf(),
        }
    }

    /// Stores a proposal for the runtime at `socket` and returns its id.
    ///
    /// # Errors
    /// [`PendingError::Io`].
    pub fn keep(
        &self,
        socket: &Path,
        shown: &ShownProposal,
        requester: Option<Requester>,
        now: Timestamp,
    ) -> Result<String, PendingError> {
        let _lock = self.lock()?;
        let mut offers = self.read(now)?;
        let entrypoint = requester.as_ref().map(|by| by.entrypoint);
        let id = loop {
            let letters = (0..ID_LENGTH).filter_map(|_| fastrand::choice(ID_ALPHABET));
            let id: String = letters.collect();
            if offers.iter().all(|offer| offer.id != id) {
                break id;
            }
        };
        offers.push(PendingProposal {
            id: id.clone(),
            socket: socket.display().to_string(),
            requester,
            shown: shown.clone(),
        });
        let is_own = |offer: &PendingProposal| offer.entrypoint() == entrypoint;
        let own = offers.iter().filter(|offer| is_own(offer)).count();
        let mut surplus = own.saturating_sub(MAX_PENDING);
        offers.retain(|offer| {
            let is_evicted = surplus > 0 && is_own(offer);
            surplus -= usize::from(is_evicted);
            !is_evicted
        });
        self.write(offers)?;
        Ok(id)
    }

    /// Lists the pending proposals, oldest first.
    ///
    /// # Errors
    /// [`PendingError::Io`].
    pub fn list(&self, now: Timestamp) -> Result<Vec<PendingProposal>, PendingError> {
        let _lock = self.lock()?;
        self.read(now)
    }

    /// Removes and returns a proposal.
    ///
    /// # Errors
    /// If no proposal for the runtime at `socket` has this id, or on an I/O error. The proposal
    /// then still waits.
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

    /// Does `work` on a blocking thread: other tasks wait neither for the disk nor for the lock.
    /// Dropping the future does not stop it.
    ///
    /// # Errors
    /// Those of `work`; [`PendingError::Io`] if it panics.
    pub async fn in_background<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, PendingError> + Send + 'static,
    ) -> Result<T, PendingError> {
        let (here, path) = (self.clone(), self.path());
        let died = |e| PendingError::Io {
            path,
            source: io::Error::other(e),
        };
        let done = tokio::task::spawn_blocking(move || work(&here)).await;
        done.unwrap_or_else(|e| Err(died(e)))
    }

    /// Reads the proposals that have not expired. A damaged file, or one of another version, is
    /// renamed. It could hold proposals of an hour at most, and must not block a box without a
    /// keyboard.
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
        match parse_file(&bytes) {
            Ok(mut offers) => {
                offers.retain(|offer| offer.shown.is_fresh(now));
                Ok(offers)
            }
            Err(cause) => {
                let aside = self.folder.join(DAMAGED_NAME);
                fs::rename(&path, &aside).map_err(io)?;
                tracing::warn!(%cause, aside = %aside.display(), "cannot read the pending proposals; the file is renamed, ask again");
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
        let text = serde_json::to_vec(&stored).map_err(|error| io(error.into()))?;
        replace_private(&path, &text).map_err(io)
    }

    /// Locks the file against other processes until the guard is dropped.
    fn lock(&self) -> Result<File, PendingError> {
        let path = self.folder.join(LOCK);
        make_private(&self.folder)
            .and_then(|()| lock(&path, LOCK_TIMEOUT))
            .map_err(|source| PendingError::Io { path, source })
    }

    fn path(&self) -> PathBuf {
        self.folder.join(NAME)
    }
}

fn parse_file(bytes: &[u8]) -> Result<Vec<PendingProposal>, String> {
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("larger than {MAX_BYTES} bytes"));
    }
    let stored: Stored = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    match stored.format {
        FORMAT => Ok(stored.offers),
        other => Err(format!(
            "format {other}; this version reads format {FORMAT}"
        )),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests;
