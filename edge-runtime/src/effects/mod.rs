//! Effects: what workflows want done outside. Accepted from steps, kept on disk, given to the
//! agent.
//!
//! Path: frame thread → queue → thread → one file per effect (`spool`).
//!
//! - A step never waits for the disk. An effect without space is refused at once, reported in the
//!   outputs of the step, and counted.
//! - An accepted effect is on stable storage before it is visible, and stays until its outcome is
//!   reported. New effects are refused rather than old ones dropped.
//! - Only what `[sinks]` allows is accepted. A number is given once, over restarts too.
//! - On a nearly full disk effects are refused before events are: from the first write that fails,
//!   until one succeeds.
//! - Effects accepted within the last milliseconds, or waiting for a disk that refuses, are lost if
//!   the process is killed. A stop counts as failed what it can't write; if the disk refuses that
//!   too, only the log has the number.
//! - A panic of the thread refuses all further effects and counts the queued ones as failed; those
//!   on disk are still given out.
//! - In every other case an effect whose `error_status` is false is executed or reported as failed.
//!
//! Locks, in order: `failures`, `state`.
//!
//! Not here: executing effects, which the agent does; it has the network and the secrets.

mod spool;
mod state;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use serde_json::value::to_raw_value;
use tokio::sync::watch;
use watchkeeper_config::SinksConfig;
use watchkeeper_contract::effect::Effect;
use watchkeeper_contract::id::{EventId, PipelineId};
use watchkeeper_contract::spool::{EffectCounts, EffectNumber, EffectOutcome, WaitingEffect};

pub use spool::EffectsError;
pub(crate) use spool::fuzzing;
use spool::{Draft, Numbers};
pub use state::Limits;
use state::{AcceptedEffect, Shared, State};
use writer::{run_catching_panics, run_writer};

use crate::clock;
use crate::thread::Thread;

/// Maximum number of steps whose disallowed effects are listed.
const MAX_DISALLOWED: usize = 64;

/// The effects of all pipelines. Shared by reference among threads.
#[derive(Debug)]
pub struct Effects {
    shared: Arc<Shared>,
    thread: Thread,
}

/// Accepts the effects of one pipeline's steps.
#[derive(Debug, Clone)]
pub struct EffectSender {
    pipeline: PipelineId,
    number: u64,
    shared: Arc<Shared>,
}

/// Some of the waiting effects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// In order of their numbers.
    pub effects: Vec<WaitingEffect>,
    /// Last number of all effects, including settled ones.
    pub last: EffectNumber,
}

impl Effects {
    /// Opens `<state>/effects` and starts the thread that writes there.
    ///
    /// # Errors
    /// When the folder can't be used, or the system starts no thread.
    pub fn open(state: &Path, allowed: &SinksConfig, limits: Limits) -> Result<Self, EffectsError> {
        Self::open_with_writer(state, allowed, limits, run_writer)
    }

    /// [`Self::open`], with the function of the thread.
    fn open_with_writer(
        state: &Path,
        allowed: &SinksConfig,
        limits: Limits,
        writer: impl FnOnce(&Shared, Numbers) + Send + 'static,
    ) -> Result<Self, EffectsError> {
        let spool::Opened {
            folder,
            numbers,
            failures,
            waiting,
        } = spool::open(state)?;
        let held_bytes = waiting.values().map(|w| w.bytes).sum();
        let shared = Arc::new(Shared {
            allowed: allowed.clone(),
            limits,
            folder,
            state: Mutex::new(State {
                held: waiting.len(),
                held_bytes,
                waiting,
                failed: failures.summary(),
                ..State::default()
            }),
            wake: Condvar::new(),
            failures: Mutex::new(failures),
            last: watch::Sender::new(numbers.last()),
        });
        let of = Arc::clone(&shared);
        let thread = Thread::spawn("effects".to_owned(), move || {
            run_catching_panics(&of, || writer(&of, numbers));
        });
        let thread = thread.map_err(|source| EffectsError::new(shared.folder.path(), source))?;
        Ok(Self { shared, thread })
    }

    /// The sender for a new run of `pipeline`; earlier senders no longer report disallowed effects.
    pub fn sender(&self, pipeline: &PipelineId) -> EffectSender {
        let mut state = self.shared.state.lock();
        state.senders += 1;
        let number = state.senders;
        state.reporting_senders.insert(pipeline.clone(), number);
        EffectSender {
            pipeline: pipeline.clone(),
            number,
            shared: Arc::clone(&self.shared),
        }
    }

    /// Up to `limit` waiting effects after the number `after`.
    pub fn page(&self, after: EffectNumber, limit: usize) -> Page {
        let state = self.shared.state.lock();
        let behind = EffectNumber(after.0.saturating_add(1));
        let effects = state.waiting.range(behind..).take(limit);
        Page {
            effects: effects.map(|(_, waiting)| waiting.clone()).collect(),
            last: *self.shared.last.borrow(),
        }
    }

