//! Whether the camera shows what it should, as status, journal and pipelines learn it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use watchkeeper_vision::frame::Picture;

use super::Worker;
use crate::capture::blind::BlindChange;
use crate::capture::notices::SourceNotice;
use crate::capture::source::shared::VIEW_INTERVAL;

impl Worker {
    /// Checks a picture, reports a change, and publishes what is known of the view.
    pub(super) fn watch_for_blindness(&mut self, pts: Duration, picture: &Picture) {
        let objects_at = self.shared.hub.objects_at();
        let change = self.blind.observe(pts, picture, objects_at);
        if let Some(change) = change {
            self.report_blindness(change);
        }
        if change.is_some() || self.view_published.elapsed() >= VIEW_INTERVAL {
            self.view_published = Instant::now();
            let known = self.blind.known_view().map(Arc::new);
            self.shared.board.lock().known_view = known;
        }
    }

    fn report_blindness(&mut self, change: BlindChange) {
        let (at, source) = ((self.deps.wall)(), &self.spec.id);
        match change {
            BlindChange::Blind { kind, lasted } => {
                tracing::warn!(%source, ?kind, "the picture shows nothing");
                self.shared.board.lock().blind = Some(kind);
                let since = Instant::now().checked_sub(lasted);
                let since = since.unwrap_or_else(Instant::now);
                self.shared.hub.set_blind(Some((kind, since)));
                self.notice(SourceNotice::Blind { kind, at });
            }
            BlindChange::Seeing { lasted } => {
                let lasted_s = lasted.as_secs_f64();
                tracing::info!(%source, lasted_s, "the picture is useful again");
                self.shared.board.lock().blind = None;
                self.shared.hub.set_blind(None);
                self.notice(SourceNotice::Seeing { lasted, at });
            }
        }
    }

    /// Ends a blindness whose end cannot be observed: the camera is lost, or no subscriber is left.
    pub(super) fn end_blindness(&mut self) {
        if std::mem::take(&mut self.closed_blind) {
            let at = (self.deps.wall)();
            self.notice(SourceNotice::Forgotten { at });
        }
    }
}
