//! One job: a few calls for one purpose, with one model and one deadline.

use std::time::{Duration, Instant};

use super::{Client, LlmError};
use crate::ask::Ask;
use crate::budget::Economy;
use crate::catalogue::{Model, ThinkingStyle, Tier};
use crate::client::transport::{Attempt, Spent};
use crate::conversation::Conversation;
use crate::estimate;
use crate::fault::{Fault, FaultKind};
use crate::ledger::{Entry, Outcome, Ticket};
use crate::money::Money;
use crate::picture::Detail;
use crate::policy::{Next, Retry};
use crate::reply::Reply;
use crate::usage::Usage;
use crate::wire::Piece;

/// What a job is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSpec {
    /// Its name in the ledger, such as `verdict/01J…`.
    pub name: String,
    /// How good a model it wants.
    pub tier: Tier,
    /// How much of a picture it wants.
    pub detail: Detail,
    /// Time it has.
    pub time: Duration,
}

/// Something to show while a job runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress<'p> {
    /// A piece of an answer.
    Piece(&'p Piece),
    /// The attempt failed and what was shown of it is void; another begins after the pause.
    Again {
        /// What went wrong.
        fault: &'p Fault,
        /// How long it waits.
        pause: Duration,
    },
}

/// A job that runs. Its model stays the same to its end: thoughts and caches are a model's own.
#[derive(Debug)]
pub struct Job {
    client: Client,
    spec: JobSpec,
    model: Model,
    detail: Detail,
    economy: Economy,
    deadline: Instant,
    usage: Usage,
    cost: Money,
}

impl Job {
    pub(super) fn new(
        client: Client,
        spec: JobSpec,
        model: Model,
        detail: Detail,
        economy: Economy,
        now: Instant,
    ) -> Self {
        // A job without an end has one in a day.
        let time = spec.time.min(Duration::from_secs(24 * 3600));
        Self {
            client,
            spec,
            model,
            detail,
            economy,
            deadline: now + time,
            usage: Usage::default(),
            cost: Money::ZERO,
        }
    }

    /// The model it got.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// How much of a picture it is to send.
    #[must_use]
    pub fn detail(&self) -> Detail {
        self.detail
    }

    /// Whether it got less than it asked for, because money is to be saved.
    #[must_use]
    pub fn economy(&self) -> Economy {
        self.economy
    }

    /// What it consumed and cost so far.
    #[must_use]
    pub fn spent(&self) -> (Usage, Money) {
        (self.usage, self.cost)
    }

    /// Tokens of the prompt that it would see, by the estimate that its budget goes by.
    #[must_use]
    pub fn prompt(&self, conversation: &Conversation) -> u64 {
        estimate::prompt(conversation, &self.model)
    }

    /// Most tokens that a prompt may have where the answer may have `output`: what the model takes, and what one call may have.
    #[must_use]
    pub fn room(&self, output: u32) -> u64 {
        let output = u64::from(output.min(self.model.max_output));
        let allowed = self.client.0.ledger.limits().tokens_per_call;
        self.model.context.min(allowed).saturating_sub(output)
    }

