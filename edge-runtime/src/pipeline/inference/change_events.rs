//! Changes of back ends as events, metrics and members of the API.
//!
//! - An event begins with the build of a candidate and ends with the result. A back end that fails
//!   after the change makes another event, which ends at once.
//! - [`OpenChanges`] is sans-IO: reports go in, records come out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use watchkeeper_contract::event::{EventBody, Phase};
use watchkeeper_contract::id::EventId;
use watchkeeper_contract::model::{BackendChange, BackendChangeResult, BackendChangeState};
use watchkeeper_contract::rule::Severity;
use watchkeeper_detect::change::ChangeReporter;
use watchkeeper_detect::{ChangeReport, ChangeState};

use crate::boot::Boot;
use crate::metrics::Metrics;
use crate::pipeline::box_event::{BoxRecord, box_event};
use crate::pipeline::recorder::Recorder;

/// Nice value of the thread that compares a candidate.
const COMPARISON_NICE: i32 = 10;

/// The change as the API shows it.
#[must_use]
pub fn change_of(report: ChangeReport) -> BackendChange {
    BackendChange {
        model: report.model,
        from: report.from.to_owned(),
        to: report.to.to_owned(),
        state: match report.state {
            ChangeState::Building { share } => BackendChangeState::Building { share },
            ChangeState::Comparing {
                agreed,
                wanted,
                needs_objects,
            } => BackendChangeState::Comparing {
                agreed,
                wanted,
                needs_objects,
            },
            ChangeState::Agreed => BackendChangeState::Agreed,
            ChangeState::Swapped => BackendChangeState::Swapped,
            ChangeState::Refused { why } => BackendChangeState::Refused { message: why },
            ChangeState::Failed { why } => BackendChangeState::Failed { message: why },
            ChangeState::Reverted { why } => BackendChangeState::Reverted { message: why },
            ChangeState::Cancelled => BackendChangeState::Cancelled,
        },
    }
}

fn result_of(state: &ChangeState) -> Option<BackendChangeResult> {
    match state {
        ChangeState::Building { .. } | ChangeState::Comparing { .. } | ChangeState::Agreed => None,
        ChangeState::Swapped => Some(BackendChangeResult::Swapped),
        ChangeState::Refused { .. } => Some(BackendChangeResult::Refused),
        ChangeState::Failed { .. } => Some(BackendChangeResult::Failed),
        ChangeState::Reverted { .. } => Some(BackendChangeResult::Reverted),
        ChangeState::Cancelled => Some(BackendChangeResult::Cancelled),
    }
}

/// One sentence about a change.
fn describe(report: &ChangeReport) -> String {
    let ChangeReport {
        model,
        from,
        to,
        state,
    } = report;
    let remedy = format!("to use {from} only, set runtime.inference.backend = \"{from}\"");
    match state {
        ChangeState::Building { .. } | ChangeState::Comparing { .. } | ChangeState::Agreed => {
            format!("{to} is prepared for model {model} in the background; {from} serves")
        }
        ChangeState::Swapped => format!("model {model} changed from {from} to {to}"),
        ChangeState::Refused { why } => {
            format!("model {model} stays on {from}: {to} was refused, because {why}; {remedy}")
        }
        ChangeState::Failed { why } => {
            format!("model {model} stays on {from}: {to} failed: {why}; {remedy}")
        }
        ChangeState::Reverted { why } => {
            format!("model {model} is back on {from}: {to} failed: {why}; {remedy}")
        }
        ChangeState::Cancelled => {
            format!(
                "model {model} stays on {from}: no pipeline uses it any more, or the runtime stops"
            )
        }
    }
}

fn severity(result: Option<BackendChangeResult>) -> Severity {
    match result {
        None | Some(BackendChangeResult::Swapped | BackendChangeResult::Cancelled) => {
            Severity::Info
        }
        Some(
            BackendChangeResult::Refused
            | BackendChangeResult::Failed
            | BackendChangeResult::Reverted,
        ) => Severity::Warning,
    }
}

