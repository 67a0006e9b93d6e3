//! Records the coverage of one pipeline, from its thread.

use std::sync::Arc;
use std::time::Instant;

use watchkeeper_contract::coverage::{CoverageSpan, SpanEnd, Watched};
use watchkeeper_vision::frame::Frame;

use super::ledger::{CoverageLedger, OpenSpan};
use super::span::{Extent, Sight, SpanTracker};

/// Spans of one pipeline on their way to the ledger.
#[derive(Debug)]
pub struct CoverageRecorder {
    ledger: Arc<CoverageLedger>,
    watch: Arc<Watched>,
    tracker: SpanTracker,
    started: Instant,
}

impl CoverageRecorder {
    /// Records what `watch` says to `ledger`.
    #[must_use]
    pub fn new(ledger: Arc<CoverageLedger>, watch: Watched) -> Self {
        Self {
            ledger,
            watch: Arc::new(watch),
            tracker: SpanTracker::default(),
            started: Instant::now(),
        }
    }

    /// Adds a frame that was looked at.
    pub fn look(&mut self, frame: &Frame, sight: Sight) {
        let elapsed = frame.arrived.saturating_duration_since(self.started);
        let ended = self.tracker.look(frame.wall, elapsed, sight);
        let ended = ended.map(|(extent, end)| span(&self.watch, extent, end));
        let open = self.tracker.open().map(|extent| OpenSpan {
            watch: Arc::clone(&self.watch),
            extent,
            arrived: frame.arrived,
            limit: self.tracker.limit(),
        });
        self.ledger.update(&self.watch, ended, open);
    }

    /// Ends the span: no more frames are taken for now.
    pub fn close(&mut self, end: SpanEnd) {
        if let Some((extent, end)) = self.tracker.close(end) {
            let ended = span(&self.watch, extent, end);
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

pub(super) fn span(watch: &Watched, extent: Extent, end: SpanEnd) -> CoverageSpan {
    CoverageSpan {
        from: extent.from,
        to: extent.to,
        frames: extent.frames,
        end,
        watch: watch.clone(),
    }
}
