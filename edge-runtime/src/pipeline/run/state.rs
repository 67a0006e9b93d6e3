//! The state of a run that outlives the process.
//!
//! - Only a run of a camera has one, from its first frame on; a recording begins again.
//! - A tracker that restarts gives out its ids again, so the stays and tracks of the old ids end.
//! - The stays of a zone that restarts end too: its polygon may be another.
//! - Downtime passes as source time. Where no clock shows it, it is longer than any track lasts and
//!   does not count as watched.
//! - Not here: the file of the checkpoint and its interval.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use watchkeeper_contract::pipeline::{DamagedCounts, LineCount};
use watchkeeper_engine::workflow::{Restart, StateError};
use watchkeeper_vision::analytics::Visits;
use watchkeeper_vision::analytics::recent::Recent;

use super::Run;

/// The state with which another process resumes a run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct RunState {
    /// Written by [`Execution::save`](watchkeeper_engine::workflow::Execution::save).
    workflow: ByteBuf,
    /// Source time of the last frame.
    now: Duration,
    /// Source time of the first frame.
    #[serde(default)]
    began: Option<Duration>,
    tracks: u64,
    lines: BTreeMap<String, LineCount>,
    #[serde(default)]
    damaged: DamagedCounts,
    zones: BTreeMap<String, Visits>,
    /// In the order of the trackers.
    tracked: Vec<Recent<()>>,
}

/// Assumed downtime when no clock shows it: long enough that no track continues over it.
const UNKNOWN_DOWNTIME: Duration = Duration::from_secs(24 * 60 * 60);

impl Run {
    /// The state after the last frame; `None` before the first one, and for a recording.
    pub fn save(&self) -> Option<RunState> {
        if !self.is_live {
            return None;
        }
        let saved = self.execution.save();
        for left_out in &saved.left_out {
            tracing::debug!(what = left_out.what, why = left_out.why, "state not saved");
        }
        let zones = self.rules.zone_stays();
        Some(RunState {
            workflow: ByteBuf::from(saved.bytes),
            now: self.clock.now(),
            began: self.began,
            tracks: self.results.tracks,
            lines: self.results.lines.clone(),
            damaged: self.damage.counts,
            zones: zones
                .map(|(name, stays)| (name.to_owned(), stays.clone()))
                .collect(),
            tracked: self.tracked.iter().map(|(_, t)| t.clone()).collect(),
        })
    }

    /// How much of the requested duration has passed. `None` without such a duration, before the
    /// first frame of all, and for a recording.
    pub fn elapsed(&self) -> Option<Duration> {
        self.stop_after_s?;
        let began = self.began.filter(|_| !self.plays_recording())?;
        Some(self.clock.reached(Instant::now()).saturating_sub(began))
    }

    /// Resumes the time alone, before the first frame: `elapsed` had passed `away` ago. An unknown
    /// downtime does not count as watched.
    pub fn resume_elapsed(&mut self, elapsed: Duration, away: Option<Duration>) {
        self.resume_clock(elapsed, Some(Duration::ZERO), away);
    }

    fn resume_clock(&mut self, now: Duration, began: Option<Duration>, away: Option<Duration>) {
        let (gap, unwatched) = away.map_or((UNKNOWN_DOWNTIME, UNKNOWN_DOWNTIME), |away| {
            (away, Duration::ZERO)
        });
        self.clock.resume(now, gap);
        self.began = began.map(|began| began.saturating_add(unwatched));
    }

    /// Resumes from a state saved `away` ago, before the first frame, and returns the steps that
    /// restart nevertheless. An unknown downtime does not count as watched.
    ///
    /// # Errors
    /// When the state can't be read; the run is unchanged then.
    pub fn restore(
        &mut self,
        state: RunState,
        away: Option<Duration>,
    ) -> Result<Vec<Restart>, StateError> {
        let restored = self.execution.restore(&state.workflow)?;
        self.resume_clock(state.now, state.began, away);
        self.results.tracks = state.tracks;
        for (name, count) in state.lines {
            if let Some(line) = self.results.lines.get_mut(&name)
                && !restored.is_restarted(&name)
            {
                *line = count;
            }
        }
        // Stays and tracks of the old ids would be mixed up with new ones.
        if !restored.track_ids_restart && state.tracked.len() == self.tracked.len() {
            for (name, saved) in state.zones {
                if !restored.is_restarted(&name) {
                    self.rules.resume_stays(&name, saved);
                }
            }
            for ((_, seen), saved) in self.tracked.iter_mut().zip(state.tracked) {
                *seen = saved;
            }
        }
        let visits = self.rules.visits();
        self.damage.resume(state.damaged, &self.results, visits);
        Ok(restored.restarted)
    }
}
