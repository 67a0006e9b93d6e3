//! HTTP requests: one attempt each, and what its answer means.
//!
//! Invariants: an address is called only where the configuration allows its host, and so is each that a redirect names; headers of the workflow,
//! which may hold a secret, go to the host that the workflow named and to no other; an answer is not kept, and its body is read only as far as it
//! says what is wrong. No proxy is used: it would be a host that nobody named.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::multipart::{Form, Part};
use reqwest::{Method, Response, StatusCode};
use url::{Url, form_urlencoded};
use watchkeeper_config::sinks::web_url;
use watchkeeper_contract::effect::{Attachment, HttpBody, HttpCall, HttpMethod};
use watchkeeper_llm::client::root_cause;

use super::context::ConnectorContext;
use super::fault::{Fault, Retry};
use super::secrets::EffectSecrets;

/// Header by which a receiver can tell that it was told twice.
pub(super) const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Longest time for one attempt, whatever a workflow says.
const LONGEST: Duration = Duration::from_secs(60);
const SHORTEST: Duration = Duration::from_millis(100);
/// Time for one request to an API that is ours to call.
pub(super) const API_TIMEOUT: Duration = Duration::from_secs(20);
/// Most redirects of one attempt.
const MAX_REDIRECTS: usize = 5;
/// Most bytes of an answer that are read.
const MAX_BODY_BYTES: usize = 64 << 10;

