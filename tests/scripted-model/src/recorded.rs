//! Recorded answers of a provider: a file of requests, each with the answer to every step.
//!
//! - A request is answered only if method, path, headers and JSON body equal a recorded request. A
//!   recorded request without a body stands for every body.
//! - A request that breaks the [structure](contract) or has an unreadable picture is not answered,
//!   even if it was recorded.
//! - Headers that the HTTP client adds are not compared, nor is the content of a JPEG.

mod contract;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::{Answer, Request};
use crate::picture;
use crate::script::Step;
use crate::stream;

/// Headers of the HTTP client.
const CLIENT_HEADERS: [&str; 4] = ["accept-encoding", "content-length", "host", "user-agent"];
/// Base64 of a JPEG's first bytes.
const JPEG: &str = "/9j/";
/// Prefix of a JPEG in OpenAI's requests.
const DATA_URL: &str = "data:image/jpeg;base64,";

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

    /// Whether the body of an answer contains `text`.
    fn has_answer_with(&self, text: &str) -> bool {
        let answers = self.0.iter().flat_map(|recorded| &recorded.answers);
        answers
            .flat_map(|answer| &answer.body)
            .any(|line| line.contains(text))
    }

    /// Returns the answer to a request for which `next` is the step of the script, and whether
    /// the step was used.
    ///
    /// # Errors
    /// Fails with the request when it breaks the contract or was not recorded, and when the step
    /// was not recorded for it.
    pub(crate) fn answer(
        &self,
        request: &Request,
        next: Option<&Step>,
    ) -> anyhow::Result<(Answer, bool)> {
        let asked = comparable(request)?;
        contract::check(&asked["body"], |signature| self.has_answer_with(signature))
            .with_context(|| format!("against the contract: {asked:#}"))?;
        let recorded = self.0.iter().find(|recorded| recorded.is_for(&asked));
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

impl RecordedRequest {
    fn is_for(&self, asked: &Value) -> bool {
        let names = ["method", "path", "headers", "body"].iter();
        let mut compared =
            names.filter(|name| **name != "body" || self.request.get("body").is_some());
        compared.all(|name| self.request.get(name) == asked.get(name))
    }
}

fn without_chunks(step: &Step) -> Step {
    let mut step = step.clone();
    step.reply.chunk_bytes = None;
    step
}

/// The parts of a request that are compared.
fn comparable(request: &Request) -> anyhow::Result<Value> {
    let headers = request.headers.iter();
    let headers: BTreeMap<&String, &String> = headers
        .filter(|(name, _)| !CLIENT_HEADERS.contains(&name.as_str()))
        .map(|(name, value)| (name, value))
        .collect();
    let mut body = request.json();
    elide(&mut body)?;
    Ok(json!({"method": request.method, "path": request.path, "headers": headers, "body": body}))
}

/// Cuts every JPEG after its first bytes: encoders differ between machines. Fails for one that
/// cannot be read.
fn elide(value: &mut Value) -> anyhow::Result<()> {
    match value {
        Value::String(text) => {
            let start = if text.starts_with(DATA_URL) {
                DATA_URL.len()
            } else {
                0
            };
            let data = text.get(start..).unwrap_or_default();
            if start > 0 || data.starts_with(JPEG) {
                picture::size(Some("image/jpeg"), data)
                    .map_err(|error| anyhow::anyhow!("unreadable picture: {error:?}"))?;
                text.truncate(start + JPEG.len());
            }
            Ok(())
        }
        Value::Array(items) => items.iter_mut().try_for_each(elide),
        Value::Object(members) => members.values_mut().try_for_each(elide),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::{Value, json};

    use super::{DATA_URL, Recording};
    use crate::http::Request;
    use crate::script::Step;

    /// Returns the status of the answer to a request with this body.
    fn status(recorded: &Value, body: &Value) -> Result<u16, String> {
        let answer = json!({"step": {"reply": {"text": "yes"}}, "status": 200,
            "content_type": "application/json", "body": ["{}"]});
        let recorded = json!([{"request": recorded, "answers": [answer]}]);
        let recording = Recording(serde_json::from_value(recorded).expect("recording"));
        let request = Request {
            method: "POST".to_owned(),
            path: "/v1/responses".to_owned(),
            headers: vec![("authorization".to_owned(), "Bearer key".to_owned())],
            body: body.to_string().into_bytes(),
        };
        let answered = recording.answer(&request, Some(&Step::text("yes")));
        answered
            .map(|(answer, _)| answer.status)
            .map_err(|error| format!("{error:#}"))
    }

    fn looks_at(url: &str) -> Value {
        json!({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": url}]}]})
    }

    fn recorded(key: &str) -> Value {
        let headers = json!({"authorization": format!("Bearer {key}")});
        json!({"method": "POST", "path": "/v1/responses", "headers": headers})
    }

    #[test]
    fn recorded_request_without_body_stands_for_every_body_in_order() {
        let body = json!({"input": [{"role": "user", "content": "a"}]});
        assert_eq!(status(&recorded("key"), &body), Ok(200));
        let unlike = status(&recorded("other"), &body).expect_err("another key");
        assert!(unlike.contains("not recorded"), "{unlike}");
        let broken = status(&recorded("key"), &json!({"input": []})).expect_err("no items");
        assert!(broken.contains("against the contract"), "{broken}");
    }

    #[test]
    fn picture_has_to_open_before_it_is_cut() {
        let mut request = recorded("key");
        request["body"] = looks_at("data:image/jpeg;base64,/9j/");
        let mut file = std::io::Cursor::new(Vec::new());
        let image = image::RgbImage::new(16, 16);
        image
            .write_to(&mut file, image::ImageFormat::Jpeg)
            .expect("encode");
        let data = STANDARD.encode(file.into_inner());
        let asked = |data: &str| status(&request, &looks_at(&format!("{DATA_URL}{data}")));
        assert_eq!(asked(&data), Ok(200));
        for damaged in ["/9j/", "", &data[..40], &data.replace('A', "*")] {
            let refused = asked(damaged).expect_err(damaged);
            assert!(refused.contains("unreadable picture"), "{refused}");
        }
    }
}