    /// Asks the model to go on with `conversation`. Failed attempts are made again as the policy says; `shown` sees what comes.
    ///
    /// # Errors
    /// When there is no answer that may be used. Nothing was added to the conversation, so it can be asked again later.
    pub async fn ask(
        &mut self,
        conversation: &Conversation,
        ask: &Ask,
        shown: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<Reply, LlmError> {
        let inner = self.client.0.clone();
        let mut ask = ask.clone();
        ask.max_output = ask.max_output.min(self.model.max_output);
        let prompt = estimate::prompt(conversation, &self.model);
        let mut retry = Retry::new(inner.retry, self.deadline);
        let mut last = None;
        loop {
            let now = inner.clock.now();
            if now >= self.deadline {
                return Err(self.too_late(last));
            }
            if prompt > self.model.context {
                let fault = Fault::new(FaultKind::ContextFull, "");
                return Err(LlmError::Failed { fault, attempts: 0 });
            }
            let call =
                inner
                    .provider
                    .protocol
                    .encode(&inner.provider, &self.model, conversation, &ask)?;
            inner.breaker.lock().admit(now, &self.model.id)?;
            let output = u64::from(ask.max_output);
            let worst = self.model.prices.worst(prompt, output);
            let entry = Entry {
                job: self.spec.name.clone(),
                model: self.model.id.clone(),
                tokens: prompt.saturating_add(output),
                worst,
            };
            let ticket = self.reserve(entry).await?;
            let remaining = self.deadline.saturating_duration_since(inner.clock.now());
            let attempt = inner
                .transport
                .attempt(call, &ask, remaining, inner.clock.wall(), shown)
                .await;
            let attempt = attempt.judged();
            let (usage, cost) = self.cost(&attempt, prompt, worst);
            let outcome = match &attempt.result {
                Ok(_) => Outcome::Answered,
                Err(fault) => Outcome::Failed(fault.kind),
            };
            self.settle(ticket, outcome, usage, cost).await?;
            let now = inner.clock.now();
            let fault = match attempt.result {
                Ok(reply) => {
                    inner.breaker.lock().worked(&self.model.id);
                    return Ok(reply);
                }
                Err(fault) => fault,
            };
            inner.breaker.lock().failed(now, &self.model.id, fault.kind);
            let next = retry.failed_at(now, &fault, inner.clock.random());
            tracing::warn!(job = %self.spec.name, model = %self.model.id, attempt = retry.failed(), %fault, ?next, "call to the model failed");
            match next {
                Next::GiveUp => {
                    let attempts = retry.failed();
                    return Err(LlmError::Failed { fault, attempts });
                }
                Next::TooLate => return Err(self.too_late(Some(fault))),
                Next::Larger => {
                    let larger = ask.max_output.saturating_mul(2).min(self.model.max_output);
                    if larger == ask.max_output {
                        let attempts = retry.failed();
                        return Err(LlmError::Failed { fault, attempts });
                    }
                    ask.max_output = larger;
                    let pause = Duration::ZERO;
                    shown(Progress::Again {
                        fault: &fault,
                        pause,
                    });
                }
                Next::After(pause) => {
                    shown(Progress::Again {
                        fault: &fault,
                        pause,
                    });
                    inner.clock.sleep(pause).await;
                }
            }
            last = Some(fault);
        }
    }

    fn too_late(&self, last: Option<Fault>) -> LlmError {
        let after = self.spec.time;
        LlmError::Deadline { after, last }
    }

    /// What an attempt consumed and cost, the larger figure where it is not known.
    fn cost(&self, attempt: &Attempt, prompt: u64, worst: Money) -> (Usage, Money) {
        let known = |usage: Usage| (usage, self.model.prices.cost(&usage));
        match attempt.spent {
            Spent::Nothing => (Usage::default(), Money::ZERO),
            Spent::Known(usage) => known(usage),
            Spent::Partly { usage, bytes } => {
                let output = usage.output.max(estimate::text_tokens(bytes, &self.model));
                // Before the first word of the server the prompt is all that is known to be there.
                let input = if usage.prompt() == 0 {
                    prompt
                } else {
                    usage.input
                };
                let (usage, cost) = known(Usage {
                    input,
                    output,
                    ..usage
                });
                // What a model thinks is paid for and need not be shown: of an answer that broke off nobody knows how much of it there was.
                match self.model.thinking {
                    ThinkingStyle::None => (usage, cost),
                    ThinkingStyle::Adaptive | ThinkingStyle::Budget => (usage, cost.max(worst)),
                }
            }
            Spent::Unknown => (Usage::default(), worst),
        }
    }

    /// Books an attempt, on a thread that may block: the store syncs.
    async fn reserve(&self, entry: Entry) -> Result<Ticket, LlmError> {
        let inner = self.client.0.clone();
        let (now, wall) = (inner.clock.now(), inner.clock.wall());
        Ok(blocking(move || inner.ledger.reserve(now, wall, &entry)).await?)
    }

    async fn settle(
        &mut self,
        ticket: Ticket,
        outcome: Outcome,
        usage: Usage,
        cost: Money,
    ) -> Result<(), LlmError> {
        self.usage = self.usage.plus(&usage);
        self.cost += cost;
        let ledger = self.client.0.ledger.clone();
        Ok(blocking(move || ledger.settle(ticket, outcome, usage, cost)).await?)
    }
}

/// Runs what may block on a thread for that. A panic in it is a panic here.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(stopped) => match stopped.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is being shut down, and this future with it.
            Err(_) => std::future::pending().await,
        },
    }
}
