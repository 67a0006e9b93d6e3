//! Dependencies of a source, and the state that its handle and its thread share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::privacy::PrivacyMask;
use watchkeeper_contract::source::{Blindness, DecoderStatus, LossCause, SourceCounters};
use watchkeeper_contract::time::Wall;

use crate::capture::mailbox::{Hub, Outcome};
use crate::capture::notices::{NoticeSender, SourceNotice, StampedNotice};
use crate::capture::rate::Meter;
use crate::capture::supervise::{BackOff, Deadlines, State};
use crate::capture::view::UsualView;
use crate::clock;

/// Dependencies and settings of a source.
#[derive(Clone)]
pub struct Deps {
    /// Reads the wall clock and its quality.
    pub wall: Arc<dyn Fn() -> Wall + Send + Sync>,
    /// Queue for the journal.
    pub notices: Option<NoticeSender>,
    /// Privacy mask of every picture.
    pub privacy: Option<Arc<PrivacyMask>>,
    /// View of the camera that an earlier process knew.
    pub known_view: Option<UsualView>,
    /// Number among the sources of this name, in notices; grows with each replacement.
    pub run: u64,
    /// Seed for the jitter of reconnects.
    pub seed: u64,
    /// Deadlines of the stages; `SourceSpec::stall_s` overrides the stall deadline.
    pub deadlines: Deadlines,
    /// Pauses between attempts.
    pub back_off: BackOff,
}

impl Deps {
    /// Sends a notice about `source`, if there is a queue.
    pub(super) fn notify(&self, source: &SourceId, notice: SourceNotice) {
        if let Some(notices) = &self.notices {
            notices.send(StampedNotice {
                source: source.clone(),
                run: self.run,
                noticed_at: Instant::now(),
                notice,
            });
        }
    }
}

impl Default for Deps {
    fn default() -> Self {
        Self {
            wall: Arc::new(clock::wall),
            notices: None,
            privacy: None,
            known_view: None,
            run: 0,
            seed: 0,
            deadlines: Deadlines::default(),
            back_off: BackOff::default(),
        }
    }
}

pub(super) struct Shared {
    pub(super) hub: Arc<Hub>,
    pub(super) board: Mutex<StatusBoard>,
    /// Whether the thread is gone.
    pub(super) has_broken_down: AtomicBool,
}

impl Shared {
    /// Reports to status, journal and all subscribers that the source has no thread.
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

/// Most parts that the status names.
const MAX_NAMED: usize = 3;

/// Pictures and other parts of the open feed that can't be read.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    /// Why, of the first [`MAX_NAMED`].
    named: Vec<String>,
    number: u64,
}

impl LeftOut {
    pub(super) fn add(&mut self, why: String) {
        self.number += 1;
        if self.named.len() < MAX_NAMED {
            self.named.push(why);
        }
    }

    pub(super) fn sentence(&self) -> Option<String> {
        let named = self.named.join("; ");
        match self.number.saturating_sub(self.named.len() as u64) {
            _ if self.number == 0 => None,
            0 => Some(format!("incomplete: {named}")),
            more => Some(format!(
                "incomplete: {named}; and {more} more, see the runtime's log"
            )),
        }
    }
}

/// Interval of publishing what is known of the view.
pub(super) const VIEW_INTERVAL: Duration = Duration::from_secs(60);

/// Data of the status.
pub(super) struct StatusBoard {
    pub(super) state: State,
    /// Cause of the outage, until frames come again.
    pub(super) lost: Option<(LossCause, String)>,
    pub(super) since: Wall,
    pub(super) blind: Option<Blindness>,
    /// The usual view, at most [`VIEW_INTERVAL`] old while frames come.
    pub(super) known_view: Option<Arc<UsualView>>,
    pub(super) size: Option<[u32; 2]>,
    pub(super) nominal_fps: Option<f64>,
    pub(super) decoder: Option<DecoderStatus>,
    pub(super) left_out: LeftOut,
    pub(super) counters: SourceCounters,
    pub(super) meter: Meter,
}
