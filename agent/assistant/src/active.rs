//! The active configuration in the notes: cameras and pipelines, in `active.json`.
//!
//! - It holds what the runtime reports, never what was only proposed.
//! - Other members that a user wrote into the file stay. A file that can't be read stays too.
//! - Addresses have no login, and secret fields have no value.

use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::watch;
use watchkeeper_config::redact;
use watchkeeper_contract::pipeline::PipelineStatus;
use watchkeeper_contract::source::SourceStatus;
use watchkeeper_http::closed;

use crate::notes::Notes;
use crate::redact::hidden;
use watchkeeper_client::RuntimeClient;

/// Pause between two requests to a runtime that does not answer.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

fn to_object(sources: &[SourceStatus], pipelines: &[PipelineStatus]) -> Map<String, Value> {
    let cameras = sources.iter().map(|source| {
        let spec = serde_json::to_value(&source.spec).unwrap_or_default();
        (source.spec.id.to_string(), without_id(&spec))
    });
    let watches = pipelines.iter().map(|pipeline| {
        let spec = serde_json::to_value(&pipeline.spec).unwrap_or_default();
        let mut spec = without_id(&spec);
        if let Some(until) = pipeline.paused_until {
            spec["paused_until"] = Value::from(until.to_string());
        }
        (pipeline.spec.id.to_string(), spec)
    });
    let mut object = Map::new();
    object.insert("cameras".to_owned(), cameras.collect());
    object.insert("pipelines".to_owned(), watches.collect());
    object
}

fn without_id(spec: &Value) -> Value {
    let mut spec = redact::json(None, &hidden(spec));
    if let Some(fields) = spec.as_object_mut() {
        fields.remove("id");
    }
    spec
}

/// Writes the file if its contents change. Returns whether they did.
///
/// # Errors
/// A sentence. Nothing was written.
fn save(
    notes: &Notes,
    sources: &[SourceStatus],
    pipelines: &[PipelineStatus],
) -> Result<bool, String> {
    let mut memory = notes.open()?;
    let active = memory.active().map_err(|e| e.to_string())?;
    let mut value = active.value.clone();
    value.extend(to_object(sources, pipelines));
    if value == active.value {
        return Ok(false);
    }
    let saved = memory.save_active(&value, active.revision);
    saved.map(|_| true).map_err(|e| e.to_string())
}

/// Saves what the runtime reports now. Returns whether the file changed.
///
/// # Errors
/// A sentence, if the runtime does not answer or the notes can't be written.
pub async fn save_current(client: &RuntimeClient, notes: &Notes) -> Result<bool, String> {
    let sources = client.sources().await.map_err(|e| e.in_full())?;
    let pipelines = client.pipelines().await.map_err(|e| e.in_full())?;
    let notes = notes.clone();
    let saved = tokio::task::spawn_blocking(move || save(&notes, &sources, &pipelines)).await;
    saved.map_err(|e| e.to_string())?
}

/// Saves the active configuration once, as soon as the runtime answers. Pipelines may have changed
/// while the agent was not running.
pub async fn save_at_start(client: RuntimeClient, notes: Notes, closing: watch::Receiver<bool>) {
    loop {
        if client.health().await.is_ok() {
            match save_current(&client, &notes).await {
                Ok(changed) => tracing::debug!(changed, "saved the active configuration"),
                Err(why) => tracing::warn!(why, "cannot save the active configuration"),
            }
            return;
        }
        tokio::select! {
            () = closed(closing.clone()) => return,
            () = tokio::time::sleep(RETRY_INTERVAL) => {}
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use watchkeeper_config::MemoryConfig;

    use super::*;
    use crate::proposal::snapshot::testing::situation;

    #[test]
    fn active_configuration_is_saved_once_beside_user_members() {
        let home = tempfile::tempdir().unwrap();
        let notes = Notes::new(home.path(), &MemoryConfig::default());
        let mut snapshot = situation();
        snapshot.sources[0].spec.uri = "rtsp://admin:hunter2@10.0.0.9/x".to_owned();
        assert!(save(&notes, &snapshot.sources, &snapshot.pipelines).unwrap());
        assert!(!save(&notes, &snapshot.sources, &snapshot.pipelines).unwrap());
        let path = home.path().join("memory/active.json");
        let mut saved: Value =
            serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(saved["cameras"]["gate"]["uri"], "rtsp://***@10.0.0.9/x");
        assert!(saved["pipelines"].as_object().unwrap().len() == snapshot.pipelines.len());

        saved["why"] = Value::from("the gate is new");
        std::fs::write(&path, saved.to_string()).unwrap();
        snapshot.sources.truncate(1);
        assert!(save(&notes, &snapshot.sources, &snapshot.pipelines).unwrap());
        let saved: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(saved["why"], "the gate is new");
        assert_eq!(saved["cameras"].as_object().unwrap().len(), 1);

        std::fs::write(&path, "{\"why\": ").unwrap();
        let why = save(&notes, &snapshot.sources, &snapshot.pipelines).unwrap_err();
        assert!(why.contains("active.json"), "{why}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"why\": ");
    }
}
