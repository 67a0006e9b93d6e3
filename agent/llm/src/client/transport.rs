//! One attempt over HTTP.
//!
//! - Redirects are not followed: they would carry the key elsewhere.
//! - An answer has a maximum size and an idle timeout.
//! - The key is removed from every message of a server or the system.

use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Response, redirect};
use tokio::time::{Instant, timeout_at};
use url::Url;
use watchkeeper_contract::host::is_this_machine;
use watchkeeper_contract::time::Wall;
use watchkeeper_outgoing::root_cause;

use super::error::SetupError;
use crate::attempt_error::{AttemptError, AttemptErrorKind};
use crate::call_options::CallOptions;
use crate::catalogue::Provider;
use crate::key::Key;
use crate::money::Money;
use crate::protocol::Protocol;
use crate::reply::Reply;
use crate::usage::Usage;
use crate::wire::{Decoder, HttpCall, ResponseHead};

/// Maximum bytes of an answer that is not streamed.
const MAX_BODY: usize = 8 << 20;
/// Maximum bytes of a refusal that are read.
const MAX_REFUSAL: usize = 64 << 10;
/// Maximum wait for the rest of a refusal.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(5);

/// HTTP client of one provider.
#[derive(Debug)]
pub(super) struct Transport {
    http: reqwest::Client,
    protocol: Protocol,
    base_url: Url,
    key: Option<Key>,
    idle_timeout: Duration,
}

/// Consumption of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spent {
    /// It was refused, or never arrived.
    Nothing,
    /// The provider reported it.
    Known(Usage),
    /// The provider reported it with its cost.
    Priced { usage: Usage, cost: Money },
    /// It broke: the usage reported and the bytes received until then.
    Partly { usage: Usage, bytes: usize },
    /// The provider may have answered in full, unread.
    Unknown,
}

#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) result: Result<Reply, AttemptError>,
    pub(super) spent: Spent,
}

impl Attempt {
    pub(super) const fn failed(error: AttemptError, spent: Spent) -> Self {
        let result = Err(error);
        Self { result, spent }
    }

    /// Turns a reply that may not be used into an error.
    pub(super) fn judged(self) -> Self {
        Self {
            result: self.result.and_then(Reply::usable),
            spent: self.spent,
        }
    }
}

impl Transport {
    pub(super) fn new(
        provider: &Provider,
        key: Option<Key>,
        connect_timeout: Duration,
        idle_timeout: Duration,
    ) -> Result<Self, SetupError> {
        let mut http = watchkeeper_outgoing::builder()
            .redirect(redirect::Policy::none())
            .connect_timeout(connect_timeout);
        if is_loopback(&provider.base_url) {
            http = http.no_proxy();
        }
        Ok(Self {
            http: http.build().map_err(|e| SetupError::Http(root_cause(&e)))?,
            protocol: provider.protocol,
            base_url: provider.base_url.clone(),
            key,
            idle_timeout,
        })
    }

    /// Makes one attempt, which ends within `remaining`.
    pub(super) async fn attempt(
        &self,
        call: HttpCall,
        options: &CallOptions,
        remaining: Duration,
        wall: Wall,
    ) -> Attempt {
        let deadline = Instant::now() + remaining;
        let mut attempt = self.send(call, options.stream, wall, deadline).await;
        if let (Err(error), Some(key)) = (&mut attempt.result, &self.key) {
            error.message = key.scrub(&error.message);
        }
        attempt
    }

    async fn send(&self, call: HttpCall, stream: bool, wall: Wall, deadline: Instant) -> Attempt {
        // If nothing comes back: the provider stops a streamed answer that is not read, but not a
        // whole one.
        let lost = if stream {
            let usage = Usage::default();
            Spent::Partly { usage, bytes: 0 }
        } else {
            Spent::Unknown
        };
        let request = match self.request(call) {
            Ok(request) => request,
            Err(why) => {
                let error = AttemptError::new(AttemptErrorKind::NotFound, why);
                return Attempt::failed(error, Spent::Nothing);
            }
        };
        // A whole answer is sent when it is complete: only the deadline bounds that.
        let until = if stream {
            self.next_timeout(deadline)
        } else {
            deadline
        };
        let response = match timeout_at(until, self.http.execute(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) if error.is_connect() || error.is_timeout() => {
                let error = AttemptError::new(AttemptErrorKind::Unreachable, root_cause(&error));
                return Attempt::failed(error, Spent::Nothing);
            }
            Ok(Err(error)) => {
                return Attempt::failed(
                    AttemptError::new(AttemptErrorKind::Broken, root_cause(&error)),
                    lost,
                );
            }
            Err(_) => {
                return Attempt::failed(AttemptError::new(AttemptErrorKind::Silent, ""), lost);
            }
        };
        let headers = response.headers();
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let head = ResponseHead::read(response.status().as_u16(), header, wall.unix_ms);
        if !head.is_success() {
            let body = refusal(response).await;
            return Attempt::failed(self.protocol.read_error(&head, &body), Spent::Nothing);
        }
        let is_stream = header("content-type").is_some_and(|t| t.starts_with("text/event-stream"));
        let mut attempt = match (stream, is_stream) {
            (true, true) => self.read_stream(response, deadline).await,
            (true, false) => {
                let said = header("content-type").unwrap_or("no type");
                let error = AttemptError::new(
                    AttemptErrorKind::Malformed,
                    format!("{said} instead of events"),
                );
                Attempt::failed(error, Spent::Unknown)
            }
            (false, _) => self.read_whole(response, deadline).await,
        };
        if let Err(error) = &mut attempt.result {
            error.request_id = error.request_id.take().or(head.request_id);
        }
        attempt
    }

