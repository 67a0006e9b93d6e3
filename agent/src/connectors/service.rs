//! The task that executes effects: lists them at the runtime, runs them, reports their outcomes.
//!
//! It runs in parallel to the agent's loop and needs no broker. Invariants:
//! - A waiting effect takes only its number and lane in memory; its contents are fetched last.
//! - A stop waits [`STOP_TIMEOUT`] for active effects. An interrupted effect is executed again
//!   after the next start.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use watchkeeper_assistant::trace::Trace;
use watchkeeper_contract::problem::ProblemCode;
use watchkeeper_contract::spool::{EffectNumber, EffectOutcome, MAX_EFFECTS_WAIT_S, WaitingEffect};

use super::Executor;
use super::fault::Fault;
use super::queue::{Input, Limits, ListedEffect, Output, Queue};
use crate::background::BackgroundTask;
use crate::future_slot::sleep_until;
use watchkeeper_client::backoff::Backoff;
use watchkeeper_client::clock::{age, wall_now};
use watchkeeper_client::{ClientError, RuntimeClient};

/// First pause after a failed request to the runtime.
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_CEILING: Duration = Duration::from_secs(10);
/// How long active effects may take when the agent stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// Starts the task. Once stopped it starts no more effects and waits for active ones,
/// [`STOP_TIMEOUT`] at most.
#[must_use]
pub fn spawn(
    client: RuntimeClient,
    executor: Executor,
    trace: Trace,
    limits: Limits,
) -> BackgroundTask {
    let work = EffectTask {
        client,
        executor: Arc::new(executor),
        trace,
        queue: Queue::new(limits, fastrand::u64(..)),
        tasks: JoinSet::new(),
        after: EffectNumber(0),
        backoff: Backoff::new(RETRY_FIRST, RETRY_CEILING, fastrand::u64(..)),
        is_lost: false,
    };
    BackgroundTask::spawn("effects", |stopped| work.run(stopped))
}

type Listed = Result<Vec<WaitingEffect>, ClientError>;

struct EffectTask {
    client: RuntimeClient,
    executor: Arc<Executor>,
    trace: Trace,
    queue: Queue,
    tasks: JoinSet<Input>,
    /// Highest number that was listed.
    after: EffectNumber,
    backoff: Backoff,
    /// Whether the last request to the runtime failed.
    is_lost: bool,
}

impl EffectTask {
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        let mut listing = self.list(Duration::ZERO);
        loop {
            let due = sleep_until(self.queue.deadline());
            let input = tokio::select! {
                biased;
                _ = &mut stopped => break,
                Some(joined) = self.tasks.join_next(), if !self.tasks.is_empty() => match joined {
                    Ok(input) => input,
                    // Only an abort: tasks catch their own panics.
                    Err(_) => continue,
                },
                listed = &mut listing => {
                    let (input, pause) = self.handle_listed(listed);
                    listing = self.list(pause);
                    input
                }
                () = due => Input::Tick,
            };
            self.feed(input);
        }
        let active = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_TIMEOUT, active).await.is_err() {
            tracing::info!("effects: interrupted by the stop; executed again after the next start");
        }
    }

    fn feed(&mut self, input: Input) {
        if input == Input::Restarted {
            // Aborts active tasks: their numbers are invalid now.
            self.tasks = JoinSet::new();
        }
        self.queue.handle(Instant::now(), input);
        while let Some(output) = self.queue.poll() {
            let client = self.client.clone();
            match output {
                Output::Execute(number) => {
                    let executor = Arc::clone(&self.executor);
                    let trace = self.trace.clone();
                    self.tasks.spawn(execute(client, executor, trace, number));
                }
                Output::Report(number, outcome) => {
                    // Reported during a stop too: only this task knows the outcome.
                    let trace = self.trace.clone();
                    self.tasks
                        .spawn(report_outcome(client, trace, number, outcome));
                }
            }
        }
    }

    /// Lists effects after [`Self::after`] once `pause` is over.
    fn list(&self, pause: Duration) -> BoxFuture<'static, Listed> {
        let (client, after) = (self.client.clone(), self.after);
        async move {
            tokio::time::sleep(pause).await;
            client.effects(after, MAX_EFFECTS_WAIT_S).await
        }
        .boxed()
    }

    /// Returns the queue's input, and the pause before the next list request.
    fn handle_listed(&mut self, listed: Listed) -> (Input, Duration) {
        let waiting = match listed {
            Ok(waiting) => waiting,
            Err(error) => {
                let is_renumbered = error
                    .problem()
                    .is_some_and(|p| p.code == ProblemCode::Conflict);
                if is_renumbered {
                    tracing::warn!(%error, "effects: new spool; listing from its start");
                    self.after = EffectNumber(0);
                    return (Input::Restarted, RETRY_FIRST);
                }
                // Only the first failure, or an unreachable runtime would fill the log.
                if !std::mem::replace(&mut self.is_lost, true) {
                    tracing::warn!(%error, "can't get the effects of workflows from the runtime; retrying");
                }
                return (Input::Tick, self.backoff.next_delay());
            }
        };
        if std::mem::take(&mut self.is_lost) {
            tracing::info!("got the effects of workflows from the runtime again");
        }
        self.backoff.reset();
        // A stopping runtime answers at once with an empty list.
        let pause = match waiting.is_empty() {
            true => RETRY_FIRST,
            false => Duration::ZERO,
        };
        let now = wall_now();
        let listed = waiting.into_iter().map(|waiting| {
            self.after = self.after.max(waiting.number);
            ListedEffect {
                number: waiting.number,
                lane: (waiting.pipeline, waiting.step),
                age: age(waiting.at, now),
            }
        });
        (Input::Listed(listed.collect()), pause)
    }
}

