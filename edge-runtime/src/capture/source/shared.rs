//! State that a source's handle and its thread share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::source::{Blindness, LossCause, SourceCounters};
use watchkeeper_contract::time::{TimeQuality, Wall};

use crate::capture::mailbox::{Hub, Outcome};
use crate::capture::notices::{NoticeSender, Noticed, SourceNotice};
use crate::capture::rate::Meter;
use crate::capture::supervise::{BackOff, Deadlines, State};

/// What a source needs from outside.
#[derive(Clone)]
pub struct Deps {
    /// Reads the wall clock and its quality.
    pub wall: Arc<dyn Fn() -> Wall + Send + Sync>,
    /// Where notices go.
    pub notices: Option<NoticeSender>,
    /// Tells this source from another one of its name, in its notices; greater than that of every one before.
    pub run: u64,
    /// Decides the jitter of reconnects.
    pub seed: u64,
    /// Per-stage deadlines; [`SourceSpec::stall_s`] goes before the one between two pictures.
    pub deadlines: Deadlines,
    /// Pauses between attempts.
    pub back_off: BackOff,
}

impl Deps {
    /// Tells what happened to the source of this name, if anybody listens.
    pub(super) fn notify(&self, source: &SourceId, notice: SourceNotice) {
        if let Some(notices) = &self.notices {
            notices.tell(Noticed {
                source: source.clone(),
                run: self.run,
                noticed_at: Instant::now(),
                notice,
            });
        }
    }
}

impl std::fmt::Debug for Deps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deps")
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

impl Default for Deps {
    fn default() -> Self {
        Self {
            wall: Arc::new(system_wall),
            notices: None,
            run: 0,
            seed: 0,
            deadlines: Deadlines::default(),
            back_off: BackOff::default(),
        }
    }
}

/// The system clock; known to be wrong when it shows a time before this was written.
pub(super) fn system_wall() -> Wall {
    const WRITTEN_MS: i64 = 1_760_000_000_000;
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let unix_ms = since.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX));
    Wall {
        unix_ms,
        quality: if unix_ms < WRITTEN_MS {
            TimeQuality::Unsynced
        } else {
            TimeQuality::Estimated
        },
    }
}

pub(super) struct Shared {
    pub(super) hub: Arc<Hub>,
    pub(super) board: Mutex<StatusBoard>,
    /// Whether its thread is gone.
    pub(super) has_broken_down: AtomicBool,
}

impl Shared {
    /// The source has no thread: nobody will ever say anything of it again, so this is said to everybody.
    pub(super) fn give_up(&self, source: &SourceId, deps: &Deps, message: String) {
        tracing::error!(%source, message);
        self.has_broken_down.store(true, Ordering::Relaxed);
        let (cause, at) = (LossCause::Other, (deps.wall)());
        let mut board = self.board.lock();
        board.since = at;
        board.state = State::Failed {
            cause,
            message: message.clone(),
        };
        drop(board);
        deps.notify(
            source,
            SourceNotice::Lost {
                cause,
                message: message.clone(),
                at,
            },
        );
        self.hub.give_up(Outcome::Failed { cause, message });
    }
}

/// What status answers are made of.
pub(super) struct StatusBoard {
    pub(super) state: State,
    /// Why it is lost, until frames come again.
    pub(super) lost: Option<(LossCause, String)>,
    pub(super) since: Wall,
    pub(super) blind: Option<Blindness>,
    pub(super) size: Option<[u32; 2]>,
    pub(super) nominal_fps: Option<f64>,
    pub(super) counters: SourceCounters,
    pub(super) meter: Meter,
}
