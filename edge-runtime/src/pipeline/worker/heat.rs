//! What the level of shedding means to the thread of a pipeline.
//!
//! - A camera's frames beyond the granted rate are skipped; a paused pipeline leaves its camera.
//! - A recording is slowed down, or stands still: each of its frames is looked at.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use watchkeeper_contract::coverage::SpanEnd;
use watchkeeper_contract::pipeline::PipelineState;
use watchkeeper_vision::frame::Frame;

use super::status::DesiredState;
use super::thread::{FRAME_TIMEOUT, WorkerThread};
use crate::capture::mailbox::FrameReceiver;

impl WorkerThread {
    /// Whether the next frame is taken. Heat does not interrupt a recording: it would restart.
    pub(super) fn takes_frames(&self) -> bool {
        let desired = *self.shared.desired.lock();
        let in_recording = self.run.plays_recording();
        desired == DesiredState::Run && (in_recording || !self.shared.grant.lock().is_paused)
    }

    /// Waits after a frame of a recording as long as heat demands: each of its frames is looked at.
    pub(super) fn pace_recording(&mut self, began: Instant) {
        let shared = Arc::clone(&self.shared);
        let mut desired = shared.desired.lock();
        while *desired == DesiredState::Run {
            let grant = *shared.grant.lock();
            let until = match grant.max_fps {
                _ if grant.is_paused => {
                    self.show_paused(SpanEnd::Heat);
                    Instant::now() + FRAME_TIMEOUT
                }
                Some(fps) => began + Duration::from_secs_f64(1.0 / fps),
                None => break,
            };
            if until <= Instant::now() {
                break;
            }
            shared.desired_changed.wait_until(&mut desired, until);
        }
        if *desired == DesiredState::Run {
            shared.set_state(PipelineState::Running);
        }
    }

    /// Counts a frame, and asks for as many turns at shared networks as the pipeline may look.
    pub(super) fn count_look(
        &mut self,
        frame: &Frame,
        is_looked_at: bool,
        receiver: &FrameReceiver,
    ) {
        let now = Instant::now();
        let is_live = !frame.recorded || receiver.drops_late();
        self.shared.is_live.store(is_live, Ordering::Relaxed);
        let offered_fps = receiver.delivered_fps();
        let mut looks = self.shared.looks.lock();
        looks.count(offered_fps, is_looked_at, now);
        if is_live {
            let grant = *self.shared.grant.lock();
            let wanted = looks.wanted_fps(&self.spec, grant, Some(offered_fps));
            let rate = grant.max_fps.map_or(wanted, |granted| granted.min(wanted));
            self.services.claim.set_rate(rate);
        }
    }
}
