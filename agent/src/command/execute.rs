//! Carries out one operation through the runtime's client.
//!
//! Each of the three may be repeated: a snapshot is taken again, a deployment that is there already is left as it is, a stop
//! finds nothing left.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use watchkeeper_contract::command::Operation;
use watchkeeper_contract::pipeline::{PipelineSpec, PipelineState, PipelineStatus};

use super::CommandKey;
use crate::backoff::Backoff;
use crate::runtime_client::{ClientError, RuntimeClient};

/// How long a runtime that is away or silent is waited for, whatever the single attempts take. The command fails after it, and what comes
/// behind it gets its turn.
pub const PATIENCE: Duration = Duration::from_secs(30);
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

/// Does `operation` for command `key`. A runtime that is restarting is waited for; a refusal is final.
pub async fn execute(
    runtime: RuntimeClient,
    key: CommandKey,
    operation: Operation,
    resumed: bool,
    seed: u64,
) -> Outcome {
    let mut backoff = Backoff::new(RETRY_FIRST, RETRY_CEILING, seed);
    let give_up = Instant::now() + PATIENCE;
    // After an attempt that broke half-way, its work may be done.
    let mut may_be_done = resumed;
    loop {
        let error = match attempt(&runtime, &operation, may_be_done).await {
            Ok(result) => {
                return Outcome {
                    key,
                    result: Ok(result),
                };
            }
            Err(error) => error,
        };
        let pause = backoff.next_delay();
        if !error.is_transient() || Instant::now() + pause >= give_up {
            let reason = error.to_string();
            return Outcome {
                key,
                result: Err(reason),
            };
        }
        may_be_done = true;
        tokio::time::sleep(pause).await;
    }
}

async fn attempt(
    runtime: &RuntimeClient,
    operation: &Operation,
    may_be_done: bool,
) -> Result<Value, ClientError> {
    match operation {
        Operation::Snapshot { source } => {
            let media = runtime.snapshot(source).await?;
            // Plain data with string keys: serde_json can't fail on it.
            Ok(serde_json::to_value(media).unwrap_or_default())
        }
        Operation::Deploy { pipeline } => {
            let there = if may_be_done {
                find_deployed(runtime, pipeline).await?
            } else {
                None
            };
            let status = match there {
                Some(status) => status,
                None => runtime.put_pipeline(pipeline).await?,
            };
            let state = serde_json::to_value(status.state).unwrap_or_default();
            Ok(json!({ "pipeline": status.spec.id, "state": state["state"] }))
        }
        Operation::Stop { pipeline } => match runtime.delete_pipeline(pipeline).await {
            Ok(()) => Ok(json!({ "pipeline": pipeline })),
            Err(error) if may_be_done && error.is_not_found() => {
                Ok(json!({ "pipeline": pipeline }))
            }
            Err(error) => Err(error),
        },
    }
}

/// The pipeline as it was asked for, where it is there and works: to put it again would begin its counts anew and end the
/// visits of everybody it sees.
async fn find_deployed(
    runtime: &RuntimeClient,
    wanted: &PipelineSpec,
) -> Result<Option<PipelineStatus>, ClientError> {
    match runtime.pipeline(&wanted.id).await {
        Ok(status) => {
            let is_as_asked = match status.state {
                PipelineState::Starting | PipelineState::Running | PipelineState::Ended => true,
                PipelineState::Paused => wanted.paused,
                PipelineState::Failed { .. } => false,
            };
            Ok(Some(status).filter(|status| is_as_asked && status.spec == *wanted))
        }
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
