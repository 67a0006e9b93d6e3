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

/// Folders below the state folder that the runtime alone writes to.
const WRITTEN: [&str; 5] = ["journal", "states", "detections", "media", "recordings"];

/// The health of the runtime; without an answer, prints what is known without it.
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
            "runtime: no answer; it wrote to {} last at {}. No camera is watched.",
            config.state_dir.display(),
            local_time(at)
        ),
        None => "runtime: no answer. No camera is watched.".to_owned(),
    });
    out.line("");
    agent.lines().into_iter().for_each(|line| out.line(line));
    machine.iter().for_each(|finding| out.line(finding.text()));
}

/// Time of the runtime's last write below `state`, in milliseconds since 1970; `None` if this user
/// may not read there.
fn last_write_ms(state: &Path) -> Option<i64> {
    let folders = WRITTEN
        .iter()
        .filter_map(|name| fs::read_dir(state.join(name)).ok());
    let entries = folders.flatten().flatten();
    let times = entries.filter_map(|entry| entry.metadata().ok()?.modified().ok());
    let latest = jiff::Timestamp::try_from(times.max()?).ok()?;
    Some(latest.as_millisecond())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn write_of_the_agent_does_not_count_as_one_of_the_runtime() {
        let state = tempfile::tempdir().unwrap();
        let write = |folder: &str, seconds: u64| {
            fs::create_dir(state.path().join(folder)).unwrap();
            let file = fs::File::create(state.path().join(folder).join("f")).unwrap();
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            file.set_modified(at).unwrap();
        };
        write("agent", 30);
        assert_eq!(last_write_ms(state.path()), None);
        write("journal", 10);
        write("states", 20);
        assert_eq!(last_write_ms(state.path()), Some(20_000));
    }
}
