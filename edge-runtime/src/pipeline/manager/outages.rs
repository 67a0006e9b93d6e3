//! Outages that begin and end with changes of sources and pipelines.
//!
//! - `outages` is locked before the table of sources, and until the record is queued: records of
//!   one source have the order of its changes.
//! - Not here: which record a change makes (`open_outages`), outages that a source notices itself
//!   (`outage_journal`).

use std::time::Instant;

use watchkeeper_contract::id::{EventId, PipelineId, SourceId};

use super::Manager;
use super::open_outages::Notice;
use crate::capture::source::SourceHandle;
use crate::pipeline::box_event::{BoxRecord, box_event};

impl Manager {
    /// Removes a source from the table, or replaces it by `next`, and ends its outage. The old
    /// source is closed; dropping it waits for its thread.
    pub(super) fn replace_source(
        &self,
        id: &SourceId,
        next: Option<SourceHandle>,
    ) -> Option<SourceHandle> {
        // Locked throughout: the outage of the old source ends before any notice of the new one.
        let mut outages = self.outages.lock();
        let old = self.parts.metrics.count_replaced(id, || {
            let mut table = self.sources.table.write();
            let old = match next {
                Some(next) => table.insert(id.clone(), next),
                None => table.remove(id),
            }?;
            drop(table);
            old.close();
            let counters = old.status().counters;
            Some((old, counters))
        });
        let record = outages.notice(
            Instant::now(),
            id,
            Notice::Forgotten,
            &mut EventId::generate,
        );
        self.report_outage(id, record);
        old
    }

    /// Turns a fault of the source that only a subscriber noticed into an outage, when a pipeline
    /// begins to watch.
    pub(super) fn begin_watching(&self, id: &PipelineId) {
        let Ok(deployed) = self.handle(id) else {
            return;
        };
        let source = deployed.spec().source.clone();
        let mut outages = self.outages.lock();
        let record = outages.begin_watching(Instant::now(), &source, &mut EventId::generate);
        self.report_outage(&source, record);
    }

    fn report_outage(&self, source: &SourceId, record: Option<BoxRecord>) {
        if let Some(record) = record {
            let mut event = box_event(record, &self.parts.boot);
            event.source = Some(source.clone());
            self.parts.recorder.report(event);
        }
    }
}
