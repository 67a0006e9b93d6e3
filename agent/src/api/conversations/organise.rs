//! A request of a conversation to organise pictures: it becomes a job of the agent.
//!
//! - Planning, the plan with its price and repairs, and each record of the job become events of
//!   the conversation.
//! - The end of the conversation does not end the job.

use serde_json::json;
use watchkeeper_assistant::failure::Error;
use watchkeeper_assistant::jobs::PlanningEvent;
use watchkeeper_assistant::permissions::Entrypoint;
use watchkeeper_assistant::session::progress::{ProgressEvent, ProgressSink as _};
use watchkeeper_config::redact;
use watchkeeper_jobs::run::{JobState, LogLine, LogRecord};

use crate::api::feed::Feed;
use crate::jobs::view::NEWS_PAUSE;
use crate::jobs::{JobRequest, JobService};

/// How long a job is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// It is on disk and queued.
    Stored,
    Ended,
}

/// Whether a text is a request for a job.
///
/// # Errors
/// If the agent ends.
pub(super) async fn is_for_job(
    jobs: JobService,
    text: String,
    entrypoint: Entrypoint,
) -> Result<bool, Error> {
    blocking(move || jobs.serves(&text, entrypoint)).await
}

/// Runs a request as a job and reports it.
///
/// # Errors
/// If the request has no plan or the job is refused; until its end also if it fails or is
/// cancelled.
pub(super) async fn organise(
    jobs: JobService,
    text: String,
    entrypoint: Entrypoint,
    until: Until,
    feed: &Feed,
) -> Result<(), Error> {
    let show = |event: PlanningEvent<'_>| {
        for sentence in event.sentences() {
            feed.report(match event {
                PlanningEvent::Asking => ProgressEvent::Busy(&sentence),
                PlanningEvent::Made(_) | PlanningEvent::Note(_) => ProgressEvent::Note(&sentence),
            });
        }
    };
    let planned = jobs.plan_words(&text, entrypoint, &show).await;
    let planned = planned.map_err(|why| Error::input(why.sentence).with(why.hint))?;
    let steps = planned.plan.steps.iter();
    let steps = steps.map(|step| json!({"step": step.name, "tool": step.call.tool}));
    feed.push(
        json!({"type": "plan", "steps": steps.collect::<Vec<_>>(), "plan": planned.plan,
        "by": planned.planned.by, "by_model": planned.by_model}),
    );
    let request = JobRequest {
        plan: planned.plan,
        planned: Some(planned.planned),
        origin: redact::said(&text).unwrap_or(text),
        output: None,
        entrypoint: Some(entrypoint),
        schedule: None,
    };
    let submitting = jobs.clone();
    let submitted = blocking(move || submitting.submit(request)).await?;
    let (id, repairs) = submitted.map_err(|error| Error::input(error.to_string()))?;
    feed.push(json!({"type": "job", "job": id, "repairs": repairs}));
    match until {
        Until::Stored => {
            let text = format!("Job {id} is queued; GET /v1/jobs/{id} shows it.");
            feed.push(json!({"type": "said", "text": text}));
            Ok(())
        }
        Until::Ended => follow(&jobs, &id, entrypoint, feed).await,
    }
}

/// Reports a job until it ends.
async fn follow(
    jobs: &JobService,
    id: &str,
    entrypoint: Entrypoint,
    feed: &Feed,
) -> Result<(), Error> {
    let mut advances = jobs.subscribe();
    let mut begin = 0;
    loop {
        // Marked as seen before reading: what happens meanwhile wakes the next wait.
        advances.borrow_and_update();
        let is_active = jobs.is_active(id);
        let (reading, job) = (jobs.clone(), id.to_owned());
        let news = blocking(move || reading.news(&job, begin)).await?;
        let (log, end, _) = news.map_err(|e| Error::failed(e.to_string()))?;
        log.iter().for_each(|line| report(line, id, feed));
        begin = end;
        if !is_active {
            break;
        }
        // The service lives as long as the agent.
        advances.changed().await.ok();
        tokio::time::sleep(NEWS_PAUSE).await;
    }
    let (reading, job) = (jobs.clone(), id.to_owned());
    let status = blocking(move || reading.status(&job, entrypoint)).await?;
    let status = status.map_err(|e| Error::failed(e.to_string()))?;
    ended(id, status.state, &status.output, feed)
}

fn report(line: &LogLine, job: &str, feed: &Feed) {
    match &line.record {
        LogRecord::Started { step, .. } => {
            feed.push(json!({"type": "job_step", "job": job, "step": step, "state": "started"}));
        }
        LogRecord::Finished { step, result } => {
            feed.push(
                json!({"type": "job_step", "job": job, "step": step, "state": "done",
                "summary": result.summary, "files": result.files}),
            );
        }
        LogRecord::Failed { step, why, .. } => {
            feed.push(
                json!({"type": "job_step", "job": job, "step": step, "state": "failed",
                "why": why}),
            );
        }
        LogRecord::Opened
        | LogRecord::Claimed { .. }
        | LogRecord::Skipped { .. }
        | LogRecord::Ended { .. } => {}
    }
}

fn ended(job: &str, state: JobState, output: &str, feed: &Feed) -> Result<(), Error> {
    if state != JobState::Done {
        let what = match state {
            JobState::Cancelled => "was cancelled",
            JobState::Interrupted => "was interrupted",
            _ => "failed",
        };
        let sentence = format!("job {job} {what}; GET /v1/jobs/{job} says why");
        return Err(Error::failed(sentence));
    }
    let text = format!("Job {job} is done; its files are in {output}.");
    feed.push(json!({"type": "said", "text": text}));
    Ok(())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::failed(format!("a file access failed: {error}")))
}
