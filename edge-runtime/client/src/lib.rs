//! Typed client of the runtime: HTTP/JSON over its Unix socket, one method per route.
//!
//! - Every request has a deadline, a stream has an idle timeout ([`Deadlines`]); failures are a
//!   [`ClientError`]. No request is repeated.
//! - The permission of the socket file is the authority, so there are no credentials.
//! - Agent, command line and tests share this client.

pub mod backoff;
mod bundles;
mod catalogue;
pub mod clock;
mod deadlines;
mod effects;
mod error;
pub mod error_chain;
mod feed;
pub mod how_to_start;
mod newer;
mod pipelines;
mod record;
mod reviews;
mod sources;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use watchkeeper_contract::API_VERSION;
use watchkeeper_contract::problem::{Problem, ProblemCode};
use watchkeeper_outgoing::root_cause;

use crate::error_chain::one_line;

pub use catalogue::CoverageRange;
pub use deadlines::Deadlines;
pub use error::ClientError;
pub use feed::{EventFeed, FeedItem};
pub use newer::NewerRecord;
pub use record::JournalRecord;

/// Maximum bytes of an answer in memory.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// Client of one runtime. Clones share their connections.
#[derive(Debug, Clone)]
pub struct RuntimeClient {
    socket: PathBuf,
    deadlines: Deadlines,
    http: reqwest::Client,
    /// For answers without a known end, which have an idle timeout instead of a deadline.
    streams: reqwest::Client,
}

impl RuntimeClient {
    /// Creates a client of the runtime at `socket`; the first request connects.
    ///
    /// # Errors
    /// [`ClientError::Setup`].
    pub fn new(socket: impl Into<PathBuf>) -> Result<Self, ClientError> {
        Self::with_deadlines(socket, Deadlines::USUAL)
    }

    /// Creates a client with other deadlines than [`Deadlines::USUAL`].
    ///
    /// # Errors
    /// [`ClientError::Setup`].
    pub fn with_deadlines(
        socket: impl Into<PathBuf>,
        deadlines: Deadlines,
    ) -> Result<Self, ClientError> {
        let socket = socket.into();
        let builder = || {
            watchkeeper_outgoing::builder()
                .unix_socket(socket.as_path())
                .no_proxy()
                // Without this reqwest requires the system's certificates, which a box may lack.
                .tls_certs_only([])
                .pool_max_idle_per_host(2)
        };
        let setup = |error: reqwest::Error| ClientError::Setup(one_line(&error));
        let http = builder().build().map_err(setup)?;
        let streams = builder()
            .read_timeout(deadlines.stream_silence)
            .build()
            .map_err(setup)?;
        Ok(Self {
            socket,
            deadlines,
            http,
            streams,
        })
    }

    pub fn deadlines(&self) -> Deadlines {
        self.deadlines
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    async fn json<T: DeserializeOwned>(
        &self,
        call: Call<'_, impl Serialize + ?Sized>,
    ) -> Result<T, ClientError> {
        let (request, bytes) = self.exchange(call).await?;
        serde_json::from_slice(&bytes).map_err(|error| ClientError::Answer {
            request,
            cause: error.to_string(),
        })
    }

    /// Sends a request and ignores the body of its answer.
    async fn done(&self, call: Call<'_, impl Serialize + ?Sized>) -> Result<(), ClientError> {
        self.exchange(call).await.map(|_| ())
    }

    async fn bytes(&self, call: Call<'_>) -> Result<Bytes, ClientError> {
        self.exchange(call).await.map(|(_, bytes)| bytes)
    }

    async fn exchange(
        &self,
        call: Call<'_, impl Serialize + ?Sized>,
    ) -> Result<(String, Bytes), ClientError> {
        let (name, url) = (call.name(), call.url()?);
        let deadline = call.wait
            + match call.is_slow {
                true => self.deadlines.slow_answer,
                false => self.deadlines.answer,
            };
        let mut request = self.http.request(call.method, url).timeout(deadline);
        if let Some(body) = call.body {
            request = request.json(body);
        }
        let mut response = self.send(&name, request, deadline).await?;
        let mut bytes = Vec::new();
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| self.transport(&name, &error, deadline))?
        {
            if bytes.len() + chunk.len() > MAX_ANSWER_BYTES {
                return Err(ClientError::Answer {
                    request: name,
                    cause: format!("longer than {MAX_ANSWER_BYTES} bytes"),
                });
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok((name, bytes.into()))
    }

    /// Copies an answer of any length to `out`, with an idle timeout. Returns its content type.
    async fn download<W: AsyncWrite + Unpin>(
        &self,
        call: Call<'_>,
        out: &mut W,
    ) -> Result<Option<String>, ClientError> {
        let name = call.name();
        let request = self.streams.get(call.url()?);
        let silence = self.deadlines.stream_silence;
        let mut response = self.send(&name, request, silence).await?;
        let content_type = response.headers().get(CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok());
        let content_type = content_type.map(str::to_owned);
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| self.transport(&name, &error, silence))?
        {
            out.write_all(&chunk)
                .await
                .map_err(|source| ClientError::Write {
                    request: name.clone(),
                    source,
                })?;
        }
        out.flush().await.map_err(|source| ClientError::Write {
            request: name,
            source,
        })?;
        Ok(content_type)
    }

    async fn send(
        &self,
        name: &str,
        request: reqwest::RequestBuilder,
        deadline: Duration,
    ) -> Result<reqwest::Response, ClientError> {
        let response = request
            .send()
            .await
            .map_err(|error| self.transport(name, &error, deadline))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = response.bytes().await.unwrap_or_default();
        Err(ClientError::Refused(Box::new(refusal(name, status, &body))))
    }

    fn transport(&self, request: &str, error: &reqwest::Error, deadline: Duration) -> ClientError {
        let is_here = self.socket.exists();
        let is_refused = has_kind(error, ErrorKind::ConnectionRefused);
        if error.is_connect() && has_kind(error, ErrorKind::PermissionDenied) {
            ClientError::Forbidden {
                socket: self.socket.clone(),
                cause: root_cause(error),
            }
        } else if error.is_connect() && (is_refused || !is_here) {
            ClientError::Unreachable {
                socket: self.socket.clone(),
                cause: match is_here {
                    true => "no process answers there",
                    false => "its socket is not there",
                },
            }
        } else if error.is_timeout() {
            ClientError::Timeout {
                request: request.to_owned(),
                after: deadline,
            }
        } else {
            ClientError::Broken {
                request: request.to_owned(),
                cause: one_line(error),
            }
        }
    }
}

/// Reads the problem of a refusal; without one, describes its status and text.
fn refusal(request: &str, status: StatusCode, body: &[u8]) -> Problem {
    let read = serde_json::from_slice(body).map(|problem: Problem| match status {
        // This client only uses methods of its own version.
        StatusCode::METHOD_NOT_ALLOWED => Problem {
            detail: format!(
                "the runtime answered {request} with {status}: {}; install all programs in the \
                 same version",
                problem.detail
            ),
            ..problem
        },
        _ => problem,
    });
    read.unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(body);
        let text: String = text.trim().chars().take(200).collect();
        let code = match status.as_u16() {
            404 => ProblemCode::NotFound,
            400..=499 => ProblemCode::InvalidRequest,
            _ => ProblemCode::Internal,
        };
        Problem::new(
            status.as_u16(),
            code,
            format!("the runtime answered {request} with {status}: {text}"),
        )
    })
}

