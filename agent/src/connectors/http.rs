//! HTTP requests: one attempt each, and the meaning of the response.
//!
//! Invariants:
//! - A host is contacted only if the configuration allows it; this applies to redirects too.
//! - Headers of a workflow may contain a secret, so a redirect to another origin drops them.
//! - What was addressed to `https` never leaves unencrypted: such a redirect fails.
//! - A response is not stored. Its body is read only to describe an error.
//! - No proxy is used: it would be a host that the configuration does not name.

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

/// Header by which a receiver recognizes a retry.
pub(super) const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Bounds of the timeout that a workflow may set for one attempt.
const MAX_TIMEOUT: Duration = Duration::from_secs(60);
const MIN_TIMEOUT: Duration = Duration::from_millis(100);
/// Timeout of one request to Slack, Twilio or S3, where no workflow sets one.
pub(super) const API_TIMEOUT: Duration = Duration::from_secs(20);
/// Redirects followed in one attempt.
const MAX_REDIRECTS: usize = 5;
/// Bytes read of a response body.
const MAX_BODY_BYTES: usize = 64 << 10;

/// Sends the request of a workflow and follows redirects.
///
/// # Errors
/// [`Fault`] of the request, the connection or the status.
pub async fn call(
    context: &ConnectorContext,
    id: &str,
    call: &HttpCall,
    secrets: &EffectSecrets,
) -> Result<(), Fault> {
    let mut headers = HeaderMap::new();
    for (name, value) in &call.headers {
        let invalid = |part: &str| Fault::permanent(format!("header {name:?}: {part} is invalid"));
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid("its name"))?;
        let value = HeaderValue::from_str(secrets.text(value)?);
        let mut value = value.map_err(|_| invalid("its value"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    let mut url = web_url(&call.url).map_err(Fault::permanent)?;
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
        context.config.admits_url(&url).map_err(Fault::permanent)?;
        let request = client
            .request(method.clone(), url.clone())
            .timeout(request_timeout(call.timeout_s))
            .header(IDEMPOTENCY_KEY, id);
        let request = with_body(request, &call.body).headers(headers.clone());
        let response = request
            .send()
            .await
            .map_err(|error| connection_fault(&url, &error))?;
        let Some(next) = redirected(&url, &method, &response)? else {
            return check_response(&url, &response);
        };
        if next.origin() != url.origin() {
            headers.clear();
        }
        url = next;
    }
    Err(Fault::permanent(format!(
        "{} redirected more than {MAX_REDIRECTS} times",
        host_of(&url)
    )))
}

/// Target of a redirect that keeps method and body; `None` for any other response.
///
/// # Errors
/// When the response has no valid `Location`.
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
    let next = next.ok_or_else(|| {
        Fault::permanent(format!(
            "{} answered {status} without a valid Location",
            host_of(url)
        ))
    })?;
    check_encrypted(url, &next)?;
    Ok(Some(next))
}

/// # Errors
/// When `from` is encrypted and `next`, which its server named, is not.
pub(super) fn check_encrypted(from: &Url, next: &Url) -> Result<(), Fault> {
    match (from.scheme(), next.scheme()) {
        ("https", "http") => Err(Fault::permanent(format!(
            "{} names the unencrypted address http://{} for the rest of the request; correct the \
             server, or set an address that needs no redirect",
            host_of(from),
            host_of(next)
        ))),
        _ => Ok(()),
    }
}

/// Evaluates the status of a response.
///
/// # Errors
/// As [`check_status`].
pub(super) fn check_response(url: &Url, response: &Response) -> Result<(), Fault> {
    let retry_after = response.headers().get(RETRY_AFTER);
    let retry_after = retry_after.and_then(|value| value.to_str().ok());
    check_status(&host_of(url), response.status(), retry_after)
}

