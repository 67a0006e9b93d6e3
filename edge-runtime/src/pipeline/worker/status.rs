//! State shared between the thread of a pipeline and its handle.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use watchkeeper_contract::pipeline::{
    PipelineResults, PipelineState, PipelineWarning, WarningKind,
};
use watchkeeper_contract::time::Wall;
use watchkeeper_engine::workflow::Pixels;

use super::look_rate::LookMeter;
use super::preview_window::PreviewStatus;
use crate::capture::mailbox::Unsubscriber;
use crate::clock;
use crate::load::Grant;
use crate::pipeline::retention::recordings::Recording;
use crate::pipeline::run::Run;

/// Parts of one annotated video that can be downloaded.
pub(super) const MAX_PARTS: usize = 1000;

/// State that the thread should reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DesiredState {
    Run,
    Pause,
    Stop,
    /// The pipeline ended by itself; only `Stop` may follow, so that it does not wait for the disk.
    Finished,
}

#[derive(Debug)]
pub(super) struct Status {
    pub(super) state: PipelineState,
    pub(super) since: Wall,
    /// When its counts began.
    pub(super) counting_since: Option<Wall>,
    pub(super) events: u64,
    /// When its counts were last saved before a stop without notice.
    pub(super) incomplete_after: Option<Wall>,
    pub(super) first_frame: Option<Instant>,
    pub(super) last_frame: Option<Instant>,
    /// When the frame began that the thread works on.
    pub(super) busy_since: Option<Instant>,
}

/// Counts that a run resumes from an earlier one.
#[derive(Debug, Default)]
pub(super) struct ResumedCounts {
    pub(super) counting_since: Option<Wall>,
    pub(super) events: u64,
    pub(super) incomplete_after: Option<Wall>,
}

/// The latest processed frame.
#[derive(Clone, Default)]
pub(super) struct Latest {
    pub(super) clean: Option<Arc<dyn Pixels>>,
    pub(super) annotated: Option<Arc<dyn Pixels>>,
}

/// Results that the thread published.
pub(super) struct Published {
    pub(super) results: PipelineResults,
    pub(super) warnings: Vec<PipelineWarning>,
}

impl Published {
    pub(super) fn of(run: &Run, recording: Option<&Recording>) -> Self {
        let mut warnings = run.warnings().to_vec();
        warnings.extend(recording.and_then(Recording::error).map(not_recording));
        Self {
            results: run.results(),
            warnings,
        }
    }
}

fn not_recording(why: &str) -> PipelineWarning {
    PipelineWarning {
        kind: WarningKind::NotRecording,
        message: format!("the annotated video is not written: {why}; retrying"),
    }
}

/// Complete parts of the annotated video, numbered from 1; the latest [`MAX_PARTS`] are known.
#[derive(Debug, Default)]
pub(super) struct VideoParts {
    /// Number of parts before the known ones.
    forgotten: usize,
    known: VecDeque<PathBuf>,
}

impl VideoParts {
    pub(super) fn push(&mut self, path: PathBuf) {
        if self.known.len() >= MAX_PARTS {
            self.known.pop_front();
            self.forgotten += 1;
        }
        self.known.push_back(path);
    }

    /// The part with this number, or the last one.
    pub(super) fn get(&self, number: Option<usize>) -> Option<&PathBuf> {
        match number {
            Some(number) => self.known.get(number.checked_sub(self.forgotten + 1)?),
            None => self.known.back(),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.forgotten + self.known.len()
    }
}

pub(super) struct Shared {
    pub(super) video_parts: Mutex<VideoParts>,
    pub(super) desired: Mutex<DesiredState>,
    /// Grant at the present load level. Locked after `desired`.
    pub(super) grant: Mutex<Grant>,
    pub(super) looks: Mutex<LookMeter>,
    /// Notified when `desired` or `grant` changes.
    pub(super) desired_changed: Condvar,
    pub(super) status: Mutex<Status>,
    /// Notified when the state in `status` changes.
    pub(super) state_changed: Condvar,
    pub(super) published: Mutex<Published>,
    pub(super) latest: Mutex<Latest>,
    pub(super) window: PreviewStatus,
    /// Whether its latest frame came from a camera.
    pub(super) is_live: AtomicBool,
    /// Whether the pipeline took frames of a recording; set at its end.
    pub(super) in_recording: AtomicBool,
    /// When the source failed.
    pub(super) lost_source: Mutex<Option<Instant>>,
    /// The internal error that ended the pipeline, a sentence without its end.
    pub(super) internal_error: Mutex<Option<String>>,
    /// Ends the current subscription.
    pub(super) unsubscriber: Mutex<Option<Unsubscriber>>,
}

impl Shared {
    pub(super) fn new(paused: bool, run: &Run, counts: ResumedCounts) -> Self {
        let (desired, state) = if paused {
            (DesiredState::Pause, PipelineState::Paused)
        } else {
            (DesiredState::Run, PipelineState::Starting)
        };
        Self {
            video_parts: Mutex::default(),
            desired: Mutex::new(desired),
            grant: Mutex::default(),
            looks: Mutex::default(),
            desired_changed: Condvar::new(),
            is_live: AtomicBool::new(false),
            in_recording: AtomicBool::new(false),
            lost_source: Mutex::default(),
            internal_error: Mutex::default(),
            unsubscriber: Mutex::default(),
            status: Mutex::new(Status {
                state,
                since: clock::wall(),
                counting_since: counts.counting_since,
                events: counts.events,
                incomplete_after: counts.incomplete_after,
                first_frame: None,
                last_frame: None,
                busy_since: None,
            }),
            state_changed: Condvar::new(),
            published: Mutex::new(Published::of(run, None)),
            latest: Mutex::default(),
            window: PreviewStatus::default(),
        }
    }

    /// Asks the thread for another state; ignored once the pipeline has stopped or ended.
    pub(super) fn request(&self, desired: DesiredState) {
        let mut now = self.desired.lock();
        match *now {
            DesiredState::Run | DesiredState::Pause => *now = desired,
            DesiredState::Finished if desired == DesiredState::Stop => *now = desired,
            DesiredState::Finished | DesiredState::Stop => {}
        }
        self.desired_changed.notify_all();
    }

    pub(super) fn set_state(&self, state: PipelineState) {
        let mut status = self.status.lock();
        if status.state != state {
            status.state = state;
            status.since = clock::wall();
            self.state_changed.notify_all();
        }
    }
}

/// Whether the thread takes no frames for now: by request, or by heat.
pub(super) fn is_held(shared: &Shared, desired: DesiredState) -> bool {
    match desired {
        DesiredState::Pause => true,
        DesiredState::Run => shared.grant.lock().is_paused,
        DesiredState::Stop | DesiredState::Finished => false,
    }
}
