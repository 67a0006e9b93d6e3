//! Records the coverage of one pipeline, from its thread.
//!
//! - Every frame updates the open span, also one that was not looked at.
//! - A thread that ends without closing its span has panicked: the span ends as failed.
//! - Not here: what ends a span (`span`), writing (`ledger`).

use std::sync::Arc;

use watchkeeper_contract::coverage::{SpanEnd, Watched};
use watchkeeper_vision::frame::Frame;

use super::ledger::{CoverageLedger, OpenSpan};
use super::span::{Sight, SpanTracker};

/// Spans of one pipeline on their way to the ledger.
#[derive(Debug)]
pub struct CoverageRecorder {
    ledger: Arc<CoverageLedger>,
    watch: Arc<Watched>,
    tracker: SpanTracker,
}

impl CoverageRecorder {
    /// Records what `watch` says to `ledger`.
    pub fn new(ledger: Arc<CoverageLedger>, watch: Watched) -> Self {
        Self {
            ledger,
            watch: Arc::new(watch),
            tracker: SpanTracker::default(),
        }
    }

    /// Adds a frame, looked at or not.
    pub fn look(&mut self, frame: &Frame, sight: Sight) {
        let ended = self.tracker.look(frame.wall, frame.arrived, sight);
        let ended = ended.map(|(extent, end)| extent.span(&self.watch, end));
        let open = self.tracker.open().map(|(extent, arrived)| OpenSpan {
            watch: Arc::clone(&self.watch),
            extent,
            arrived,
            limit: self.tracker.limit(),
        });
        self.ledger.update(&self.watch, ended, open);
    }

    /// Ends the span: no more frames are taken for now.
    pub fn close(&mut self, end: SpanEnd) {
        if let Some((extent, end)) = self.tracker.close(end) {
            let ended = extent.span(&self.watch, end);
            self.ledger.update(&self.watch, Some(ended), None);
        }
    }
}

/// A thread that ends without closing has panicked.
impl Drop for CoverageRecorder {
    fn drop(&mut self) {
        self.close(SpanEnd::Failed);
    }
}
