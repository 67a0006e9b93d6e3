//! What is only looked up: health, costs, notes, the trace, the counters of second opinions.

use std::time::Duration;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;
use watchkeeper_contract::health::HealthState;
use watchkeeper_contract::problem::ProblemCode;
use watchkeeper_http::{Refusal, body};
use watchkeeper_llm::Client;
use watchkeeper_llm::ledger::{CallOutcome, CallRecord};

use crate::api::app::App;
use crate::api::conversations::Shop;
use crate::second_opinion;
use crate::status::{AgentStatus, ChannelStatus, MqttStatus, OutboxStatus};
use watchkeeper_assistant::notes::{EmbedderChoice, Notes};
use watchkeeper_assistant::permissions::Entrypoint;
use watchkeeper_assistant::proposal::costs::{CostReport, serialized_name};
use watchkeeper_assistant::trace::{AGENT, Trace, may_see};

/// Time for the loop to answer. It turns within milliseconds; systemd's watchdog ends it after a minute.
const LOOP_PATIENCE: Duration = Duration::from_secs(5);
/// Longest question to the notes, in characters.
const MAX_QUESTION: usize = 500;
/// Notes of one answer.
const NOTES: u64 = 10;
/// Most notes of one answer.
const MAX_NOTES: u64 = 50;
/// Entries of the trace in one answer.
const ENTRIES: u64 = 100;
/// Most entries of the trace in one answer.
const MAX_ENTRIES: u64 = 1000;

/// How the agent is.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct AgentHealth {
    /// Overall state.
    state: HealthState,
    /// One sentence for each thing that is wrong.
    reasons: Vec<String>,
    /// Version of the agent.
    version: String,
    /// Seconds since the agent started.
    uptime_s: f64,
    /// Process id.
    pid: u32,
    /// The runtime.
    runtime: RuntimeStanding,
    /// The way to the broker.
    mqtt: MqttStatus,
    /// What waits for the broker.
    outbox: OutboxStatus,
    /// How each channel fares by which people are told.
    channels: Vec<ChannelStatus>,
    /// The model of language.
    model: ModelStanding,
    /// Conversations.
    conversations: ConversationCounts,
    /// The notes.
    memory: MemoryStanding,
}

/// How the notes are.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct MemoryStanding {
    /// What makes their vectors; absent: the model is being loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    vectors: Option<EmbedderChoice>,
    /// Notes that wait for their vectors, and are found by their words; absent: they were not read since the agent's start, or are being read.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<usize>,
}

/// How the runtime is, as the agent sees it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct RuntimeStanding {
    /// Whether it answers.
    answers: bool,
    /// Its version, where it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
}

/// How the model of language is. Nothing is spent to find out: it is told by the last call and by what the budget has left.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct ModelStanding {
    /// Who serves it; absent: none is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
    /// What is known of it.
    state: ModelState,
    /// Why it is of no use, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// When it was asked last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    asked: Option<Timestamp>,
    /// Whether the budget of this hour, day and month allows another call.
    within_budget: bool,
}

/// What is known of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ModelState {
    /// None is configured.
    Absent,
    /// It can't be asked: no key, a wrong address.
    Unusable,
    /// It was not asked yet.
    Unasked,
    /// It answered the last call.
    Answers,
    /// The last call failed.
    Fails,
    /// It failed so often that it is left alone for a while.
    Resting,
}

/// Conversations in numbers.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct ConversationCounts {
    /// How many are open.
    open: usize,
    /// How many may be.
    most: usize,
}

