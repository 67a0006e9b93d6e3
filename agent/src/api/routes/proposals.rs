//! Pending proposals over HTTP: list, show, confirm and reject them.
//!
//! Invariant: confirmation and rejection are messages in the proposal's conversation, which is
//! reopened if needed. So a change of the configuration is compared with the present one, and the
//! conversation's followers see the result. Actions on archive and jobs are compared with nothing.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path as FilePath, PathBuf};

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use watchkeeper_contract::problem::ProblemCode;
use watchkeeper_http::{Refusal, closed};
use watchkeeper_plain::Plain;

use super::problem::{refused, unreadable};
use super::talk;
use crate::api::app::App;
use crate::api::conversations::Message;
use watchkeeper_assistant::permissions::{Entrypoint, may_answer};
use watchkeeper_assistant::proposal::pending::PendingProposal;
use watchkeeper_assistant::proposal::trial::TrialResult;
use watchkeeper_assistant::setup_agent::tool_context::system_snapshot;

/// A pending proposal.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct Proposal {
    /// Id of the proposal.
    id: String,
    /// Id of the conversation that made it.
    conversation: String,
    /// Entrypoint of its request: `local` (the socket) or `remote` (TCP).
    #[schema(value_type = String)]
    channel: Entrypoint,
    /// Request that led to the proposal.
    request: String,
    /// Language model that made it; absent if the rules understood the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// Time of the request.
    #[schema(value_type = String)]
    at: Timestamp,
    /// Time at which the proposal expires.
    #[schema(value_type = String)]
    until: Timestamp,
}

impl Proposal {
    fn from_pending(kept: &PendingProposal) -> Option<Self> {
        let by = kept.requester.as_ref()?;
        Some(Self {
            id: kept.id.clone(),
            conversation: by.conversation.clone(),
            channel: by.entrypoint,
            request: kept.shown.full_request(),
            model: kept.shown.model().map(str::to_owned),
            at: kept.shown.at,
            until: kept.shown.valid_until(),
        })
    }
}

/// A proposal, computed again from the present configuration.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct ProposalDetails {
    #[serde(flatten)]
    proposal: Proposal,
    /// Whether it would now do something else than when it was shown. A confirmation then shows it
    /// again and changes nothing. Absent for actions on archive and jobs: they do what they name,
    /// such as destroy all entries that a collection has at the confirmation.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<bool>,
    /// What it would do: `changes`, the engine's `checks`, the `difference` to what runs, what was
    /// understood, assumed and left out. For actions on archive and jobs, `actions`. Absent if the
    /// request has no meaning any more.
    #[schema(value_type = Option<Object>)]
    offer: Option<Value>,
}

/// Result of a confirmation or rejection.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct Answered {
    /// Id of the proposal's conversation.
    conversation: String,
    /// Whether the change was made or rejected.
    outcome: AnsweredAs,
    /// Events of the message, as in the conversation: `done` for each change, or `dropped`.
    #[schema(value_type = Vec<Object>)]
    events: Vec<Value>,
}

/// Outcome of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum AnsweredAs {
    /// The change was made.
    Done,
    /// The proposal was dropped and nothing was changed.
    Refused,
}

/// Pending proposals, the oldest first. Over TCP only those that were requested over TCP. They
/// survive a restart of the agent and expire after an hour.
#[utoipa::path(get, path = "/proposals", tag = "proposals", responses((status = 200, body = Vec<Proposal>)))]
pub(super) async fn list(State(app): State<App>) -> Result<Json<Vec<Proposal>>, Refusal> {
    let all = waiting(&app).await?;
    Ok(Json(
        all.iter().filter_map(Proposal::from_pending).collect(),
    ))
}

/// A proposal, with its difference to what runs now.
#[utoipa::path(get, path = "/proposals/{id}", tag = "proposals",
    params(("id" = String, Path, description = "Id of the proposal")),
    responses((status = 200, body = ProposalDetails)))]
