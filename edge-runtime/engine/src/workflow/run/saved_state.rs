//! Saves the state of a running workflow and restores it in another process.
//!
//! - A restored workflow returns the same for every later frame as the saved one.
//! - A step with other settings, or after a changed step, restarts and is reported.
//! - At most [`MAX_STATE_BYTES`].
//! - The bytes have no checksum; whatever stores them checks that they are complete.
//! - Time continues: times given to a restored [`Execution`] must not lie before [`Restored::now`],
//!   because delays, cool-downs and times in zones are differences.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use thiserror::Error;

use crate::workflow::block_api::manifest::Role;
use crate::workflow::block_api::shared_state::{SharedMap, SharedState};
use crate::workflow::block_api::stateful;
use crate::workflow::plan::fingerprint::{Fingerprint, of_steps};
use crate::workflow::run::execution::Execution;

/// Maximum bytes of a saved state, one record of a store. Beyond it, the largest parts are left
/// out.
pub const MAX_STATE_BYTES: usize = 1 << 20;
/// Prefix of a saved state; the format number follows.
const PREFIX: &[u8] = b"watchkeeper state ";
const FORM: u8 = 1;
/// Maximum overhead around the parts.
const OVERHEAD: usize = 1 << 10;
/// Maximum overhead around each part.
const OVERHEAD_PER_PART: usize = 128;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Saved {
    /// The bytes for [`Execution::restore`].
    pub bytes: Vec<u8>,
    /// Steps that were left out and will restart.
    pub left_out: Vec<Restart>,
}

/// A part without saved state, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restart {
    /// The step, or the value that steps share.
    pub what: String,
    /// Why, as a clause that follows "because".
    pub why: String,
}

impl Restart {
    fn step(name: &str, why: impl Into<String>) -> Self {
        Self {
            what: Self::what_of(name),
            why: why.into(),
        }
    }

    fn what_of(step: &str) -> String {
        format!("step {step}")
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restored {
    /// Time of the last frame before the save.
    pub now: Duration,
    pub restarted: Vec<Restart>,
    /// Whether a tracker is among them, which gives out its track ids again.
    pub track_ids_restart: bool,
}

impl Restored {
    /// Returns whether the step of this name restarts.
    pub fn is_restarted(&self, step: &str) -> bool {
        let what = Restart::what_of(step);
        self.restarted.iter().any(|restart| restart.what == what)
    }
}

/// Why a state can't be restored.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StateError {
    #[error("this is not a saved state of a workflow")]
    NotAState,
    /// Another version wrote it.
    #[error("the state was saved in format {found}, but this version reads format {FORM}")]
    OtherFormat { found: u8 },
    #[error("the saved state can't be read: {0}")]
    Unreadable(String),
}

/// Content after the prefix.
#[derive(Serialize, Deserialize)]
struct Document {
    now: Duration,
    /// The last number used for an identity or a random number.
    last_id: u64,
    shared: Vec<SharedValue>,
    #[serde(default)]
    cooldowns: Vec<SharedValue>,
    steps: Vec<StepState>,
}

#[derive(Serialize, Deserialize)]
struct SharedValue {
    place: Arc<str>,
    key: Arc<str>,
    value: ByteBuf,
    /// Number of its setting; the saved values are in this order.
    #[serde(skip)]
    number: u64,
}

#[derive(Serialize, Deserialize)]
struct StepState {
    name: Arc<str>,
    block: String,
    /// Format number of the block's state.
    form: u32,
    settings: Fingerprint,
    state: ByteBuf,
}

/// Splits parts into the smallest ones that fit into `bytes_left`, and the rest.
fn fitting<T>(
    mut parts: Vec<T>,
    bytes_left: &mut usize,
    size: fn(&T) -> usize,
) -> (Vec<T>, Vec<T>) {
    parts.sort_by_key(size);
    let fit = parts.iter().take_while(|part| {
        let left = bytes_left.checked_sub(size(part));
        *bytes_left = left.unwrap_or(*bytes_left);
        left.is_some()
    });
    let large = parts.split_off(fit.count());
    (parts, large)
}

fn too_large() -> String {
    format!("it takes more than what is left of {MAX_STATE_BYTES} bytes")
}

/// Returns the values that fit into `bytes_left`, in the order of their setting.
fn shared_values(
    map: &SharedMap,
    bytes_left: &mut usize,
    left_out: &mut Vec<Restart>,
) -> Vec<SharedValue> {
    let restart = |place: &str, key: &str, why: String| Restart {
        what: format!("value {key} of the {place}"),
        why,
    };
    let mut shared = Vec::new();
    for ((place, key), value, number) in map.iter() {
        match stateful::write(value, MAX_STATE_BYTES) {
            Ok(value) => shared.push(SharedValue {
                place: Arc::clone(place),
                key: Arc::clone(key),
                value: ByteBuf::from(value),
                number,
            }),
            Err(why) => left_out.push(restart(place, key, why)),
        }
    }
    let size = |s: &SharedValue| s.place.len() + s.key.len() + s.value.len() + OVERHEAD_PER_PART;
    let (mut shared, large) = fitting(shared, bytes_left, size);
    left_out.extend(large.iter().map(|s| restart(&s.place, &s.key, too_large())));
    shared.sort_by_key(|s| s.number);
    shared
}

/// Restores values in the order of their setting.
fn restored_map(saved: Vec<SharedValue>) -> Result<SharedMap, StateError> {
    let mut map = SharedMap::default();
    for SharedValue {
        place, key, value, ..
    } in saved
    {
        stateful::read(&value)
            .and_then(|value| map.set((place, key), value))
            .map_err(StateError::Unreadable)?;
    }
    Ok(map)
}

impl Execution {
    /// Saves the state after the last frame.
    pub fn save(&self) -> Saved {
        let mut left_out = Vec::new();
        let steps = self.step_states(&mut left_out);
        let mut bytes_left = MAX_STATE_BYTES - OVERHEAD;
        let head = |s: &StepState| s.name.len() + s.block.len() + s.state.len() + OVERHEAD_PER_PART;
        let (steps, large) = fitting(steps, &mut bytes_left, head);
        left_out.extend(large.iter().map(|s| Restart::step(&s.name, too_large())));
        let shared = &self.memory.shared;
        let cooldowns = shared_values(&shared.cooldowns, &mut bytes_left, &mut left_out);
        let shared = shared_values(&shared.cache, &mut bytes_left, &mut left_out);
        let document = Document {
            now: self.memory.now,
            last_id: self.memory.ids.last.get(),
            shared,
            cooldowns,
            steps,
        };
        let mut bytes = [PREFIX, &[FORM]].concat();
        match stateful::write(&document, MAX_STATE_BYTES - bytes.len()) {
            Ok(body) => bytes.extend(body),
            // Each part was measured and fits, so this would be a bug.
            Err(why) => {
                left_out.extend(document.steps.iter().map(|s| Restart::step(&s.name, &*why)))
            }
        }
        Saved { bytes, left_out }
    }

