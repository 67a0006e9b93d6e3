//! Health of the agent, as `GET /v1/health` and the MQTT topic `svc/agent/health` report it.
//!
//! - The agent's loop answers, so an answer proves that the loop runs.
//! - The loop has one list of problems for both. What only the API's thread can see, it sends with
//!   each request and every [`INTERVAL`].
//! - No language model is called. Files are read on a blocking thread.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::oneshot;
use watchkeeper_contract::health::HealthState;
use watchkeeper_contract::problem::ProblemCode;
use watchkeeper_http::Refusal;
use watchkeeper_llm::ledger::{CallOutcome, CallRecord};
use watchkeeper_llm::policy::BreakerOpen;

use crate::api::app::{App, Shared};
use crate::api::conversations::ConversationDeps;
use crate::jobs::JobsHealth;
use crate::status::{AgentStatus, ChannelStatus, MqttStatus, OutboxStatus, StatusRequest};
use watchkeeper_assistant::heartbeat_switch::HeartbeatStatus;
use watchkeeper_assistant::notes::{EmbedderChoice, Notes};
use watchkeeper_assistant::permissions::Entrypoint;
use watchkeeper_assistant::proposal::costs::serialized_name;

/// Timeout of the agent's loop: a turn takes milliseconds, and its watchdog fires after a minute.
const LOOP_TIMEOUT: Duration = Duration::from_secs(5);
/// How often the loop learns what the API's thread sees without being asked.
const INTERVAL: Duration = Duration::from_secs(20);

/// Status of the agent and of what it depends on.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct AgentHealth {
    /// `up` or `degraded`.
    state: HealthState,
    /// One sentence per problem.
    reasons: Vec<String>,
    /// Version of the agent.
    version: String,
    /// Seconds since the agent started.
    uptime_s: f64,
    /// Process id of the agent.
    pid: u32,
    /// Status of the runtime.
    runtime: RuntimeStatus,
    /// Status of the session with the broker.
    mqtt: MqttStatus,
    /// Status of the outbox.
    outbox: OutboxStatus,
    /// Status of each notification channel.
    channels: Vec<ChannelStatus>,
    /// Status of the language model.
    model: ModelStatus,
    /// Number and limit of conversations.
    conversations: ConversationCounts,
    /// Status of the notes.
    memory: MemoryStatus,
    /// Whether the heartbeat runs.
    heartbeat: HeartbeatStatus,
    /// Jobs that run and wait, and schedules.
    jobs: JobsHealth,
}

/// Status of the notes.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct MemoryStatus {
    /// What computes their embeddings; absent while the model loads.
    #[serde(skip_serializing_if = "Option::is_none")]
    vectors: Option<EmbedderChoice>,
    /// Notes without an embedding yet, found by their words; absent until the notes were read and
    /// their embedding model is loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<usize>,
}

/// Status of the runtime, as the agent sees it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct RuntimeStatus {
    /// Whether the runtime answers.
    answers: bool,
    /// Version of the runtime; absent without an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
}

/// Status of the language model, from its last call and the budget; no call is made for it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct ModelStatus {
    #[serde(flatten)]
    first: ProviderStatus,
    /// Whether the budget of the hour, day and month allows another call of a user.
    within_budget: bool,
    /// Why the budget refuses a user's call now: what used it, and how long to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<String>,
    /// Calls that the budget refused this UTC day; `/cost` has their classes and causes.
    refused_today: u64,
    /// Status of the provider of `llm.second`; absent without it, and while the model is unusable.
    #[serde(skip_serializing_if = "Option::is_none")]
    second: Option<ProviderStatus>,
}

impl ModelStatus {
    /// One sentence per problem.
    fn problems(&self) -> impl Iterator<Item = String> {
        let second = self.second.as_ref().and_then(|second| second.why.clone());
        let all = [self.first.why.clone(), second, self.refusal.clone()];
        all.into_iter().flatten()
    }
}

/// Status of the language model of one provider, from its last call.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct ProviderStatus {
    /// Provider of the model; absent if none is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
    /// State of the model, from its last call.
    state: ProviderState,
    /// Why it is unusable, with a remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// Time of its last call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    asked: Option<Timestamp>,
}