/// A request: route with its parameters, body as JSON, and how long its answer may take. Segments
/// of the path are percent-encoded: a block type keeps its slash.
#[derive(Debug)]
struct Call<'a, B: ?Sized = ()> {
    method: Method,
    path: &'a [&'a str],
    query: &'a [(&'a str, &'a str)],
    body: Option<&'a B>,
    is_slow: bool,
    /// Time for which the runtime may hold the answer back.
    wait: Duration,
}

impl<'a> Call<'a> {
    fn new(method: Method, path: &'a [&'a str]) -> Self {
        Self {
            method,
            path,
            query: &[],
            body: None,
            is_slow: false,
            wait: Duration::ZERO,
        }
    }

    fn get(path: &'a [&'a str]) -> Self {
        Self::new(Method::GET, path)
    }

    fn post(path: &'a [&'a str]) -> Self {
        Self::new(Method::POST, path)
    }

    fn put(path: &'a [&'a str]) -> Self {
        Self::new(Method::PUT, path)
    }

    fn delete(path: &'a [&'a str]) -> Self {
        Self::new(Method::DELETE, path)
    }

    fn query(self, query: &'a [(&'a str, &'a str)]) -> Self {
        Self { query, ..self }
    }

    fn body<B: ?Sized>(self, body: &'a B) -> Call<'a, B> {
        Call {
            method: self.method,
            path: self.path,
            query: self.query,
            body: Some(body),
            is_slow: self.is_slow,
            wait: self.wait,
        }
    }
}

impl<B: ?Sized> Call<'_, B> {
    /// Allows the time of [`Deadlines::slow_answer`].
    fn slow(self) -> Self {
        Self {
            is_slow: true,
            ..self
        }
    }

    fn name(&self) -> String {
        format!("{} /{API_VERSION}/{}", self.method, self.path.join("/"))
    }

    /// Builds the URL; its host is a placeholder, since the client connects to its socket.
    fn url(&self) -> Result<url::Url, ClientError> {
        let setup = |what: &str| ClientError::Setup(format!("{what} in {:?}", self.path));
        let mut url = url::Url::parse("http://runtime/").map_err(|_| setup("bad base"))?;
        url.path_segments_mut()
            .map_err(|()| setup("no path"))?
            .clear()
            .push(API_VERSION)
            .extend(self.path);
        if !self.query.is_empty() {
            url.query_pairs_mut().extend_pairs(self.query);
        }
        Ok(url)
    }
}

fn has_kind(error: &(dyn std::error::Error + 'static), kind: ErrorKind) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<std::io::Error>();
        if io.is_some_and(|io| io.kind() == kind) {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_method_is_reported_with_its_status() {
        let body =
            r#"{"status": 405, "code": "invalid_request", "detail": "/v1/x does not take PUT"}"#;
        let problem = refusal("PUT /v1/x", StatusCode::METHOD_NOT_ALLOWED, body.as_bytes());
        assert_eq!(
            problem.detail,
            "the runtime answered PUT /v1/x with 405 Method Not Allowed: /v1/x does not take PUT; \
             install all programs in the same version"
        );
        let other = refusal("PUT /v1/x", StatusCode::CONFLICT, body.as_bytes());
        assert_eq!(other.detail, "/v1/x does not take PUT");
    }

    #[tokio::test]
    async fn runtime_with_a_full_backlog_is_not_called_absent() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("runtime.sock");
        let socket = tokio::net::UnixSocket::new_stream().expect("a socket");
        socket.bind(&path).expect("a free name");
        let _listener = socket.listen(0).expect("a listener");
        let mut waiting = Vec::new();
        while let Ok(stream) = tokio::net::UnixStream::connect(&path).await {
            waiting.push(stream);
        }
        let client = RuntimeClient::new(&path).expect("a client");
        let error = client.health().await.expect_err("no place");
        assert!(matches!(error, ClientError::Broken { .. }), "{error:?}");
    }
}
