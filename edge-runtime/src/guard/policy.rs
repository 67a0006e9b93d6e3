//! The state machine of one run: which deaths count, and what is held.
//!
//! - Sans-IO: it takes the last [`Record`] and the time.
//! - A pipeline that ran unchanged for [`EARLY`] is not held for the deaths of another.
//! - Not here: fingerprints, files.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use watchkeeper_contract::id::{EventId, PipelineId};

use super::record::{Held, Record, Stage};

/// A death sooner after the start is early; a pipeline that ran this long is trusted.
pub const EARLY: Duration = Duration::from_secs(60);

/// Minutes until pipelines that were held unchanged are tried again; doubles with each hold.
const FIRST_RETRY_MIN: u64 = 10;

/// Longest time until then, in minutes.
const MAX_RETRY_MIN: u64 = 24 * 60;

/// The state machine of one run.
#[derive(Debug)]
pub struct CrashLoopGuard {
    record: Record,
    began: Instant,
    /// When each fingerprint was first seen running in this run.
    seen: BTreeMap<PipelineId, (String, Instant)>,
    /// Whether a pipeline that this run does not know is gone; its record may be unreadable.
    is_complete: bool,
}

impl CrashLoopGuard {
    /// A run that starts `now` in boot `machine`, after the one that left `previous`.
    pub fn new(previous: Record, machine: &str, now: Instant) -> Self {
        let died_early = previous.stage == Stage::Starting && previous.machine == machine;
        let early_deaths = if died_early {
            previous.early_deaths.saturating_add(1)
        } else {
            0
        };
        Self {
            record: Record {
                machine: machine.to_owned(),
                stage: Stage::Starting,
                early_deaths,
                ..previous
            },
            began: now,
            seen: BTreeMap::new(),
            is_complete: true,
        }
    }

    /// Releases the holds of pipelines that `wanted`, with their fingerprints, shows as edited, and
    /// of absent ones if it `is_complete`.
    pub fn release_changed(
        &mut self,
        wanted: &BTreeMap<PipelineId, String>,
        is_complete: bool,
    ) -> Vec<(PipelineId, Held)> {
        self.is_complete = is_complete;
        let is_changed = |id: &PipelineId, held: &mut Held| match wanted.get(id) {
            Some(print) => *print != held.fingerprint,
            None => is_complete,
        };
        self.record.held.extract_if(.., is_changed).collect()
    }

    /// Decides before the start which pipelines of `wanted`, with their fingerprints, to hold, and
    /// returns the new holds. `limit` is the number of early deaths that holds; 0 never holds.
    pub fn judge(
        &mut self,
        wanted: &BTreeMap<PipelineId, String>,
        limit: u32,
        new_id: &mut dyn FnMut() -> EventId,
    ) -> Vec<PipelineId> {
        let deaths = self.record.early_deaths;
        if limit == 0 || deaths < limit {
            return Vec::new();
        }
        let free: Vec<_> = wanted
            .iter()
            .filter(|(id, _)| !self.record.held.contains_key(*id))
            .collect();
        let (trusted, fresh): (Vec<_>, Vec<_>) = free
            .into_iter()
            .partition(|(id, print)| self.record.trusted.get(*id) == Some(*print));
        let (suspects, because, retry_min) = if fresh.is_empty() {
            let retry_min = self.next_retry_min();
            let because = format!(
                "nothing was deployed or changed since the last good run, so every pipeline is \
                 held, and tried again after the runtime has run for {retry_min} minutes"
            );
            (trusted, because, Some(retry_min))
        } else {
            let because = "this pipeline was deployed or changed since the last good run";
            (fresh, because.to_owned(), None)
        };
        let mut newly = Vec::new();
        for (id, print) in suspects {
            let held = Held {
                fingerprint: print.clone(),
                why: format!(
                    "held: the runtime died {deaths} times within {} s of its start; {because}; \
                     run `watchkeeper pipelines resume {id}` to release it",
                    EARLY.as_secs()
                ),
                event: new_id(),
                retry_min,
            };
            self.record.held.insert(id.clone(), held);
            newly.push(id.clone());
        }
        // The remaining pipelines get their own chances.
        self.record.early_deaths = 0;
        newly
    }

    /// Counts a hold of unchanged pipelines, and returns after how many minutes they are tried
    /// again.
    fn next_retry_min(&mut self) -> u64 {
        let holds = self.record.unchanged_holds;
        self.record.unchanged_holds = holds.saturating_add(1);
        let doubled = FIRST_RETRY_MIN.saturating_mul(2_u64.saturating_pow(holds));
        doubled.min(MAX_RETRY_MIN)
    }

    /// The held pipelines that are tried again at `now`.
    pub fn due_retries(&self, now: Instant) -> Vec<PipelineId> {
        let ran = now.saturating_duration_since(self.began);
        let is_due = |held: &Held| {
            let retry_min = held.retry_min;
            retry_min.is_some_and(|min| ran >= Duration::from_secs(min.saturating_mul(60)))
        };
        let held = self.record.held.iter();
        let due = held.filter(|(_, held)| is_due(held));
        due.map(|(id, _)| id.clone()).collect()
    }

    /// The hold of a pipeline, if there is one.
    pub fn held(&self, id: &PipelineId) -> Option<&Held> {
        self.record.held.get(id)
    }

    /// The events about holds that still apply; each ends with its hold.
    pub fn held_events(&self) -> BTreeSet<EventId> {
        self.record.held.values().map(|held| held.event).collect()
    }

    /// Releases a hold, because a user resumes or removes the pipeline.
    pub fn release(&mut self, id: &PipelineId) -> Option<Held> {
        self.seen.remove(id);
        self.record.held.remove(id)
    }

    /// Updates trust and stage at `now`. Returns true when the record has changed.
    pub fn beat(&mut self, now: Instant, running: &BTreeMap<PipelineId, String>) -> bool {
        let before = self.record.clone();
        self.seen
            .retain(|id, (print, _)| running.get(id) == Some(print));
        for (id, print) in running {
            let (_, since) = self
                .seen
                .entry(id.clone())
                .or_insert_with(|| (print.clone(), now));
            if now.saturating_duration_since(*since) >= EARLY {
                self.record.trusted.insert(id.clone(), print.clone());
                self.record.unchanged_holds = 0;
            }
        }
        if now.saturating_duration_since(self.began) >= EARLY {
            self.record.stage = Stage::Healthy;
            self.record.early_deaths = 0;
            // Drops trust in pipelines that are gone; bounds the record.
            let (held, is_complete) = (&self.record.held, self.is_complete);
            self.record
                .trusted
                .retain(|id, _| !is_complete || running.contains_key(id) || held.contains_key(id));
        }
        self.record != before
    }

    /// Marks the regular end of the run.
    pub fn stopped(&mut self) {
        self.record.stage = Stage::Stopped;
    }

    /// The record to keep.
    pub fn record(&self) -> &Record {
        &self.record
    }
}
