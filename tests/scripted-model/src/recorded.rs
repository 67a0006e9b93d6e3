//! Recorded answers of a provider: a file of requests, each with the answer to every step.
//!
//! - A request is answered only if method, path, headers and JSON body equal a recorded request.
//! - Headers that the HTTP client adds are not compared, nor is the content of a JPEG.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::{Answer, Request};
use crate::script::Step;
use crate::stream;

/// Headers of the HTTP client.
const CLIENT_HEADERS: [&str; 4] = ["accept-encoding", "content-length", "host", "user-agent"];
/// Base64 of a JPEG's first bytes.
const JPEG: &str = "/9j/";

/// The content of a recording.
#[derive(Debug)]
pub(crate) struct Recording(Vec<RecordedRequest>);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedRequest {
    request: Value,
    answers: Vec<RecordedAnswer>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedAnswer {
    /// The step that is answered; absent: the provider refuses the request.
    step: Option<Step>,
    status: u16,
    content_type: String,
    retry_after: Option<String>,
    /// Lines of the body.
    body: Vec<String>,
}

impl Recording {
    /// Reads a recording.
    ///
    /// # Errors
    /// Fails when the file cannot be read or has another form.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let name = || path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(name)?;
        Ok(Self(serde_json::from_str(&text).with_context(name)?))
    }

    /// Returns the answer to a request for which `next` is the step of the script, and whether
    /// the step was used.
    ///
    /// # Errors
    /// Fails with the first difference to each recorded request, or when the step was not
    /// recorded for the request.
    pub(crate) fn answer(
        &self,
        request: &Request,
        next: Option<&Step>,
    ) -> anyhow::Result<(Answer, bool)> {
        let asked = comparable(request);
        let recorded = self.0.iter().find(|recorded| recorded.request == asked);
        let recorded = recorded.with_context(|| format!("not recorded: {asked:#}"))?;
        let step = next.map(without_chunks);
        let mut answers = recorded.answers.iter();
        let answer = answers
            .find(|answer| answer.step.is_none() || answer.step == step)
            .with_context(|| format!("no recorded answer for {step:?} to {asked:#}"))?;
        let mut headers = vec![("content-type", answer.content_type.clone())];
        headers.extend(
            answer
                .retry_after
                .clone()
                .map(|after| ("retry-after", after)),
        );
        let used = answer.step.is_some();
        let play = next.filter(|_| used);
        Ok((
            Answer {
                status: answer.status,
                headers,
                body: answer.body.join("\n").into_bytes(),
                chunk: play.map_or(1 << 16, stream::chunk),
                end: play.map(stream::end).unwrap_or_default(),
                usage: Value::Null,
            },
            used,
        ))
    }
}

fn without_chunks(step: &Step) -> Step {
    let mut step = step.clone();
    step.reply.chunk_bytes = None;
    step
}

/// The parts of a request that are compared.
fn comparable(request: &Request) -> Value {
    let headers = request.headers.iter();
    let headers: BTreeMap<&String, &String> = headers
        .filter(|(name, _)| !CLIENT_HEADERS.contains(&name.as_str()))
        .map(|(name, value)| (name, value))
        .collect();
    let mut body = request.json();
    elide(&mut body);
    json!({"method": request.method, "path": request.path, "headers": headers, "body": body})
}

/// Cuts every JPEG after its first bytes: encoders differ between machines.
fn elide(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some(at) = text.find(JPEG) {
                text.truncate(at + JPEG.len());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(elide),
        Value::Object(members) => members.values_mut().for_each(elide),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
