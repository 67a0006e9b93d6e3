//! Client of the agent's API, over its Unix socket or over TCP.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use reqwest::header::{ACCEPT, AUTHORIZATION, HOST};
use serde_json::{Value, json};

use crate::daemons::{Bench, START_TIMEOUT, wait_for};

/// Transport of a client.
#[derive(Debug, Clone)]
enum Transport {
    Socket(PathBuf),
    Tcp { port: u16, token: Option<String> },
}

#[derive(Debug, Clone)]
pub struct Api(Transport);

impl Api {
    /// Uses the agent's Unix socket in the folder of `bench`.
    pub fn on(bench: &Bench) -> Self {
        Self(Transport::Socket(bench.path("agent.sock")))
    }

    /// Uses TCP on `port` of 127.0.0.1, with the bearer token if there is one.
    pub fn over_tcp(port: u16, token: Option<&str>) -> Self {
        let token = token.map(str::to_owned);
        Self(Transport::Tcp { port, token })
    }

    /// Waits until the agent answers any request.
    ///
    /// # Errors
    /// If it does not answer within [`START_TIMEOUT`].
    pub fn wait_until_up(self) -> anyhow::Result<Self> {
        wait_for("the agent's API", || {
            self.request("GET", "/v1/health", None).ok()
        })?;
        Ok(self)
    }

    fn begin(&self, method: &str, path: &str) -> anyhow::Result<reqwest::RequestBuilder> {
        // Loading the system's certificates takes longer than the request.
        let builder = watchkeeper_outgoing::builder()
            .tls_certs_only([])
            .timeout(START_TIMEOUT);
        let method = reqwest::Method::from_bytes(method.as_bytes())?;
        Ok(match &self.0 {
            Transport::Socket(socket) => builder
                .unix_socket(socket.clone())
                .build()?
                .request(method, format!("http://agent{path}")),
            Transport::Tcp { port, token } => {
                let client = builder.build()?;
                let request = client.request(method, format!("http://127.0.0.1:{port}{path}"));
                match token {
                    Some(token) => request.header(AUTHORIZATION, format!("Bearer {token}")),
                    None => request,
                }
            }
        })
    }

    /// Sends one request with this body; returns status and JSON, `null` without a body.
    ///
    /// # Errors
    /// If the connection fails or the answer is not JSON.
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

    /// Sends one request with this body; returns status and text.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn page(&self, method: &str, path: &str, body: &str) -> anyhow::Result<(u16, String)> {
        runtime()?.block_on(async {
            let request = self.begin(method, path)?.body(body.to_owned());
            let response = request.send().await?;
            Ok((response.status().as_u16(), response.text().await?))
        })
    }

    /// Reads `path` as a client that names the server `host`; returns status and JSON.
    ///
    /// # Errors
    /// As [`Self::raw`].
    pub fn under_host(&self, host: &str, path: &str) -> anyhow::Result<(u16, Value)> {
        runtime()?.block_on(async {
            let request = self.begin("GET", path)?.header(HOST, host);
            let response = request.send().await?;
            Ok((response.status().as_u16(), response.json().await?))
        })
    }

    /// Sends one request with a JSON body; returns status and JSON.
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

    /// Sends one request that has to succeed; returns its JSON.
    ///
    /// # Errors
    /// If the status is not a success.
    pub fn json(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let (status, answer) = self.request(method, path, body)?;
        ensure!(
            (200..300).contains(&status),
            "{method} {path}: {status}: {answer}"
        );
        Ok(answer)
    }

    /// Creates a conversation and returns its id.
    ///
    /// # Errors
    /// If the agent refuses it.
    pub fn conversation(&self) -> anyhow::Result<String> {
        let begun = self.json("POST", "/v1/conversations", None)?;
        Ok(begun["id"].as_str().context("an id")?.to_owned())
    }

    /// Sends a message and returns the events of its reply, up to the last one.
    ///
    /// # Errors
    /// If the message is refused or the stream ends early.
    pub fn say(&self, conversation: &str, text: &str) -> anyhow::Result<Vec<Value>> {
        self.send(conversation, &json!({"text": text}))
    }

    /// Sends a message with any body and returns the events of its reply.
    ///
    /// # Errors
    /// As [`Self::say`].
    pub fn send(&self, conversation: &str, body: &Value) -> anyhow::Result<Vec<Value>> {
        let path = format!("/v1/conversations/{conversation}/messages");
        let events = self.follow("POST", &path, Some(body), |_| false)?;
        let is_whole = events.last().is_some_and(|event| event["type"] == "end");
        ensure!(is_whole, "the stream ended early: {events:#?}");
        Ok(events)
    }

    /// Reads a stream of events until `is_enough` accepts one or the stream ends.
    ///
    /// # Errors
    /// If the request is refused or the answer is not an event stream.
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
