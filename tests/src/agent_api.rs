//! A program that uses the agent's API, over the socket or over TCP.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use reqwest::header::{ACCEPT, AUTHORIZATION};
use serde_json::{Value, json};

use crate::daemons::{Bench, PATIENCE, wait_for};

/// The way in.
#[derive(Debug, Clone)]
enum Way {
    Socket(PathBuf),
    Tcp { port: u16, token: Option<String> },
}

/// A client of the agent.
#[derive(Debug, Clone)]
pub struct Api(Way);

impl Api {
    /// Over the socket of the agent of this box.
    #[must_use]
    pub fn on(bench: &Bench) -> Self {
        Self(Way::Socket(bench.path("agent.sock")))
    }

    /// Over TCP.
    #[must_use]
    pub fn over_tcp(port: u16, token: Option<&str>) -> Self {
        let token = token.map(str::to_owned);
        Self(Way::Tcp { port, token })
    }

    /// Waits until the agent answers, with anything.
    ///
    /// # Errors
    /// When it does not.
    pub fn up(self) -> anyhow::Result<Self> {
        wait_for("the agent's API", || {
            self.request("GET", "/v1/health", None).ok()
        })?;
        Ok(self)
    }

    fn begin(&self, method: &str, path: &str) -> anyhow::Result<reqwest::RequestBuilder> {
        watchkeeper_client::tls::install_provider();
        let builder = reqwest::Client::builder().timeout(PATIENCE);
        let method = reqwest::Method::from_bytes(method.as_bytes())?;
        Ok(match &self.0 {
            Way::Socket(socket) => builder
                .unix_socket(socket.clone())
                .build()?
                .request(method, format!("http://agent{path}")),
            Way::Tcp { port, token } => {
                let client = builder.build()?;
                let request = client.request(method, format!("http://127.0.0.1:{port}{path}"));
                match token {
                    Some(token) => request.header(AUTHORIZATION, format!("Bearer {token}")),
                    None => request,
                }
            }
        })
    }

    /// One request with this body; answers status and JSON, `null` for none.
    ///
    /// # Errors
    /// When nobody listens, or the answer is no JSON.
    pub fn raw(&self, method: &str, path: &str, body: Vec<u8>) -> anyhow::Result<(u16, Value)> {
        runtime()?.block_on(async {
            let response = self.begin(method, path)?.body(body).send().await?;
            let status = response.status().as_u16();
            let bytes = response.bytes().await?;
            let answer = match bytes.is_empty() {
                true => Value::Null,
                false => serde_json::from_slice(&bytes)?,
            };
            Ok((status, answer))
        })
    }

    /// The same with JSON both ways.
    ///
    /// # Errors
    /// As [`Self::raw`].
    pub fn request(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<(u16, Value)> {
        let body = body.map(Value::to_string).unwrap_or_default();
        self.raw(method, path, body.into_bytes())
    }

    /// The same, and it has to succeed.
    ///
    /// # Errors
    /// When it does not.
    pub fn json(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let (status, answer) = self.request(method, path, body)?;
        ensure!(
            (200..300).contains(&status),
            "{method} {path}: {status}: {answer}"
        );
        Ok(answer)
    }

    /// Begins a conversation and answers its id.
    ///
    /// # Errors
    /// When it can't be begun.
    pub fn conversation(&self) -> anyhow::Result<String> {
        let begun = self.json("POST", "/v1/conversations", None)?;
        Ok(begun["id"].as_str().context("an id")?.to_owned())
    }

    /// Says something and answers all that comes of it, up to its end.
    ///
    /// # Errors
    /// When it is not taken, or the stream ends early.
    pub fn say(&self, conversation: &str, text: &str) -> anyhow::Result<Vec<Value>> {
        self.tell(conversation, &json!({"text": text}))
    }

    /// The same with any body.
    ///
    /// # Errors
    /// As [`Self::say`].
    pub fn tell(&self, conversation: &str, body: &Value) -> anyhow::Result<Vec<Value>> {
        let path = format!("/v1/conversations/{conversation}/messages");
        let events = self.follow("POST", &path, Some(body), |_| false)?;
        let is_whole = events.last().is_some_and(|event| event["type"] == "end");
        ensure!(is_whole, "the stream ended early: {events:#?}");
        Ok(events)
    }

    /// Follows a stream of events until one is enough, or it ends; then hangs up.
    ///
    /// # Errors
    /// When it is refused, or is no stream.
    pub fn follow(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        mut is_enough: impl FnMut(&Value) -> bool,
    ) -> anyhow::Result<Vec<Value>> {
        runtime()?.block_on(async {
            let mut request = self
                .begin(method, path)?
                .header(ACCEPT, "text/event-stream");
            if let Some(body) = body {
                request = request.body(body.to_string());
            }
            let mut response = request.send().await?;
            let status = response.status().as_u16();
            if status != 200 {
                anyhow::bail!("{method} {path}: {status}: {}", response.text().await?);
            }
            let (mut text, mut events) = (Vec::new(), Vec::new());
            while let Some(piece) = response.chunk().await? {
                text.extend_from_slice(&piece);
                while let Some(end) = text.iter().position(|b| *b == b'\n') {
                    let line: Vec<u8> = text.drain(..=end).collect();
                    let Some(data) = line.strip_prefix(b"data: ") else {
                        continue;
                    };
                    let event: Value = serde_json::from_slice(data)?;
                    let is_last = is_enough(&event);
                    events.push(event);
                    if is_last {
                        return Ok(events);
                    }
                }
            }
            Ok(events)
        })
    }
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}
