//! Executes one operation through the runtime's client, and finds its outcome without an answer.
//!
//! - All operations may be repeated. A snapshot is taken again, an existing deployment is left
//!   unchanged, a stop finds nothing to delete, an answer is recorded once.
//! - A command fails only if the runtime refused it, or was away for [`Deadlines::away`] before the
//!   operation was sent. Or if it did not show the effect within [`Deadlines::aftermath`].
//! - All waits are bounded, so the next command gets its turn.
//! - An operation that the runtime may still execute is polled, not sent a second time.
//! - A snapshot is not polled: pictures can't be told apart. So one without an answer has failed,
//!   although it may have been taken.
//!
//! [`Deadlines::away`]: watchkeeper_client::Deadlines::away
//! [`Deadlines::aftermath`]: watchkeeper_client::Deadlines::aftermath

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use watchkeeper_contract::assessment::Via;
use watchkeeper_contract::command::Operation;
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::pipeline::{PipelineSpec, PipelineState, PipelineStatus};

use super::CommandKey;
use watchkeeper_assistant::reviews::PersonAnswer;
use watchkeeper_client::backoff::Backoff;
use watchkeeper_client::{ClientError, RuntimeClient};

const RETRY_FIRST: Duration = Duration::from_millis(250);
const RETRY_CEILING: Duration = Duration::from_secs(4);

#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub key: CommandKey,
    /// Result of the operation, or why it failed.
    pub result: Result<Value, String>,
}

/// Executes `operation` for command `key`. It waits for a runtime that restarts; a refusal is
/// final. `resumed`: a run before a restart of the agent may have executed it, partly or fully.
pub async fn execute(
    runtime: RuntimeClient,
    key: CommandKey,
    operation: Operation,
    resumed: bool,
    seed: u64,
) -> Outcome {
    let mut work = Work {
        runtime: &runtime,
        operation: &operation,
        backoff: Backoff::new(RETRY_FIRST, RETRY_CEILING, seed),
    };
    let result = work.carry_out(resumed).await;
    Outcome { key, result }
}

struct Work<'a> {
    runtime: &'a RuntimeClient,
    operation: &'a Operation,
    backoff: Backoff,
}

