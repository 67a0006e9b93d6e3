//! A request of a conversation to organise pictures: it becomes a job of the agent.
//!
//! - Planning, the plan with its price and repairs, and each record of the job become events of
//!   the conversation.
//! - The end of the conversation cancels the planning, and does not end the job.

use std::pin::pin;

use serde_json::json;
use watchkeeper_assistant::failure::Error;
use watchkeeper_assistant::jobs::PlanningEvent;
use watchkeeper_assistant::permissions::Entrypoint;
use watchkeeper_assistant::session::progress::{ProgressEvent, ProgressSink as _};
use watchkeeper_config::redact;
use watchkeeper_jobs::run::{JobState, LogLine, LogRecord};

use crate::api::feed::Feed;
use crate::background::blocking;
use crate::jobs::view::NEWS_PAUSE;
use crate::jobs::{JobRequest, JobService};

/// How long a job is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// Until the job is on disk and queued.
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
    access(move || jobs.serves(&text, entrypoint)).await
}

/// Runs a request as a job and reports it. `ending` returns why the conversation ends, once it
/// does.
///
/// # Errors
/// If the request has no plan, or if the job is refused or the conversation ends before. Until the
/// job's end also if that fails or is cancelled.
pub(super) async fn organise(
    jobs: JobService,
    text: String,
    entrypoint: Entrypoint,
    until: Until,
    feed: &Feed,
    ending: impl Future<Output = &'static str>,
) -> Result<(), Error> {
    let mut ending = pin!(ending);
    let show = |event: PlanningEvent<'_>| {
        for sentence in event.sentences() {
            feed.report(match event {
                PlanningEvent::Asking => ProgressEvent::Busy(&sentence),
                PlanningEvent::Made(_) | PlanningEvent::Note(_) => ProgressEvent::Note(&sentence),
            });
        }
    };
    let planned = tokio::select! {
        biased;
        planned = jobs.plan_words(&text, entrypoint, &show) => planned,
        why = &mut ending => return Err(given_up(why)),
    };
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
        origin: redact::message(&text).unwrap_or(text),
        output: None,
        entrypoint: Some(entrypoint),
        schedule: None,
    };
    let submitting = jobs.clone();
    let submitted = access(move || submitting.submit(request)).await?;
    let (id, repairs) = submitted.map_err(|error| Error::input(error.to_string()))?;
    feed.push(json!({"type": "job", "job": id, "repairs": repairs}));
    let say = |text: String| feed.push(json!({"type": "said", "text": text}));
    match until {
        Until::Stored => say(format!("Job {id} is queued; GET /v1/jobs/{id} shows it.")),
        Until::Ended => tokio::select! {
            biased;
            ended = follow(&jobs, &id, entrypoint, feed) => ended?,
            why = ending => say(format!("{why}; job {id} goes on: GET /v1/jobs/{id} shows it.")),
        },
    }
    Ok(())
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
        let news = access(move || reading.news(&job, begin)).await?;
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
    let status = access(move || reading.status(&job, entrypoint)).await?;
    let status = status.map_err(|e| Error::failed(e.to_string()))?;
    ended(id, status.state, &status.output, feed)
}

/// Reports what a record says about a step.
fn report(line: &LogLine, job: &str, feed: &Feed) {
    let (step, mut event) = match &line.record {
        LogRecord::Started { step, .. } => (step, json!({"state": "started"})),
        LogRecord::Finished { step, result } => {
            let (summary, files) = (&result.summary, &result.files);
            (
                step,
                json!({"state": "done", "summary": summary, "files": files}),
            )
        }
        LogRecord::Failed { step, why, .. } => (step, json!({"state": "failed", "why": why})),
        LogRecord::Skipped { step, because } => {
            let why = format!("{because} is not done");
            (step, json!({"state": "skipped", "why": why}))
        }
        LogRecord::Opened | LogRecord::Claimed { .. } | LogRecord::Ended { .. } => return,
    };
    event["type"] = json!("job_step");
    event["job"] = json!(job);
    event["step"] = json!(step);
    feed.push(event);
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

/// The failure of a request that the end of its conversation cancelled.
pub(super) fn given_up(why: &str) -> Error {
    Error::failed(format!(
        "{why}; the request was cancelled and nothing was changed. Send it again within an \
             hour to continue where a language model stopped"
    ))
}

async fn access<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    blocking(work).await.map_err(Error::failed)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;
    use crate::jobs::testing;

    #[test]
    fn skipped_step_is_reported_with_its_cause() {
        let (step, because) = ("sheet".to_owned(), "rank".to_owned());
        let record = LogRecord::Skipped { step, because };
        let feed = Feed::default();
        report(&LogLine { at_ms: 0, record }, "1a", &feed);
        let event = feed.after(0, 1)[0].json.to_string();
        for part in [
            "\"step\":\"sheet\"",
            "\"state\":\"skipped\"",
            "rank is not done",
        ] {
            assert!(event.contains(part), "{event}");
        }
    }

    #[tokio::test]
    async fn end_of_the_conversation_leaves_its_job_queued() {
        let home = tempfile::tempdir().unwrap();
        let photos = home.path().join("photos");
        std::fs::create_dir(&photos).unwrap();
        let jobs = testing::service(home.path());
        // Queued jobs are not run.
        jobs.close();
        let (feed, text) = (
            Feed::default(),
            format!("organise {} by day", photos.display()),
        );
        let ending = async {
            let mut advances = feed.subscribe();
            let is_queued = |event: &str| event.contains("\"type\":\"job\"");
            while !feed.after(0, 99).iter().any(|entry| is_queued(&entry.json)) {
                advances.changed().await.unwrap();
            }
            "the conversation was ended"
        };
        let until = Until::Ended;
        let organised = organise(jobs.clone(), text, Entrypoint::Local, until, &feed, ending);
        organised.await.unwrap();
        let said = feed.after(0, 99).last().unwrap().json.to_string();
        assert!(said.contains("the conversation was ended; job "), "{said}");
        assert_eq!(jobs.health().waiting, 1);
    }
}