    fn step_states(&self, left_out: &mut Vec<Restart>) -> Vec<StepState> {
        let mut steps = Vec::new();
        let plan = &self.plan;
        for ((step, block), settings) in plan.steps.iter().zip(&self.blocks).zip(of_steps(plan)) {
            let Some(memory) = block.memory() else {
                continue;
            };
            match memory.write(MAX_STATE_BYTES) {
                Ok(state) => steps.push(StepState {
                    name: Arc::clone(&step.name),
                    block: step.manifest.name.to_owned(),
                    form: memory.form(),
                    settings,
                    state: ByteBuf::from(state),
                }),
                Err(why) => left_out.push(Restart::step(&step.name, why)),
            }
        }
        steps
    }

    /// Restores saved state, before the first frame. Steps without saved state, or with other
    /// settings, keep their initial state.
    ///
    /// # Errors
    /// If the bytes are not a readable state; nothing has changed then.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<Restored, StateError> {
        let rest = bytes.strip_prefix(PREFIX).ok_or(StateError::NotAState)?;
        let body = match rest.split_first() {
            Some((&FORM, body)) => body,
            Some((&found, _)) => return Err(StateError::OtherFormat { found }),
            None => {
                return Err(StateError::Unreadable(
                    "it ends after its prefix".to_owned(),
                ));
            }
        };
        let document: Document = stateful::read(body).map_err(StateError::Unreadable)?;
        let shared = SharedState {
            cache: restored_map(document.shared)?,
            cooldowns: restored_map(document.cooldowns)?,
        };
        let mut saved: BTreeMap<&str, &StepState> = BTreeMap::new();
        saved.extend(document.steps.iter().map(|s| (&*s.name, s)));
        let mut restarted = Vec::new();
        let mut track_ids_restart = false;
        let plan = &self.plan;
        let blocks = self.blocks.iter_mut();
        for ((step, block), settings) in plan.steps.iter().zip(blocks).zip(of_steps(plan)) {
            let Some(memory) = block.memory_mut() else {
                continue;
            };
            let taken = match saved.get(&*step.name) {
                None => Err("it has no saved state".to_owned()),
                Some(s) if s.block != step.manifest.name => {
                    Err(format!("it was a {} before", s.block))
                }
                Some(s) if s.settings != settings => {
                    Err("the settings of it or of a step before it changed".to_owned())
                }
                Some(s) if s.form != memory.form() => Err(format!(
                    "its state was saved in format {}, but this version reads format {}",
                    s.form,
                    memory.form()
                )),
                Some(s) => memory
                    .read(&s.state)
                    .map_err(|why| format!("its state can't be read: {why}")),
            };
            if let Err(why) = taken {
                restarted.push(Restart::step(&step.name, why));
                track_ids_restart |= step.manifest.role == Role::Tracker;
            }
        }
        self.memory.shared = shared;
        self.memory.ids.last.set(document.last_id);
        self.memory.now = document.now;
        Ok(Restored {
            now: document.now,
            restarted,
            track_ids_restart,
        })
    }
}
