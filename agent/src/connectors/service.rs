//! The task that does effects: asks the runtime what waits, has it done, tells the runtime what came of it.
//!
//! It runs beside the agent's loop and needs no broker. Invariants: it keeps of an effect only its number while that waits, so the memory does not grow
//! with what is to be sent; whoever stops it waits for what is under way, for a while: what is cut off is done again by the next start.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use watchkeeper_contract::problem::ProblemCode;
use watchkeeper_contract::spool::{EffectNumber, EffectOutcome, MAX_EFFECTS_WAIT_S, WaitingEffect};

use super::Executor;
use super::fault::Fault;
use super::queue::{Input, Limits, ListedEffect, Output, Queue};
use watchkeeper_client::backoff::Backoff;
use watchkeeper_client::clock::{age, wall_now};
use watchkeeper_client::{ClientError, RuntimeClient};

/// First wait after the runtime did not answer.
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_CEILING: Duration = Duration::from_secs(10);
/// How long what is under way may take when the agent stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// The task. Dropping it stops nothing; see [`Service::stop`].
#[derive(Debug)]
pub struct Service {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Service {
    /// Starts it on the present runtime of tokio.
    #[must_use]
    pub fn spawn(client: RuntimeClient, executor: Executor, limits: Limits) -> Self {
        let (stop, stopped) = oneshot::channel();
        let work = EffectTask {
            client,
            executor: Arc::new(executor),
            queue: Queue::new(limits, fastrand::u64(..)),
            tasks: JoinSet::new(),
            after: EffectNumber(0),
            backoff: Backoff::new(RETRY_FIRST, RETRY_CEILING, fastrand::u64(..)),
            is_lost: false,
        };
        let task = tokio::spawn(work.run(stopped));
        Self { stop, task }
    }

    /// Ends when the task has ended, which it does by itself only where it is broken.
    pub async fn ended(&mut self) {
        if let Err(error) = (&mut self.task).await {
            tracing::error!(%error, "what does the effects of workflows died");
        }
    }

    /// Begins nothing new and waits for what is under way, a few seconds at most.
    pub async fn stop(self) {
        // A receiver that is gone means that it has ended.
        let Self { stop, mut task } = self;
        stop.send(()).ok();
        if let Err(error) = (&mut task).await {
            tracing::error!(%error, "what does the effects of workflows died");
        }
    }
}

type Listed = Result<Vec<WaitingEffect>, ClientError>;

struct EffectTask {
    client: RuntimeClient,
    executor: Arc<Executor>,
    queue: Queue,
    tasks: JoinSet<Input>,
    /// The last effect that was heard of.
    after: EffectNumber,
    backoff: Backoff,
    is_lost: bool,
}

impl EffectTask {
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        let mut listing = self.list(Duration::ZERO);
        loop {
            let deadline = self.queue.deadline();
            let due = async {
                match deadline {
                    Some(due) => tokio::time::sleep_until(due.into()).await,
                    None => std::future::pending().await,
                }
            };
            let input = tokio::select! {
                biased;
                _ = &mut stopped => break,
                Some(done) = self.tasks.join_next(), if !self.tasks.is_empty() => match done {
                    Ok(input) => input,
                    // Tasks catch their own panics and are aborted only by us.
                    Err(_) => continue,
                },
                listed = &mut listing => {
                    let (input, pause) = self.heard(listed);
                    listing = self.list(pause);
                    input
                }
                () = due => Input::Tick,
            };
            self.feed(input);
        }
        let rest = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_TIMEOUT, rest).await.is_err() {
            tracing::info!("effects that are under way are done again after the next start");
        }
    }

    fn feed(&mut self, input: Input) {
        if input == Input::Restarted {
            // Aborts them: their numbers are others' now.
            self.tasks = JoinSet::new();
        }
        self.queue.handle(Instant::now(), input);
        while let Some(output) = self.queue.poll() {
            let client = self.client.clone();
            match output {
                Output::Execute(number) => {
                    let executor = Arc::clone(&self.executor);
                    self.tasks.spawn(execute(client, executor, number));
                }
                Output::Settle(number, outcome) => {
                    // An outcome is told also by an agent that stops: nobody else knows it.
                    self.tasks.spawn(settle(client, number, outcome));
                }
            }
        }
    }

    /// Asks for more after a pause.
    fn list(&self, pause: Duration) -> BoxFuture<'static, Listed> {
        let (client, after) = (self.client.clone(), self.after);
        async move {
            tokio::time::sleep(pause).await;
            client.effects(after, MAX_EFFECTS_WAIT_S).await
        }
        .boxed()
    }

    /// What was listed, and how long to wait before the next question.
    fn heard(&mut self, listed: Listed) -> (Input, Duration) {
        let waiting = match listed {
            Ok(waiting) => waiting,
            Err(error) => {
                let is_another = error
                    .problem()
                    .is_some_and(|p| p.code == ProblemCode::Conflict);
                if is_another {
                    tracing::warn!(%error, "effects are counted from the beginning");
                    self.after = EffectNumber(0);
                    return (Input::Restarted, RETRY_FIRST);
                }
                // The first of a row; a runtime that is away would fill the log otherwise.
                if !std::mem::replace(&mut self.is_lost, true) {
                    tracing::warn!(%error, "what workflows want done can't be asked for, trying again");
                }
                return (Input::Tick, self.backoff.next_delay());
            }
        };
        if std::mem::take(&mut self.is_lost) {
            tracing::info!("what workflows want done is asked for again");
        }
        self.backoff.reset();
        // A runtime that is stopping answers at once that there is nothing.
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

/// Fetches an effect and does it.
async fn execute(client: RuntimeClient, executor: Arc<Executor>, number: EffectNumber) -> Input {
    let spooled = match client.effect(number).await {
        Ok(spooled) => spooled,
        Err(error) if error.is_not_found() => return Input::Gone(number),
        Err(error @ ClientError::Answer { .. }) => {
            // A newer runtime's word for something that this version can't do.
            return Input::Finished(number, Err(Fault::never(error.to_string())));
        }
        Err(error) => {
            tracing::debug!(effect = number.0, %error, "an effect can't be read");
            return Input::Unread(number);
        }
    };
    let what = spooled.effect.what();
    let done = AssertUnwindSafe(executor.execute(&spooled)).catch_unwind();
    let done = done
        .await
        .unwrap_or_else(|_| Err(Fault::later("what does it died")));
    match &done {
        Ok(()) => tracing::debug!(effect = number.0, what, "done"),
        Err(fault) => tracing::info!(
            effect = number.0, pipeline = %spooled.pipeline, step = spooled.step, what, retry = ?fault.retry, why = fault.why, "not done"
        ),
    }
    Input::Finished(number, done)
}

/// Tells the runtime what came of an effect, until it has heard it.
async fn settle(client: RuntimeClient, number: EffectNumber, outcome: EffectOutcome) -> Input {
    if let EffectOutcome::Failed { why } = &outcome {
        tracing::error!(effect = number.0, why, "given up");
    }
    let mut backoff = Backoff::new(RETRY_FIRST, RETRY_CEILING, fastrand::u64(..));
    loop {
        match client.settle_effect(number, &outcome).await {
            Ok(()) => return Input::Settled(number),
            Err(error) if error.is_not_found() => return Input::Gone(number),
            Err(error) => {
                tracing::debug!(effect = number.0, %error, "the runtime does not hear what came of an effect");
                tokio::time::sleep(backoff.next_delay()).await;
            }
        }
    }
}