pub(super) async fn get(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<ProposalDetails>, Refusal> {
    let kept = find(&app, &id).await?;
    if let Some(actions) = kept.shown.actions() {
        return Ok(Json(ProposalDetails {
            proposal: Proposal::from_pending(&kept).ok_or_else(|| none(&id))?,
            changed: None,
            offer: Some(json!({ "actions": actions.actions })),
        }));
    }
    let deps = app.shared.conversations.deps();
    let here = system_snapshot(&deps.client, deps.preferred.clone()).await;
    let here = here.map_err(|error| no_runtime(&error.in_full()))?;
    let plain = Plain::new().map_err(|error| {
        tracing::error!(%error, "the lexicon can't be read");
        watchkeeper_http::refusal::internal()
    })?;
    let offer = kept.shown.recheck(&plain, &here);
    let is_same = offer.as_ref().is_some_and(|offer| kept.shown.is_of(offer));
    let proposal = Proposal::from_pending(&kept).ok_or_else(|| none(&id))?;
    Ok(Json(ProposalDetails {
        proposal,
        changed: Some(!is_same),
        offer: offer.map(|offer| offer.to_json()),
    }))
}

/// Largest picture of a trial that is served.
const MAX_PICTURE_BYTES: u64 = 16 << 20;

/// A picture that the trial of a pipeline makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PictureKind {
    /// Lines and zones on a frame.
    Preview,
    /// Some of the events that it would have reported in the last hours.
    Events,
}

impl PictureKind {
    fn from_name(name: &str) -> Result<Self, Refusal> {
        match name {
            "preview" => Ok(Self::Preview),
            "events" => Ok(Self::Events),
            _ => Err(Refusal::invalid("kind must be preview or events").at("kind", name)),
        }
    }

    fn file(self, trial: &TrialResult) -> Option<&str> {
        match self {
            Self::Preview => trial.picture.as_deref(),
            Self::Events => trial.backtest.as_ref()?.pictures.as_deref(),
        }
    }
}

/// A picture that the trial of a pipeline made. `preview` shows its lines and zones, `events` some
/// events that it would have reported in the last hours. A proposal of a language model has no
/// `preview`. The newest 40 of all trials are kept.
#[utoipa::path(get, path = "/proposals/{id}/pictures/{pipeline}/{kind}", tag = "proposals",
    params(("id" = String, Path, description = "Id of the proposal"),
        ("pipeline" = String, Path, description = "Name of the pipeline in `tried`"),
        ("kind" = String, Path, description = "`preview` or `events`")),
    responses((status = 200, content_type = "image/jpeg", body = Vec<u8>)))]
pub(super) async fn picture(
    State(app): State<App>,
    Path((id, pipeline, kind)): Path<(String, String, String)>,
) -> Result<Response, Refusal> {
    let kind = PictureKind::from_name(&kind)?;
    let kept = find(&app, &id).await?;
    let mut trials = kept.shown.trials().iter();
    let trial = trials.find(|trial| trial.pipeline.as_str() == pipeline);
    let trial = trial.ok_or_else(|| not_tried(&kept, &pipeline))?;
    // The file is named by the stored proposal, never by the client.
    let file = kind.file(trial).map(PathBuf::from);
    let file = file.ok_or_else(|| no_picture("the trial of this pipeline made no such picture"))?;
    let jpeg = app
        .shared
        .access_files(move |_| read_picture(&file))
        .await??;
    Ok(([(CONTENT_TYPE, "image/jpeg")], jpeg).into_response())
}

/// Reads a picture of at most [`MAX_PICTURE_BYTES`].
fn read_picture(file: &FilePath) -> Result<Vec<u8>, Refusal> {
    let mut jpeg = Vec::new();
    let read = File::open(file);
    let read = read.and_then(|open| open.take(MAX_PICTURE_BYTES + 1).read_to_end(&mut jpeg));
    match read {
        Ok(_) if jpeg.len() as u64 <= MAX_PICTURE_BYTES => Ok(jpeg),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(no_picture("the picture made room for newer ones"))
        }
        Ok(_) | Err(_) => {
            let file = file.display();
            tracing::error!(%file, error = ?read.err(), "the picture of a trial can't be read");
            Err(watchkeeper_http::refusal::internal())
        }
    }
}

fn not_tried(kept: &PendingProposal, pipeline: &str) -> Refusal {
    let tried = kept.shown.trials().iter();
    let tried: Vec<&str> = tried.map(|trial| trial.pipeline.as_str()).collect();
    let detail = match tried.as_slice() {
        [] => "no pipeline of this proposal was tried".to_owned(),
        names => format!("pipeline must be one of those tried: {}", names.join(", ")),
    };
    no_picture(&detail).at("pipeline", pipeline)
}

fn no_picture(why: &str) -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, ProblemCode::NotFound, why)
}

