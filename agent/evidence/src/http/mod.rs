//! Look-ups over HTTP: one request with a template, and a typed answer.
//!
//! - What is filled in is percent-encoded and can't change host or path segments.
//! - Without a value for each placeholder there is no request.
//! - Redirects are not followed, no proxy is used. Private addresses are called only if configured.
//! - An answer of another form is a failure. The status 404 is not an answer.
//! - At most [`HttpLookup::tries`] requests with [`PAUSES`] between them, within the rate.
//! - Secrets of headers are read at each use, and are in no error.

mod cache;
mod extract;
pub mod private;
mod rate;

use std::convert::Infallible;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue as Value, LOCATION};
use reqwest::{Response, StatusCode, redirect};
use url::Url;
use watchkeeper_config::LookupValue;
use watchkeeper_config::lookups::{AnswerKind, Extraction, HeaderValue, HttpLookup, fill_template};
use watchkeeper_outgoing::{host_of, may_pass, retry_after, root_cause, trust_only};

use crate::source::{SourceAnswer, one_line};
use crate::value::LookupValues;
use cache::Cache;
use private::{PublicResolver, has_private_host};
use rate::Rate;

/// Pauses before the second, third and fourth try.
pub const PAUSES: [Duration; 3] = [
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
];
/// Longest wait for the rate, and for a server that names one. A longer one fails the question.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Characters that need no escape in a segment of a path or a value of a query.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');

/// Most bytes that are read of a secret's file.
const MAX_SECRET: u64 = 16_384;

/// A service that is asked.
#[derive(Debug)]
pub struct HttpSource {
    config: HttpLookup,
    client: reqwest::Client,
    pauses: [Duration; 3],
    cache: Mutex<Cache>,
    rate: Mutex<Rate>,
}

/// A request with the values in it.
struct Filled {
    url: Url,
    /// Body of a `POST`.
    body: Option<String>,
}

/// A failed try.
struct Failure {
    why: String,
    /// Whether another try may succeed, not earlier than this.
    retry: Option<Duration>,
}

impl Failure {
    fn permanent(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            retry: None,
        }
    }

    fn transient(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            retry: Some(Duration::ZERO),
        }
    }
}

impl HttpSource {
    /// Prepares the client; it connects to nothing.
    ///
    /// # Errors
    /// A sentence with the key, such as a `ca_file` that can't be read, or a private address.
    pub fn new(config: HttpLookup) -> Result<Self, String> {
        refuse_private(&config, &fill_url(&config.url, |_| Some("x"))?)?;
        let mut builder = watchkeeper_outgoing::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .timeout(config.timeout)
            // A connection belongs to the event loop that opened it, and several loops ask.
            .pool_max_idle_per_host(0);
        if !config.may_be_private {
            builder = builder.dns_resolver(Arc::new(PublicResolver(not_public)));
        }
        if let Some(path) = &config.ca_file {
            builder = trust_only(builder, path)
                .map_err(|why| format!("ca_file = {:?}: {why}", path.display()))?;
        }
        let client = builder.build().map_err(|error| error.to_string())?;
        Ok(Self {
            cache: Mutex::new(Cache::new(config.cache_entries, config.cache_for)),
            rate: Mutex::new(Rate::new(config.per_minute)),
            client,
            pauses: PAUSES,
            config,
        })
    }

    /// The source with other pauses between tries, for tests.
    #[must_use]
    pub fn with_pauses(self, pauses: [Duration; 3]) -> Self {
        Self { pauses, ..self }
    }

