//! One attempt over HTTP.
//!
//! Invariants: redirects are not followed, for they would carry the key elsewhere; an answer has a largest size and a longest silence; what a server or the
//! system said reaches nobody before the key was taken out of it.

use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Response, redirect};
use tokio::time::{Instant, timeout_at};
use url::Url;
use watchkeeper_contract::time::Wall;

use super::error::SetupError;
use super::is_loopback;
use super::job::Progress;
use crate::ask::Ask;
use crate::catalogue::Provider;
use crate::fault::{Fault, FaultKind};
use crate::key::Key;
use crate::reply::Reply;
use crate::usage::Usage;
use crate::wire::{Decoder, Head, HttpCall, Protocol};

/// Largest answer that comes as a whole, in bytes.
const MAX_WHOLE: usize = 8 << 20;
/// Most of a refusal that is read, in bytes.
const MAX_REFUSAL: usize = 64 << 10;
/// Longest wait for the rest of a refusal.
const REFUSAL_SILENCE: Duration = Duration::from_secs(5);

/// The connection to a provider.
#[derive(Debug)]
pub(super) struct Transport {
    http: reqwest::Client,
    protocol: Protocol,
    base_url: Url,
    key: Option<Key>,
    silence: Duration,
}

/// What an attempt consumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spent {
    /// It was refused or never arrived.
    Nothing,
    /// The provider said so.
    Known(Usage),
    /// It broke: this much was said, and this many bytes had come.
    Partly { usage: Usage, bytes: usize },
    /// The provider may have answered in full, to nobody.
    Unknown,
}

/// What came of an attempt.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) result: Result<Reply, Fault>,
    pub(super) spent: Spent,
}

impl Attempt {
    const fn failed(fault: Fault, spent: Spent) -> Self {
        let result = Err(fault);
        Self { result, spent }
    }

    /// With a reply that may not be used as the fault that it is.
    pub(super) fn judged(self) -> Self {
        Self {
            result: self.result.and_then(Reply::usable),
            spent: self.spent,
        }
    }
}

/// Where the words of an attempt go, and how long they may take.
struct Line<'l> {
    deadline: Instant,
    shown: &'l mut (dyn FnMut(Progress<'_>) + Send),
}

impl Transport {
    pub(super) fn new(
        provider: &Provider,
        key: Option<Key>,
        connect: Duration,
        silence: Duration,
    ) -> Result<Self, SetupError> {
        let mut http = reqwest::Client::builder()
            .redirect(redirect::Policy::none())
            .connect_timeout(connect)
            .user_agent(concat!("watchkeeper/", env!("CARGO_PKG_VERSION")));
        if is_loopback(&provider.base_url) {
            http = http.no_proxy();
        }
        Ok(Self {
            http: http.build().map_err(|e| SetupError::Http(root_cause(&e)))?,
            protocol: provider.protocol,
            base_url: provider.base_url.clone(),
            key,
            silence,
        })
    }

