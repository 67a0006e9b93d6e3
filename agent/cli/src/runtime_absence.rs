//! What `status` shows while the runtime does not answer: since when, the agent, clock and disk.

use std::fs;
use std::path::Path;

use serde_json::json;
use watchkeeper_assistant::wording::local_time;
use watchkeeper_client::{ClientError, RuntimeClient};
use watchkeeper_config::Config;
use watchkeeper_contract::health::Health;

use super::agent_health::AgentHealth;
use super::doctor;
use super::output::Output;

/// Folders below the state folder that a working runtime writes to.
const WRITTEN: [&str; 3] = ["", "journal", "states"];

/// The health of the runtime; without an answer, prints what is known all the same.
///
/// # Errors
/// Why there is no answer, with the remedy.
pub(super) async fn health_or_show(
    client: &RuntimeClient,
    config: &Config,
    out: &Output,
) -> Result<Health, ClientError> {
    let health = client.health().await;
    if let Err(error) = &health {
        show(error, config, out).await;
    }
    health
}

async fn show(error: &ClientError, config: &Config, out: &Output) {
    let agent = AgentHealth::ask(config).await;
    let machine = doctor::clock_and_disk(config);
    let last_write_ms = last_write_ms(&config.state_dir);
    out.object(&json!({
        "health": {"state": "down", "reasons": [error.in_full()], "last_write_ms": last_write_ms},
        "agent": agent.to_json(), "machine": machine,
    }));
    out.line(match last_write_ms {
        Some(at) => format!(
            "runtime: no answer; it wrote to {} last at {}. No camera is watched meanwhile.",
            config.state_dir.display(),
            local_time(at)
        ),
        None => "runtime: no answer. No camera is watched meanwhile.".to_owned(),
    });
    out.line("");
    agent.lines().into_iter().for_each(|line| out.line(line));
    machine.iter().for_each(|finding| out.line(finding.text()));
}

/// Time of the last write below `state`, in milliseconds since 1970; `None` if this user may not
/// read there.
fn last_write_ms(state: &Path) -> Option<i64> {
    let folders = WRITTEN
        .iter()
        .filter_map(|name| fs::read_dir(state.join(name)).ok());
    let entries = folders.flatten().flatten();
    let times = entries.filter_map(|entry| entry.metadata().ok()?.modified().ok());
    let latest = jiff::Timestamp::try_from(times.max()?).ok()?;
    Some(latest.as_millisecond())
}