    fn request(&self, call: HttpCall) -> Result<reqwest::Request, String> {
        let base = self.base_url.as_str().trim_end_matches('/');
        let url = Url::parse(&format!("{base}{}", call.path)).map_err(|e| e.to_string())?;
        let mut request = self.http.post(url);
        for (name, value) in call.headers {
            request = request.header(name, HeaderValue::from_static(value));
        }
        if let Some(key) = &self.key {
            let (name, prefix) = self.protocol.key_header();
            request = request.header(HeaderName::from_static(name), key.header(prefix));
        }
        request.body(call.body).build().map_err(|e| root_cause(&e))
    }

    fn next_timeout(&self, deadline: Instant) -> Instant {
        deadline.min(Instant::now() + self.idle_timeout)
    }

    async fn read_stream(&self, mut response: Response, deadline: Instant) -> Attempt {
        let mut decoder = Decoder::new(self.protocol);
        let mut bytes = 0;
        let error = loop {
            let chunk = match timeout_at(self.next_timeout(deadline), response.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) => {
                    let usage = decoder.usage();
                    let result = decoder.finish();
                    let spent = match &result {
                        Ok(reply) => Spent::Known(reply.usage),
                        // A proxy may have cut the stream.
                        Err(error) if error.kind == AttemptErrorKind::Broken => {
                            Spent::Partly { usage, bytes }
                        }
                        Err(_) => Spent::Known(usage),
                    };
                    return Attempt { result, spent };
                }
                Ok(Err(error)) => {
                    break AttemptError::new(AttemptErrorKind::Broken, root_cause(&error));
                }
                Err(_) => break AttemptError::new(AttemptErrorKind::Silent, ""),
            };
            bytes += chunk.len();
            if let Err(error) = decoder.feed(&chunk) {
                break error;
            }
        };
        let usage = decoder.usage();
        Attempt::failed(error, Spent::Partly { usage, bytes })
    }

    async fn read_whole(&self, mut response: Response, deadline: Instant) -> Attempt {
        let mut body = Vec::new();
        loop {
            match timeout_at(self.next_timeout(deadline), response.chunk()).await {
                Ok(Ok(Some(chunk))) => {
                    if body.len() + chunk.len() > MAX_BODY {
                        let error =
                            AttemptError::new(AttemptErrorKind::AnswerTooLarge, "over 8 MiB");
                        return Attempt::failed(error, Spent::Unknown);
                    }
                    body.extend_from_slice(&chunk);
                }
                Ok(Ok(None)) => break,
                Ok(Err(error)) => {
                    let error = AttemptError::new(AttemptErrorKind::Broken, root_cause(&error));
                    return Attempt::failed(error, Spent::Unknown);
                }
                Err(_) => {
                    return Attempt::failed(
                        AttemptError::new(AttemptErrorKind::Silent, ""),
                        Spent::Unknown,
                    );
                }
            }
        }
        let result = self.protocol.decode(&body);
        let spent = match &result {
            Ok(reply) => Spent::Known(reply.usage),
            Err(_) => Spent::Unknown,
        };
        Attempt { result, spent }
    }
}

/// Reads as much of a refusal's body as arrives within [`REFUSAL_TIMEOUT`].
async fn refusal(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    let until = Instant::now() + REFUSAL_TIMEOUT;
    while let Ok(Ok(Some(chunk))) = timeout_at(until, response.chunk()).await {
        body.extend_from_slice(&chunk);
        if body.len() >= MAX_REFUSAL {
            body.truncate(MAX_REFUSAL);
            break;
        }
    }
    body
}

/// Returns whether an address is this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    url.host_str().is_some_and(is_this_machine)
}
