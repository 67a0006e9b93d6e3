//! `watchkeeper heartbeat`: the switch of the agent's heartbeat, over the agent's socket.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::json;
use watchkeeper_assistant::heartbeat_switch::{HeartbeatControl, HeartbeatStatus};
use watchkeeper_client::tls::install_provider;
use watchkeeper_config::Config;
use watchkeeper_contract::problem::Problem;

use super::agent_client::unreached;
use super::args::HeartbeatAction;
use super::exit::{Exit, Failure};
use super::output::Output;

/// Timeout of the agent's answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The switch behind the agent's socket.
#[derive(Debug)]
pub(super) struct AgentHeartbeat(pub(super) PathBuf);

impl HeartbeatControl for AgentHeartbeat {
    fn set(&self, paused: Option<bool>) -> BoxFuture<'_, Result<HeartbeatStatus, String>> {
        request(&self.0, paused).boxed()
    }
}

pub(super) async fn run(
    action: Option<HeartbeatAction>,
    config: &Config,
    out: &Output,
) -> Result<(), Failure> {
    let paused = match action {
        None | Some(HeartbeatAction::Status) => None,
        Some(HeartbeatAction::Pause) => Some(true),
        Some(HeartbeatAction::Resume) => Some(false),
    };
    let status = request(&config.agent_api.socket, paused).await;
    let status = status.map_err(|why| Failure::new(Exit::Failed, why))?;
    out.both(&json!({"type": "heartbeat", "status": status}), || {
        status.sentence()
    });
    Ok(())
}

async fn request(socket: &Path, paused: Option<bool>) -> Result<HeartbeatStatus, String> {
    if !socket.exists() {
        return Err(format!(
            "the agent is not running: {} is not there",
            socket.display()
        ));
    }
    install_provider();
    let answered = async {
        let client = reqwest::Client::builder()
            .unix_socket(socket.to_owned())
            .timeout(TIMEOUT)
            .build()?;
        let address = "http://agent/v1/heartbeat";
        let request = match paused {
            Some(paused) => client
                .put(address)
                .header("content-type", "application/json")
                .body(json!({"paused": paused}).to_string()),
            None => client.get(address),
        };
        let response = request.send().await?;
        if response.status().is_success() {
            return response.json().await.map(Ok);
        }
        let refused = response.error_for_status_ref().map(drop);
        match response.json::<Problem>().await {
            Ok(problem) => Ok(Err(problem.detail)),
            // No problem of the agent: the status says more than its body.
            Err(error) => refused.and(Err(error)),
        }
    };
    let answered: Result<Result<_, String>, reqwest::Error> = answered.await;
    match answered {
        Ok(answer) => answer.map_err(|why| format!("{}: {why}", socket.display())),
        Err(error) => Err(unreached(socket, error)),
    }
}
