//! What workflows want done outside: taken over from steps, kept on disk, handed to the agent.
//!
//! Owns the folder `effects` and the way into it: frame path → queue → thread → one file an effect ([`spool`]). Invariants:
//! - a step never waits for the disk: what there is no room for is refused at once, the step says so in its outputs, and it is counted;
//! - what was taken is on stable storage before anybody sees it, and stays until somebody told what came of it. The newest are refused, not
//!   the oldest dropped: `error_status` is false only of what will be done or told as failed;
//! - nothing is taken that the section `[sinks]` does not allow;
//! - a number is given once, over restarts too;
//! - on a nearly full disk effects give way to events, as pictures do.
//!
//! What was taken and not yet written, some milliseconds' worth, is lost when the process is killed.
//!
//! Not here: how anything is done. That is the agent's, which has the network and the secrets.

mod spool;

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::watch;
use watchkeeper_config::SinksConfig;
use watchkeeper_contract::effect::Effect;
use watchkeeper_contract::id::{EventId, PipelineId};
use watchkeeper_contract::spool::{EffectCounts, EffectNumber, EffectOutcome, WaitingEffect};

pub use spool::EffectsError;
pub(crate) use spool::fuzzing;
use spool::{Draft, Failures, Folder, Numbers};

use crate::clock;
use crate::thread::Thread;

/// How long the thread waits before it tries again to write what the disk refused.
const DISK_RETRY: Duration = Duration::from_secs(1);

/// Most steps of which it is kept why they are not allowed what they want.
const MOST_BARRED: usize = 64;

/// Bounds of what is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most effects, on disk and on their way there.
    pub most: usize,
    /// Most bytes of these.
    pub most_bytes: u64,
    /// Most effects that wait for the disk.
    pub queue: usize,
    /// Most bytes of these, which are in memory.
    pub queue_bytes: u64,
    /// Most bytes of one.
    pub one: u64,
    /// Bytes that must stay free on the disk.
    pub min_free_bytes: u64,
}

impl Default for Limits {
    /// A day of one alert every half a minute with no network; a quarter of it may be pictures.
    fn default() -> Self {
        Self {
            most: 4096,
            most_bytes: 128 << 20,
            queue: 256,
            queue_bytes: 16 << 20,
            one: 8 << 20,
            min_free_bytes: 64 << 20,
        }
    }
}

/// An effect that was taken over, on its way to the disk.
#[derive(Debug)]
struct Taken {
    draft: Draft,
    body: Box<RawValue>,
}

impl Taken {
    fn bytes(&self) -> u64 {
        self.body.get().len() as u64
    }
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Taken>,
    queue_bytes: u64,
    /// On disk, by number.
    waiting: BTreeMap<EffectNumber, WaitingEffect>,
    /// Everything that counts against the bounds: queue, what the thread has in hand, disk.
    held: usize,
    held_bytes: u64,
    taken: u64,
    refused: u64,
    /// Outlets that were given.
    outlets: u64,
    /// Of each pipeline the outlet that may note why its steps are barred: the last one, until the pipeline is forgotten.
    noting: BTreeMap<PipelineId, u64>,
    /// Why `[sinks]` does not allow what a step wanted last.
    barred: BTreeMap<(PipelineId, String), String>,
    done: u64,
    is_over: bool,
}

impl State {
    /// Why there is no room for so many bytes more.
    fn no_room(&self, bytes: u64, limits: &Limits) -> Option<String> {
        if self.is_over {
            Some("the runtime is stopping".to_owned())
        } else if bytes > limits.one {
            Some(format!(
                "{bytes} bytes are too many for one message; at most {} are taken",
                limits.one
            ))
        } else if self.held >= limits.most || self.held_bytes + bytes > limits.most_bytes {
            Some(format!(
                "{} messages of {} bytes wait to be sent already; the agent sends them: is it running, and what does its log say?",
                self.held, self.held_bytes
            ))
        } else if self.queue.len() >= limits.queue || self.queue_bytes + bytes > limits.queue_bytes
        {
            Some("the disk does not take messages as fast as they come".to_owned())
        } else {
            None
        }
    }
}

#[derive(Debug)]
struct Shared {
    allowed: SinksConfig,
    limits: Limits,
    folder: Folder,
    state: Mutex<State>,
    wake: Condvar,
    /// Taken by whoever tells what came of an effect, so that one is told of once.
    failures: Mutex<Failures>,
    /// Last number that is on disk.
    last: watch::Sender<EffectNumber>,
}

