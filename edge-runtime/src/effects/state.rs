//! State shared by the senders of effects and the thread that writes them. It is the queue, its
//! limits, the effects on disk, and the reason of a refusal.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::{Condvar, Mutex};
use serde_json::value::RawValue;
use tokio::sync::watch;
use watchkeeper_config::SinksConfig;
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::spool::{EffectNumber, FailedEffect, WaitingEffect};

use super::spool::{Draft, Failures, Folder};

/// Why effects are refused after a panic of the thread.
pub(super) const BROKEN: &str = "an internal error stopped the writer of effects; restart the \
                                 runtime, and report it with the log";

/// Limits of the waiting effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of effects, on disk and queued.
    pub max_effects: usize,
    /// Maximum bytes of all effects.
    pub max_bytes: u64,
    /// Maximum number of effects queued for the disk.
    pub max_queued: usize,
    /// Maximum bytes queued in memory.
    pub max_queued_bytes: u64,
    /// Maximum bytes of one effect.
    pub max_effect_bytes: u64,
    /// Bytes that must stay free on the disk.
    pub min_free_bytes: u64,
}

impl Default for Limits {
    /// Enough for a day without network at one alert every 20 s; a quarter of them with pictures.
    fn default() -> Self {
        Self {
            max_effects: 4096,
            max_bytes: 128 << 20,
            max_queued: 256,
            max_queued_bytes: 16 << 20,
            max_effect_bytes: 8 << 20,
            min_free_bytes: 64 << 20,
        }
    }
}

/// An accepted effect on its way to the disk.
#[derive(Debug)]
pub(super) struct AcceptedEffect {
    pub(super) draft: Draft,
    pub(super) body: Box<RawValue>,
}

impl AcceptedEffect {
    pub(super) fn bytes(&self) -> u64 {
        self.body.get().len() as u64
    }
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) queue: VecDeque<AcceptedEffect>,
    pub(super) queue_bytes: u64,
    /// Effects on disk, by number.
    pub(super) waiting: BTreeMap<EffectNumber, WaitingEffect>,
    /// Everything that counts against the limits: queued, being written, on disk.
    pub(super) held: usize,
    pub(super) held_bytes: u64,
    pub(super) accepted: u64,
    pub(super) refused: u64,
    /// Number of senders created.
    pub(super) senders: u64,
    /// The latest sender of each pipeline, which may report disallowed effects.
    pub(super) reporting_senders: BTreeMap<PipelineId, u64>,
    /// Why `[sinks]` does not allow what a step last wanted.
    pub(super) disallowed: BTreeMap<(PipelineId, String), String>,
    pub(super) done: u64,
    /// Number of failures, and the last of them, as they are on disk.
    pub(super) failed: (u64, Vec<FailedEffect>),
    /// Why the last write failed; [`super::writer`] tries its effect again.
    pub(super) disk_error: Option<String>,
    /// The thread ended with a panic.
    pub(super) is_broken: bool,
    pub(super) is_closing: bool,
}

impl State {
    /// Why there is no space for `bytes` more.
    pub(super) fn refusal(&self, bytes: u64, limits: &Limits) -> Option<String> {
        if self.is_closing {
            Some("the runtime is stopping".to_owned())
        } else if self.is_broken {
            Some(BROKEN.to_owned())
        } else if bytes > limits.max_effect_bytes {
            Some(format!(
                "{bytes} bytes are too many for one effect; the limit is {}",
                limits.max_effect_bytes
            ))
        } else if let Some(error) = &self.disk_error {
            Some(format!("the disk refuses effects: {error}"))
        } else if self.held >= limits.max_effects || self.held_bytes + bytes > limits.max_bytes {
            Some(format!(
                "{} effects of {} bytes already wait for the agent; check that the agent runs, and its log",
                self.held, self.held_bytes
            ))
        } else if self.queue.len() >= limits.max_queued
            || self.queue_bytes + bytes > limits.max_queued_bytes
        {
            Some("the disk is too slow for the effects".to_owned())
        } else {
            None
        }
    }
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) allowed: SinksConfig,
    pub(super) limits: Limits,
    pub(super) folder: Folder,
    pub(super) state: Mutex<State>,
    pub(super) wake: Condvar,
    /// Locked while an outcome is recorded, so that an effect is settled once. Held over writes.
    pub(super) failures: Mutex<Failures>,
    /// Last number that is on disk.
    pub(super) last: watch::Sender<EffectNumber>,
}
