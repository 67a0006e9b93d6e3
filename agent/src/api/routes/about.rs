//! Read-only routes: health, costs, notes, trace, counts of second opinions and chains.
//!
//! - Health is answered by the agent's loop, so an answer proves that the loop runs.
//! - No route calls a language model. Files are read on a blocking thread.
//! - Every number of entries has a limit.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;
use watchkeeper_contract::health::HealthState;
use watchkeeper_contract::problem::{Problem, ProblemCode};
use watchkeeper_http::body::Query;
use watchkeeper_http::{Refusal, body};
use watchkeeper_llm::ledger::{CallOutcome, CallRecord};
use watchkeeper_llm::policy::BreakerOpen;
use watchkeeper_memory::{Found, Memory, MemoryError};

use crate::api::app::App;
use crate::api::conversations::ConversationDeps;
use crate::archive::ArchiveService;
use crate::jobs::{JobService, JobsHealth};
use crate::status::{AgentStatus, ChannelStatus, MqttStatus, OutboxStatus};
use crate::{evidence, second_opinion};
use watchkeeper_assistant::heartbeat_switch::HeartbeatStatus;
use watchkeeper_assistant::notes::{EmbedderChoice, Notes};
use watchkeeper_assistant::permissions::Entrypoint;
use watchkeeper_assistant::proposal::costs::{CostReport, serialized_name};
use watchkeeper_assistant::trace::{AGENT, Trace, may_see};
use watchkeeper_assistant::wording::counted;

/// Timeout of the agent's loop: a turn takes milliseconds, and its watchdog fires after a minute.
const LOOP_TIMEOUT: Duration = Duration::from_secs(5);
/// Limit of a search in the notes, in characters.
const MAX_QUESTION: usize = 500;
/// Default number of notes in an answer.
const DEFAULT_NOTES: u64 = 10;
/// Limit of notes in an answer.
const MAX_NOTES: u64 = 50;
/// Default number of trace entries in an answer.
const DEFAULT_ENTRIES: u64 = 100;
/// Limit of trace entries in an answer.
const MAX_ENTRIES: u64 = 1000;

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
    /// Provider of the model; absent where none is configured.
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
    /// It cannot be called: the key is missing or the address is invalid.
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

/// One sentence, if messages were dropped.
fn dropped_messages(outbox: &OutboxStatus) -> Option<String> {
    let dropped = outbox.dropped;
    (dropped > 0).then(|| {
        format!(
            "the broker did not accept {} in time; they were dropped. Check the broker, or raise \
             agent.outbox_events",
            counted(dropped, "message")
        )
    })
}

/// Health of the agent: broker, outbox, runtime, model and budget. The agent's loop itself answers,
/// so an answer proves that the loop runs.
#[utoipa::path(get, path = "/health", tag = "agent", responses((status = 200, body = AgentHealth)))]
pub(super) async fn health(State(app): State<App>) -> Result<Json<AgentHealth>, Refusal> {
    let status = agent_status(&app).await?;
    let deps = app.shared.conversations.deps();
    let (runtime, why) = match deps.client.health().await {
        Ok(health) => (Some(health.version), None),
        Err(error) => (None, Some(error.in_full())),
    };
    let (model, heartbeat) = app
        .access_files(move |shared| {
            let deps = shared.conversations.deps();
            (model(deps), deps.heartbeat.status())
        })
        .await?;
    let mut reasons: Vec<String> = why.into_iter().collect();
    reasons.extend(status.storage.clone());
    let mqtt = &status.mqtt;
    if mqtt.configured && !mqtt.connected {
        let why = mqtt.why.as_deref().unwrap_or("connecting");
        reasons.push(format!("there is no session with the broker: {why}"));
    }
    reasons.extend(dropped_messages(&status.outbox));
    reasons.extend(status.channels.iter().filter_map(|c| c.trouble.clone()));
    reasons.extend(model.problems());
    let memory = memory_status(&deps.notes);
    if let Some(refused @ EmbedderChoice::Refused { .. }) = &memory.vectors {
        reasons.push(refused.sentence());
    }
    let jobs = deps
        .jobs
        .as_ref()
        .map(JobService::health)
        .unwrap_or_default();
    reasons.extend(jobs.problems());
    reasons.extend(deps.lookups.problems().await);
    reasons.extend(deps.archive.as_ref().and_then(ArchiveService::problem));
    reasons.extend(app.shared.entrypoint_errors.all());
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
        model,
        conversations: ConversationCounts {
            open: app.shared.conversations.list(Entrypoint::Local).len(),
            most: app.shared.conversations.bounds().open,
        },
        memory,
        heartbeat,
        jobs,
    }))
}

fn memory_status(notes: &Notes) -> MemoryStatus {
    let hashed = || (!notes.use_a_model()).then_some(EmbedderChoice::Hashed);
    MemoryStatus {
        vectors: notes.vectors().cloned().or_else(hashed),
        waiting: notes.waiting(),
    }
}