/// What workflows want done outside. Shared by reference among threads.
#[derive(Debug)]
pub struct Effects {
    shared: Arc<Shared>,
    thread: Thread,
}

/// Where the steps of one pipeline hand over what they want done.
#[derive(Debug, Clone)]
pub struct Outlet {
    pipeline: PipelineId,
    number: u64,
    shared: Arc<Shared>,
}

/// Some of what waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// In the order of the numbers.
    pub effects: Vec<WaitingEffect>,
    /// Last number of all, also of those that are gone.
    pub last: EffectNumber,
}

impl Effects {
    /// Opens `<state>/effects` and starts the thread that writes there.
    ///
    /// # Errors
    /// When the folder can't be used, or there is no thread.
    pub fn open(state: &Path, allowed: &SinksConfig, limits: Limits) -> Result<Self, EffectsError> {
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
                ..State::default()
            }),
            wake: Condvar::new(),
            failures: Mutex::new(failures),
            last: watch::Sender::new(numbers.last()),
        });
        let of = Arc::clone(&shared);
        let thread = Thread::spawn("effects".to_owned(), move || work(&of, numbers));
        let thread = thread.map_err(|source| EffectsError::new(shared.folder.path(), source))?;
        Ok(Self { shared, thread })
    }

    /// For the steps of `pipeline`, in a run that begins: what one before it is not allowed is noted no more.
    #[must_use]
    pub fn outlet(&self, pipeline: &PipelineId) -> Outlet {
        let mut state = self.shared.state.lock();
        state.outlets += 1;
        let number = state.outlets;
        state.noting.insert(pipeline.clone(), number);
        Outlet {
            pipeline: pipeline.clone(),
            number,
            shared: Arc::clone(&self.shared),
        }
    }

    /// Up to `limit` of those that wait, from behind `after` on.
    #[must_use]
    pub fn page(&self, after: EffectNumber, limit: usize) -> Page {
        let state = self.shared.state.lock();
        let behind = EffectNumber(after.0.saturating_add(1));
        let effects = state.waiting.range(behind..).take(limit);
        Page {
            effects: effects.map(|(_, waiting)| waiting.clone()).collect(),
            last: *self.shared.last.borrow(),
        }
    }

    /// Follows the last number on disk.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<EffectNumber> {
        self.shared.last.subscribe()
    }

    /// One that waits, as JSON of a [`SpooledEffect`](watchkeeper_contract::spool::SpooledEffect); `None` where it does not.
    ///
    /// # Errors
    /// When its file can't be read, or is damaged.
    pub fn read(&self, number: EffectNumber) -> Result<Option<Vec<u8>>, EffectsError> {
        if !self.shared.state.lock().waiting.contains_key(&number) {
            return Ok(None);
        }
        self.shared.folder.read(number)
    }

    /// Forgets one that waits, as this came of it. A failure is on disk before. False where none of this number waits.
    ///
    /// # Errors
    /// When the disk refuses; it waits on then.
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
                effect = number.0, pipeline = %waiting.pipeline, step = waiting.step, what = waiting.what, why, "given up"
            );
            failures.note(&shared.folder, &waiting, why)?;
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

    /// How they fare.
    #[must_use]
    pub fn counts(&self) -> EffectCounts {
        let (failed, last_failed) = self.shared.failures.lock().shown();
        let state = self.shared.state.lock();
        EffectCounts {
            waiting: state.held as u64,
            waiting_bytes: state.held_bytes,
            taken: state.taken,
            refused: state.refused,
            done: state.done,
            failed,
            last_failed,
        }
    }

    /// Why nothing more is taken, and which steps want what is not allowed.
    #[must_use]
    pub fn troubles(&self) -> Vec<String> {
        let state = self.shared.state.lock();
        let full = state.no_room(0, &self.shared.limits);
        let full = full.filter(|_| !state.is_over);
        let barred = state.barred.iter().map(|((pipeline, step), why)| {
            format!(
                "pipeline {:?}: step {step} does nothing: {why}",
                pipeline.as_str()
            )
        });
        full.map(|why| format!("sinks: {why}"))
            .into_iter()
            .chain(barred)
            .collect()
    }

    /// Nobody wants any more what this pipeline was not allowed, nor what a run of it that hangs may still want.
    pub fn forget(&self, pipeline: &PipelineId) {
        let mut state = self.shared.state.lock();
        state.noting.remove(pipeline);
        state.barred.retain(|(of, _), _| of != pipeline);
    }

    /// Writes what waits for the disk and ends the thread; waits for that at most for `patience`.
    pub fn end(&self, patience: Duration) {
        self.shared.over();
        self.thread.join(patience);
    }
}

