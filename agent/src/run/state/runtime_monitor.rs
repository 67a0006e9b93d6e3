//! Last known state of the runtime, and the time of the next query.
//!
//! Telemetry is sent at its own, longer interval; without a session it waits in a bounded ring.

use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use watchkeeper_client::RuntimeClient;

use super::retained_sources::RetainedSources;
use super::runtime_status::{StatusQuery, StatusReport, query_status};
use crate::fleet::outbox::TelemetryRing;
use crate::future_slot::take_output;

/// Interval of status queries.
const STATUS_INTERVAL: Duration = Duration::from_secs(2);

/// The runtime's state as it reported it last.
pub(crate) struct RuntimeMonitor {
    pub(crate) sources: RetainedSources,
    pub(crate) version: Option<String>,
    /// When the runtime stopped answering, in milliseconds since 1970.
    pub(crate) silent_since_ms: Option<i64>,
    /// Telemetry that waits for a session.
    pub(crate) ring: TelemetryRing,
    query: Option<BoxFuture<'static, Box<StatusReport>>>,
    status_due: Instant,
    telemetry_interval: Duration,
    telemetry_due: Instant,
}

impl RuntimeMonitor {
    pub(crate) fn new(
        sources: RetainedSources,
        ring: TelemetryRing,
        telemetry_interval: Duration,
        now: Instant,
    ) -> Self {
        Self {
            sources,
            version: None,
            silent_since_ms: None,
            ring,
            query: None,
            status_due: now,
            telemetry_interval,
            telemetry_due: now,
        }
    }

    /// When the next query is due.
    pub(crate) fn deadline(&self) -> Instant {
        self.status_due
    }

    /// Makes the next query due at once.
    pub(crate) fn query_soon(&mut self) {
        self.status_due = Instant::now();
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.status_due <= now
    }

    /// Schedules the next query and, where `wants_status`, starts one unless it runs already.
    pub(crate) fn start_query(
        &mut self,
        now: Instant,
        runtime: &RuntimeClient,
        wants_status: bool,
    ) {
        self.status_due = now + STATUS_INTERVAL;
        if wants_status && self.query.is_none() {
            let query = StatusQuery {
                with_pipelines: self.telemetry_due <= now,
            };
            self.query = Some(query_status(runtime.clone(), query).boxed());
        }
    }

    /// Waits for the query in progress. Dropping this future loses nothing.
    pub(crate) async fn report(&mut self) -> Box<StatusReport> {
        take_output(&mut self.query).await
    }

    /// Whether `report` is due as telemetry; the next one is due an interval later.
    pub(crate) fn take_telemetry_due(&mut self, now: Instant, report: &StatusReport) -> bool {
        let is_due = self.telemetry_due <= now && report.query.with_pipelines;
        if is_due {
            self.telemetry_due = now + self.telemetry_interval;
        }
        is_due
    }
}