/// Makes the request of a workflow.
///
/// # Errors
/// [`Fault`].
pub async fn call(
    context: &ConnectorContext,
    id: &str,
    call: &HttpCall,
    secrets: &EffectSecrets,
) -> Result<(), Fault> {
    let mut headers = HeaderMap::new();
    for (name, value) in &call.headers {
        let wrong = |what: &str| Fault::never(format!("the header {name:?} has {what}"));
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong("no valid name"))?;
        let value = HeaderValue::from_str(secrets.text(value)?);
        let mut value = value.map_err(|_| wrong("a value with a line break or worse in it"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    let mut url = web_url(&call.url).map_err(Fault::never)?;
    if !call.query.is_empty() {
        url.query_pairs_mut().extend_pairs(&call.query);
    }
    let method = match call.method {
        HttpMethod::Get => Method::GET,
        HttpMethod::Post => Method::POST,
        HttpMethod::Put => Method::PUT,
    };
    let client = context.http.client().await?;
    for _ in 0..=MAX_REDIRECTS {
        context.config.admits_url(&url).map_err(Fault::never)?;
        let request = client
            .request(method.clone(), url.clone())
            .timeout(time(call.timeout_s))
            .header(IDEMPOTENCY_KEY, id);
        let request = with_body(request, &call.body).headers(headers.clone());
        let response = request
            .send()
            .await
            .map_err(|error| connection_fault(&url, &error))?;
        let Some(next) = redirected(&url, &method, &response)? else {
            return judge(&url, &response);
        };
        if next.origin() != url.origin() {
            headers.clear();
        }
        url = next;
    }
    Err(Fault::never(format!(
        "{} leads on to the next address for ever",
        host_of(&url)
    )))
}

/// Where a redirect leads that is to be followed.
///
/// # Errors
/// When it can't be: the request would arrive as another one, or nowhere.
fn redirected(url: &Url, method: &Method, response: &Response) -> Result<Option<Url>, Fault> {
    let status = response.status();
    match status {
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => {}
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND if *method == Method::GET => {}
        _ => return Ok(None),
    }
    let location = response.headers().get(LOCATION);
    let location = location.and_then(|value| value.to_str().ok());
    let next = location.and_then(|text| url.join(text).ok());
    next.map(Some).ok_or_else(|| {
        Fault::never(format!(
            "{} answered {status} and does not say where to go",
            host_of(url)
        ))
    })
}

/// What the status of an answer means.
fn judge(url: &Url, response: &Response) -> Result<(), Fault> {
    let retry_after = response.headers().get(RETRY_AFTER);
    let retry_after = retry_after.and_then(|value| value.to_str().ok());
    outcome(&host_of(url), response.status(), retry_after)
}

/// What a status and the header `Retry-After` of the server at `host` mean.
///
/// # Errors
/// Unless the request was taken.
pub fn outcome(host: &str, status: StatusCode, retry_after: Option<&str>) -> Result<(), Fault> {
    // Behind "see other" the request was taken, and its result, which nobody wants, is elsewhere (RFC 9110, section 15.4.4).
    if status.is_success() || status == StatusCode::SEE_OTHER {
        return Ok(());
    }
    let why = format!("{host} answered {status}");
    let may_pass = status.is_server_error()
        || [
            StatusCode::REQUEST_TIMEOUT,
            StatusCode::TOO_EARLY,
            StatusCode::TOO_MANY_REQUESTS,
        ]
        .contains(&status);
    if may_pass {
        // A date is not read: the clock of a box may be wrong, and the pause grows anyway.
        let retry_after = retry_after.and_then(|text| text.trim().parse().ok());
        return Err(Fault {
            retry: Retry::After(retry_after.map(Duration::from_secs)),
            why,
        });
    }
    if status.is_redirection() {
        return Err(Fault::never(format!(
            "{why}: it is elsewhere now; write the new address into the workflow"
        )));
    }
    Err(Fault::never(why))
}

fn with_body(request: reqwest::RequestBuilder, body: &HttpBody) -> reqwest::RequestBuilder {
    match body {
        HttpBody::Empty => request,
        HttpBody::Json { document } => request.json(document),
        HttpBody::Form { fields, files } if files.is_empty() => form(request, fields),
        HttpBody::Form { fields, files } => {
            let mut form = Form::new();
            for (name, value) in fields {
                form = form.text(name.clone(), value.clone());
            }
            for file in files {
                form = form.part(file.name.clone(), part(file));
            }
            request.multipart(form)
        }
    }
}

/// A body of pairs, as a form of the web sends them.
pub(super) fn form(
    request: reqwest::RequestBuilder,
    fields: &[(String, String)],
) -> reqwest::RequestBuilder {
    let body = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(fields)
        .finish();
    request
        .header("content-type", "application/x-www-form-urlencoded")
        .body(body)
}

fn part(file: &Attachment) -> Part {
    Part::bytes(file.bytes.clone()).file_name(file.name.clone())
}

/// The time that an attempt has.
fn time(seconds: f64) -> Duration {
    let time = Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST);
    time.clamp(SHORTEST, LONGEST)
}

/// An attempt that brought no answer.
pub(super) fn connection_fault(url: &Url, error: &reqwest::Error) -> Fault {
    let host = host_of(url);
    Fault::later(if error.is_timeout() {
        format!("{host} did not answer in time")
    } else {
        format!("{host} can't be reached: {}", root_cause(error))
    })
}

/// The host of an address, which is all of it that may be shown: a token may be in its path.
pub(super) fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or("the server");
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// The beginning of an answer.
pub(super) async fn read_start(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk);
        if body.len() >= MAX_BODY_BYTES {
            body.truncate(MAX_BODY_BYTES);
            break;
        }
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_in_trouble_is_asked_again_and_one_that_refuses_is_not() {
        let of = |status: u16, retry_after| {
            let status = StatusCode::from_u16(status).expect("a status");
            outcome("host", status, retry_after).map_err(|fault| fault.retry)
        };
        for good in [200, 202, 204, 303] {
            assert_eq!(of(good, None), Ok(()));
        }
        for trouble in [408, 425, 429, 500, 502, 503, 504] {
            assert_eq!(of(trouble, None), Err(Retry::After(None)), "{trouble}");
        }
        for refusal in [301, 302, 400, 401, 403, 404, 410, 413, 422] {
            assert_eq!(of(refusal, Some("5")), Err(Retry::Never), "{refusal}");
        }
        let five = Some(Duration::from_secs(5));
        assert_eq!(of(503, Some(" 5 ")), Err(Retry::After(five)));
        let date = Some("Wed, 21 Oct 2026 07:28:00 GMT");
        assert_eq!(of(503, date), Err(Retry::After(None)));
    }

    #[test]
    fn an_attempt_has_some_time_and_not_for_ever() {
        assert_eq!(time(2.0), Duration::from_secs(2));
        for (odd, is) in [
            (0.0, SHORTEST),
            (1e9, LONGEST),
            (f64::NAN, LONGEST),
            (-1.0, LONGEST),
        ] {
            assert_eq!(time(odd), is, "{odd}");
        }
    }

    #[test]
    fn of_an_address_only_the_host_is_shown() {
        let url = Url::parse("https://user:pw@hooks.example.org:8443/T0K/EN?key=1").expect("one");
        assert_eq!(host_of(&url), "hooks.example.org:8443");
    }
}
