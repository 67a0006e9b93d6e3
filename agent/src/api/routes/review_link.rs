//! Pages behind the links of notifications, by which a person answers a review.
//!
//! - The link is the authority; there is no other one, and it allows nothing but one answer.
//! - A GET changes nothing: messengers fetch links for previews. The answer is a POST.
//! - Pages have no script, load nothing from elsewhere, and are not cached or indexed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use url::form_urlencoded;
use watchkeeper_assistant::reviews::{PersonAnswer, best_picture};
use watchkeeper_assistant::wording::local_time;
use watchkeeper_client::clock::wall_now;
use watchkeeper_client::{ClientError, JournalRecord, RuntimeClient};
use watchkeeper_contract::assessment::{AssessmentAnswer, Via};
use watchkeeper_contract::event::Event;
use watchkeeper_contract::review::NewAssessment;
use watchkeeper_http::ConnectionPlace;

use crate::review_links::{LinkedReview, PATH, ReviewLinks};

/// Delay of the answer to a wrong link, as to a wrong token.
const WRONG_LINK_DELAY: Duration = Duration::from_secs(1);
/// Headers of every page.
const HEADERS: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; img-src 'self'; style-src 'unsafe-inline'; form-action 'self'; \
         frame-ancestors 'none'; base-uri 'none'",
    ),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (HeaderName::from_static("x-robots-tag"), "noindex"),
];

/// State of the pages.
#[derive(Clone)]
pub(in crate::api) struct Pages {
    pub(in crate::api) links: Arc<ReviewLinks>,
    pub(in crate::api) client: RuntimeClient,
}

/// The pages, for the router over TCP.
pub(in crate::api) fn pages(pages: Pages) -> Router {
    Router::new()
        .route(&format!("{PATH}{{token}}"), get(show).post(answer))
        .route(&format!("{PATH}{{token}}/picture"), get(picture))
        .layer(from_fn_with_state(pages.clone(), require_link))
        .with_state(pages)
}

