//! Messages in Slack, by its Web API: `chat.postMessage`, and for files `files.getUploadURLExternal`, an upload and
//! `files.completeUploadExternal` (docs.slack.dev).
//!
//! Every answer is JSON whose `ok` says whether it worked; the status is 200 in both cases, but 429 for too many requests. Invariant: what is
//! seen in the channel comes last, so an attempt that was cut before it shows nothing twice.

use reqwest::RequestBuilder;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;
use watchkeeper_contract::effect::{Attachment, SlackMessage};

use super::context::ConnectorContext;
use super::fault::Fault;
use super::http::{API_TIMEOUT, connection_fault, form, host_of, outcome, read_start};
use super::secrets::EffectSecrets;

/// Errors of Slack that may pass.
const MAY_PASS: [&str; 7] = [
    "ratelimited",
    "rate_limited",
    "internal_error",
    "fatal_error",
    "service_unavailable",
    "request_timeout",
    "team_added_to_org",
];

#[derive(Deserialize)]
struct Answer {
    ok: bool,
    #[serde(default)]
    error: String,
    /// Id of the channel.
    #[serde(default)]
    channel: Option<String>,
    #[serde(default)]
    upload_url: Option<String>,
    #[serde(default)]
    file_id: Option<String>,
}

/// The way to one workspace.
struct Slack<'a> {
    context: &'a ConnectorContext,
    base: Url,
    token: &'a str,
    id: &'a str,
}

/// Posts it.
///
/// # Errors
/// [`Fault`].
pub async fn post(
    context: &ConnectorContext,
    id: &str,
    message: &SlackMessage,
    secrets: &EffectSecrets,
) -> Result<(), Fault> {
    let slack = Slack {
        context,
        base: context.config.slack_url().map_err(Fault::never)?,
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
            // Files are only shared by the id of a channel, which the answer tells.
            let channel = posted.channel.ok_or_else(|| nonsense("no channel"))?;
            let body = json!({"files": files, "channel_id": channel});
            slack.call("files.completeUploadExternal", &body).await?;
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

/// Whether this is an id of a channel, as Slack gives them, rather than its name.
fn is_id(channel: &str) -> bool {
    channel.len() >= 9
        && channel.starts_with(['C', 'G', 'D'])
        && channel
            .bytes()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
}

impl Slack<'_> {
    /// Uploads a file that nobody sees yet.
    async fn upload(&self, file: &Attachment) -> Result<Value, Fault> {
        let fields = [
            ("filename".to_owned(), file.name.clone()),
            ("length".to_owned(), file.bytes.len().to_string()),
        ];
        let request = |request| form(request, &fields);
        let answer = self.ask("files.getUploadURLExternal", request).await?;
        let (Some(url), Some(file_id)) = (answer.upload_url, answer.file_id) else {
            return Err(nonsense("no place for a file"));
        };
        let url = Url::parse(&url).map_err(|_| nonsense("no address for a file"))?;
        let config = &self.context.config;
        config.admits_url(&url).map_err(Fault::never)?;
        let client = self.context.http.client().await?;
        // The address is the permission: the token is not sent there.
        let request = client.post(url.clone()).timeout(API_TIMEOUT);
        let response = request.body(file.bytes.clone()).send().await;
        let response = response.map_err(|error| connection_fault(&url, &error))?;
        outcome(&host_of(&url), response.status(), None)?;
        Ok(json!({"id": file_id, "title": file.name}))
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
        let url = url.map_err(|_| Fault::never("sinks.slack_url makes no address"))?;
        let config = &self.context.config;
        config.admits_url(&url).map_err(Fault::never)?;
        let client = self.context.http.client().await?;
        let request = client
            .post(url.clone())
            .timeout(API_TIMEOUT)
            .bearer_auth(self.token)
            .header(super::http::IDEMPOTENCY_KEY, self.id);
        let response = with_body(request).send().await;
        let response = response.map_err(|error| connection_fault(&url, &error))?;
        let retry_after = response.headers().get("retry-after");
        let retry_after = retry_after.and_then(|v| v.to_str().ok()).map(str::to_owned);
        outcome(&host_of(&url), response.status(), retry_after.as_deref())?;
        let answer: Answer = serde_json::from_slice(&read_start(response).await)
            .map_err(|_| nonsense("something that is not JSON of Slack"))?;
        if answer.ok {
            return Ok(answer);
        }
        let why = format!("Slack refused {method}: {}", answer.error);
        Err(match MAY_PASS.contains(&answer.error.as_str()) {
            true => Fault::later(why),
            false => Fault::never(why),
        })
    }
}

fn nonsense(what: &str) -> Fault {
    Fault::later(format!("Slack answered with {what}"))
}

#[cfg(test)]
mod tests {
    use super::is_id;

    #[test]
    fn an_id_of_a_channel_is_told_from_its_name() {
        for id in ["C0123456789", "G01ABCDEF", "D01ABCDEF"] {
            assert!(is_id(id), "{id}");
        }
        for name in ["yard", "#yard", "C123", "Channel-one", "CHANNEL-ONE"] {
            assert!(!is_id(name), "{name}");
        }
    }
}
