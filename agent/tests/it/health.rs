//! The agent's health, over MQTT and over its API.

use std::path::Path;

use serde_json::Value;
use watchkeeper_config::LlmConfig;

use crate::support::agent_api::{SOCKET, get};
use crate::support::agent_thread::EmbeddedAgent;
use crate::support::broker::{Memory, Mosquitto, Subscriber, mosquitto_or_skip};
use crate::support::fake_runtime::FakeRuntime;

async fn reasons(api: &Path) -> Value {
    let health = get(api, "/v1/health").await.expect("the API answers");
    health["reasons"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn fleet_learns_the_problems_that_the_api_reports() {
    if mosquitto_or_skip("fleet_learns_the_problems_that_the_api_reports").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("dir");
    let runtime = FakeRuntime::start(folder.path());
    let broker = Mosquitto::start(folder.path(), Memory::Nothing);
    let mut subscriber = Subscriber::start(broker.port, "desk").ready(broker.port);
    let (api, key) = (folder.path().join(SOCKET), folder.path().join("key"));
    let agent = EmbeddedAgent::start(folder.path(), &runtime, broker.port, |config| {
        config.llm = Some(LlmConfig {
            key_file: Some(key.clone()),
            ..LlmConfig::new("claude")
        });
    });
    let degraded = subscriber.expect("/svc/agent/health", |health| health["s"] == "degraded");
    assert_eq!(reasons(&api).await, degraded["why"]);
    std::fs::write(&key, "sk-secret-0123456789\n").expect("write the key");
    assert_eq!(reasons(&api).await, serde_json::json!([]));
    subscriber.expect("/svc/agent/health", |health| health["s"] == "up");
    agent.stop();
}
