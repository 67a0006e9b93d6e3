//! Carries out one operation through the runtime's client, and finds out what became of it where the answer is missing.
//!
//! Each of the three may be repeated: a snapshot is taken again, a deployment that is there already is left as it is, a stop
//! finds nothing left.
//!
//! Invariants: a command is told to have failed only when the runtime refused it, was away for [`Deadlines::away`] before it could be begun,
//! or did not show for [`Deadlines::aftermath`] that it was done although it was begun. All of it is bounded, so that the next command gets
//! its turn. What the runtime may be at still is asked for and not begun a second time. A snapshot is not asked for: nobody could tell one
//! picture from another, so one without its answer has failed and may have been taken.
//!
//! [`Deadlines::away`]: watchkeeper_client::Deadlines::away
//! [`Deadlines::aftermath`]: watchkeeper_client::Deadlines::aftermath

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use watchkeeper_contract::command::Operation;
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::pipeline::{PipelineSpec, PipelineState, PipelineStatus};

use super::CommandKey;
use watchkeeper_client::backoff::Backoff;
use watchkeeper_client::{ClientError, RuntimeClient};

const RETRY_FIRST: Duration = Duration::from_millis(250);
const RETRY_CEILING: Duration = Duration::from_secs(4);

/// How an operation ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Which command.
    pub key: CommandKey,
    /// What it answers, or why it failed.
    pub result: Result<Value, String>,
}

/// Does `operation` for command `key`. A runtime that is restarting is waited for; a refusal is final. `resumed`: it may have been done, in
/// part or whole, before a restart of this process.
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
        let mut broke = false;
        let mut give_up = None;
        loop {
            let error = match self.find_done(may_be_done).await {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => match self.begin(may_be_done).await {
                    Ok(answer) => return Ok(answer),
                    Err(silence @ ClientError::Timeout { .. }) => {
                        return self.wait_on(&silence).await;
                    }
                    Err(error @ ClientError::Broken { .. }) => {
                        // The connection broke half-way: nobody knows how far it came. Any other failure began nothing. The runtime was there
                        // until now, so it is away from now on; only the first time, or one that dies of this command would be asked for ever.
                        may_be_done = true;
                        if !std::mem::replace(&mut broke, true) {
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
                    true => self.wait_on(&error).await,
                    false => Err(error.in_full()),
                };
            }
            sleep(pause).await;
        }
    }

    /// What is there of an operation that may have been done already, as its answer.
    async fn find_done(&self, may_be_done: bool) -> Result<Option<Value>, ClientError> {
        match self.operation {
            Operation::Deploy { pipeline } if may_be_done => {
                let there = find_deployed(self.runtime, pipeline).await?;
                // To put what works again would begin its counts anew and end the visits of everybody it sees.
                let works = there.filter(|status| !has_failed(status));
                Ok(works.as_ref().map(deployed))
            }
            Operation::Deploy { .. } | Operation::Snapshot { .. } | Operation::Stop { .. } => {
                Ok(None)
            }
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
        }
    }

    async fn stop(&self, pipeline: &PipelineId, may_be_done: bool) -> Result<Value, ClientError> {
        match self.runtime.delete_pipeline(pipeline).await {
            Err(error) if !(may_be_done && error.is_not_found()) => Err(error),
            Ok(()) | Err(_) => Ok(json!({ "pipeline": pipeline })),
        }
    }

    /// The runtime gave no answer and may be at it still: asks what became of it. `silence` is why.
    async fn wait_on(&mut self, silence: &ClientError) -> Result<Value, String> {
        if let Operation::Snapshot { .. } = self.operation {
            return Err(silence.in_full());
        }
        let patience = self.runtime.deadlines().aftermath;
        let mut failed = None;
        let told = timeout(patience, self.ask_after(&mut failed)).await;
        match (told, failed) {
            (Ok(told), _) => told,
            (Err(_), Some(there)) => Ok(deployed(&there)),
            (Err(_), None) => Err(format!(
                "{silence}; it was not done {} s later either",
                patience.as_secs()
            )),
        }
    }

    /// Asks until there is an answer. A pipeline that was found as it was asked for but `failed` is done too, only not known to be this
    /// command's: until the runtime has put the new one in its place, the one before it is shown.
    async fn ask_after(&mut self, failed: &mut Option<PipelineStatus>) -> Result<Value, String> {
        loop {
            sleep(self.backoff.next_delay()).await;
            let found = match self.operation {
                // It is answered when its turn comes, after the first one; then there is nothing left or it is stopped.
                Operation::Stop { pipeline } => self.stop(pipeline, true).await.map(Some),
                Operation::Deploy { pipeline } => {
                    find_deployed(self.runtime, pipeline).await.map(|there| {
                        *failed = there.clone().filter(has_failed);
                        let works = there.filter(|_| failed.is_none());
                        works.as_ref().map(deployed)
                    })
                }
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

/// What a deployment answers.
fn deployed(status: &PipelineStatus) -> Value {
    let state = serde_json::to_value(&status.state).unwrap_or_default();
    json!({ "pipeline": status.spec.id, "state": state["state"] })
}

/// The pipeline as it was asked for, where it is there, whether it works or failed.
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
