//! The command `watchkeeper reviews`: lists the events that wait for a person, and answers them.

use serde_json::json;
use watchkeeper_assistant::reviews::{
    PersonAnswer, best_picture, describe, describe_answers, describe_record,
};
use watchkeeper_assistant::session::progress::event_json;
use watchkeeper_client::{JournalRecord, RuntimeClient};
use watchkeeper_config::Config;
use watchkeeper_contract::assessment::{AssessmentAnswer, Via};
use watchkeeper_contract::event::{Event, Media};
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::model::ModelInfo;
use watchkeeper_plain::scene::nearest;

use super::args::{AnswerArgs, ReviewAction, ReviewArgs};
use super::ask;
use super::exit::{Exit, Failure};
use super::output::Output;
use super::remote::write_file;

pub(super) async fn run(
    args: ReviewArgs,
    client: RuntimeClient,
    config: &Config,
    out: &Output,
) -> Result<(), Failure> {
    let (answer, label, given) = match args.action {
        None => return list(args.limit, &client, out).await,
        Some(ReviewAction::Narrow { pipeline, apply }) => {
            return ask::narrow(&pipeline, apply, client, config, out).await;
        }
        Some(ReviewAction::Picture { event, output }) => {
            let media = picture(&client, event).await?;
            let bytes = client.media(&media.id).await?;
            write_file(&output, &bytes)?;
            let saved = json!({"type": "saved", "media": media, "file": output});
            out.both(&saved, || format!("Saved {}", output.display()));
            return Ok(());
        }
        Some(ReviewAction::Calibration { pipeline }) => {
            let answers = client.answers(&pipeline).await?;
            out.both(&json!(answers), || describe_answers(&answers).join("\n"));
            return Ok(());
        }
        Some(ReviewAction::Approve(given)) => (AssessmentAnswer::Approve, None, given),
        Some(ReviewAction::Reject(given)) => (AssessmentAnswer::Reject, None, given),
        Some(ReviewAction::Correct { answer, class }) => {
            (AssessmentAnswer::Correct, Some(class), answer)
        }
    };
    let AnswerArgs { event, note, by } = given;
    let answer = PersonAnswer {
        answer,
        label,
        note,
        name: by.or_else(|| std::env::var("USER").ok().filter(|user| !user.is_empty())),
    };
    let unknown = match &answer.label {
        Some(class) => unknown_class(class, &client.models().await?),
        None => None,
    };
    let request = answer.into_request(Via::CommandLine);
    let record = client.assess(event, &request).await?;
    if let Some(note) = unknown {
        out.note(note);
    }
    out.both(&event_json(&record), || {
        format!("event {event}: {}", describe_record(&record))
    });
    Ok(())
}

/// A note about a class that no model here knows, with the nearest one.
fn unknown_class(class: &str, models: &[ModelInfo]) -> Option<String> {
    let known = || models.iter().flat_map(|m| &m.labels).map(String::as_str);
    if known().next().is_none() || known().any(|label| label == class) {
        return None;
    }
    let hint = match nearest(&class.to_lowercase(), known()) {
        Some(label) => {
            format!("; did you mean {label:?}? Correct the event again to change it")
        }
        None => String::new(),
    };
    Some(format!("no model here knows the class {class:?}{hint}"))
}

async fn list(limit: u32, client: &RuntimeClient, out: &Output) -> Result<(), Failure> {
    let queue = client.reviews(limit).await?;
    if out.is_json() {
        out.object(&queue);
        return Ok(());
    }
    describe(&queue).iter().for_each(|line| out.line(line));
    if queue.waiting > 0 {
        out.note(
            "answer with `watchkeeper reviews approve NUMBER`, `reject NUMBER` or \
             `correct NUMBER --class CLASS`; `picture NUMBER -o FILE` saves what it shows",
        );
    }
    if queue.given_up > 0 {
        out.note(format!("{} left without an answer", queue.given_up));
    }
    Ok(())
}

/// The picture to look at: with drawings, where there is one.
async fn picture(client: &RuntimeClient, event: EventSeq) -> Result<Media, Failure> {
    let record = record(client, event).await?;
    let drawn = best_picture(&record).cloned();
    drawn.ok_or_else(|| Failure::new(Exit::Failed, format!("event {event} has no picture")))
}

async fn record(client: &RuntimeClient, event: EventSeq) -> Result<Event, Failure> {
    let page = client.events(EventSeq(event.0.saturating_sub(1)), 1).await;
    let page = match page {
        Err(error) if error.is_ahead() => Vec::new(),
        page => page?,
    };
    let found = page.into_iter().find_map(|record| match record {
        JournalRecord::Known(found) if found.seq == event => Some(*found),
        JournalRecord::Known(_) | JournalRecord::Newer(_) | JournalRecord::Unreadable { .. } => {
            None
        }
    });
    found.ok_or_else(|| {
        let sentence = format!("there is no event {event}; `watchkeeper events` lists them");
        Failure::new(Exit::Failed, sentence)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_that_no_model_knows_is_noted_with_the_nearest() {
        let model = serde_json::from_value(json!({
            "name": "yolox-nano", "task": "object-detection",
            "state": {"state": "absent"},
            "labels": ["car", "truck"],
        }));
        let Ok(model) = model else {
            panic!("{model:?}");
        };
        let models = [model];
        assert_eq!(unknown_class("truck", &models), None);
        let near = unknown_class("truk", &models);
        assert!(near.is_some_and(|note| note.contains("did you mean \"truck\"?")));
        let far = unknown_class("giraffe", &models);
        assert_eq!(
            far.as_deref(),
            Some("no model here knows the class \"giraffe\"")
        );
        assert_eq!(unknown_class("truk", &[]), None);
    }
}