/// How the agent is: its way to the broker, what waits, the runtime, the model, the budget. The loop that tells the events answers by itself, so an answer
/// says that it works.
#[utoipa::path(get, path = "/health", tag = "agent", responses((status = 200, body = AgentHealth)))]
pub(super) async fn health(State(app): State<App>) -> Result<Json<AgentHealth>, Refusal> {
    let standing = standing(&app).await?;
    let shop = app.shared.conversations.shop();
    let (runtime, why) = match shop.client.health().await {
        Ok(health) => (Some(health.version), None),
        Err(error) => (None, Some(error.in_full())),
    };
    let provider = app.shared.provider.clone();
    let model = app
        .look(move |shared| model(provider, shared.conversations.shop()))
        .await?;
    let mut reasons: Vec<String> = why.into_iter().collect();
    let mqtt = &standing.mqtt;
    if mqtt.configured && !mqtt.connected {
        let why = mqtt.why.as_deref().unwrap_or("it is being connected to");
        reasons.push(format!("there is no session with the broker: {why}"));
    }
    if standing.outbox.dropped > 0 {
        let dropped = standing.outbox.dropped;
        reasons.push(format!(
            "{dropped} messages had to be dropped since the start, as the broker did not take them in time; raise agent.outbox_events, or see to the broker"
        ));
    }
    reasons.extend(standing.channels.iter().filter_map(|c| c.trouble.clone()));
    reasons.extend(model.why.clone());
    if model.provider.is_some() && !model.within_budget {
        let told = "the model's budget is spent, so it is not asked; raise calls_per_hour, day_usd or month_usd of [llm], or wait";
        reasons.push(told.to_owned());
    }
    let memory = memory_standing(&shop.notes);
    if let Some(refused @ EmbedderChoice::Refused { .. }) = &memory.vectors {
        reasons.push(refused.sentence());
    }
    reasons.extend(app.shared.troubles.all());
    Ok(Json(AgentHealth {
        state: match reasons.is_empty() {
            true => HealthState::Up,
            false => HealthState::Degraded,
        },
        reasons,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_s: app.shared.started.elapsed().as_secs_f64(),
        pid: std::process::id(),
        runtime: RuntimeStanding {
            answers: runtime.is_some(),
            version: runtime,
        },
        mqtt: standing.mqtt,
        channels: standing.channels,
        outbox: standing.outbox,
        model,
        conversations: ConversationCounts {
            open: app.shared.conversations.list(Entrypoint::Local).len(),
            most: app.shared.conversations.bounds().open,
        },
        memory,
    }))
}

fn memory_standing(notes: &Notes) -> MemoryStanding {
    let hashed = || (!notes.want_a_model()).then_some(EmbedderChoice::Hashed);
    MemoryStanding {
        vectors: notes.vectors().cloned().or_else(hashed),
        waiting: notes.waiting(),
    }
}

async fn standing(app: &App) -> Result<AgentStatus, Refusal> {
    let asking = async {
        let (answer, answered) = oneshot::channel();
        app.shared.asks.send(answer).await.ok()?;
        answered.await.ok()
    };
    let standing = tokio::time::timeout(LOOP_PATIENCE, asking).await;
    standing.ok().flatten().ok_or_else(|| {
        Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            ProblemCode::NotReady,
            "the loop that tells the events does not answer; the agent is stopping, or waits for its disk, which its log tells",
        )
    })
}

fn model(provider: Option<String>, shop: &Shop) -> ModelStanding {
    let standing = |state, why| ModelStanding {
        provider: provider.clone(),
        state,
        why,
        asked: None,
        within_budget: true,
    };
    let client = match &shop.model {
        None => return standing(ModelState::Absent, None),
        Some(open) => open(),
    };
    let client = match client {
        Ok(client) => client,
        Err(why) => return standing(ModelState::Unusable, Some(why)),
    };
    let report = client.report();
    let last = report.calls.last();
    let (state, why) = state_of(&client, last);
    ModelStanding {
        asked: last.and_then(|call| Timestamp::from_millisecond(call.at_ms).ok()),
        within_budget: report.calls_in_hour < report.limits.calls_per_hour
            && report.day < report.limits.day
            && report.month < report.limits.month,
        ..standing(state, why)
    }
}

fn state_of(client: &Client, last: Option<&CallRecord>) -> (ModelState, Option<String>) {
    if let Some(rest) = client.breaker_open() {
        let why = format!(
            "the model is left alone for {} s, because it failed too often ({}); the log and `watchkeeper trace` say more",
            rest.remaining.as_secs(),
            serialized_name(&rest.because)
        );
        return (ModelState::Resting, Some(why));
    }
    match last.map(|call| call.outcome) {
        None | Some(CallOutcome::NotMade) => (ModelState::Unasked, None),
        Some(CallOutcome::Answered | CallOutcome::Open) => (ModelState::Answers, None),
        Some(CallOutcome::Failed(kind)) => {
            let why = format!(
                "the last call of the model failed: {}",
                serialized_name(&kind)
            );
            (ModelState::Fails, Some(why))
        }
    }
}