/// Fetches one effect, executes it and records that it was.
async fn execute(
    client: RuntimeClient,
    executor: Arc<Executor>,
    trace: Trace,
    number: EffectNumber,
) -> Input {
    let spooled = match client.effect(number).await {
        Ok(spooled) => spooled,
        Err(error) if error.is_not_found() => return Input::Gone(number),
        Err(error @ ClientError::Answer { .. }) => {
            // For instance an effect of a newer runtime that this version does not know.
            return Input::Finished(number, Err(Fault::permanent(error.to_string())));
        }
        Err(error) => {
            tracing::debug!(effect = number.0, %error, "effect can't be fetched; retrying");
            return Input::Unread(number);
        }
    };
    let what = spooled.effect.what();
    let outcome = AssertUnwindSafe(executor.execute(&spooled)).catch_unwind();
    let outcome = outcome
        .await
        .unwrap_or_else(|_| Err(Fault::transient("connector panicked")));
    match &outcome {
        Ok(()) => {
            tracing::debug!(effect = number.0, what, "effect executed");
            let details = json!({
                "effect": spooled.id, "pipeline": spooled.pipeline, "step": spooled.step,
                "sentence": format!("{what} of {} was sent or written", spooled.pipeline),
            });
            trace.note_or_log_in_background("effect", details).await;
        }
        Err(fault) => tracing::info!(
            effect = number.0, pipeline = %spooled.pipeline, step = spooled.step, what,
            retry = ?fault.retry, why = fault.why, "effect failed"
        ),
    }
    Input::Finished(number, outcome)
}

/// Reports the outcome of an effect to the runtime; retries until the runtime confirms or refuses
/// it. After a refusal the effect stays in the spool: the next start executes it again.
async fn report_outcome(
    client: RuntimeClient,
    trace: Trace,
    number: EffectNumber,
    outcome: EffectOutcome,
) -> Input {
    if let EffectOutcome::Failed { why } = &outcome {
        tracing::error!(effect = number.0, why, "effect given up");
        let details = json!({"number": number.0, "sentence": format!("given up: {why}")});
        trace
            .note_or_log_in_background("effect_failed", details)
            .await;
    }
    let mut backoff = Backoff::new(RETRY_FIRST, RETRY_CEILING, fastrand::u64(..));
    loop {
        match client.settle_effect(number, &outcome).await {
            Ok(()) => return Input::Reported(number),
            Err(error) if error.is_not_found() => return Input::Gone(number),
            Err(error) if error.is_final() => {
                tracing::error!(
                    effect = number.0, %error,
                    "the runtime refuses the outcome of an effect, which is executed again after \
                     the next start; install all programs in the same version"
                );
                return Input::Gone(number);
            }
            Err(error) => {
                tracing::debug!(effect = number.0, %error, "effect outcome not reported; retrying");
                tokio::time::sleep(backoff.next_delay()).await;
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use axum::http::StatusCode;
    use axum::routing::post;
    use axum::{Json, Router};
    use watchkeeper_config::SinksConfig;
    use watchkeeper_contract::problem::Problem;
    use watchkeeper_store::MemoryStore;

    use super::*;

    #[test]
    fn new_spool_is_listed_from_its_start() {
        let mut task = EffectTask {
            client: RuntimeClient::new("/none").unwrap(),
            executor: Arc::new(Executor::new(
                SinksConfig::default(),
                Arc::new(MemoryStore::new()),
            )),
            trace: Trace::new(std::path::Path::new("/none"), "agent"),
            queue: Queue::new(Limits::default(), 1),
            tasks: JoinSet::new(),
            after: EffectNumber(9),
            backoff: Backoff::new(RETRY_FIRST, RETRY_CEILING, 1),
            is_lost: false,
        };
        let problem = Problem::new(409, ProblemCode::Conflict, "the numbers begin again");
        let refused = Err(ClientError::Refused(Box::new(problem)));
        assert_eq!(task.handle_listed(refused).0, Input::Restarted);
        assert_eq!(task.after, EffectNumber(0));
        // Any other failure is only a pause: what was listed is not listed again.
        task.after = EffectNumber(9);
        let problem = Problem::new(503, ProblemCode::NotReady, "starting");
        let refused = Err(ClientError::Refused(Box::new(problem)));
        assert_eq!(task.handle_listed(refused).0, Input::Tick);
        assert_eq!(task.after, EffectNumber(9));
    }

    #[tokio::test]
    async fn refused_outcome_leaves_its_lane() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("runtime.sock");
        let listener = tokio::net::UnixListener::bind(&socket).unwrap();
        let refuse = || async {
            let problem = json!({"status": 422, "code": "invalid_request", "detail": "outcome"});
            (StatusCode::UNPROCESSABLE_ENTITY, Json(problem))
        };
        let router = Router::new().route("/v1/effects/{number}/outcome", post(refuse));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let client = RuntimeClient::new(socket).unwrap();
        let (trace, number) = (Trace::new(dir.path(), "agent"), EffectNumber(7));
        let end = report_outcome(client, trace, number, EffectOutcome::Done).await;
        assert_eq!(end, Input::Gone(number));
    }
}