impl Work<'_> {
    async fn carry_out(&mut self, resumed: bool) -> Result<Value, String> {
        let mut may_be_done = resumed;
        let mut was_broken = false;
        let mut give_up = None;
        loop {
            let error = match self.find_done(may_be_done).await {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => match self.begin(may_be_done).await {
                    Ok(answer) => return Ok(answer),
                    Err(timeout @ ClientError::Timeout { .. }) => {
                        return self.await_effect(&timeout).await;
                    }
                    Err(error @ ClientError::Broken { .. }) => {
                        // The connection broke, so the progress is unknown; any other failure
                        // started nothing. The runtime was there until now, so its time away starts
                        // here. Only once, or a runtime that crashes on this command would be
                        // asked forever.
                        may_be_done = true;
                        if !std::mem::replace(&mut was_broken, true) {
                            give_up = None;
                        }
                        error
                    }
                    Err(error) => error,
                },
                Err(error) => error,
            };
            if !error.is_transient() {
                return Err(error.in_full());
            }
            let now = Instant::now();
            let give_up = *give_up.get_or_insert(now + self.runtime.deadlines().away);
            let pause = self.backoff.next_delay();
            if now + pause >= give_up {
                return match may_be_done {
                    true => self.await_effect(&error).await,
                    false => Err(error.in_full()),
                };
            }
            sleep(pause).await;
        }
    }

    /// Result of an operation that may have been executed already.
    async fn find_done(&self, may_be_done: bool) -> Result<Option<Value>, ClientError> {
        match self.operation {
            Operation::Deploy { pipeline } if may_be_done => {
                let deployed_before = find_deployed(self.runtime, pipeline).await?;
                // A second deployment would reset the pipeline's counts and end its visits.
                let works = deployed_before.filter(|status| !has_failed(status));
                Ok(works.as_ref().map(deployed))
            }
            Operation::Deploy { .. }
            | Operation::Snapshot { .. }
            | Operation::Stop { .. }
            | Operation::Review { .. } => Ok(None),
        }
    }

    async fn begin(&self, may_be_done: bool) -> Result<Value, ClientError> {
        match self.operation {
            Operation::Snapshot { source } => {
                let media = self.runtime.snapshot(source).await?;
                // Plain data with string keys: serde_json can't fail on it.
                Ok(serde_json::to_value(media).unwrap_or_default())
            }
            Operation::Deploy { pipeline } => {
                Ok(deployed(&self.runtime.put_pipeline(pipeline).await?))
            }
            Operation::Stop { pipeline } => self.stop(pipeline, may_be_done).await,
            Operation::Review {
                event,
                answer,
                label,
                note,
                by,
            } => {
                let answer = PersonAnswer {
                    answer: *answer,
                    label: label.clone(),
                    fields: BTreeMap::new(),
                    note: note.clone(),
                    name: by.clone(),
                };
                let request = answer.into_request(Via::Mqtt);
                let record = self.runtime.assess(*event, &request).await?;
                Ok(json!({"event": record.seq, "verdict": record.decision.verdict}))
            }
        }
    }

    async fn stop(&self, pipeline: &PipelineId, may_be_done: bool) -> Result<Value, ClientError> {
        match self.runtime.delete_pipeline(pipeline).await {
            Err(error) if !(may_be_done && error.is_not_found()) => Err(error),
            Ok(()) | Err(_) => Ok(json!({ "pipeline": pipeline })),
        }
    }

    /// Polls for the effect of an operation that got no answer but may still be executing. `cause`
    /// explains the missing answer.
    async fn await_effect(&mut self, cause: &ClientError) -> Result<Value, String> {
        if let Operation::Snapshot { .. } = self.operation {
            return Err(cause.in_full());
        }
        let aftermath = self.runtime.deadlines().aftermath;
        let mut failed = None;
        let polled = timeout(aftermath, self.poll_effect(&mut failed)).await;
        match (polled, failed) {
            (Ok(result), _) => result,
            (Err(_), Some(status)) => Ok(deployed(&status)),
            (Err(_), None) => Err(format!(
                "{cause}; it was not done {} s later either",
                aftermath.as_secs()
            )),
        }
    }

    /// Polls until the effect shows. A matching pipeline that `failed` counts too, but only at the
    /// end of the wait: it may be the one before this deployment.
    async fn poll_effect(&mut self, failed: &mut Option<PipelineStatus>) -> Result<Value, String> {
        loop {
            sleep(self.backoff.next_delay()).await;
            let found = match self.operation {
                // The runtime answers it after the first stop; then the pipeline is gone.
                Operation::Stop { pipeline } => self.stop(pipeline, true).await.map(Some),
                Operation::Deploy { pipeline } => {
                    find_deployed(self.runtime, pipeline).await.map(|status| {
                        *failed = status.clone().filter(has_failed);
                        let works = status.filter(|_| failed.is_none());
                        works.as_ref().map(deployed)
                    })
                }
                // The same answer again is recorded once.
                Operation::Review { .. } => self.begin(true).await.map(Some),
                Operation::Snapshot { .. } => Ok(None),
            };
            match found {
                Ok(Some(answer)) => return Ok(answer),
                Err(error) if !error.is_transient() => return Err(error.to_string()),
                Ok(None) | Err(_) => {}
            }
        }
    }
}

fn deployed(status: &PipelineStatus) -> Value {
    let state = serde_json::to_value(&status.state).unwrap_or_default();
    json!({ "pipeline": status.spec.id, "state": state["state"] })
}

/// Status of the pipeline with the spec `wanted`, working or failed.
async fn find_deployed(
    runtime: &RuntimeClient,
    wanted: &PipelineSpec,
) -> Result<Option<PipelineStatus>, ClientError> {
    match runtime.pipeline(&wanted.id).await {
        Ok(status) => {
            let is_as_asked = match status.state {
                PipelineState::Starting
                | PipelineState::Running
                | PipelineState::Ended
                | PipelineState::Failed { .. } => true,
                PipelineState::Paused => wanted.paused,
                PipelineState::Stopped => false,
            };
            Ok(Some(status).filter(|status| is_as_asked && status.spec == *wanted))
        }
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn has_failed(status: &PipelineStatus) -> bool {
    matches!(status.state, PipelineState::Failed { .. })
}