    /// Values of its placeholders, by name.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&str, &LookupValue)> {
        let values = self.config.values.iter();
        values.map(|(name, value)| (name.as_str(), value))
    }

    /// Asks for `values`: from the cache, else by requests.
    pub async fn look_up(&self, values: &LookupValues) -> SourceAnswer {
        let mut wanted = self.config.values.keys();
        if let Some(missing) = wanted.find(|name| !values.contains_key(*name)) {
            return SourceAnswer::no_answer(format!(
                "no value of {missing}: only the chain of an event has one"
            ));
        }
        let request = match self.fill(values) {
            Ok(request) => request,
            Err(why) => return SourceAnswer::failed(why),
        };
        let key = format!(
            "{} {}",
            request.url,
            request.body.as_deref().unwrap_or_default()
        );
        let known = self.cache.lock().get(&key, Instant::now());
        if let Some(answer) = known {
            return answer;
        }
        let answer = self.ask(&request, values).await;
        if !matches!(answer, SourceAnswer::Failed { .. }) {
            self.cache.lock().put(&key, answer.clone(), Instant::now());
        }
        answer
    }

    /// Fills the templates.
    fn fill(&self, values: &LookupValues) -> Result<Filled, String> {
        let value = |name: &str| values.get(name).map(String::as_str);
        let url = fill_url(&self.config.url, value)?;
        refuse_private(&self.config, &url)?;
        let body = self.config.is_post.then(|| {
            let template = self.config.body.as_deref().unwrap_or("{}");
            fill_json(template, value)
        });
        Ok(Filled { url, body })
    }

    async fn ask(&self, request: &Filled, values: &LookupValues) -> SourceAnswer {
        let mut nth = 0;
        loop {
            let failure = match self.try_once(request, values).await {
                Ok(answer) => return answer,
                Err(failure) => failure,
            };
            let is_last = nth + 1 >= self.config.tries as usize;
            let (Some(least), Some(pause), false) = (failure.retry, self.pauses.get(nth), is_last)
            else {
                let tries = nth + 1;
                let tried = if tries > 1 {
                    format!(" ({tries} tries)")
                } else {
                    String::new()
                };
                return SourceAnswer::failed(one_line(&format!("{}{tried}", failure.why)));
            };
            tokio::time::sleep(least.max(*pause)).await;
            nth += 1;
        }
    }

    async fn try_once(
        &self,
        filled: &Filled,
        values: &LookupValues,
    ) -> Result<SourceAnswer, Failure> {
        let wait = self.rate.lock().take(Instant::now(), MAX_WAIT);
        let wait = wait.ok_or_else(|| {
            let most = self.config.per_minute;
            Failure::permanent(format!(
                "per_minute = {most} is used up; raise it, or ask less"
            ))
        })?;
        tokio::time::sleep(wait).await;
        let url = filled.url.clone();
        let host = host_of(&url);
        let request = match &filled.body {
            None => self.client.get(url),
            Some(body) => {
                let request = self.client.post(url);
                let request = request.header(CONTENT_TYPE, "application/json");
                request.body(body.clone())
            }
        };
        let request = request.headers(self.headers().await?);
        let response = request.send().await.map_err(|error| {
            let why = match error.is_timeout() {
                true => {
                    let limit_s = self.config.timeout.as_secs_f64();
                    format!("did not answer within timeout_s = {limit_s}")
                }
                false => format!("can't be reached: {}", root_cause(&error)),
            };
            Failure::transient(format!("{host} {why}"))
        })?;
        self.read(&host, values, response).await
    }

    async fn headers(&self) -> Result<HeaderMap, Failure> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.config.headers {
            let text = match value {
                HeaderValue::Text(text) => text.clone(),
                HeaderValue::File(path) => first_line(path).await.map_err(|why| {
                    Failure::permanent(format!("header {name}: {}: {why}", path.display()))
                })?,
            };
            let wrong = |part: &str| Failure::permanent(format!("header {name}: wrong {part}"));
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong("name"))?;
            let mut text = Value::from_str(&text).map_err(|_| wrong("value"))?;
            text.set_sensitive(true);
            headers.insert(name, text);
        }
        Ok(headers)
    }

    async fn read(
        &self,
        host: &str,
        values: &LookupValues,
        mut response: Response,
    ) -> Result<SourceAnswer, Failure> {
        let status = response.status();
        if status == StatusCode::NOT_FOUND {
            return Ok(SourceAnswer::no_answer(format!(
                "{host} knows nothing about it"
            )));
        }
        if !status.is_success() {
            let may_pass = may_pass(status);
            let hint = match status.as_u16() {
                300..=399 => redirect_hint(&response, values),
                401 | 403 => "; check headers".to_owned(),
                _ => String::new(),
            };
            let wait = retry_after(response.headers()).unwrap_or_default();
            if may_pass && wait > MAX_WAIT {
                let why = format!(
                    "{host} answered {status} and asks to wait {} s, longer than {} s; ask again \
                     then",
                    wait.as_secs(),
                    MAX_WAIT.as_secs()
                );
                return Err(Failure::permanent(why));
            }
            return Err(Failure {
                why: format!("{host} answered {status}{hint}"),
                retry: may_pass.then_some(wait),
            });
        }
        let mut body = Vec::new();
        loop {
            let chunk = response.chunk().await;
            let chunk = chunk.map_err(|error| {
                Failure::transient(format!("{host} broke off: {}", root_cause(&error)))
            })?;
            let Some(chunk) = chunk else { break };
            body.extend_from_slice(&chunk);
            if body.len() > self.config.max_bytes {
                let most = self.config.max_bytes;
                let why = format!("{host} answered with more than max_bytes = {most}; raise it");
                return Err(Failure::permanent(why));
            }
        }
        extract::extract(
            &self.config.answer,
            self.config.confidence,
            self.config.confidence_at.as_deref(),
            &body,
        )
        .map_err(|why| Failure::permanent(format!("the answer of {host} {why}")))
    }
}

