//! Records the coverage of one pipeline, from its thread.
//!
//! - Every frame updates the open span, also one that was not looked at.
//! - A thread that ends without closing its span has panicked: the span ends as failed.
//! - Not here: what ends a span (`span`), writing (`ledger`).

use std::sync::Arc;
use std::time::Duration;

use watchkeeper_contract::coverage::{SpanEnd, Watched};
use watchkeeper_vision::frame::Frame;

use super::ledger::{CoverageLedger, OpenSpan};
use super::span::{Extent, Sight, SpanTracker};

/// Spans of one pipeline on their way to the ledger.
#[derive(Debug)]
pub struct CoverageRecorder {
    ledger: Arc<CoverageLedger>,
    watch: Arc<Watched>,
    tracker: SpanTracker,
    /// The last frame at which nothing could be seen, as a span without a length.
    unseen: Option<(Extent, SpanEnd)>,
}

impl CoverageRecorder {
    /// Records what `watch` says to `ledger`.
    pub fn new(ledger: Arc<CoverageLedger>, watch: Watched) -> Self {
        Self {
            ledger,
            watch: Arc::new(watch),
            tracker: SpanTracker::default(),
            unseen: None,
        }
    }

    /// Adds a frame, looked at or not.
    pub fn look(&mut self, frame: &Frame, sight: Sight) {
        let ended = self.tracker.look(frame.wall, frame.arrived, sight);
        let ended = ended.map(|(extent, end)| extent.span(&self.watch, end));
        let unseen = |end| Some((Extent::at(frame.wall), end));
        match sight {
            Sight::Clear => self.unseen = None,
            Sight::Skipped => {}
            Sight::Blind { kind, .. } => self.unseen = unseen(SpanEnd::Blind { kind }),
            Sight::StepFailed => self.unseen = unseen(SpanEnd::StepFailed),
        }
        let unseen = self
            .unseen
            .map(|(extent, end)| (extent, frame.arrived, Some(end)));
        let seen = self.tracker.open();
        let seen = seen.map(|(extent, arrived)| (extent, arrived, None));
        let open = seen.or(unseen).map(|(extent, arrived, end)| OpenSpan {
            watch: Arc::clone(&self.watch),
            extent,
            end,
            arrived,
            limit: self.tracker.limit(),
            is_held_up: false,
        });
        self.ledger.update(&self.watch, ended, open);
    }

    /// Notes that events are handed over before the next frame, which may wait for the disk.
    pub fn note_handover(&self) {
        self.ledger.note_handover(&self.watch);
    }

    /// Ends the span at the last frame if the pipeline has `waited` so long for the disk since then
    /// that it missed frames.
    pub fn end_if_held_up(&mut self, waited: Duration) {
        if waited > self.tracker.limit() {
            self.close(SpanEnd::Disk);
        }
    }

    /// Ends the span: no more frames are taken for now. Where nothing could be seen at last, a span
    /// without a length says when that was over.
    pub fn close(&mut self, end: SpanEnd) {
        let unseen = self.unseen.take().map(|(extent, _)| (extent, end));
        if let Some((extent, end)) = self.tracker.close(end).or(unseen) {
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
