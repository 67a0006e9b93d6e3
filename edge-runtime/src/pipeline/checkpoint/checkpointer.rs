//! Saves the state of one run of a pipeline.

use std::sync::Arc;
use std::time::{Duration, Instant};

use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::pipeline::PipelineSpec;

use super::file::{CheckpointData, CheckpointFile, Stamp, encode, fingerprint_of};
use super::write_queue::{SharedQueue, WriteOp};

/// Interval of saving; at most this much counting is lost when the process is killed or the power
/// fails.
pub const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(10);

/// Shortest time until the state is saved again because of an event.
const EVENT_INTERVAL: Duration = Duration::from_secs(1);

/// Bytes per second that one pipeline may write on average, so that a large state does not wear out
/// a memory card.
const MAX_BYTES_PER_S: f64 = 20_000.0;

/// Message about a checkpoint that could not be saved: an older file stays.
pub(super) const NOT_SAVED: &str =
    "can't save a checkpoint; a restart resumes from an older one, or counts from zero without one";

/// Saves the state of one run of a pipeline; older runs of the pipeline can't save any more.
#[derive(Debug)]
pub struct Checkpointer {
    id: PipelineId,
    run: u64,
    source: SourceId,
    shared: Arc<SharedQueue>,
    due: Instant,
    /// From when an event has the state saved.
    due_for_event: Instant,
    /// Whether the last state could not be encoded, which is logged once.
    is_refused: bool,
}

impl Checkpointer {
    pub(super) fn new(id: &PipelineId, source: &SourceId, shared: Arc<SharedQueue>) -> Self {
        let run = shared.queue.lock().begin_run(id);
        Self {
            id: id.clone(),
            run,
            source: source.clone(),
            shared,
            due: Instant::now() + CHECKPOINT_INTERVAL,
            due_for_event: Instant::now(),
            is_refused: false,
        }
    }

    /// Whether the state should be saved. It is sooner after a new event, so that a kill leaves few
    /// events in the journal that are not in the counts.
    pub fn is_due(&mut self, now: Instant, has_new_event: bool) -> bool {
        if has_new_event {
            self.due = self.due.min(self.due_for_event);
        }
        now >= self.due
    }

    /// Queues the state for writing, in place of one that still waits.
    pub fn save(&mut self, data: CheckpointData) {
        let file = CheckpointFile {
            data: Some(data),
            ..self.empty_file()
        };
        let bytes = self.write(&file, false).unwrap_or_default();
        let pause = Duration::from_secs_f64(bytes as f64 / MAX_BYTES_PER_S);
        let now = Instant::now();
        self.due = now + pause.max(CHECKPOINT_INTERVAL);
        self.due_for_event = now + pause.max(EVENT_INTERVAL);
    }

    /// Records that the duration of `spec` has passed, so that the next process does not restart
    /// it.
    pub fn mark_finished(&mut self, spec: &PipelineSpec) {
        let file = CheckpointFile {
            over: Some(fingerprint_of(spec)),
            ..self.empty_file()
        };
        self.write(&file, false);
    }

    /// Replaces the state of a failed run by the elapsed part of its duration, if it has one.
    pub fn save_failed(&mut self, elapsed: Option<Duration>) {
        if elapsed.is_none() {
            self.remove();
            return;
        }
        let file = CheckpointFile {
            elapsed,
            ..self.empty_file()
        };
        self.write(&file, true);
    }

    /// Removes the state: the next run starts from zero.
    pub fn remove(&self) {
        self.push(WriteOp::Remove, true);
    }

    pub(super) fn empty_file(&self) -> CheckpointFile {
        CheckpointFile {
            source: self.source.clone(),
            at: Stamp::now(),
            data: None,
            elapsed: None,
            over: None,
        }
    }

    /// Queues a file for writing and returns its size.
    fn write(&mut self, file: &CheckpointFile, is_stale: bool) -> Option<usize> {
        match encode(file) {
            Ok(bytes) => {
                self.is_refused = false;
                let size = bytes.len();
                self.push(WriteOp::Write(bytes), is_stale);
                Some(size)
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_refused, true) {
                    tracing::warn!(pipeline = %self.id, %error, "{NOT_SAVED}");
                }
                None
            }
        }
    }

    fn push(&self, op: WriteOp, is_stale: bool) {
        let mut queue = self.shared.queue.lock();
        queue.push(&self.id, self.run, op, is_stale);
        drop(queue);
        self.shared.changed.notify_all();
    }
}
