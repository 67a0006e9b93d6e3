//! One job: a few calls for one purpose, with one model and one deadline.
//!
//! Owns the order of an attempt: breaker, reservation in the ledger, request, settlement.
//! - An attempt is reserved at its highest cost before it is sent, and settled at what it cost. A
//!   cost that is not known, or can't be stored, is counted high.
//! - Only a larger output and a pause follow a failure; both end with the deadline.
//! - Not here: whether an error is worth a retry (`policy`), and prices (`catalogue`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error::LlmError;
use super::program::Program;
use super::shared::Shared;
use super::transport::{Attempt, Spent};
use crate::attempt_error::{AttemptError, AttemptErrorKind};
use crate::budget::CallClass;
use crate::call_options::CallOptions;
use crate::catalogue::{Model, ThinkingStyle, Tier};
use crate::conversation::Conversation;
use crate::estimate;
use crate::ledger::{CallOutcome, Entry, Ticket};
use crate::money::Money;
use crate::picture::Detail;
use crate::policy::{Retry, RetryDecision};
use crate::reply::Reply;
use crate::usage::Usage;
use crate::wire::claude_program::{self, ProgramCall};
use crate::wire::{EncodeError, HttpCall, check_turn};

/// Maximum time of a job.
const MAX_JOB: Duration = Duration::from_secs(24 * 3600);
/// Longest wait until the cost of an attempt is stored.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSpec {
    /// Name in the ledger, such as `verdict/01J…`.
    pub name: String,
    pub class: CallClass,
    /// Pipeline and rule of a second opinion, such as `gate/door`.
    pub rule: Option<String>,
    pub tier: Tier,
    pub detail: Detail,
    /// Time for all of its calls.
    pub time: Duration,
}

/// Receiver of the error of a failed attempt, and of the pause before the next one.
type OnRetry<'r> = &'r mut (dyn FnMut(&AttemptError, Duration) + Send);

/// An encoded request.
enum Call<'p> {
    Http(HttpCall),
    Program(&'p Program, ProgramCall),
}

/// A running job. It keeps its model to the end: thoughts and caches belong to one model.
#[derive(Debug)]
pub struct Job {
    shared: Arc<Shared>,
    spec: JobSpec,
    model: Model,
    detail: Detail,
    deadline: Instant,
    usage: Usage,
    cost: Money,
}

impl Job {
    pub(super) fn new(
        shared: Arc<Shared>,
        spec: JobSpec,
        model: Model,
        detail: Detail,
        now: Instant,
    ) -> Self {
        let time = spec.time.min(MAX_JOB);
        Self {
            shared,
            spec,
            model,
            detail,
            deadline: now + time,
            usage: Usage::default(),
            cost: Money::ZERO,
        }
    }

    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Returns the detail of the pictures that it should send.
    pub fn detail(&self) -> Detail {
        self.detail
    }

    /// Returns what it has consumed and cost so far.
    pub fn spent(&self) -> (Usage, Money) {
        (self.usage, self.cost)
    }

    /// Estimates the tokens of the prompt, as the budget counts them.
    pub fn prompt(&self, conversation: &Conversation) -> u64 {
        estimate::prompt(conversation, &self.model)
    }

    /// Returns the maximum tokens of a prompt whose answer may have `output`: bounded by the model
    /// and by the budget of one call.
    pub fn max_prompt(&self, output: u32) -> u64 {
        let output = u64::from(output.min(self.model.max_output));
        let allowed = self.shared.ledger.limits().tokens_per_call;
        self.model.context.min(allowed).saturating_sub(output)
    }

