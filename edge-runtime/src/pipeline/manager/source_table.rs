//! The table of open sources, which pipelines subscribe to by name.
//!
//! - A pipeline finds a replaced source by its name again.
//! - The lock of the table is held for moments: a handle that leaves it is dropped outside.
//! - Not here: changes of the table (`sources`, `outages`).

use std::collections::BTreeMap;

use parking_lot::RwLock;
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::source::SourceState;

use crate::capture::mailbox::FrameReceiver;
use crate::capture::source::SourceHandle;
use crate::pipeline::worker::Subscribe;

/// Sources by name; shared with the pipelines, which subscribe here.
#[derive(Default)]
pub(super) struct Sources {
    pub(super) table: RwLock<BTreeMap<SourceId, SourceHandle>>,
}

impl Sources {
    /// The number of the current source of this name.
    pub(super) fn number_of(&self, source: &SourceId) -> Option<u64> {
        self.table.read().get(source).map(SourceHandle::run)
    }

    /// Whether the source is wanted and delivers no frames.
    pub(super) fn is_lost(&self, source: &SourceId) -> bool {
        let state = self.table.read().get(source).map(|it| it.status().state);
        matches!(
            state,
            Some(SourceState::Lost { .. } | SourceState::Failed { .. })
        )
    }
}

impl Subscribe for Sources {
    fn subscribe(&self, source: &SourceId) -> Option<FrameReceiver> {
        self.table.read().get(source).map(SourceHandle::subscribe)
    }
}