/// Evaluates a status and the `Retry-After` header of the server at `host`.
///
/// # Errors
/// [`Fault`] unless the server accepted the request; transient for 408, 425, 429 and 5xx.
pub(crate) fn check_status(
    host: &str,
    status: StatusCode,
    retry_after: Option<&str>,
) -> Result<(), Fault> {
    // 303: accepted; only the unneeded result is elsewhere (RFC 9110, section 15.4.4).
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
        // A date is ignored: the clock of a box may be wrong, and the pause grows anyway.
        let retry_after = retry_after.and_then(|text| text.trim().parse().ok());
        return Err(Fault {
            retry: Retry::After(retry_after.map(Duration::from_secs)),
            why,
        });
    }
    if status.is_redirection() {
        return Err(Fault::permanent(format!(
            "{why}: the address has moved; set the new address in the workflow"
        )));
    }
    Err(Fault::permanent(why))
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

/// Sets an `application/x-www-form-urlencoded` body.
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

/// Timeout of one attempt, within bounds.
fn request_timeout(seconds: f64) -> Duration {
    let time = Duration::try_from_secs_f64(seconds).unwrap_or(MAX_TIMEOUT);
    time.clamp(MIN_TIMEOUT, MAX_TIMEOUT)
}

/// Fault of an attempt without a response.
pub(super) fn connection_fault(url: &Url, error: &reqwest::Error) -> Fault {
    let host = host_of(url);
    Fault::transient(if error.is_timeout() {
        format!("{host} did not answer in time")
    } else {
        format!("{host} can't be reached: {}", root_cause(error))
    })
}

/// Fault of an attempt without a response, where the receiver can't recognize a retry.
pub(super) fn delivery_fault(url: &Url, error: &reqwest::Error) -> Fault {
    let fault = connection_fault(url, error);
    match error.is_connect() || error.is_builder() {
        true => fault,
        false => Fault::unanswered(fault),
    }
}

/// Host and port of an address. The rest is never shown: the path may contain a token.
pub(super) fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or("the server");
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// First [`MAX_BODY_BYTES`] of a response body.
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
    fn server_errors_are_transient_and_refusals_permanent() {
        let of = |status: u16, retry_after| {
            let status = StatusCode::from_u16(status).expect("a status");
            check_status("host", status, retry_after).map_err(|fault| fault.retry)
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
    fn redirect_to_an_unencrypted_address_is_refused() {
        let url = |text| Url::parse(text).expect("one");
        let (secure, plain) = (
            url("https://hooks.example.org/a"),
            url("http://hooks.example.org/b"),
        );
        let fault = check_encrypted(&secure, &plain).expect_err("a downgrade");
        assert_eq!(fault.retry, Retry::Never, "{fault}");
        for (from, next) in [(&secure, &secure), (&plain, &plain), (&plain, &secure)] {
            assert_eq!(check_encrypted(from, next), Ok(()));
        }
        let answer = |to: &Url| {
            let answer = axum::http::Response::builder()
                .status(StatusCode::TEMPORARY_REDIRECT)
                .header(LOCATION, to.as_str());
            Response::from(answer.body("").expect("an answer"))
        };
        let followed = |from: &Url, to: &Url| redirected(from, &Method::POST, &answer(to));
        let fault = followed(&secure, &plain).expect_err("a downgrade");
        assert_eq!(fault.retry, Retry::Never, "{fault}");
        assert_eq!(followed(&plain, &secure), Ok(Some(secure.clone())));
    }

    #[test]
    fn request_timeout_is_clamped() {
        assert_eq!(request_timeout(2.0), Duration::from_secs(2));
        for (odd, is) in [
            (0.0, MIN_TIMEOUT),
            (1e9, MAX_TIMEOUT),
            (f64::NAN, MAX_TIMEOUT),
            (-1.0, MAX_TIMEOUT),
        ] {
            assert_eq!(request_timeout(odd), is, "{odd}");
        }
    }

    #[test]
    fn host_of_hides_user_path_and_query() {
        let url = Url::parse("https://user:pw@hooks.example.org:8443/T0K/EN?key=1").expect("one");
        assert_eq!(host_of(&url), "hooks.example.org:8443");
    }
}
