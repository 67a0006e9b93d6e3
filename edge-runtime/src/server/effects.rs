//! The effects spool over HTTP: which effects wait, the contents of one, its outcome.
//!
//! The agent is the client: it sends the number of the last effect that it knows and waits for
//! more.
//! An effect is listed until its outcome is reported; an agent that was killed starts at 0 and
//! misses none.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tokio::time::{Instant, sleep_until};
use watchkeeper_contract::problem::Problem;
use watchkeeper_contract::spool::{
    EffectNumber, EffectOutcome, MAX_EFFECTS_PAGE, MAX_EFFECTS_WAIT_S, SpooledEffect, WaitingEffect,
};
use watchkeeper_http::body::Query;
use watchkeeper_http::body::{self, Named};
use watchkeeper_http::{Refusal, closed, refusal};

use super::app::App;
use super::limits::MAX_FOLLOWERS;
use crate::api::Api;

/// Start, size and wait of a list request.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Number of the last effect that the client knows; default 0, the beginning.
    #[param(value_type = Option<u64>)]
    after: Option<String>,
    /// Max effects in the response, 1 to 256; default 256.
    #[param(value_type = Option<u64>)]
    limit: Option<String>,
    /// Seconds to wait while no effect is there, 0 to 30; default 0. On timeout the list is empty.
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

/// Lists effects that wait, after a number, in ascending order. With `wait`, responds as soon as
/// there is one.
#[utoipa::path(get, path = "/effects", tag = "effects", params(ListQuery),
    responses((status = 200, body = Vec<WaitingEffect>)))]
pub(super) async fn list(
    State(app): State<App>,
    Query(query): Query<ListQuery>,
) -> Result<Json<Vec<WaitingEffect>>, Refusal> {
    let (after, limit, wait) = query.read()?;
    // A client that waits counts as a follower.
    let _place = if wait.is_zero() {
        None
    } else {
        let place = app.followers.clone().try_acquire_owned();
        Some(place.map_err(|_| too_many_followers())?)
    };
    let until = Instant::now() + wait;
    let mut advances = app.api.effects().subscribe();
    loop {
        // Marked as seen before the read, so that a change during the read wakes the loop again.
        advances.borrow_and_update();
        let page = app.call(move |r| r.effects().page(after, limit)).await?;
        if after > page.last {
            return Err(refuse_ahead(after, page.last));
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

/// Returns the contents of an effect that waits. Secrets appear by name only.
#[utoipa::path(get, path = "/effects/{number}", tag = "effects",
    params(("number" = EffectNumber, Path, description = "Number of the effect")),
    responses((status = 200, body = SpooledEffect)))]
pub(super) async fn get(
    State(app): State<App>,
    Named(number): Named<EffectNumber>,
) -> Result<Response, Refusal> {
    let json = app.try_call(move |r| r.effects().read(number)).await?;
    let json = json.ok_or_else(|| not_waiting(number))?;
    Ok(([(CONTENT_TYPE, "application/json")], json).into_response())
}

/// Reports the outcome of an effect, which then no longer waits. `/v1/health` counts failures. A
/// second report is refused with 404.
#[utoipa::path(post, path = "/effects/{number}/outcome", tag = "effects",
    params(("number" = EffectNumber, Path, description = "Number of the effect")),
    request_body = EffectOutcome, responses((status = 204)))]
pub(super) async fn settle(
    State(app): State<App>,
    Named(number): Named<EffectNumber>,
    body: body::Body,
) -> Result<StatusCode, Refusal> {
    let outcome: EffectOutcome = body::read(body::json(body)?)?;
    let work = move |r: &Api| r.effects().settle(number, &outcome);
    if app.try_call(work).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(not_waiting(number))
    }
}

fn not_waiting(number: EffectNumber) -> Refusal {
    let detail = format!("no effect {number} waits; GET /v1/effects lists those that do");
    Problem::not_found(detail)
        .at("number", number.to_string())
        .into()
}

/// Refuses a cursor from another state folder: it would wait forever.
fn refuse_ahead(after: EffectNumber, last: EffectNumber) -> Refusal {
    let detail = format!(
        "effect {after} is ahead of this box, whose last one is {last}; start again with after=0"
    );
    Problem::conflict(detail)
        .at("after", after.to_string())
        .into()
}

fn too_many_followers() -> Refusal {
    refusal::full(format!(
        "{MAX_FOLLOWERS} clients follow events and effects; close one and try again"
    ))
}