/// Lets requests with a valid link through.
async fn require_link(
    State(pages): State<Pages>,
    Path(token): Path<String>,
    mut request: Request,
    next: Next,
) -> Response {
    let mut response = match pages.links.check(&token, wall_now().unix_ms) {
        Ok(review) => {
            let place = request.extensions().get::<ConnectionPlace>();
            if place.is_none_or(ConnectionPlace::prove) {
                request.extensions_mut().insert(review);
                next.run(request).await
            } else {
                page(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "Too many people are connected. Try again.",
                )
            }
        }
        Err(why) => {
            tokio::time::sleep(WRONG_LINK_DELAY).await;
            page(StatusCode::NOT_FOUND, &format!("{why}."))
        }
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Shows the event with two buttons.
async fn show(
    State(pages): State<Pages>,
    Path(token): Path<String>,
    Extension(review): Extension<LinkedReview>,
) -> Response {
    let event = match find(&pages.client, review).await {
        Ok(event) => event,
        Err(response) => return response,
    };
    // Relative, because a proxy may put a path before it. A token has no character to escape.
    let picture = match event.media.is_empty() {
        true => String::new(),
        false => format!("<p><img alt=\"\" style=\"max-width:100%\" src=\"{token}/picture\"></p>"),
    };
    let sentence = escaped(&describe(&event));
    let body = format!(
        "<p>{sentence}</p>{picture}<form method=\"post\">\
         <button name=\"answer\" value=\"approve\">It happened</button> \
         <button name=\"answer\" value=\"reject\">It did not happen</button></form>"
    );
    Html(document(&body)).into_response()
}

/// Records the answer of the form.
async fn answer(
    State(pages): State<Pages>,
    Extension(review): Extension<LinkedReview>,
    body: Bytes,
) -> Response {
    let answer = match read_answer(&body) {
        Some(answer) => answer,
        None => return page(StatusCode::BAD_REQUEST, "Choose one of the two answers."),
    };
    let given = PersonAnswer {
        answer,
        label: None,
        fields: BTreeMap::new(),
        note: None,
        name: None,
    };
    let request = NewAssessment {
        event: Some(review.event),
        only_if_unanswered: true,
        ..given.into_request(Via::Link)
    };
    match pages.client.assess(review.seq, &request).await {
        Ok(_) => page(StatusCode::OK, "Thank you. The answer is recorded."),
        Err(error) => failed(&error),
    }
}

/// The picture of the event, with drawings where there are any.
async fn picture(
    State(pages): State<Pages>,
    Extension(review): Extension<LinkedReview>,
) -> Response {
    let event = match find(&pages.client, review).await {
        Ok(event) => event,
        Err(response) => return response,
    };
    let Some(media) = best_picture(&event) else {
        return page(StatusCode::NOT_FOUND, "This event has no picture.");
    };
    match pages.client.media(&media.id).await {
        Ok(bytes) => ([(header::CONTENT_TYPE, media.content_type.clone())], bytes).into_response(),
        Err(error) => failed(&error),
    }
}

fn read_answer(body: &[u8]) -> Option<AssessmentAnswer> {
    let mut fields = form_urlencoded::parse(body);
    let (_, value) = fields.find(|(name, _)| name == "answer")?;
    match &*value {
        "approve" => Some(AssessmentAnswer::Approve),
        "reject" => Some(AssessmentAnswer::Reject),
        _ => None,
    }
}

/// The event of a link; the page to show if there is none.
async fn find(client: &RuntimeClient, review: LinkedReview) -> Result<Event, Response> {
    match client.record(review.seq).await {
        Ok(Some(JournalRecord::Known(event))) if event.id == review.event => Ok(*event),
        Ok(_) => Err(page(StatusCode::GONE, "This event is no longer kept.")),
        Err(error) => Err(failed(&error)),
    }
}

fn describe(event: &Event) -> String {
    let reason = event.body.text();
    let camera = event.source.as_ref().map_or("", |source| source.as_str());
    format!("{}, {camera}: {reason}", local_time(event.at.unix_ms))
}

/// Page about a refusal of the runtime, or of its silence.
fn failed(error: &ClientError) -> Response {
    match error {
        ClientError::Refused(problem) if problem.status == 409 => page(
            StatusCode::CONFLICT,
            "A person has answered already. Change it with `watchkeeper reviews`.",
        ),
        ClientError::Refused(problem) if problem.status == 404 => {
            page(StatusCode::GONE, "This event is no longer kept.")
        }
        error => {
            tracing::warn!(
                error = error.in_full(),
                "a review could not be answered by its link"
            );
            let sentence = "The box can't record it now. Try again in a minute.";
            page(StatusCode::SERVICE_UNAVAILABLE, sentence)
        }
    }
}

fn page(status: StatusCode, sentence: &str) -> Response {
    let body = format!("<p>{}</p>", escaped(sentence));
    (status, Html(document(&body))).into_response()
}

fn document(body: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>Review</title>\
         <body style=\"font:1.1em sans-serif;max-width:40em;margin:2em auto;padding:0 1em\">\
         {body}</body></html>"
    )
}

/// Text as HTML: labels and names come from outside.
fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_has_one_of_two_answers() {
        assert_eq!(
            read_answer(b"answer=approve"),
            Some(AssessmentAnswer::Approve)
        );
        assert_eq!(
            read_answer(b"x=1&answer=reject"),
            Some(AssessmentAnswer::Reject)
        );
        for wrong in [&b""[..], b"answer=correct", b"answer", b"\xff\xfe"] {
            assert_eq!(read_answer(wrong), None);
        }
    }

    #[test]
    fn text_from_outside_is_no_markup() {
        let hostile = escaped("<script>\"&'");
        assert_eq!(hostile, "&lt;script&gt;&quot;&amp;'");
    }
}
