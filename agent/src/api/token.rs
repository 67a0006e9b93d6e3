//! The token: the authority to use the API over TCP.
//!
//! Invariants:
//! - Comparison takes constant time.
//! - The token is in no log, no answer and no `Debug`.
//! - Without it, only the head of a request is read, and the connection ends with the answer.
//! - A wrong token is answered after [`WRONG_TOKEN_DELAY`].

use std::fmt;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONNECTION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};
use watchkeeper_config::SecretSource;
use watchkeeper_contract::problem::ProblemCode;
use watchkeeper_http::refusal::full;
use watchkeeper_http::{ConnectionPlace, Refusal};

use crate::connectors::secrets;
use crate::log_limiter::LogLimiter;

/// Minimum length in characters: 128 bits as hexadecimal digits.
const MIN_LENGTH: usize = 32;
/// Period in which at most one rejected request is logged.
const REJECTION_LOG_PERIOD: Duration = Duration::from_secs(60);

/// Delay of the answer to a wrong token. With the few connections that may be without a token, it
/// limits the guesses that get an answer.
const WRONG_TOKEN_DELAY: Duration = Duration::from_secs(1);

/// The token that requests must carry.
pub struct Token {
    secret: SecretString,
    rejection_log: Mutex<LogLimiter>,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(***)")
    }
}

impl Token {
    /// Reads the token from `source`.
    ///
    /// # Errors
    /// A sentence without the token, when it is unreadable or too weak.
    pub fn read(source: &SecretSource, credentials: Option<&Path>) -> Result<Self, String> {
        let secret = secrets::read("of the agent's API", source, credentials)?;
        let text = secret.expose_secret();
        if text.len() < MIN_LENGTH || !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(format!(
                "the token of the agent's API is invalid: it must be one line of at least {MIN_LENGTH} visible ASCII characters, as from \
                 `openssl rand -hex 32`"
            ));
        }
        Ok(Self {
            secret,
            rejection_log: Mutex::new(LogLimiter::new(REJECTION_LOG_PERIOD)),
        })
    }

    /// Whether `headers` carry the token.
    fn is_in(&self, headers: &HeaderMap) -> bool {
        let shown = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        let shown = shown.and_then(|value| {
            let (scheme, rest) = value.split_at_checked(7)?;
            scheme.eq_ignore_ascii_case(b"bearer ").then_some(rest)
        });
        shown.is_some_and(|shown| {
            is_same(shown.trim_ascii(), self.secret.expose_secret().as_bytes())
        })
    }

    fn log_rejection(&self) {
        let mut log = self.rejection_log.lock();
        if let Some(suppressed) = log.admit(Instant::now()) {
            tracing::warn!(
                suppressed,
                "api: rejected a request over TCP without a valid token"
            );
        }
    }
}

/// Whether both are equal, in a time that depends on their lengths only.
fn is_same(shown: &[u8], secret: &[u8]) -> bool {
    let differs = shown
        .iter()
        .zip(secret)
        .fold(0, |differs: u8, (a, b)| black_box(differs | (a ^ b)));
    shown.len() == secret.len() && differs == 0
}

/// Lets requests with the token through.
pub(crate) async fn require_token(
    State(token): State<std::sync::Arc<Token>>,
    request: Request,
    next: Next,
) -> Response {
    if token.is_in(request.headers()) {
        let place = request.extensions().get::<ConnectionPlace>();
        if place.is_none_or(ConnectionPlace::prove) {
            return next.run(request).await;
        }
        let detail = "the API has no free connection; close idle ones and try again";
        return full(detail).into_response();
    }
    token.log_rejection();
    let detail = match request.headers().contains_key(AUTHORIZATION) {
        false => {
            "over TCP the API needs the token: send it as `Authorization: Bearer TOKEN`, or use \
             the agent's socket on the box"
        }
        true => {
            tokio::time::sleep(WRONG_TOKEN_DELAY).await;
            "this token is invalid; send the one in the file or credential that the \
             configuration names in [agent.api]"
        }
    };
    let refusal = Refusal::new(StatusCode::UNAUTHORIZED, ProblemCode::Unauthorized, detail);
    let mut response = refusal.into_response();
    let headers = response.headers_mut();
    headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    const SECRET: &str = "0123456789abcdef0123456789abcdef";

    fn token(text: &str) -> Result<Token, String> {
        Token::read(&SecretSource::Value(text.to_owned().into()), None)
    }

    #[test]
    fn only_the_whole_token_is_accepted() {
        let token = token(SECRET).unwrap();
        let is_in = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().unwrap());
            token.is_in(&headers)
        };
        assert!(is_in(&format!("Bearer {SECRET}")));
        assert!(is_in(&format!("bearer  {SECRET} ")));
        for wrong in [
            String::new(),
            SECRET.to_owned(),
            "Bearer ".to_owned(),
            format!("Basic {SECRET}"),
            format!("Bearer {SECRET}0"),
            format!("Bearer {}", &SECRET[1..]),
            format!("Bearer {}", SECRET.replace('f', "e")),
            format!("Bearer {}", SECRET.to_uppercase()),
        ] {
            assert!(!is_in(&wrong), "{wrong}");
        }
        assert!(!token.is_in(&HeaderMap::new()));
    }

    #[test]
    fn weak_token_is_rejected_and_never_shown() {
        for weak in [
            "short",
            &SECRET[1..],
            "0123456789abcdef 0123456789abcdef",
            "schlüsselschlüsselschlüsselschlüssel",
        ] {
            let error = token(weak).unwrap_err();
            assert!(
                error.contains("openssl rand") && !error.contains(weak),
                "{error}"
            );
        }
        assert_eq!(format!("{:?}", token(SECRET).unwrap()), "Token(***)");
    }
}