    /// Notifies of the last number on disk.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<EffectNumber> {
        self.shared.last.subscribe()
    }

    /// A waiting effect as JSON of a [`SpooledEffect`](watchkeeper_contract::spool::SpooledEffect).
    ///
    /// # Errors
    /// When its file can't be read or is damaged.
    pub fn read(&self, number: EffectNumber) -> Result<Option<Vec<u8>>, EffectsError> {
        if !self.shared.state.lock().waiting.contains_key(&number) {
            return Ok(None);
        }
        self.shared.folder.read(number)
    }

    /// Records the outcome of a waiting effect and removes it. A failure is durable before. Returns
    /// false when no effect of this number waits.
    ///
    /// # Errors
    /// When the disk refuses; the effect then keeps waiting.
    pub fn settle(
        &self,
        number: EffectNumber,
        outcome: &EffectOutcome,
    ) -> Result<bool, EffectsError> {
        let shared = &self.shared;
        let mut failures = shared.failures.lock();
        let Some(waiting) = shared.state.lock().waiting.get(&number).cloned() else {
            return Ok(false);
        };
        if let EffectOutcome::Failed { why } = outcome {
            tracing::error!(
                effect = number.0, pipeline = %waiting.pipeline, step = waiting.step, what = waiting.what, why, "an effect failed"
            );
            failures.add(&shared.folder, &waiting, why)?;
            shared.state.lock().failed = failures.summary();
        }
        shared.folder.remove(number)?;
        let mut state = shared.state.lock();
        if let Some(gone) = state.waiting.remove(&number) {
            state.held = state.held.saturating_sub(1);
            state.held_bytes = state.held_bytes.saturating_sub(gone.bytes);
        }
        if *outcome == EffectOutcome::Done {
            state.done += 1;
        }
        Ok(true)
    }

    /// Counters of accepted, refused, waiting and settled effects. Waits for no disk.
    pub fn counts(&self) -> EffectCounts {
        let state = self.shared.state.lock();
        let (failed, last_failed) = state.failed.clone();
        EffectCounts {
            waiting: state.held as u64,
            waiting_bytes: state.held_bytes,
            taken: state.accepted,
            refused: state.refused,
            done: state.done,
            failed,
            last_failed,
        }
    }

    /// Why no effects are accepted, and which steps want what is not allowed.
    pub fn problems(&self) -> Vec<String> {
        let state = self.shared.state.lock();
        let full = state.refusal(0, &self.shared.limits);
        let full = full.filter(|_| !state.is_closing);
        let disallowed = state.disallowed.iter().map(|((pipeline, step), why)| {
            format!(
                "pipeline {:?}: step {step} has no effect: {why}",
                pipeline.as_str()
            )
        });
        full.map(|why| format!("sinks: {why}"))
            .into_iter()
            .chain(disallowed)
            .collect()
    }

    /// Removes the reports about a pipeline; senders of its earlier runs report no more.
    pub fn forget(&self, pipeline: &PipelineId) {
        let mut state = self.shared.state.lock();
        state.reporting_senders.remove(pipeline);
        state.disallowed.retain(|(of, _), _| of != pipeline);
    }

    /// Writes queued effects and stops the thread, waiting at most `timeout`.
    pub fn shut_down(&self, timeout: Duration) {
        self.shared.close();
        self.thread.join(timeout);
    }
}

impl Drop for Effects {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Shared {
    fn close(&self) {
        self.state.lock().is_closing = true;
        self.wake.notify_all();
    }
}

impl EffectSender {
    /// Accepts an effect of `step`. Never blocks.
    ///
    /// # Errors
    /// One sentence: the effect is not allowed, or there is no space.
    pub fn emit(&self, step: &str, effect: &Effect) -> Result<(), String> {
        let allowed = self.shared.allowed.admits(effect);
        self.record_permission(step, allowed.as_ref().err());
        let accepted = allowed.and_then(|()| self.accept(step, effect));
        if accepted.is_err() {
            self.shared.state.lock().refused += 1;
        }
        accepted
    }

    /// Records whether a step's effect is allowed, unless a newer run has its own sender.
    fn record_permission(&self, step: &str, why: Option<&String>) {
        let place = (self.pipeline.clone(), step.to_owned());
        let mut state = self.shared.state.lock();
        if state.reporting_senders.get(&self.pipeline) != Some(&self.number) {
            return;
        }
        let disallowed = &mut state.disallowed;
        match why {
            None => drop(disallowed.remove(&place)),
            Some(why) if disallowed.len() < MAX_DISALLOWED || disallowed.contains_key(&place) => {
                if disallowed.insert(place, why.clone()).as_ref() != Some(why) {
                    tracing::warn!(pipeline = %self.pipeline, step, why, "an effect is not allowed");
                }
            }
            Some(_) => {}
        }
    }

    fn accept(&self, step: &str, effect: &Effect) -> Result<(), String> {
        let shared = &self.shared;
        // Serialised here, because the queue is limited by bytes.
        let body =
            to_raw_value(effect).map_err(|e| format!("the effect can't be serialised: {e}"))?;
        let accepted = AcceptedEffect {
            draft: Draft {
                id: EventId::generate().to_string(),
                at: clock::wall(),
                pipeline: self.pipeline.clone(),
                step: step.to_owned(),
                what: effect.what(),
            },
            body,
        };
        let bytes = accepted.bytes();
        let mut state = shared.state.lock();
        if let Some(why) = state.refusal(bytes, &shared.limits) {
            return Err(why);
        }
        state.held += 1;
        state.held_bytes += bytes;
        state.queue_bytes += bytes;
        state.accepted += 1;
        state.queue.push_back(accepted);
        drop(state);
        shared.wake.notify_all();
        Ok(())
    }

    /// Whether a secret of this name is configured.
    pub fn has_secret(&self, name: &str) -> bool {
        self.shared.allowed.secrets.contains_key(name)
    }
}

#[cfg(test)]
mod tests;
