//! The state of a running workflow as bytes: saved at any frame, it goes on in another process as if nothing had been.
//!
//! Owns the form of those bytes and which of them a workflow takes back. Invariants: a workflow that is restored says the
//! same of every later frame as the one that was saved; a step whose settings are not what they were, or before which
//! something was changed, begins anew and says so; never more than [`MOST_BYTES`].
//!
//! The bytes carry no checksum: whoever stores them knows whether they came back whole. Time goes on where it stood: the
//! times given to a restored [`Execution`] must not lie before [`Restored::now`], as delays, cooldowns and times in zones
//! are told by differences.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use thiserror::Error;

use crate::workflow::block_api::stateful;
use crate::workflow::plan::fingerprint::{Fingerprint, of_steps};
use crate::workflow::run::execution::Execution;
use crate::workflow::values::stored_value::StoredValue;

/// Most bytes of one saved state: a record of a store. When there is more, what takes most is left out.
pub const MOST_BYTES: usize = 1 << 20;
/// By which a saved state is known, and the form of what follows.
const MARK: &[u8] = b"watchkeeper state ";
const FORM: u8 = 1;
/// What is around the parts takes at most.
const AROUND: usize = 1 << 10;
/// What is around each part takes at most.
const AROUND_EACH: usize = 128;

/// A state that was saved.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Saved {
    /// What to give to [`Execution::restore`].
    pub bytes: Vec<u8>,
    /// What is not in it and will begin anew.
    pub left_out: Vec<Restart>,
}

/// Something that begins anew after a restart, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restart {
    /// The step, or the value that steps share.
    pub what: String,
    /// Why, as a clause to follow "because".
    pub why: String,
}

impl Restart {
    fn step(name: &str, why: impl Into<String>) -> Self {
        Self {
            what: format!("step {name}"),
            why: why.into(),
        }
    }
}

/// How a state was taken back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restored {
    /// The time of the last frame before it was saved.
    pub now: Duration,
    /// Steps that begin anew.
    pub anew: Vec<Restart>,
}

/// Why a state can't be taken back; the workflow begins anew then.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StateError {
    /// It is something else.
    #[error("this is no saved state of a workflow")]
    NoState,
    /// Another version wrote it.
    #[error("the state was saved in form {found}, and this version reads form {FORM}")]
    OtherForm {
        /// The form it was saved in.
        found: u8,
    },
    /// It is not whole.
    #[error("the saved state can't be read: {0}")]
    Unreadable(String),
}

/// What follows the mark.
#[derive(Serialize, Deserialize)]
struct Document {
    now: Duration,
    /// The last number that an identity or a random number was made of.
    last_id: u64,
    shared: Vec<SharedValue>,
    steps: Vec<StepState>,
}

/// A value that steps remember together.
#[derive(Serialize, Deserialize)]
struct SharedValue {
    place: Arc<str>,
    key: Arc<str>,
    value: ByteBuf,
}

#[derive(Serialize, Deserialize)]
struct StepState {
    name: Arc<str>,
    block: String,
    /// That of the block.
    form: u32,
    settings: Fingerprint,
    state: ByteBuf,
}

/// Parts some parts into the smaller ones, as many as there is room for, and the rest.
fn fitting<T>(mut parts: Vec<T>, room: &mut usize, size: fn(&T) -> usize) -> (Vec<T>, Vec<T>) {
    parts.sort_by_key(size);
    let fit = parts.iter().take_while(|part| {
        let left = room.checked_sub(size(part));
        *room = left.unwrap_or(*room);
        left.is_some()
    });
    let large = parts.split_off(fit.count());
    (parts, large)
}