/// State of the language model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ProviderState {
    /// No language model is configured.
    Absent,
    /// It can't be called: the key is missing or the address is invalid.
    Unusable,
    /// None of the latest calls that ended went to it.
    Unasked,
    /// The last call that ended succeeded.
    Answers,
    /// The last call that ended failed.
    Fails,
    /// Suspended by its circuit breaker after repeated failures.
    #[serde(rename = "resting")]
    Suspended,
}

/// Number and limit of conversations.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct ConversationCounts {
    /// Number of open conversations.
    open: usize,
    /// Limit of open conversations.
    most: usize,
}

/// Parts of the agent that the API's thread can see.
struct Parts {
    model: ModelStatus,
    memory: MemoryStatus,
    heartbeat: HeartbeatStatus,
    jobs: JobsHealth,
    /// One sentence per problem of these and of the API itself.
    problems: Vec<String>,
}

/// Reads the parts of the health that the API's thread can see.
async fn read_parts(shared: &Arc<Shared>) -> Result<Parts, Refusal> {
    let (model, heartbeat) = shared
        .access_files(|shared| {
            let deps = shared.conversations.deps();
            (model(deps), deps.heartbeat.status())
        })
        .await?;
    let deps = shared.conversations.deps();
    let mut problems: Vec<String> = model.problems().collect();
    let memory = memory_status(&deps.notes);
    if let Some(refused @ EmbedderChoice::Refused { .. }) = &memory.vectors {
        problems.push(refused.sentence());
    }
    let jobs = deps.jobs.health();
    problems.extend(jobs.problems());
    problems.extend(deps.lookups.problems().await);
    problems.extend(deps.archive.problem());
    problems.extend(shared.entrypoint_errors.all());
    Ok(Parts {
        model,
        memory,
        heartbeat,
        jobs,
        problems,
    })
}

