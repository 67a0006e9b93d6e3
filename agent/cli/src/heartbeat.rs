//! `watchkeeper heartbeat`: the switch of the agent's heartbeat, over the agent's socket.

use std::path::Path;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, TryFutureExt as _};
use reqwest::Method;
use serde_json::json;
use watchkeeper_assistant::heartbeat_switch::{HeartbeatControl, HeartbeatStatus};
use watchkeeper_config::Config;

use super::agent_client::{AgentClient, AgentSocket};
use super::args::HeartbeatAction;
use super::exit::Failure;
use super::output::Output;

/// Timeout of the agent's answer.
const TIMEOUT: Duration = Duration::from_secs(5);

impl HeartbeatControl for AgentSocket {
    fn set(&self, paused: Option<bool>) -> BoxFuture<'_, Result<HeartbeatStatus, String>> {
        let asked = request(&self.0, paused);
        asked.map_err(|failure| failure.sentence).boxed()
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
    let status = request(&config.agent_api.socket, paused).await?;
    out.both(&json!({"type": "heartbeat", "status": status}), || {
        status.sentence()
    });
    Ok(())
}

async fn request(socket: &Path, paused: Option<bool>) -> Result<HeartbeatStatus, Failure> {
    let client = AgentClient::new(socket)?;
    let request = match paused {
        Some(paused) => client
            .request(Method::PUT, "heartbeat")
            .json(&json!({"paused": paused})),
        None => client.request(Method::GET, "heartbeat"),
    };
    client.json(request.timeout(TIMEOUT)).await
}
