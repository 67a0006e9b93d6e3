//! Everything that a run writes: slots, branches, arguments and counters.
//!
//! - The vectors keep their capacity between frames: a run in its steady state allocates little.
//! - Numbers of slots and branches are those of the plan.

use std::sync::Arc;
use std::time::Duration;

use watchkeeper_vision::detections::Detections;

use crate::workflow::block_api::call::IdCounter;
use crate::workflow::block_api::shared_state::SharedState;
use crate::workflow::plan::compiled::WorkflowPlan;
use crate::workflow::values::tree::Tree;
use crate::workflow::values::value::Value;

/// Bit of the stream number in identities from blocks, which keeps them apart from those of models.
pub(super) const OWN_STREAM: u64 = 1 << 63;

/// Everything that a run writes.
pub(crate) struct Memory {
    pub(super) slots: Vec<Tree<Value>>,
    pub(super) branches: Vec<Tree<bool>>,
    pub(super) args: Vec<Value>,
    pub(super) out: Vec<Value>,
    pub(super) spare: Vec<Value>,
    /// By slot: memory of the detections of a step that did not run.
    pub(super) dormant: Vec<Option<Arc<Detections>>>,
    pub(super) flags: Vec<bool>,
    pub(super) index: Vec<usize>,
    pub(super) batch: usize,
    pub(crate) ids: IdCounter,
    pub(crate) shared: SharedState,
    pub(crate) now: Duration,
    /// Whether the source has ended.
    pub(super) is_end: bool,
}

impl Memory {
    pub(super) fn new(plan: &WorkflowPlan) -> Self {
        Self {
            slots: vec![Tree::default(); plan.slots.len()],
            branches: vec![Tree::default(); plan.branches],
            args: Vec::new(),
            out: Vec::new(),
            spare: Vec::new(),
            dormant: vec![None; plan.slots.len()],
            flags: Vec::new(),
            index: Vec::new(),
            batch: 0,
            ids: IdCounter {
                stream: OWN_STREAM,
                ..IdCounter::default()
            },
            shared: SharedState::default(),
            now: Duration::ZERO,
            is_end: false,
        }
    }
}
