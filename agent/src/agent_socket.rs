//! HTTP over the socket of an agent's API: for the command line, and for tools of jobs.

use std::path::Path;
use std::time::Duration;

use reqwest::{ClientBuilder, Response, StatusCode};
use watchkeeper_client::error_chain::one_line;
use watchkeeper_contract::problem::Problem;

/// Longest time without a byte of an answer: an ingest of a folder answers at its end.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// Begins an HTTP client of a socket.
pub fn builder(socket: &Path) -> ClientBuilder {
    watchkeeper_outgoing::builder()
        .unix_socket(socket.to_owned())
        .no_proxy()
        // Without this reqwest requires the system's certificates, which a box may lack.
        .tls_certs_only([])
}

/// Says why the agent gave no answer. A killed one leaves its socket behind.
pub fn unreached(socket: &Path, error: reqwest::Error) -> String {
    let socket = socket.display();
    if error.is_connect() {
        format!("the agent is not running: nothing answers at {socket}")
    } else if error.is_timeout() {
        let seconds = IDLE_TIMEOUT.as_secs();
        format!("the agent at {socket} sent nothing for {seconds} s")
    } else if error.is_body() || error.is_decode() || error.is_builder() {
        format!("{socket}: {}", one_line(&error.without_url()))
    } else {
        format!("the agent at {socket} broke off; see whether it runs: `watchkeeper status`")
    }
}

/// Returns an answer of success.
///
/// # Errors
/// If the agent refuses: see [`refusal`].
pub async fn accepted(answer: Response) -> Result<Response, (StatusCode, String)> {
    match answer.status().is_success() {
        true => Ok(answer),
        false => Err(refusal(answer).await),
    }
}

/// Returns the status of an answer without success, with its sentence.
pub async fn refusal(answer: Response) -> (StatusCode, String) {
    let status = answer.status();
    let problem: Result<Problem, _> = answer.json().await;
    let sentence = problem.map_or_else(
        |_| format!("the agent answered {status}; its log says more"),
        |problem| problem.detail,
    );
    (status, sentence)
}
