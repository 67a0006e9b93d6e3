//! Submissions of jobs: plans, and requests in words, which are planned first.
//!
//! - A job is queued only after its planning. A client that disconnects before ends it.
//! - As server-sent events, the last one says that the job was accepted, or why it was refused.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response, sse};
use futures_util::{StreamExt as _, stream};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use watchkeeper_assistant::jobs::{PlanningEvent, Unplanned};
use watchkeeper_config::redact;
use watchkeeper_http::{Refusal, body};
use watchkeeper_jobs::plan::{MAX_PLAN_BYTES, Plan, read, read_text};

use super::jobs::{AcceptedJob, answer, refused, service};
use super::talk::{follower, wants_stream};
use crate::api::app::App;
use crate::jobs::{JobRequest, JobServiceError};

/// Largest body of a submission, in bytes: a plan, with its JSON around it.
pub(super) const MAX_SUBMISSION: usize = MAX_PLAN_BYTES + (64 << 10);
/// Longest request in plain English, and longest origin, in characters.
const MAX_REQUEST: usize = 2000;
/// Events that wait for a slow client. Further ones are dropped; the result waits for a place.
const MAX_WAITING: usize = 64;

/// What the agent shall run: a plan, or a request in plain English.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JobSubmission {
    /// Plan as an object, or as a text in YAML.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    plan: Option<Value>,
    /// Request in words, such as "last week's deliveries by bay". A configured language model plans
    /// what the rules do not understand.
    #[serde(default)]
    request: Option<String>,
    /// Inputs of the plan to replace.
    #[serde(default)]
    #[schema(value_type = Object)]
    inputs: Map<String, Value>,
    /// Absolute path of a new or empty folder on the box; default: in the job's own folder. Not
    /// over TCP.
    #[serde(default)]
    output: Option<String>,
    /// File that the plan comes from, for the list of jobs.
    #[serde(default)]
    origin: Option<String>,
}

/// Runs a plan, or a request in words. The job is stored and queued: two run at a time, 16 wait, a
/// further one is refused. It survives a restart of the agent. A request that the rules do not
/// understand is planned by the language model first, which takes up to three minutes. Two are
/// planned at a time, eight wait for up to three minutes, a further one is refused. A client that
/// disconnects meanwhile ends that. With `Accept: text/event-stream` the answer is a stream. It has
/// `{"record": "planning", "sentence": …}` while the request is planned. Its last record is
/// `{"record": "accepted"}` with the members of the answer and the `plan`, or
/// `{"record": "refused"}` with the `problem`.
#[utoipa::path(post, path = "/jobs", tag = "jobs", request_body = JobSubmission,
    responses((status = 202, body = AcceptedJob), (status = 200,
        content_type = "text/event-stream", body = String)))]
pub(super) async fn submit(
    State(app): State<App>,
    headers: HeaderMap,
    body: body::Body,
) -> Result<Response, Refusal> {
    let submission: JobSubmission = body::read(body::json_up_to(body, MAX_SUBMISSION)?)?;
    if wants_stream(&headers) {
        return stream(app, submission);
    }
    let accepted = submission.submit(&app, &|_| {}).await?.0;
    Ok((StatusCode::ACCEPTED, Json(accepted)).into_response())
}

impl JobSubmission {
    /// Plans and queues the job. Returns the answer with the plan.
    async fn submit(
        self,
        app: &App,
        report: &(dyn Fn(PlanningEvent<'_>) + Sync),
    ) -> Result<(AcceptedJob, Plan), Refusal> {
        let (mut plan, made) = match (&self.plan, &self.request) {
            (Some(Value::String(text)), None) => (read_text(text).map_err(invalid_plan)?, None),
            (Some(plan), None) => (read(plan).map_err(invalid_plan)?, None),
            (None, Some(text)) => {
                require_short("request", text)?;
                let planned = service(app).plan_words(text, app.entrypoint, report).await;
                let planned = planned.map_err(|why| unplanned(&why))?;
                let made = (planned.planned, planned.by_model);
                (planned.plan, Some(made))
            }
            _ => {
                return Err(Refusal::invalid("give either plan or request"));
            }
        };
        for (key, value) in self.inputs {
            let Some(input) = plan.inputs.get_mut(&key) else {
                return Err(Refusal::invalid("the plan has no such input").at("inputs", key));
            };
            *input = value;
        }
        if let Some(origin) = &self.origin {
            require_short("origin", origin)?;
        }
        let named = self.request.as_ref().or(self.origin.as_ref());
        let origin = named.unwrap_or(&plan.name);
        let (planned, by_model) = made.unzip();
        let by = planned.as_ref().map(|planned| planned.by);
        let request = JobRequest {
            // What a person says may have a password.
            origin: redact::message(origin).unwrap_or_else(|| origin.to_owned()),
            plan: plan.clone(),
            output: self.output.map(Into::into),
            entrypoint: Some(app.entrypoint),
            schedule: None,
            planned,
        };
        let (job, repairs) = answer(app, move |jobs| jobs.submit(request)).await?;
        let accepted = AcceptedJob {
            job,
            repairs,
            by,
            by_model: by_model.flatten(),
        };
        Ok((accepted, plan))
    }
}

fn unplanned(why: &Unplanned) -> Refusal {
    Refusal::invalid(format!("request: {why}"))
}

fn require_short(field: &str, text: &str) -> Result<(), Refusal> {
    match text.chars().count() > MAX_REQUEST {
        true => {
            let sentence = format!("{field}: at most {MAX_REQUEST} characters");
            Err(Refusal::invalid(sentence))
        }
        false => Ok(()),
    }
}

fn invalid_plan(faults: Vec<watchkeeper_jobs::Fault>) -> Refusal {
    let faults = faults.iter().map(ToString::to_string);
    refused(JobServiceError::Invalid(faults.collect()))
}

/// Plans and queues a job, and answers with what happens.
fn stream(app: App, submission: JobSubmission) -> Result<Response, Refusal> {
    let place = follower(&app)?;
    let (sender, inbox) = mpsc::channel::<Value>(MAX_WAITING);
    let work = async move {
        let _place = place;
        let report = |event: PlanningEvent<'_>| {
            for sentence in event.sentences() {
                let planning = json!({"record": "planning", "sentence": sentence});
                sender.try_send(planning).ok();
            }
        };
        let last = match submission.submit(&app, &report).await {
            Ok((accepted, plan)) => {
                let mut last = json!(accepted);
                last["record"] = "accepted".into();
                last["plan"] = json!(plan);
                last
            }
            Err(refusal) => json!({"record": "refused", "problem": refusal.0}),
        };
        // The receiver is gone with its client.
        sender.send(last).await.ok();
    };
    let news = stream::unfold(inbox, |mut inbox| async move {
        let news = inbox.recv().await?;
        Some((Some(news), inbox))
    });
    let work = stream::once(work).map(|()| None);
    let events = stream::select(work, news).filter_map(async |news: Option<Value>| {
        news.map(|news| sse::Event::default().data(news.to_string()))
    });
    Ok(watchkeeper_http::stream::response(events))
}