    /// Asks the model for the next turn of `conversation`, with retries.
    ///
    /// # Errors
    /// When there is no usable answer. The conversation is unchanged, so it can be sent again.
    pub async fn ask(
        &mut self,
        conversation: &Conversation,
        options: &CallOptions,
        on_retry: OnRetry<'_>,
    ) -> Result<Reply, LlmError> {
        let mut options = options.clone();
        options.max_output = options.max_output.min(self.model.max_output);
        let prompt = estimate::prompt(conversation, &self.model);
        let mut retry = Retry::new(self.shared.retry, self.deadline);
        let mut last = None;
        loop {
            if self.shared.clock.now() >= self.deadline {
                return Err(self.timed_out(last));
            }
            if prompt > self.model.context {
                let error = AttemptError::new(AttemptErrorKind::ContextFull, "");
                return Err(LlmError::Failed { error, attempts: 0 });
            }
            let error = match self.attempt(conversation, &options, prompt).await? {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            self.prepare_retry(&mut retry, &error, &mut options, on_retry)
                .await?;
            last = Some(error);
        }
    }

    /// Makes one attempt: breaker, reservation, request, settlement.
    async fn attempt(
        &mut self,
        conversation: &Conversation,
        options: &CallOptions,
        prompt: u64,
    ) -> Result<Result<Reply, AttemptError>, LlmError> {
        let shared = self.shared.clone();
        let call = self.encode(conversation, options)?;
        let now = shared.clock.now();
        shared.breaker.lock().admit(now, &self.model.id)?;
        let output = u64::from(options.max_output);
        let worst = self.model.prices.worst(prompt, output);
        let reserved = self.reserve(Entry {
            job: self.spec.name.clone(),
            class: self.spec.class,
            rule: self.spec.rule.clone(),
            provider: self.model.provider.clone(),
            model: self.model.id.clone(),
            tokens: prompt.saturating_add(output),
            worst,
        });
        let ticket = reserved
            .await
            .inspect_err(|_| shared.breaker.lock().withdraw(now, &self.model.id))?;
        let remaining = self.deadline.saturating_duration_since(shared.clock.now());
        let attempt = match call {
            Call::Http(call) => {
                let (transport, wall) = (&shared.transport, shared.clock.wall());
                transport.attempt(call, options, remaining, wall).await
            }
            Call::Program(program, call) => program.attempt(call, &self.model, remaining).await,
        };
        let attempt = attempt.judged();
        let (usage, cost) = self.cost(&attempt, prompt, worst);
        let outcome = match &attempt.result {
            Ok(_) => CallOutcome::Answered,
            Err(error) => CallOutcome::Failed(error.kind),
        };
        self.settle(ticket, outcome, usage, cost).await;
        let now = shared.clock.now();
        let mut breaker = shared.breaker.lock();
        match &attempt.result {
            Ok(_) => breaker.record_success(&self.model.id),
            Err(error) => breaker.record_failure(now, &self.model.id, error.kind),
        }
        Ok(attempt.result)
    }

    /// Encodes the conversation for the provider.
    fn encode<'s>(
        &'s self,
        conversation: &Conversation,
        options: &CallOptions,
    ) -> Result<Call<'s>, EncodeError> {
        let provider = &self.shared.provider;
        let Some(program) = &self.shared.program else {
            let protocol = provider.protocol;
            let call = protocol.encode(provider, &self.model, conversation, options);
            return call.map(Call::Http);
        };
        check_turn(conversation)?;
        let max = provider.max_request_bytes;
        let call = claude_program::encode(&self.model, conversation, options, max)?;
        Ok(Call::Program(program, call))
    }

    /// Waits for the next attempt, or returns why there is none.
    async fn prepare_retry(
        &self,
        retry: &mut Retry,
        error: &AttemptError,
        options: &mut CallOptions,
        on_retry: OnRetry<'_>,
    ) -> Result<(), LlmError> {
        let clock = &self.shared.clock;
        let next = retry.record_failure(clock.now(), error, clock.random());
        let attempts = retry.failed();
        tracing::warn!(job = %self.spec.name, model = %self.model.id, attempt = attempts, error = error.in_full(), ?next, "call to the model failed");
        let failed = || LlmError::Failed {
            error: error.clone(),
            attempts,
        };
        match next {
            RetryDecision::GiveUp => return Err(failed()),
            RetryDecision::TooLate => return Err(self.timed_out(Some(error.clone()))),
            RetryDecision::Larger => {
                let larger = options.max_output.saturating_mul(2);
                let larger = larger.min(self.model.max_output);
                // A program's command has no limit of output: it would be the same, and paid again.
                if larger == options.max_output || self.shared.program.is_some() {
                    return Err(failed());
                }
                options.max_output = larger;
                on_retry(error, Duration::ZERO);
            }
            RetryDecision::After(pause) => {
                on_retry(error, pause);
                clock.sleep(pause).await;
            }
        }
        Ok(())
    }

    fn timed_out(&self, last: Option<AttemptError>) -> LlmError {
        let after = self.spec.time;
        LlmError::Deadline { after, last }
    }

    /// Returns what an attempt consumed and cost; the larger figure where it is unknown.
    fn cost(&self, attempt: &Attempt, prompt: u64, worst: Money) -> (Usage, Money) {
        let known = |usage: Usage| (usage, self.model.prices.cost(&usage));
        match attempt.spent {
            Spent::Nothing => (Usage::default(), Money::ZERO),
            Spent::Known(usage) => known(usage),
            Spent::Priced { usage, cost } => (usage, cost),
            Spent::Partly { usage, bytes } => {
                let output = usage.output.max(estimate::text_tokens(bytes, &self.model));
                // Before the server's first event only the prompt is known.
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
                // Thinking is billed and need not be shown: how much of it a broken answer had is
                // unknown.
                match self.model.thinking {
                    ThinkingStyle::None => (usage, cost),
                    ThinkingStyle::Adaptive | ThinkingStyle::Budget => (usage, cost.max(worst)),
                }
            }
            Spent::Unknown => (Usage::default(), worst),
        }
    }

    /// Reserves an attempt in the ledger, on a thread that may block: the store syncs.
    async fn reserve(&self, entry: Entry) -> Result<Ticket, LlmError> {
        let shared = self.shared.clone();
        let (now, wall) = (shared.clock.now(), shared.clock.wall());
        Ok(blocking(move || shared.ledger.reserve(now, wall, &entry)).await?)
    }

    /// Settles an attempt. A disk that refuses keeps its highest cost; the answer is paid for and
    /// is used. Behind a disk that hangs, the write continues alone after [`SETTLE_TIMEOUT`].
    async fn settle(&mut self, ticket: Ticket, outcome: CallOutcome, usage: Usage, cost: Money) {
        self.usage = self.usage.plus(&usage);
        self.cost += cost;
        let (ledger, job) = (self.shared.ledger.clone(), self.spec.name.clone());
        let write = blocking(move || {
            if let Err(error) = ledger.settle(ticket, outcome, usage, cost) {
                tracing::error!(
                    job, %error,
                    "cost of an LLM call not recorded; after a restart it counts at its highest"
                );
            }
        });
        if tokio::time::timeout(SETTLE_TIMEOUT, write).await.is_err() {
            tracing::warn!(
                job = self.spec.name,
                "the disk hangs: the cost of an LLM call waits"
            );
        }
    }
}

/// Runs blocking work on a thread for that. A panic in it is resumed here.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(stopped) => match stopped.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime shuts down, and this future with it.
            Err(_) => std::future::pending().await,
        },
    }
}