impl Drop for Effects {
    fn drop(&mut self) {
        self.shared.over();
    }
}

impl Shared {
    fn over(&self) {
        self.state.lock().is_over = true;
        self.wake.notify_all();
    }
}

impl Outlet {
    /// Takes over what `step` wants done. Never waits.
    ///
    /// # Errors
    /// One sentence: it is not allowed, or there is no room.
    pub fn emit(&self, step: &str, effect: &Effect) -> Result<(), String> {
        let allowed = self.shared.allowed.admits(effect);
        self.bar(step, allowed.as_ref().err());
        let taken = allowed.and_then(|()| self.take(step, effect));
        if taken.is_err() {
            self.shared.state.lock().refused += 1;
        }
        taken
    }

    /// Notes why a step is not allowed what it wants, or that it is. Of a run that is over nothing is noted.
    fn bar(&self, step: &str, why: Option<&String>) {
        let place = (self.pipeline.clone(), step.to_owned());
        let mut state = self.shared.state.lock();
        if state.noting.get(&self.pipeline) != Some(&self.number) {
            return;
        }
        let barred = &mut state.barred;
        match why {
            None => drop(barred.remove(&place)),
            Some(why) if barred.len() < MOST_BARRED || barred.contains_key(&place) => {
                if barred.insert(place, why.clone()).as_ref() != Some(why) {
                    tracing::warn!(pipeline = %self.pipeline, step, why, "what a step wants is not allowed");
                }
            }
            Some(_) => {}
        }
    }

    fn take(&self, step: &str, effect: &Effect) -> Result<(), String> {
        let shared = &self.shared;
        // Here and not in the thread: what waits in memory has to be known by its size.
        let body = to_raw_value(effect).map_err(|e| format!("it can't be kept: {e}"))?;
        let taken = Taken {
            draft: Draft {
                id: EventId::generate().to_string(),
                at: clock::wall(),
                pipeline: self.pipeline.clone(),
                step: step.to_owned(),
                what: effect.what(),
            },
            body,
        };
        let bytes = taken.bytes();
        let mut state = shared.state.lock();
        if let Some(why) = state.no_room(bytes, &shared.limits) {
            return Err(why);
        }
        state.held += 1;
        state.held_bytes += bytes;
        state.queue_bytes += bytes;
        state.taken += 1;
        state.queue.push_back(taken);
        drop(state);
        shared.wake.notify_all();
        Ok(())
    }

    /// Whether workflows have a secret of this name.
    #[must_use]
    pub fn has_secret(&self, name: &str) -> bool {
        self.shared.allowed.secrets.contains_key(name)
    }
}

/// Writes what is taken, until it is over and nothing waits.
fn work(shared: &Shared, mut numbers: Numbers) {
    let mut is_refused = false;
    loop {
        let mut state = shared.state.lock();
        let taken = loop {
            match state.queue.pop_front() {
                Some(taken) => break taken,
                None if state.is_over => return,
                None => shared.wake.wait(&mut state),
            }
        };
        drop(state);
        let waiting = loop {
            let written = numbers.write(
                &shared.folder,
                &taken.draft,
                &taken.body,
                shared.limits.min_free_bytes,
            );
            match written {
                Ok(waiting) => break waiting,
                Err(error) => {
                    // Once, until it goes well again.
                    if !std::mem::replace(&mut is_refused, true) {
                        tracing::error!(%error, "what workflows want done can't be kept; trying again every second");
                    }
                }
            }
            let mut state = shared.state.lock();
            if !state.is_over {
                shared.wake.wait_for(&mut state, DISK_RETRY);
            }
            if state.is_over {
                let lost = state.queue.len() + 1;
                tracing::error!(
                    lost,
                    "ended before all of what workflows want done was kept"
                );
                return;
            }
        };
        is_refused = false;
        let number = waiting.number;
        let mut state = shared.state.lock();
        // What counts is what the file takes.
        state.held_bytes = state.held_bytes.saturating_sub(taken.bytes()) + waiting.bytes;
        state.queue_bytes = state.queue_bytes.saturating_sub(taken.bytes());
        state.waiting.insert(number, waiting);
        // Within the lock: whoever sees the number finds the effect.
        shared.last.send_replace(number);
    }
}

#[cfg(test)]
mod tests;