    /// Makes one attempt, which ends within `remaining`.
    pub(super) async fn attempt(
        &self,
        call: HttpCall,
        ask: &Ask,
        remaining: Duration,
        wall: Wall,
        shown: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Attempt {
        let line = Line {
            deadline: Instant::now() + remaining,
            shown,
        };
        let mut attempt = self.send(call, ask.stream, wall, line).await;
        if let (Err(fault), Some(key)) = (&mut attempt.result, &self.key) {
            fault.said = key.scrub(&fault.said);
        }
        attempt
    }

    async fn send(&self, call: HttpCall, stream: bool, wall: Wall, line: Line<'_>) -> Attempt {
        // If nothing comes back: a streamed answer stops being made when nobody reads it, a whole one does not.
        let lost = if stream {
            let usage = Usage::default();
            Spent::Partly { usage, bytes: 0 }
        } else {
            Spent::Unknown
        };
        let request = match self.request(call) {
            Ok(request) => request,
            Err(why) => {
                let fault = Fault::new(FaultKind::NotFound, why);
                return Attempt::failed(fault, Spent::Nothing);
            }
        };
        // A whole answer begins when it is complete: only the deadline bounds that.
        let until = if stream {
            self.until(&line)
        } else {
            line.deadline
        };
        let response = match timeout_at(until, self.http.execute(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) if error.is_connect() || error.is_timeout() => {
                let fault = Fault::new(FaultKind::Unreachable, root_cause(&error));
                return Attempt::failed(fault, Spent::Nothing);
            }
            Ok(Err(error)) => {
                return Attempt::failed(Fault::new(FaultKind::Broken, root_cause(&error)), lost);
            }
            Err(_) => return Attempt::failed(Fault::new(FaultKind::Silent, ""), lost),
        };
        let headers = response.headers();
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let head = Head::read(response.status().as_u16(), header, wall.unix_ms);
        if !head.is_success() {
            let body = refusal(response).await;
            return Attempt::failed(self.protocol.fault(&head, &body), Spent::Nothing);
        }
        let is_stream = header("content-type").is_some_and(|t| t.starts_with("text/event-stream"));
        let mut attempt = match (stream, is_stream) {
            (true, true) => self.streamed(response, line).await,
            (true, false) => {
                let said = header("content-type").unwrap_or("no type");
                let fault = Fault::new(FaultKind::Malformed, format!("{said} instead of events"));
                Attempt::failed(fault, Spent::Unknown)
            }
            (false, _) => self.whole(response, line).await,
        };
        if let Err(fault) = &mut attempt.result {
            fault.request_id = fault.request_id.take().or(head.request_id);
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

    fn until(&self, line: &Line<'_>) -> Instant {
        line.deadline.min(Instant::now() + self.silence)
    }

    async fn streamed(&self, mut response: Response, line: Line<'_>) -> Attempt {
        let mut decoder = Decoder::new(self.protocol);
        let mut bytes = 0;
        let fault = loop {
            let chunk = match timeout_at(self.until(&line), response.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) => {
                    let usage = decoder.usage();
                    let result = decoder.finish();
                    let spent = match &result {
                        Ok(reply) => Spent::Known(reply.usage),
                        // The stream may have been cut by somebody between.
                        Err(fault) if fault.kind == FaultKind::Broken => {
                            Spent::Partly { usage, bytes }
                        }
                        Err(_) => Spent::Known(usage),
                    };
                    return Attempt { result, spent };
                }
                Ok(Err(error)) => break Fault::new(FaultKind::Broken, root_cause(&error)),
                Err(_) => break Fault::new(FaultKind::Silent, ""),
            };
            bytes += chunk.len();
            match decoder.feed(&chunk) {
                Ok(pieces) => {
                    for piece in &pieces {
                        (line.shown)(Progress::Piece(piece));
                    }
                }
                Err(fault) => break fault,
            }
        };
        let usage = decoder.usage();
        Attempt::failed(fault, Spent::Partly { usage, bytes })
    }

    async fn whole(&self, mut response: Response, line: Line<'_>) -> Attempt {
        let mut body = Vec::new();
        loop {
            match timeout_at(self.until(&line), response.chunk()).await {
                Ok(Ok(Some(chunk))) => {
                    if body.len() + chunk.len() > MAX_WHOLE {
                        let fault = Fault::new(FaultKind::AnswerTooLarge, "over 8 MiB");
                        return Attempt::failed(fault, Spent::Unknown);
                    }
                    body.extend_from_slice(&chunk);
                }
                Ok(Ok(None)) => break,
                Ok(Err(error)) => {
                    let fault = Fault::new(FaultKind::Broken, root_cause(&error));
                    return Attempt::failed(fault, Spent::Unknown);
                }
                Err(_) => {
                    return Attempt::failed(Fault::new(FaultKind::Silent, ""), Spent::Unknown);
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

/// As much of a refusal's body as comes soon.
async fn refusal(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    let until = Instant::now() + REFUSAL_SILENCE;
    while let Ok(Ok(Some(chunk))) = timeout_at(until, response.chunk()).await {
        body.extend_from_slice(&chunk);
        if body.len() >= MAX_REFUSAL {
            body.truncate(MAX_REFUSAL);
            break;
        }
    }
    body
}

/// The cause at the bottom of an error: what the system said. The layers above it repeat the address.
#[must_use]
pub fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
