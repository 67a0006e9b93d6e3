//! The command `watchkeeper reviews`: lists the events that wait for a person, and answers them.

use std::collections::BTreeMap;

use serde_json::json;
use watchkeeper_assistant::reviews::{
    PersonAnswer, best_picture, describe, describe_answers, describe_record, unknown_class,
};
use watchkeeper_assistant::session::progress::event_json;
use watchkeeper_client::RuntimeClient;
use watchkeeper_config::Config;
use watchkeeper_contract::assessment::{AssessmentAnswer, Via};
use watchkeeper_contract::event::Media;
use watchkeeper_contract::id::EventSeq;

use super::args::{AnswerArgs, ReviewAction, ReviewArgs};
use super::ask;
use super::exit::Failure;
use super::journal_record::record;
use super::output::Output;
use super::user_file::write_file;

pub(super) async fn run(
    args: ReviewArgs,
    client: RuntimeClient,
    config: &Config,
    out: &Output,
) -> Result<(), Failure> {
    let mut fields = BTreeMap::new();
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
        Some(ReviewAction::Correct {
            answer,
            class,
            fields: given,
        }) => {
            fields = read_fields(&given)?;
            (AssessmentAnswer::Correct, class, answer)
        }
    };
    let AnswerArgs { events, note, by } = given;
    let answer = PersonAnswer {
        answer,
        label,
        fields,
        note,
        name: by.or_else(|| std::env::var("USER").ok().filter(|user| !user.is_empty())),
    };
    let class = answer.label.clone();
    let request = answer.into_request(Via::CommandLine);
    let mut later = events.iter();
    while let Some(event) = later.next() {
        let record = client.assess(*event, &request).await.map_err(|error| {
            let later = later
                .clone()
                .map(|event| format!("event {event} has no answer either"));
            Failure::from(error).with(later)
        })?;
        out.both(&event_json(&record), || {
            format!("event {event}: {}", describe_record(&record))
        });
    }
    // A note on what is recorded already: without the models there is none.
    if let Some(class) = class
        && let Ok(models) = client.models().await
        && let Some(note) = unknown_class(&class, &models)
    {
        out.note(note);
    }
    Ok(())
}

/// Reads the values of `--field`.
fn read_fields(given: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let mut fields = BTreeMap::new();
    for field in given {
        let Some((name, value)) = field.split_once('=') else {
            let why = format!("--field {field}: write NAME=VALUE, such as plate=AB123");
            return Err(Failure::input(why));
        };
        if fields.insert(name.to_owned(), value.to_owned()).is_some() {
            return Err(Failure::input(format!("--field {name} is given twice")));
        }
    }
    Ok(fields)
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
            "answer with `watchkeeper reviews approve NUMBER…`, `reject NUMBER…` or \
             `correct NUMBER… --class CLASS` (or `--field NAME=VALUE`); `picture NUMBER -o FILE` \
             saves what it shows",
        );
    }
    if queue.given_up > 0 {
        out.note(format!("{} left without an answer", queue.given_up));
    }
    Ok(())
}

/// The picture to look at: with drawings, if there is one.
async fn picture(client: &RuntimeClient, event: EventSeq) -> Result<Media, Failure> {
    let record = record(client, event).await?;
    let drawn = best_picture(&record).cloned();
    drawn.ok_or_else(|| Failure::failed(format!("event {event} has no picture")))
}
