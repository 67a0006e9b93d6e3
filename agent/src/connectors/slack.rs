//! Slack messages by its Web API: `chat.postMessage`; for files `files.getUploadURLExternal`, an
//! upload and `files.completeUploadExternal` (docs.slack.dev).
//!
//! Every response is JSON whose `ok` holds the outcome; its status is 200 in both cases, except 429
//! for too many requests. A visible message is not repeated, so the call that shows it comes last.
//! After a message to a channel's name only the call that shares its files is repeated. It is tried
//! up to [`SHARE_RETRIES`] times; then the files fail for good. Two cases repeat a visible message.
//! Its response is lost or can't be read, which ends after a few tries, or the agent ends before
//! the effect is recorded as done.

use std::time::Duration;

use reqwest::RequestBuilder;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;
use watchkeeper_client::backoff::Backoff;
use watchkeeper_contract::effect::{Attachment, SlackMessage};

use super::context::ConnectorContext;
use super::fault::{Fault, Retry};
use super::http::{
    API_TIMEOUT, check_encrypted, check_response, connection_fault, delivery_fault, form,
    read_start,
};
use super::secrets::EffectSecrets;

/// Error codes of Slack that are transient.
const TRANSIENT: [&str; 7] = [
    "ratelimited",
    "rate_limited",
    "internal_error",
    "fatal_error",
    "service_unavailable",
    "request_timeout",
    "team_added_to_org",
];

/// Further calls that share the files of a posted text, and the pauses before them.
const SHARE_RETRIES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

#[derive(Deserialize)]
struct Answer {
    ok: bool,
    #[serde(default)]
    error: String,
    channel: Option<String>,
    upload_url: Option<String>,
    file_id: Option<String>,
}

/// Client of one workspace, for one message.
struct Slack<'a> {
    context: &'a ConnectorContext,
    base: Url,
    token: &'a str,
    id: &'a str,
}

/// Posts one message with its files.
///
/// # Errors
/// [`Fault`] of the connection, the status or the error code of Slack.
pub async fn post(
    context: &ConnectorContext,
    id: &str,
    message: &SlackMessage,
    secrets: &EffectSecrets,
) -> Result<(), Fault> {
    let slack = Slack {
        context,
        base: context.config.slack_url().map_err(Fault::permanent)?,
        token: secrets.text(&message.token)?,
        id,
    };
    let mut files = Vec::new();
    for file in &message.files {
        files.push(slack.upload(file).await?);
    }
    if files.is_empty() || !is_id(&message.channel) {
        let body = json!({"channel": message.channel, "text": message.text});
        let posted = slack.call("chat.postMessage", &body).await?;
        if !files.is_empty() {
            // Sharing a file needs the channel's id, which this response contains.
            let shared = match posted.channel {
                None => Err(invalid_response("no channel id")),
                Some(channel) => slack.share(&files, &channel).await,
            };
            shared.map_err(|fault| {
                Fault::permanent(format!(
                    "the text was posted without its files: {fault}; by the channel's id instead \
                     of its name, both are posted together"
                ))
            })?;
        }
        return Ok(());
    }
    let body =
        json!({"files": files, "channel_id": message.channel, "initial_comment": message.text});
    slack
        .call("files.completeUploadExternal", &body)
        .await
        .map(drop)
}

/// Whether `channel` is a channel id rather than a name.
fn is_id(channel: &str) -> bool {
    channel.len() >= 9
        && channel.starts_with(['C', 'G', 'D'])
        && channel
            .bytes()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
}

impl Slack<'_> {
    /// Uploads a file, which stays invisible until the upload is completed.
    async fn upload(&self, file: &Attachment) -> Result<Value, Fault> {
        let fields = [
            ("filename".to_owned(), file.name.clone()),
            ("length".to_owned(), file.bytes.len().to_string()),
        ];
        let request = |request| form(request, &fields);
        let answer = self.ask("files.getUploadURLExternal", request).await;
        // Nothing is visible yet, so a retry repeats nothing.
        let answer = answer.map_err(|fault| match fault.retry {
            Retry::Unanswered => Fault::transient(fault.why),
            Retry::After(_) | Retry::Never => fault,
        })?;
        let (Some(url), Some(file_id)) = (answer.upload_url, answer.file_id) else {
            return Err(invalid_response("no upload URL"));
        };
        let url = Url::parse(&url).map_err(|_| invalid_response("an invalid upload URL"))?;
        check_encrypted(&self.base, &url)?;
        let config = &self.context.config;
        config.admits_url(&url).map_err(Fault::permanent)?;
        let client = self.context.http.client().await?;
        // The URL itself grants the upload, so the token is not sent there.
        let request = client.post(url.clone()).timeout(API_TIMEOUT);
        let response = request.body(file.bytes.clone()).send().await;
        let response = response.map_err(|error| connection_fault(&url, &error))?;
        check_response(&url, &response)?;
        Ok(json!({"id": file_id, "title": file.name}))
    }

    /// Shares uploaded files, again after a transient fault.
    async fn share(&self, files: &[Value], channel: &str) -> Result<(), Fault> {
        let body = json!({"files": files, "channel_id": channel});
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, fastrand::u64(..));
        let mut left = SHARE_RETRIES;
        loop {
            let pause = match self.call("files.completeUploadExternal", &body).await {
                Ok(_) => return Ok(()),
                Err(fault) => match fault.retry {
                    Retry::After(pause) if left > 0 => pause,
                    Retry::Unanswered if left > 0 => None,
                    _ => return Err(fault),
                },
            };
            left -= 1;
            let pause = pause.unwrap_or_else(|| backoff.next_delay());
            tokio::time::sleep(pause.min(LONGEST_PAUSE)).await;
        }
    }

    async fn call(&self, method: &str, body: &Value) -> Result<Answer, Fault> {
        self.ask(method, |request| {
            request
                .header("content-type", "application/json; charset=utf-8")
                .body(body.to_string())
        })
        .await
    }

    async fn ask(
        &self,
        method: &str,
        with_body: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Result<Answer, Fault> {
        let url = self.base.join(method);
        let url = url.map_err(|_| Fault::permanent("sinks.slack_url is invalid"))?;
        let config = &self.context.config;
        config.admits_url(&url).map_err(Fault::permanent)?;
        let client = self.context.http.client().await?;
        let request = client
            .post(url.clone())
            .timeout(API_TIMEOUT)
            .bearer_auth(self.token)
            .header(super::http::IDEMPOTENCY_KEY, self.id);
        let response = with_body(request).send().await;
        let response = response.map_err(|error| delivery_fault(&url, &error))?;
        check_response(&url, &response)?;
        let answer: Answer = serde_json::from_slice(&read_start(response).await)
            .map_err(|_| Fault::unanswered(invalid_response("invalid JSON")))?;
        if answer.ok {
            return Ok(answer);
        }
        let why = format!("Slack refused {method}: {}", answer.error);
        Err(match TRANSIENT.contains(&answer.error.as_str()) {
            true => Fault::transient(why),
            false => Fault::permanent(why),
        })
    }
}

fn invalid_response(what: &str) -> Fault {
    Fault::transient(format!("Slack answered with {what}"))
}

#[cfg(test)]
mod tests {
    use super::is_id;

    #[test]
    fn channel_id_differs_from_channel_name() {
        for id in ["C0123456789", "G01ABCDEF", "D01ABCDEF"] {
            assert!(is_id(id), "{id}");
        }
        for name in ["yard", "#yard", "C123", "Channel-one", "CHANNEL-ONE"] {
            assert!(!is_id(name), "{name}");
        }
    }
}
