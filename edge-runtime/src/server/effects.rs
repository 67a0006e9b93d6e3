//! What workflows want done outside, over HTTP: which effects wait, what is in one, and what came of it.
//!
//! The agent is the client: it asks with the number of the last one that it has heard of and waits for more. Invariant: an effect is shown until
//! an outcome was told of it, so an agent that was killed begins with 0 and forgets none.

use std::time::Duration;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tokio::time::{Instant, sleep_until};
use watchkeeper_contract::problem::ProblemCode;
use watchkeeper_contract::spool::{
    EffectNumber, EffectOutcome, MAX_EFFECTS_PAGE, MAX_EFFECTS_WAIT_S, SpooledEffect, WaitingEffect,
};
use watchkeeper_http::body::{self, Named};
use watchkeeper_http::{Refusal, closed};

use super::{App, MAX_FOLLOWERS};

/// Where to begin, how much to answer and how long to wait for it.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Number of the last effect that the client has heard of; default 0, the beginning.
    #[param(value_type = Option<u64>)]
    after: Option<String>,
    /// Most effects in the answer, 1 to 256; default 256.
    #[param(value_type = Option<u64>)]
    limit: Option<String>,
    /// Seconds to wait for one where none is there, 0 to 30; default 0. The answer is empty then.
    #[param(value_type = Option<u64>)]
    wait: Option<String>,
}

impl ListQuery {
    fn read(&self) -> Result<(EffectNumber, usize, Duration), Refusal> {
        let after = body::number("after", self.after.as_deref(), 0)?;
        let most = MAX_EFFECTS_PAGE;
        let limit = body::number_within("limit", self.limit.as_deref(), most, [1, most])?;
        let wait = body::number_within("wait", self.wait.as_deref(), 0, [0, MAX_EFFECTS_WAIT_S])?;
        Ok((
            EffectNumber(after),
            usize::try_from(limit).unwrap_or(1),
            Duration::from_secs(wait),
        ))
    }
}

/// Effects that wait, after a number, in the order of their numbers. With `wait` the answer comes as soon as there is one.
#[utoipa::path(get, path = "/effects", tag = "effects", params(ListQuery),
    responses((status = 200, body = Vec<WaitingEffect>)))]
pub(super) async fn list(
    State(app): State<App>,
    Query(query): Query<ListQuery>,
) -> Result<Json<Vec<WaitingEffect>>, Refusal> {
    let (after, limit, wait) = query.read()?;
    // Whoever waits takes the place of a follower of events.
    let _place = if wait.is_zero() {
        None
    } else {
        let place = app.followers.clone().try_acquire_owned();
        Some(place.map_err(|_| too_many())?)
    };
    let until = Instant::now() + wait;
    let mut advances = app.runtime.effects().subscribe();
    loop {
        // Seen before reading: what comes while we read wakes us again.
        advances.borrow_and_update();
        let page = app.ask(move |r| r.effects().page(after, limit)).await?;
        if after > page.last {
            return Err(ahead(after, page.last));
        }
        if !page.effects.is_empty() || wait.is_zero() {
            return Ok(Json(page.effects));
        }
        tokio::select! {
            changed = advances.changed() => if changed.is_err() { return Ok(Json(Vec::new())) },
            () = sleep_until(until) => return Ok(Json(Vec::new())),
            () = closed(app.closing.clone()) => return Ok(Json(Vec::new())),
        }
    }
}

/// An effect that waits, with everything that is in it. Secrets are in it by their names.
#[utoipa::path(get, path = "/effects/{number}", tag = "effects",
    params(("number" = EffectNumber, Path, description = "Number of the effect")),
    responses((status = 200, body = SpooledEffect)))]
pub(super) async fn get(
    State(app): State<App>,
    Named(number): Named<EffectNumber>,
) -> Result<Response, Refusal> {
    let json = app.attempt(move |r| r.effects().read(number)).await?;
    let json = json.ok_or_else(|| none(number))?;
    Ok(([(CONTENT_TYPE, "application/json")], json).into_response())
}

/// Says what came of an effect, which waits no more. A failure is counted and shown by `/v1/health`. A second word about one is refused with 404.
#[utoipa::path(post, path = "/effects/{number}/outcome", tag = "effects",
    params(("number" = EffectNumber, Path, description = "Number of the effect")),
    request_body = EffectOutcome, responses((status = 204)))]
pub(super) async fn settle(
    State(app): State<App>,
    Named(number): Named<EffectNumber>,
    body: body::Body,
) -> Result<StatusCode, Refusal> {
    let outcome: EffectOutcome = body::read(body::json(body)?)?;
    let work = move |r: &dyn super::Runtime| r.effects().settle(number, &outcome);
    if app.attempt(work).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(none(number))
    }
}

fn none(number: EffectNumber) -> Refusal {
    let detail = format!("no effect {number} waits; GET /v1/effects lists those that do");
    Refusal::new(StatusCode::NOT_FOUND, ProblemCode::NotFound, detail)
        .at("number", number.to_string())
}

/// A cursor from another folder would wait for ever.
fn ahead(after: EffectNumber, last: EffectNumber) -> Refusal {
    let detail = format!(
        "effect {after} is ahead of this box, whose last one is {last}; begin again with after=0"
    );
    Refusal::new(StatusCode::CONFLICT, ProblemCode::Conflict, detail).at("after", after.to_string())
}

fn too_many() -> Refusal {
    Refusal::new(
        StatusCode::TOO_MANY_REQUESTS,
        ProblemCode::Limit,
        format!(
            "{MAX_FOLLOWERS} clients follow events and effects already; close one and try again"
        ),
    )
}