impl Execution {
    /// What it remembers after the last frame.
    #[must_use]
    pub fn save(&self) -> Saved {
        let mut left_out = Vec::new();
        let mut steps = Vec::new();
        let plan = &self.plan;
        for ((step, block), settings) in plan.steps.iter().zip(&self.blocks).zip(of_steps(plan)) {
            let Some(memory) = block.memory() else {
                continue;
            };
            match memory.write(MOST_BYTES) {
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
        let mut shared = Vec::new();
        for ((place, key), value) in self.memory.shared.iter() {
            match stateful::write(&StoredValue(value.clone()), MOST_BYTES) {
                Ok(value) => shared.push(SharedValue {
                    place: Arc::clone(place),
                    key: Arc::clone(key),
                    value: ByteBuf::from(value),
                }),
                Err(why) => left_out.push(Restart {
                    what: format!("value {key} of the {place}"),
                    why,
                }),
            }
        }
        let mut room = MOST_BYTES - AROUND;
        let head = |s: &StepState| s.name.len() + s.block.len() + s.state.len() + AROUND_EACH;
        let (steps, large) = fitting(steps, &mut room, head);
        let too_much = || format!("it takes more than what is left of {MOST_BYTES} bytes");
        left_out.extend(large.iter().map(|s| Restart::step(&s.name, too_much())));
        let of_value = |s: &SharedValue| s.place.len() + s.key.len() + s.value.len() + AROUND_EACH;
        let (shared, large) = fitting(shared, &mut room, of_value);
        left_out.extend(large.iter().map(|s| Restart {
            what: format!("value {} of the {}", s.key, s.place),
            why: too_much(),
        }));
        let document = Document {
            now: self.memory.now,
            last_id: self.memory.ids.last.get(),
            shared,
            steps,
        };
        let mut bytes = [MARK, &[FORM]].concat();
        match stateful::write(&document, MOST_BYTES - bytes.len()) {
            Ok(body) => bytes.extend(body),
            // Each part was written once and there is room for all, so that this would be a fault of ours.
            Err(why) => {
                left_out.extend(document.steps.iter().map(|s| Restart::step(&s.name, &*why)))
            }
        }
        Saved { bytes, left_out }
    }

    /// Takes back what was saved, before the first frame. Steps for which there is nothing, or whose settings are not what
    /// they were, are as they were made.
    ///
    /// # Errors
    /// Where it is no state or can't be read; nothing has changed then.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<Restored, StateError> {
        let rest = bytes.strip_prefix(MARK).ok_or(StateError::NoState)?;
        let body = match rest.split_first() {
            Some((&FORM, body)) => body,
            Some((&found, _)) => return Err(StateError::OtherForm { found }),
            None => return Err(StateError::Unreadable("it ends after its mark".to_owned())),
        };
        let document: Document = stateful::read(body).map_err(StateError::Unreadable)?;
        let mut shared = Vec::with_capacity(document.shared.len());
        for SharedValue { place, key, value } in document.shared {
            let value: StoredValue = stateful::read(&value).map_err(StateError::Unreadable)?;
            shared.push((place, key, value.0));
        }
        let mut saved: BTreeMap<&str, &StepState> = BTreeMap::new();
        saved.extend(document.steps.iter().map(|s| (&*s.name, s)));
        let mut anew = Vec::new();
        let plan = &self.plan;
        let blocks = self.blocks.iter_mut();
        for ((step, block), settings) in plan.steps.iter().zip(blocks).zip(of_steps(plan)) {
            let Some(memory) = block.memory_mut() else {
                continue;
            };
            let taken = match saved.get(&*step.name) {
                None => Err("nothing was saved of it".to_owned()),
                Some(s) if s.block != step.manifest.name => {
                    Err(format!("it was a {} before", s.block))
                }
                Some(s) if s.settings != settings => {
                    Err("it, or a step before it, has other settings now".to_owned())
                }
                Some(s) if s.form != memory.form() => Err(format!(
                    "its state was saved in form {}, and this version reads form {}",
                    s.form,
                    memory.form()
                )),
                Some(s) => memory
                    .read(&s.state)
                    .map_err(|why| format!("its state can't be read: {why}")),
            };
            if let Err(why) = taken {
                anew.push(Restart::step(&step.name, why));
            }
        }
        for (place, key, value) in shared {
            self.memory.shared.set(&place, &key, value);
        }
        self.memory.ids.last.set(document.last_id);
        self.memory.now = document.now;
        Ok(Restored {
            now: document.now,
            anew,
        })
    }
}
