//! Requests to the agent's API over its socket.
//!
//! - A refusal of the agent becomes the failure of the command, with its sentence.

use std::path::{Path, PathBuf};

use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use watchkeeper_agent::agent_socket::{IDLE_TIMEOUT, accepted, builder, refusal, unreached};
use watchkeeper_client::error_chain::one_line;

use super::exit::{Exit, Failure};

/// The agent behind a socket, as a session uses it: each request opens its own connection.
#[derive(Debug)]
pub(super) struct AgentSocket(pub(super) PathBuf);

#[derive(Debug)]
pub(super) struct AgentClient {
    pub(super) socket: PathBuf,
    http: reqwest::Client,
}

impl AgentClient {
    pub(super) fn new(socket: &Path) -> Result<Self, Failure> {
        if !socket.exists() {
            let sentence = format!(
                "the agent is not running: {} is not there",
                socket.display()
            );
            return Err(Failure::failed(sentence));
        }
        let http = builder(socket).read_timeout(IDLE_TIMEOUT).build();
        Ok(Self {
            socket: socket.to_owned(),
            http: http.map_err(|error| Failure::failed(one_line(&error)))?,
        })
    }

    /// Begins a request to a path below `/v1/`.
    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("http://agent/v1/{path}"))
    }

    /// Sends a request; an answer without success is a failure.
    pub(super) async fn send(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let answer = request.send().await.map_err(|error| self.failed(error))?;
        accepted(answer).await.map_err(Self::refused)
    }

    /// Reads the failure in an answer without success.
    pub(super) async fn refusal(answer: Response) -> Failure {
        Self::refused(refusal(answer).await)
    }

    fn refused((status, sentence): (StatusCode, String)) -> Failure {
        let exit = match status {
            StatusCode::BAD_REQUEST
            | StatusCode::NOT_FOUND
            | StatusCode::CONFLICT
            | StatusCode::TOO_MANY_REQUESTS => Exit::BadInput,
            _ => Exit::Failed,
        };
        Failure::new(exit, sentence)
    }

    /// The failure of a request or of its answer.
    pub(super) fn failed(&self, error: reqwest::Error) -> Failure {
        Failure::failed(unreached(&self.socket, error))
    }

    /// Sends a request and reads the JSON of its answer.
    pub(super) async fn json<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
    ) -> Result<T, Failure> {
        Self::read(self.send(request).await?).await
    }

    pub(super) async fn read<T: DeserializeOwned>(answer: Response) -> Result<T, Failure> {
        let read = answer.json().await;
        read.map_err(|error| {
            let why = one_line(&error.without_url());
            Failure::failed(format!("the agent's answer can't be read: {why}"))
        })
    }

    /// Sends a POST with a JSON body.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        self.json(self.request(Method::POST, path).json(body)).await
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.json(self.request(Method::GET, path)).await
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use axum::Router;
    use axum::extract::Path;
    use axum::routing::get;

    use super::{AgentClient, Exit, StatusCode};

    #[tokio::test]
    async fn refusals_of_the_request_exit_as_invalid_input() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("agent.sock");
        let listener = tokio::net::UnixListener::bind(&socket).unwrap();
        let answer = |Path(code): Path<u16>| async move { StatusCode::from_u16(code).unwrap() };
        let routes = Router::new().route("/v1/{code}", get(answer));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        let client = AgentClient::new(&socket).unwrap();
        for (code, expected) in [
            ("400", Exit::BadInput),
            ("404", Exit::BadInput),
            ("409", Exit::BadInput),
            ("429", Exit::BadInput),
            ("500", Exit::Failed),
        ] {
            let refused = client.get::<serde_json::Value>(code).await.unwrap_err();
            assert_eq!(refused.exit, expected, "{code}");
        }
    }

    #[tokio::test]
    async fn socket_of_a_killed_agent_means_that_it_is_not_running() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("agent.sock");
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        let client = AgentClient::new(&socket).unwrap();
        let refused = client.get::<serde_json::Value>("jobs").await.unwrap_err();
        let sentence = format!(
            "the agent is not running: nothing answers at {}",
            socket.display()
        );
        assert_eq!(refused.to_string(), sentence);
    }
}
