//! Read-only routes: costs, notes, trace, counts of second opinions and chains.
//!
//! - No route calls a language model. Files are read on a blocking thread.
//! - Every number of entries has a limit.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use watchkeeper_contract::problem::Problem;
use watchkeeper_http::body::Query;
use watchkeeper_http::{Refusal, body};
use watchkeeper_memory::{Found, Memory, MemoryError};

use super::health::agent_status;
use crate::api::app::App;
use crate::{evidence, second_opinion};
use watchkeeper_assistant::proposal::costs::CostReport;
use watchkeeper_assistant::trace::{AGENT, Trace, may_see};

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

/// Costs of the language model, with its limits, from the agent's ledger. Users of `watchkeeper
/// ask` and `chat` have ledgers of their own.
#[utoipa::path(get, path = "/cost", tag = "agent", responses((status = 200, body = CostReport)))]
pub(super) async fn cost(State(app): State<App>) -> Result<Json<CostReport>, Refusal> {
    let cost = app.shared.access_files(|shared| {
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
    Ok(Json(agent_status(&app.shared, None).await?.opinions))
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
        counts: agent_status(&app.shared, None).await?.chains,
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
    let found = app.shared.access_files(move |shared| {
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
    let entries = app.shared.access_files(move |shared| {
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