/// Confirms a proposal; nothing changes before. If what runs has changed since the proposal was
/// shown, nothing is done, and 409 names the new proposal. On the box every proposal may be
/// confirmed, over TCP those that were requested over TCP.
#[utoipa::path(post, path = "/proposals/{id}/confirm", tag = "proposals",
    params(("id" = String, Path, description = "Id of the proposal")),
    responses((status = 200, body = Answered)))]
pub(super) async fn confirm(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<Answered>, Refusal> {
    answer(&app, &id, "yes", AnsweredAs::Done).await
}

/// Rejects a proposal: it is dropped, and nothing changes.
#[utoipa::path(post, path = "/proposals/{id}/refuse", tag = "proposals",
    params(("id" = String, Path, description = "Id of the proposal")),
    responses((status = 200, body = Answered)))]
pub(super) async fn refuse(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<Answered>, Refusal> {
    answer(&app, &id, "no", AnsweredAs::Refused).await
}

/// Pending proposals that this entrypoint may answer.
async fn waiting(app: &App) -> Result<Vec<PendingProposal>, Refusal> {
    let all = app
        .shared
        .access_files(|shared| {
            let waiting = shared.conversations.deps().waiting();
            waiting.list(Timestamp::now())
        })
        .await?;
    let mut all = all.map_err(|error| unreadable(&error))?;
    all.retain(|kept| {
        let by = kept.requester.as_ref();
        by.is_some_and(|by| may_answer(by.entrypoint, app.entrypoint).is_ok())
    });
    Ok(all)
}

async fn find(app: &App, id: &str) -> Result<PendingProposal, Refusal> {
    let wanted = id.trim().to_lowercase();
    let found = waiting(app)
        .await?
        .into_iter()
        .find(|kept| kept.id == wanted);
    found.ok_or_else(|| none(id))
}

fn none(id: &str) -> Refusal {
    let id: String = id.chars().take(40).collect();
    let detail = format!(
        "proposal {id:?} is not pending: it was confirmed, rejected, expired after an hour, or \
         was made elsewhere; GET /v1/proposals lists the pending ones"
    );
    Refusal::new(StatusCode::NOT_FOUND, ProblemCode::NotFound, detail).at("id", id)
}

fn no_runtime(why: &str) -> Refusal {
    let (status, code) = (StatusCode::SERVICE_UNAVAILABLE, ProblemCode::NotReady);
    Refusal::new(status, code, why)
}

/// Sends `word` about a proposal to its conversation and waits for the result.
async fn answer(
    app: &App,
    id: &str,
    word: &str,
    wanted: AnsweredAs,
) -> Result<Json<Answered>, Refusal> {
    let kept = find(app, id).await?;
    let all = &app.shared.conversations;
    let message = Message::about(&kept.id, word);
    let handle = all.open_for_proposal(kept).map_err(refused)?;
    let mut advances = handle.feed.subscribe();
    let turn = all.send(&handle, message).map_err(refused)?;
    let events = loop {
        advances.borrow_and_update();
        let mut events = handle.feed.of_turn(turn.turn);
        // An alert may follow the end.
        if let Some(end) = events.iter().position(|event| event.is_end) {
            events.truncate(end + 1);
            break events;
        }
        // A started change is carried out even if this client disconnects.
        let is_cut_off = tokio::select! {
            biased;
            changed = advances.changed() => changed.is_err(),
            () = closed(handle.over()) => true,
            () = closed(app.shared.closing.clone()) => true,
        };
        if is_cut_off {
            return Err(no_runtime(
                "the agent stopped before the change was done; after its restart, GET \
                 /v1/proposals shows whether the proposal is still pending",
            ));
        }
    };
    let events = talk::objects(&events);
    if let Some(failure) = events.iter().find(|event| event["type"] == "failure") {
        return Err(failed(failure));
    }
    if let Some(new) = events.iter().find(|event| event["type"] == "proposal") {
        let detail = format!(
            "what runs has changed since the proposal was shown, so nothing was done; the new \
             proposal is {}",
            new["id"].as_str().unwrap_or("?")
        );
        return Err(Refusal::new(StatusCode::CONFLICT, ProblemCode::Conflict, detail).at("id", id));
    }
    Ok(Json(Answered {
        conversation: handle.id.clone(),
        outcome: wanted,
        events,
    }))
}

/// Converts a reported failure into a refusal.
fn failed(failure: &Value) -> Refusal {
    let mut detail = failure["message"].as_str().unwrap_or_default().to_owned();
    let details = failure["details"].as_array().into_iter().flatten();
    for line in details.filter_map(Value::as_str) {
        detail.push_str("; ");
        detail.push_str(line);
    }
    Refusal::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        ProblemCode::Conflict,
        detail,
    )
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use std::sync::Arc;

    use axum::body::to_bytes;
    use tokio::sync::mpsc;
    use watchkeeper_assistant::proposal::backtest::BacktestSummary;
    use watchkeeper_assistant::proposal::conversation::{ShownChanges, ShownEffect, ShownProposal};
    use watchkeeper_assistant::proposal::pending::Requester;

    use super::*;
    use crate::api::app::Shared;
    use crate::api::conversations::Bounds;
    use crate::api::tests::{Here, here};

    /// Keeps a proposal that came in by `entrypoint`, with both pictures of its trial.
    fn keep_proposal(here: &Here, entrypoint: Entrypoint, preview: &FilePath) -> String {
        let events = here.dir.path().join("7-events-gate.jpg");
        std::fs::write(&events, b"jpeg").unwrap();
        let spec = json!({"id": "watch", "source": "gate", "workflow": {}});
        let trial = TrialResult {
            picture: Some(preview.display().to_string()),
            backtest: Some(BacktestSummary {
                pictures: Some(events.display().to_string()),
                ..BacktestSummary::default()
            }),
            ..TrialResult::new(&serde_json::from_value(spec).unwrap())
        };
        let now = Timestamp::now();
        let shown = ShownProposal {
            request: "count cars".to_owned(),
            at: now,
            effect: ShownEffect::Changes(ShownChanges {
                trials: vec![trial],
                ..ShownChanges::default()
            }),
        };
        let by = Requester {
            entrypoint,
            conversation: "c1".to_owned(),
        };
        let socket = here.dir.path().join("none.sock");
        let waiting = here.all.deps().waiting();
        waiting.keep(&socket, &shown, Some(by), now).unwrap()
    }

    async fn get_picture(
        here: &Here,
        entrypoint: Entrypoint,
        [id, pipeline, kind]: [&str; 3],
    ) -> Result<Vec<u8>, Refusal> {
        let shared = Shared::new(
            Arc::clone(&here.all),
            mpsc::channel(1).0,
            here.close.subscribe(),
        );
        let app = App { entrypoint, shared };
        let names = (id.to_owned(), pipeline.to_owned(), kind.to_owned());
        let response = picture(State(app), Path(names)).await?;
        assert_eq!(response.headers()[CONTENT_TYPE], "image/jpeg");
        Ok(to_bytes(response.into_body(), 9).await.unwrap().to_vec())
    }

    #[tokio::test]
    async fn picture_of_a_trial_is_served_where_its_proposal_is_seen() {
        let here = here(Bounds::default());
        let preview = here.dir.path().join("preview.jpg");
        std::fs::write(&preview, b"drawn").unwrap();
        let id = keep_proposal(&here, Entrypoint::Local, &preview);
        for (kind, bytes) in [
            ("preview", b"drawn".as_slice()),
            ("events", b"jpeg".as_slice()),
        ] {
            let names = [&*id, "watch", kind];
            let served = get_picture(&here, Entrypoint::Local, names).await;
            assert_eq!(served.unwrap(), bytes);
            let hidden = get_picture(&here, Entrypoint::Remote, names).await;
            assert_eq!(hidden.unwrap_err().0.status, 404, "over TCP");
        }
    }

    #[tokio::test]
    async fn refused_picture_names_field_and_allowed_values() {
        let here = here(Bounds::default());
        let gone = here.dir.path().join("gone.jpg");
        let id = keep_proposal(&here, Entrypoint::Remote, &gone);
        for (names, status, detail) in [
            ([&*id, "watch", "preview"], 404, "made room"),
            ([&*id, "watch", "../events"], 400, "preview or events"),
            ([&*id, "other", "events"], 404, "one of those tried: watch"),
            (["nope", "watch", "events"], 404, "not pending"),
        ] {
            let refused = get_picture(&here, Entrypoint::Remote, names).await;
            let problem = refused.unwrap_err().0;
            assert_eq!(problem.status, status, "{names:?}");
            assert!(problem.detail.contains(detail), "{}", problem.detail);
        }
    }

    #[tokio::test]
    async fn unreadable_picture_is_an_internal_error() {
        let here = here(Bounds::default());
        let id = keep_proposal(&here, Entrypoint::Local, here.dir.path());
        let refused = get_picture(&here, Entrypoint::Local, [&id, "watch", "preview"]).await;
        assert_eq!(refused.unwrap_err().0.status, 500);
    }
}
