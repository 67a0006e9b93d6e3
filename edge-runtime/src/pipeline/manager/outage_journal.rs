//! Journals the notices of sources as outages, on a thread.
//!
//! - The records of one outage keep their order.
//! - Notices of a source that was replaced or deleted are dropped.
//! - A decoder on the processor in place of hardware is a separate event, without duration.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use watchkeeper_contract::event::{EventBody, Phase};
use watchkeeper_contract::id::{EventId, PipelineId, SourceId};
use watchkeeper_contract::time::Wall;

use super::deployed::Deployed;
use super::open_outages::{Notice, Outages, blindness_message};
use super::source_table::Sources;
use crate::boot::Boot;
use crate::capture::notices::{NoticeReceiver, SourceNotice, StampedNotice};
use crate::pipeline::box_event::{BoxRecord, box_event};
use crate::pipeline::recorder::Recorder;

/// The thread that turns notices of sources into events.
pub(super) struct OutageJournal {
    pub(super) outages: Arc<Mutex<Outages>>,
    pub(super) sources: Arc<Sources>,
    pub(super) pipelines: Arc<Mutex<BTreeMap<PipelineId, Deployed>>>,
    pub(super) recorder: Recorder,
    pub(super) boot: Boot,
}

impl OutageJournal {
    /// Runs until all senders are gone. A panic loses only the notice that caused it.
    pub(super) fn run_until_closed(&self, notices: &NoticeReceiver) {
        while catch_unwind(AssertUnwindSafe(|| self.run(notices))).is_err() {
            tracing::error!(
                "internal error: a notice of a source is not journaled; please report it with the log"
            );
        }
    }

    fn run(&self, notices: &NoticeReceiver) {
        while let Some(StampedNotice {
            source,
            run,
            noticed_at,
            notice,
        }) = notices.recv()
        {
            let at = notice.at();
            let notice = match notice {
                SourceNotice::DecoderFallback { element, why, .. } => {
                    if !self.report_fallback(&source, run, (element, why), at, noticed_at) {
                        return;
                    }
                    continue;
                }
                SourceNotice::Lost { cause, message, .. } => Notice::Lost { cause, message },
                SourceNotice::Blind { kind, .. } => Notice::Blind {
                    how: kind,
                    message: blindness_message(kind, &self.places(&source)),
                },
                SourceNotice::Forgotten { .. } => Notice::Forgotten,
                SourceNotice::Back { lasted, .. } | SourceNotice::Seeing { lasted, .. } => {
                    Notice::Seeing { lasted }
                }
            };
            let mut outages = self.outages.lock();
            // Both checked under the lock: a source is replaced under it, and a pipeline that
            // begins to watch meanwhile finds what was noticed before.
            if self.sources.number_of(&source) != Some(run) {
                continue;
            }
            let is_watched = self.is_watched(&source, noticed_at);
            let record = if is_watched {
                outages.notice(noticed_at, &source, notice, &mut EventId::generate)
            } else {
                outages.notice_unwatched(noticed_at, &source, notice, &mut EventId::generate)
            };
            // Under the lock, so that records keep their order; a report never waits.
            if let Some(record) = record
                && !self.report(record, &source, at, noticed_at)
            {
                return;
            }
        }
    }

    /// Reports a record of a source; returns false once the recorder is gone.
    fn report(&self, record: BoxRecord, source: &SourceId, at: Wall, noticed_at: Instant) -> bool {
        let mut event = box_event(record, &self.boot);
        event.source = Some(source.clone());
        // The time of the fault: the journal may have waited for the disk.
        event.at = at;
        event.mono_ms = self.boot.mono_ms(noticed_at);
        self.recorder.report(event)
    }

    /// Reports that the processor decodes a source, by which element and why. The event has no
    /// duration.
    fn report_fallback(
        &self,
        source: &SourceId,
        run: u64,
        (element, message): (String, String),
        at: Wall,
        noticed_at: Instant,
    ) -> bool {
        if self.sources.number_of(source) != Some(run) {
            return true;
        }
        let id = EventId::generate();
        let body = EventBody::DecoderFallback { element, message };
        [Phase::New, Phase::End].into_iter().all(|phase| {
            let body = body.clone();
            self.report(BoxRecord::new(id, phase, body), source, at, noticed_at)
        })
    }

    /// The lines and zones that pipelines count on a source.
    fn places(&self, source: &SourceId) -> Vec<String> {
        let table = self.pipelines.lock();
        let running = table.values().filter_map(Deployed::running);
        let on_source = running.filter(|worker| worker.spec().source == *source);
        let workers: Vec<_> = on_source.cloned().collect();
        drop(table);
        let places = workers.iter().flat_map(|worker| {
            let (results, id) = (worker.results(), worker.spec().id.clone());
            let lines = results.lines.into_keys().map(|name| format!("line {name}"));
            let zones = results.zones.into_keys().map(|name| format!("zone {name}"));
            lines
                .chain(zones)
                .map(move |place| format!("{place} of pipeline {id}"))
        });
        places.collect()
    }

    /// Whether a pipeline took frames of the source at that time. The pipelines of a source that
    /// failed for good may have ended before its notice is processed.
    fn is_watched(&self, source: &SourceId, noticed_at: Instant) -> bool {
        let table = self.pipelines.lock();
        let mut running = table.values().filter_map(Deployed::running);
        running.any(|worker| worker.spec().source == *source && worker.watched_at(noticed_at))
    }
}
