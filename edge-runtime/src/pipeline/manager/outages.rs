//! What happens to sources, as events of the box.
//!
//! Owns the thread that journals the notices of sources, and the words by which the manager begins and ends outages itself. Invariants: the
//! records of one outage keep their order; a notice of a source that was replaced or deleted since is nobody's.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use watchkeeper_contract::id::{EventId, PipelineId, SourceId};

use super::open_outages::{Notice, Outages};
use super::sources::Sources;
use super::{Deployed, Manager};
use crate::capture::notices::{Inbox, Noticed, SourceNotice};
use crate::capture::source::SourceHandle;
use crate::clock;
use crate::pipeline::box_event::{BoxRecord, box_event};
use crate::pipeline::recorder::Recorder;

impl Manager {
    /// Takes a source out of the table, or puts `next` in its place, and ends what was wrong with it. It is closed; dropping it waits for its thread.
    pub(super) fn exchange(
        &self,
        id: &SourceId,
        next: Option<SourceHandle>,
    ) -> Option<SourceHandle> {
        // Over all of it, so that no notice of the one that goes comes after this `end`, and none of the next one before it.
        let mut outages = self.outages.lock();
        let old = {
            let mut table = self.sources.table.write();
            match next {
                Some(next) => table.insert(id.clone(), next),
                None => table.remove(id),
            }
        };
        if let Some(old) = &old {
            old.close();
        }
        let record = outages.notice(
            Instant::now(),
            id,
            Notice::Forgotten,
            &mut EventId::generate,
        );
        self.tell_outage(id, record);
        old
    }

    /// A pipeline begins to watch: what only a look had noticed of its source is an outage from now on.
    pub(super) fn watched_now(&self, id: &PipelineId) {
        let Ok(deployed) = self.handle(id) else {
            return;
        };
        let source = deployed.spec().source.clone();
        let mut outages = self.outages.lock();
        let record = outages.watched(Instant::now(), &source, &mut EventId::generate);
        self.tell_outage(&source, record);
    }

    fn tell_outage(&self, source: &SourceId, record: Option<BoxRecord>) {
        if let Some(record) = record {
            let mut event = box_event(record, &self.parts.boot_id, self.parts.started);
            event.source = Some(source.clone());
            self.parts.recorder.report(event);
        }
    }
}

/// The thread that turns notices of sources into events.
pub(super) struct OutageJournal {
    pub(super) outages: Arc<Mutex<Outages>>,
    pub(super) sources: Arc<Sources>,
    pub(super) pipelines: Arc<Mutex<BTreeMap<PipelineId, Deployed>>>,
    pub(super) recorder: Recorder,
    pub(super) boot_id: Arc<str>,
    pub(super) started: Instant,
}

impl OutageJournal {
    /// Until there is nobody left to tell anything. A fault of ours costs the notice at which it showed, not those that follow.
    pub(super) fn run_on(&self, notices: &Inbox) {
        while catch_unwind(AssertUnwindSafe(|| self.run(notices))).is_err() {
            tracing::error!("a fault of ours: what a source told is not journaled; report the log");
        }
    }

    fn run(&self, notices: &Inbox) {
        while let Some(Noticed {
            source,
            run,
            told,
            notice,
        }) = notices.recv()
        {
            let at = notice.at();
            let notice = match notice {
                SourceNotice::Lost { cause, message, .. } => Notice::Lost { cause, message },
                SourceNotice::Blind { kind, .. } => Notice::Blind(kind),
                SourceNotice::Forgotten { .. } => Notice::Forgotten,
                SourceNotice::Back { .. } | SourceNotice::Seeing { .. } => Notice::Seeing,
            };
            let mut outages = self.outages.lock();
            // Both asked under the lock: a source is exchanged under it, and a pipeline that begins to watch meanwhile finds what was glimpsed.
            if self.sources.run_of(&source) != Some(run) {
                continue;
            }
            let is_watched = self.is_watched(&source, told);
            let record = if is_watched {
                outages.notice(told, &source, notice, &mut EventId::generate)
            } else {
                outages.glimpse(told, &source, notice, &mut EventId::generate)
            };
            if let Some(record) = record {
                let mut event = box_event(record, &self.boot_id, self.started);
                event.source = Some(source);
                // When it happened: the journal may have had to wait for a disk.
                event.at = at;
                event.mono_ms = clock::millis(told.saturating_duration_since(self.started));
                // Under the lock, so that records of one outage keep their order; the box has places of its own in the queue.
                if !self.recorder.report(event) {
                    return;
                }
            }
        }
    }

    /// Whether a pipeline took frames of the source when this was told, rather than somebody looking once. A source that fails for good ends its
    /// pipelines, which may be sooner than its notice is taken.
    fn is_watched(&self, source: &SourceId, told: Instant) -> bool {
        let table = self.pipelines.lock();
        table.values().any(|deployed| match deployed {
            Deployed::Running(worker) => worker.spec().source == *source && worker.watched_at(told),
            Deployed::Idle { .. } => false,
        })
    }
}