async fn agent_status(app: &App) -> Result<AgentStatus, Refusal> {
    let asking = async {
        let (answer, answered) = oneshot::channel();
        app.shared.asks.send(answer).await.ok()?;
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

/// Costs of the language model, with its limits, from the agent's ledger. Users of `watchkeeper
/// ask` and `chat` have ledgers of their own.
#[utoipa::path(get, path = "/cost", tag = "agent", responses((status = 200, body = CostReport)))]
pub(super) async fn cost(State(app): State<App>) -> Result<Json<CostReport>, Refusal> {
    let cost = app.access_files(|shared| {
        let deps = shared.conversations.deps();
        let report = (deps.model.as_ref()).map(|open| open().map(|client| client.report()));
        CostReport::new(deps.provider.clone(), report)
    });
    Ok(Json(cost.await?))
}

/// Second opinions since the agent's start.
#[utoipa::path(get, path = "/opinions", tag = "agent", responses((status = 200, body = second_opinion::Counts)))]
pub(super) async fn opinions(
    State(app): State<App>,
) -> Result<Json<second_opinion::Counts>, Refusal> {
    Ok(Json(agent_status(&app).await?.opinions))
}

/// Counts of chains, and the look-ups that they can't use.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct ChainStatus {
    #[serde(flatten)]
    counts: evidence::counts::Counts,
    /// Look-ups that can't be used now, with the cause.
    problems: Vec<String>,
}

/// Chains of sources since the agent's start: results, and answers, failures and times by source.
#[utoipa::path(get, path = "/chains", tag = "agent", responses((status = 200, body = ChainStatus)))]
pub(super) async fn chains(State(app): State<App>) -> Result<Json<ChainStatus>, Refusal> {
    Ok(Json(ChainStatus {
        counts: agent_status(&app).await?.chains,
        problems: app.shared.conversations.deps().lookups.problems().await,
    }))
}

/// Query of a search in the notes.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct MemoryQuery {
    /// Words to search for.
    #[param(value_type = String)]
    q: Option<String>,
    /// Maximum number of notes in the answer, 1 to 50; default 10.
    #[param(value_type = Option<u64>)]
    limit: Option<String>,
}

/// The agent's notes that match the words, the best first: each with its file, its text, and
/// whether a user wrote it (`trusted`).
#[utoipa::path(get, path = "/memory", tag = "memory", params(MemoryQuery), responses((status = 200, body = Vec<Object>)))]
pub(super) async fn memory(
    State(app): State<App>,
    Query(query): Query<MemoryQuery>,
) -> Result<Json<Vec<Value>>, Refusal> {
    let limit = limit(query.limit.as_deref(), DEFAULT_NOTES, MAX_NOTES)?;
    let words = query.q.unwrap_or_default();
    let length = words.chars().count();
    if words.trim().is_empty() || length > MAX_QUESTION {
        let detail = format!(
            "q must be 1 to {MAX_QUESTION} characters: the words to look for, such as \
             q=loading%20dock"
        );
        return Err(Refusal::invalid(detail).at("q", format!("{length} characters")));
    }
    let wanted = watchkeeper_memory::Query {
        now: Some(Timestamp::now()),
        limit,
        ..watchkeeper_memory::Query::new(words)
    };
    find_notes(&app, move |memory| memory.search(wanted)).await
}

/// Reads the member `limit` of a query, from 1 to `max`.
pub(super) fn limit(text: Option<&str>, default: u64, max: u64) -> Result<usize, Refusal> {
    let limit = body::number_within("limit", text, default, [1, max])?;
    Ok(usize::try_from(limit).unwrap_or(1))
}

/// Returns the notes that `find` finds.
pub(super) async fn find_notes(
    app: &App,
    find: impl FnOnce(&mut Memory) -> Result<Vec<Found>, MemoryError> + Send + 'static,
) -> Result<Json<Vec<Value>>, Refusal> {
    let found = app.access_files(move |shared| {
        let mut memory = shared.conversations.deps().notes.open()?;
        find(&mut memory).map_err(|e| e.to_string())
    });
    let found = found.await?.map_err(|why| unreadable(&why))?;
    let notes = found.iter().map(serde_json::to_value);
    Ok(Json(notes.filter_map(Result::ok).collect()))
}

/// Query of the trace.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct TraceQuery {
    /// Maximum number of entries in the answer, 1 to 1000; default 100.
    #[param(value_type = Option<u64>)]
    limit: Option<String>,
}

/// The latest entries of the agent's trace, the oldest first: requests, tools that the language
/// model used with their results, proposals, confirmations, changes and costs. Over TCP without the
/// texts of users on the box.
#[utoipa::path(get, path = "/trace", tag = "agent", params(TraceQuery), responses((status = 200, body = Vec<Object>)))]
pub(super) async fn trace(
    State(app): State<App>,
    Query(query): Query<TraceQuery>,
) -> Result<Json<Vec<Value>>, Refusal> {
    let limit = limit(query.limit.as_deref(), DEFAULT_ENTRIES, MAX_ENTRIES)?;
    let channel = app.entrypoint;
    let entries = app.access_files(move |shared| {
        let trace = Trace::new(&shared.conversations.deps().home, AGENT);
        trace.latest_where(limit, |entry| may_see(channel, entry))
    });
    let entries = entries.await?;
    Ok(Json(
        entries.map_err(|error| unreadable(&error.to_string()))?,
    ))
}

fn unreadable(why: &str) -> Refusal {
    Problem::storage(why).into()
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