/// The changes whose event has begun and not ended.
#[derive(Debug, Default)]
struct OpenChanges(BTreeMap<(String, &'static str), EventId>);

impl OpenChanges {
    /// Processes a report; returns the records to be stored.
    fn observe(
        &mut self,
        report: &ChangeReport,
        new_id: &mut dyn FnMut() -> EventId,
    ) -> Vec<BoxRecord> {
        let key = (report.model.clone(), report.to);
        let result = result_of(&report.state);
        let open = self.0.remove(&key);
        let id = open.unwrap_or_else(new_id);
        let record = |phase, result| BoxRecord {
            id,
            phase,
            body: EventBody::BackendChange {
                model: report.model.clone(),
                from: report.from.to_owned(),
                to: report.to.to_owned(),
                result,
                message: describe(report),
            },
        };
        let begin = open.is_none().then(|| record(Phase::New, None));
        let end = result.map(|result| record(Phase::End, Some(result)));
        if result.is_none() {
            self.0.insert(key, id);
        }
        begin.into_iter().chain(end).collect()
    }
}

/// Sends reports of changes to the recorder and the metrics.
pub struct ChangeEvents {
    recorder: Recorder,
    metrics: Arc<Metrics>,
    boot: Boot,
    /// Set when the daemon stops.
    is_stopping: Arc<AtomicBool>,
    open: Mutex<OpenChanges>,
}

impl ChangeEvents {
    #[must_use]
    pub fn new(
        recorder: Recorder,
        metrics: Arc<Metrics>,
        boot: Boot,
        is_stopping: Arc<AtomicBool>,
    ) -> Self {
        Self {
            recorder,
            metrics,
            boot,
            is_stopping,
            open: Mutex::default(),
        }
    }
}

impl ChangeReporter for ChangeEvents {
    fn report(&self, report: &ChangeReport) {
        let message = describe(report);
        let result = result_of(&report.state);
        match severity(result) {
            Severity::Info => tracing::info!("{message}"),
            Severity::Warning | Severity::Critical => tracing::warn!("{message}"),
        }
        if let Some(result) = result {
            self.metrics
                .count_backend_change(&report.model, report.to, result.name());
        }
        let records = self.open.lock().observe(report, &mut EventId::generate);
        for record in records {
            let mut event = box_event(record, &self.boot);
            event.severity = severity(result);
            if !self.recorder.report(event) {
                tracing::error!("the recorder has stopped; an event is lost");
            }
        }
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    fn lower_priority(&self) {
        if let Err(error) = rustix::process::setpriority_process(None, COMPARISON_NICE) {
            tracing::debug!(%error, "a comparison runs at the normal priority");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(state: ChangeState) -> ChangeReport {
        ChangeReport {
            model: "yolox-nano".to_owned(),
            from: "rten",
            to: "ort",
            state,
        }
    }

    fn phases(states: impl IntoIterator<Item = ChangeState>) -> Vec<(u128, Phase, String)> {
        let (mut open, mut ids) = (OpenChanges::default(), 0);
        let mut new_id = || {
            ids += 1;
            EventId(ulid::Ulid(ids))
        };
        let records = states
            .into_iter()
            .flat_map(|state| open.observe(&report(state), &mut new_id));
        records
            .map(|record| match record.body {
                EventBody::BackendChange { message, .. } => (record.id.0.0, record.phase, message),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn change_is_one_event_and_its_failure_afterwards_another() {
        let why = || "the device is gone".to_owned();
        let records = phases([
            ChangeState::Building { share: 0.0 },
            ChangeState::Swapped,
            ChangeState::Reverted { why: why() },
        ]);
        let kinds: Vec<(u128, Phase)> =
            records.iter().map(|(id, phase, _)| (*id, *phase)).collect();
        let expected = [
            (1, Phase::New),
            (1, Phase::End),
            (2, Phase::New),
            (2, Phase::End),
        ];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn refused_candidate_is_described_with_reason_and_remedy() {
        let why = "it finds a `cat` of score 0.80".to_owned();
        let records = phases([
            ChangeState::Building { share: 0.0 },
            ChangeState::Refused { why },
        ]);
        assert_eq!(
            records[1].2,
            "model yolox-nano stays on rten: ort was refused, because it finds a `cat` of score \
             0.80; to use rten only, set runtime.inference.backend = \"rten\""
        );
    }
}
