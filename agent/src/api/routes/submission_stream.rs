//! A submission of a job whose planning is followed as server-sent events.
//!
//! - The last event says that the job was accepted, or why it was refused.
//! - A client that disconnects before it ends the planning; nothing is queued then.

use axum::response::{Response, sse};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use watchkeeper_assistant::jobs::PlanningEvent;
use watchkeeper_http::Refusal;

use super::jobs::JobSubmission;
use super::talk::follower;
use crate::api::app::App;

/// Events that wait for a slow client; of further ones only the last is sent.
const MAX_WAITING: usize = 64;

/// Plans and queues a job, and answers with what happens.
pub(super) fn stream(app: App, submission: JobSubmission) -> Result<Response, Refusal> {
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