/// Sends the loop what the API's thread sees, every [`INTERVAL`], for ever.
pub(in crate::api) async fn send_problems(shared: &Arc<Shared>) {
    loop {
        // A loop that does not answer has its watchdog.
        if let Ok(parts) = read_parts(shared).await {
            agent_status(shared, Some(parts.problems)).await.ok();
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Health of the agent: broker, outbox, runtime, model and budget. The agent's loop itself answers,
/// so an answer proves that the loop runs.
#[utoipa::path(get, path = "/health", tag = "agent", responses((status = 200, body = AgentHealth)))]
pub(super) async fn health(State(app): State<App>) -> Result<Json<AgentHealth>, Refusal> {
    let conversations = &app.shared.conversations;
    let parts = read_parts(&app.shared).await?;
    let status = agent_status(&app.shared, Some(parts.problems)).await?;
    let (runtime, why) = match conversations.deps().client.health().await {
        Ok(health) => (Some(health.version), None),
        Err(error) => (None, Some(error.in_full())),
    };
    let reasons = why.into_iter().chain(status.problems);
    let reasons: Vec<String> = reasons.chain(status.mqtt.problem()).collect();
    Ok(Json(AgentHealth {
        state: match reasons.is_empty() {
            true => HealthState::Up,
            false => HealthState::Degraded,
        },
        reasons,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_s: app.shared.started.elapsed().as_secs_f64(),
        pid: std::process::id(),
        runtime: RuntimeStatus {
            answers: runtime.is_some(),
            version: runtime,
        },
        mqtt: status.mqtt,
        channels: status.channels,
        outbox: status.outbox,
        model: parts.model,
        conversations: ConversationCounts {
            open: conversations.list(Entrypoint::Local).len(),
            most: conversations.bounds().open,
        },
        memory: parts.memory,
        heartbeat: parts.heartbeat,
        jobs: parts.jobs,
    }))
}

/// Asks the loop for its status; `problems` are those that the API's thread sees now.
pub(super) async fn agent_status(
    shared: &Shared,
    problems: Option<Vec<String>>,
) -> Result<AgentStatus, Refusal> {
    let asking = async {
        let (answer, answered) = oneshot::channel();
        let request = StatusRequest { problems, answer };
        shared.asks.send(request).await.ok()?;
        answered.await.ok()
    };
    let status = tokio::time::timeout(LOOP_TIMEOUT, asking).await;
    status.ok().flatten().ok_or_else(|| {
        Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            ProblemCode::NotReady,
            "the agent's loop does not answer: it is stopping, or waits for its disk; see its log",
        )
    })
}

fn memory_status(notes: &Notes) -> MemoryStatus {
    let hashed = || (!notes.use_a_model()).then_some(EmbedderChoice::Hashed);
    MemoryStatus {
        vectors: notes.vectors().cloned().or_else(hashed),
        waiting: notes.waiting(),
    }
}

fn model(deps: &ConversationDeps) -> ModelStatus {
    let uncalled = |state, why| ModelStatus {
        first: ProviderStatus {
            provider: deps.provider.clone(),
            state,
            why,
            asked: None,
        },
        within_budget: true,
        refusal: None,
        refused_today: 0,
        second: None,
    };
    let client = match &deps.model {
        None => return uncalled(ProviderState::Absent, None),
        Some(open) => open(),
    };
    let client = match client {
        Ok(client) => client,
        Err(why) => return uncalled(ProviderState::Unusable, Some(why)),
    };
    let report = client.report();
    let providers = client.providers();
    let mut all = providers.map(|(name, open)| provider_status(name, open, &report.calls));
    let Some(first) = all.next() else {
        return uncalled(ProviderState::Absent, None);
    };
    ModelStatus {
        first,
        within_budget: report.refusal.is_none(),
        refusal: report.refusal.as_ref().map(ToString::to_string),
        refused_today: report.refused_today(),
        second: all.next(),
    }
}

/// The status of a provider, from its circuit breaker and the last of its own `calls` that ended.
fn provider_status(
    provider: &str,
    breaker: Option<BreakerOpen>,
    calls: &[CallRecord],
) -> ProviderStatus {
    let has_ended =
        |call: &&CallRecord| call.provider == provider && call.outcome != CallOutcome::Open;
    let last = calls.iter().rfind(has_ended);
    let (state, why) = match (breaker, last.map(|call| call.outcome)) {
        (Some(open), _) => {
            let why = format!(
                "the model of {provider} is suspended for {} s: it failed too often ({}); see the \
                 log and `watchkeeper trace`",
                open.remaining.as_secs(),
                serialized_name(&open.because)
            );
            (ProviderState::Suspended, Some(why))
        }
        (None, None | Some(CallOutcome::Open)) => (ProviderState::Unasked, None),
        (None, Some(CallOutcome::Answered)) => (ProviderState::Answers, None),
        (None, Some(CallOutcome::Failed(kind))) => {
            let kind = serialized_name(&kind);
            let why = format!("the last call of the model of {provider} failed: {kind}");
            (ProviderState::Fails, Some(why))
        }
    };
    ProviderStatus {
        provider: Some(provider.to_owned()),
        state,
        why,
        asked: last.and_then(|call| Timestamp::from_millisecond(call.at_ms).ok()),
    }
}

#[cfg(test)]
mod tests {
    use watchkeeper_llm::attempt_error::AttemptErrorKind;
    use watchkeeper_llm::money::Money;
    use watchkeeper_llm::usage::Usage;

    use super::*;

    #[test]
    fn state_of_a_provider_is_that_of_its_own_calls() {
        let call = |provider: &str, at_ms, outcome| CallRecord {
            at_ms,
            job: "j".to_owned(),
            provider: provider.to_owned(),
            model: "m".to_owned(),
            outcome,
            usage: Usage::default(),
            cost: Money::ZERO,
        };
        let failed = CallOutcome::Failed(AttemptErrorKind::Overloaded);
        let calls = [
            call("claude", 1_000, CallOutcome::Answered),
            call("local", 2_000, failed),
            // One that a crash left open says nothing.
            call("local", 3_000, CallOutcome::Open),
            call("gemini", 3_000, CallOutcome::Open),
        ];
        let of = |provider: &str| provider_status(provider, None, &calls);
        assert_eq!(of("claude").state, ProviderState::Answers);
        assert_eq!(of("claude").asked, Timestamp::from_millisecond(1_000).ok());
        let local = of("local");
        assert_eq!(local.state, ProviderState::Fails);
        assert!(
            local
                .why
                .is_some_and(|why| why.contains("the model of local failed"))
        );
        for unasked in ["openai", "gemini"] {
            assert_eq!(of(unasked).state, ProviderState::Unasked);
        }
        let open = BreakerOpen {
            because: AttemptErrorKind::Overloaded,
            remaining: Duration::from_secs(9),
        };
        let suspended = provider_status("claude", Some(open), &calls);
        assert_eq!(suspended.state, ProviderState::Suspended);
    }
}
