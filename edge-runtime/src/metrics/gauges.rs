//! Gauges and counters of the journal and of the effects spool.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry};

/// Registers `metric` and returns it.
pub(super) fn register<M: Metric + Clone>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    metric: M,
) -> M {
    registry.register(name, help, metric.clone());
    metric
}

#[derive(Debug, Default)]
pub(super) struct EffectGauges {
    pub(super) waiting: Gauge<u64, AtomicU64>,
    pub(super) waiting_bytes: Gauge<u64, AtomicU64>,
    pub(super) taken: Counter,
    pub(super) refused: Counter,
    pub(super) done: Counter,
    pub(super) failed: Counter,
}

#[derive(Debug, Default)]
pub(super) struct JournalGauges {
    pub(super) last_seq: Gauge<u64, AtomicU64>,
    pub(super) first_seq: Gauge<u64, AtomicU64>,
    pub(super) records: Gauge<u64, AtomicU64>,
    pub(super) bytes: Gauge<u64, AtomicU64>,
    pub(super) disk_bytes: Gauge<u64, AtomicU64>,
    pub(super) appended: Counter,
    pub(super) failed: Counter,
    pub(super) dropped: Counter,
    pub(super) reviews_waiting: Gauge<u64, AtomicU64>,
    pub(super) reviews_given_up: Gauge<u64, AtomicU64>,
    pub(super) assessments: Counter,
    pub(super) media_bytes: Gauge<u64, AtomicU64>,
    pub(super) media_dropped: Counter,
}

impl EffectGauges {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let own = registry.sub_registry_with_prefix("effects");
        let Self {
            waiting,
            waiting_bytes,
            taken,
            refused,
            done,
            failed,
        } = Self::default();
        Self {
            waiting: register(own, "waiting", "Effects that wait for the agent", waiting),
            waiting_bytes: register(own, "waiting_bytes", "Bytes of these", waiting_bytes),
            taken: register(own, "taken", "Effects accepted from steps", taken),
            refused: register(
                own,
                "refused",
                "Effects that were not allowed or did not fit",
                refused,
            ),
            done: register(own, "done", "Effects executed", done),
            failed: register(own, "failed", "Effects given up", failed),
        }
    }
}

impl JournalGauges {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let own = registry.sub_registry_with_prefix("journal");
        let new = Self::default();
        Self {
            last_seq: register(own, "last_seq", "Number of the last record", new.last_seq),
            first_seq: register(
                own,
                "first_seq",
                "Number from which no record is missing",
                new.first_seq,
            ),
            records: register(own, "records", "Records in the journal", new.records),
            bytes: register(own, "bytes", "Bytes of these records", new.bytes),
            disk_bytes: register(
                own,
                "disk_bytes",
                "Bytes of the journal's files",
                new.disk_bytes,
            ),
            appended: register(own, "appended", "Records appended", new.appended),
            failed: register(own, "failed", "Failed appends", new.failed),
            dropped: register(own, "dropped", "Records deleted by retention", new.dropped),
            reviews_waiting: register(
                own,
                "reviews_waiting",
                "Events that wait for a person",
                new.reviews_waiting,
            ),
            reviews_given_up: register(
                own,
                "reviews_given_up",
                "Events that left the queue of reviews without an answer",
                new.reviews_given_up,
            ),
            assessments: register(
                own,
                "assessments",
                "Assessments recorded, by people and second opinions",
                new.assessments,
            ),
            media_bytes: register(own, "media_bytes", "Bytes of media", new.media_bytes),
            media_dropped: register(
                own,
                "media_dropped",
                "Media deleted by retention",
                new.media_dropped,
            ),
        }
    }
}