/// What the model has cost, and what it may. These are the agent's books: those of a person who uses `watchkeeper ask` and `chat` are that person's.
#[utoipa::path(get, path = "/cost", tag = "agent", responses((status = 200, body = CostReport)))]
pub(super) async fn cost(State(app): State<App>) -> Result<Json<CostReport>, Refusal> {
    let provider = app.shared.provider.clone();
    let cost = app.look(move |shared| {
        let open = shared.conversations.shop().model.as_ref();
        let books = open.map(|open| open().map(|client| client.report()));
        CostReport::new(provider, books)
    });
    Ok(Json(cost.await?))
}

/// What came of second opinions since the agent's start.
#[utoipa::path(get, path = "/opinions", tag = "agent", responses((status = 200, body = second_opinion::Counts)))]
pub(super) async fn opinions(
    State(app): State<App>,
) -> Result<Json<second_opinion::Counts>, Refusal> {
    Ok(Json(standing(&app).await?.opinions))
}

/// What to look for.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct MemoryQuery {
    /// Words that the notes have to do with.
    #[param(value_type = String)]
    q: Option<String>,
    /// Most notes in the answer, 1 to 50; default 10.
    #[param(value_type = Option<u64>)]
    limit: Option<String>,
}

/// The agent's notes that have to do with these words, the best first: each with its file, its words, and whether they are a person's (`trusted`).
#[utoipa::path(get, path = "/memory", tag = "memory", params(MemoryQuery), responses((status = 200, body = Vec<Object>)))]
pub(super) async fn memory(
    State(app): State<App>,
    Query(query): Query<MemoryQuery>,
) -> Result<Json<Vec<Value>>, Refusal> {
    let limit = body::number_within("limit", query.limit.as_deref(), NOTES, [1, MAX_NOTES])?;
    let words = query.q.unwrap_or_default();
    let length = words.chars().count();
    if words.trim().is_empty() || length > MAX_QUESTION {
        let detail = format!(
            "q must be 1 to {MAX_QUESTION} characters: the words to look for, such as q=loading%20dock"
        );
        return Err(Refusal::invalid(detail).at("q", format!("{length} characters")));
    }
    let found = app.look(move |shared| {
        let notes = &shared.conversations.shop().notes;
        let query = watchkeeper_memory::Query {
            now: Some(Timestamp::now()),
            limit: usize::try_from(limit).unwrap_or(1),
            ..watchkeeper_memory::Query::new(words)
        };
        let mut memory = notes.open()?;
        memory.search(query).map_err(|e| e.to_string())
    });
    let found = found.await?.map_err(|why| unreadable(&why))?;
    let notes = found.iter().map(serde_json::to_value);
    Ok(Json(notes.filter_map(Result::ok).collect()))
}

/// How much of it.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct TraceQuery {
    /// Most entries in the answer, 1 to 1000; default 100.
    #[param(value_type = Option<u64>)]
    limit: Option<String>,
}

/// The latest entries of the agent's trace, the oldest first: what was asked, which tools a model used and what they answered, what was proposed,
/// confirmed and done, what it cost. Over TCP without what was said on the box.
#[utoipa::path(get, path = "/trace", tag = "agent", params(TraceQuery), responses((status = 200, body = Vec<Object>)))]
pub(super) async fn trace(
    State(app): State<App>,
    Query(query): Query<TraceQuery>,
) -> Result<Json<Vec<Value>>, Refusal> {
    let limit = body::number_within("limit", query.limit.as_deref(), ENTRIES, [1, MAX_ENTRIES])?;
    let limit = usize::try_from(limit).unwrap_or(1);
    let channel = app.channel;
    let entries = app.look(move |shared| {
        let trace = Trace::new(&shared.conversations.shop().home, AGENT);
        trace.latest_where(limit, |entry| may_see(channel, entry))
    });
    let entries = entries.await?;
    Ok(Json(
        entries.map_err(|error| unreadable(&error.to_string()))?,
    ))
}

fn unreadable(why: &str) -> Refusal {
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, ProblemCode::Storage, why)
}