/// Reads the text answer at `pointer` in the body of a response, for the fuzz target.
///
/// # Errors
/// A phrase: what is missing, or of another type.
#[doc(hidden)]
pub fn extract_answer(pointer: &str, body: &[u8]) -> Result<SourceAnswer, String> {
    let answer = Extraction {
        pointer: pointer.to_owned(),
        kind: AnswerKind::Text,
        expect: Vec::new(),
    };
    extract::extract(&answer, 0.95, None, body)
}

/// Fills the template of an address.
///
/// # Errors
/// A sentence, where a value is missing, or the result is not an address, or names another host.
pub fn fill_url<'a>(
    template: &str,
    value: impl Fn(&str) -> Option<&'a str>,
) -> Result<Url, String> {
    let encode = |name: &str| {
        let text = value(name).ok_or_else(|| format!("no value of {name}"))?;
        // A segment of dots alone would change the path.
        if text.trim().is_empty() || text.chars().all(|c| c == '.') {
            return Err(format!("{text:?} can't be part of an address"));
        }
        Ok(utf8_percent_encode(text, PLAIN).to_string())
    };
    let parse = |text: String| Url::parse(&text).map_err(|error| error.to_string());
    let url = parse(fill_template(template, encode)?)?;
    let model = parse(fill_template(template, |_| {
        Ok::<_, String>("x".to_owned())
    })?)?;
    match url.origin() == model.origin() {
        true => Ok(url),
        false => Err("the value would change the host".to_owned()),
    }
}

/// Fills the template of a JSON body; each value is inside a text.
fn fill_json<'a>(template: &str, value: impl Fn(&str) -> Option<&'a str>) -> String {
    let filled = fill_template(template, |name| {
        let quoted = serde_json::Value::from(value(name).unwrap_or_default()).to_string();
        let inner = quoted.get(1..quoted.len().saturating_sub(1));
        Ok::<_, Infallible>(inner.unwrap_or_default().to_owned())
    });
    filled.unwrap_or_default()
}

fn refuse_private(config: &HttpLookup, url: &Url) -> Result<(), String> {
    match has_private_host(url) && !config.may_be_private {
        true => Err(format!(
            "url: {} is a private address; set private = true to allow it",
            url.host_str().unwrap_or_default()
        )),
        false => Ok(()),
    }
}

/// The failure of a name without a public address.
fn not_public(host: &str) -> String {
    format!("{host} has private addresses only; set private = true")
}

/// Target of a redirect, in the form of `url`: the value is a placeholder again.
fn redirect_hint(response: &Response, values: &LookupValues) -> String {
    let location = response.headers().get(LOCATION);
    let target = location
        .and_then(|value| value.to_str().ok())
        .and_then(|text| response.url().join(text).ok());
    let target = target.map_or(String::new(), |url| {
        let segments = url.path().split('/');
        let segments = segments.map(|segment| without_values(segment, values));
        let path = segments.collect::<Vec<_>>().join("/");
        format!(" to {}{path}", url.origin().ascii_serialization())
    });
    format!("{target}; redirects are not followed: set url to the final address")
}

/// A segment of a path, or the placeholder of its value, however it is encoded.
fn without_values(segment: &str, values: &LookupValues) -> String {
    let plain = percent_decode_str(segment)
        .decode_utf8_lossy()
        .to_lowercase();
    // A short value is in many words.
    let stands_in = |value: &str| {
        let value = value.to_lowercase();
        plain == value || value.chars().count() >= 4 && plain.contains(&value)
    };
    let found = values.iter().find(|(_, value)| stands_in(value));
    found.map_or_else(|| segment.to_owned(), |(name, _)| format!("{{{name}}}"))
}

/// First line of a secret's file, read on a thread that may wait for a disk.
async fn first_line(path: &Path) -> Result<String, String> {
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        let file = std::fs::File::open(path)?;
        file.take(MAX_SECRET).read_to_string(&mut text)?;
        std::io::Result::Ok(text)
    });
    let text = read.await.map_err(|died| died.to_string())?;
    match text.map_err(|error| error.to_string())?.lines().next() {
        Some(line) if !line.trim().is_empty() => Ok(line.trim().to_owned()),
        _ => Err("its first line is empty".to_owned()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests;
