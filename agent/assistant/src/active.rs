//! The active configuration in memory: what cameras there are and what runs on them, as the runtime says it, in `active.json` beside the notes.
//!
//! Invariants: it says what the runtime says and nothing that was only meant; what else a person wrote into the file stays, and so does a file that can't be read;
//! no address in it has a login, and no field whose name is a secret's has its value.

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

/// How long a runtime that does not answer is left alone.
const RETRY: Duration = Duration::from_secs(5);

/// What stands in the file.
fn object(sources: &[SourceStatus], pipelines: &[PipelineStatus]) -> Map<String, Value> {
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
    let mut whole = Map::new();
    whole.insert("cameras".to_owned(), cameras.collect());
    whole.insert("pipelines".to_owned(), watches.collect());
    whole
}

fn without_id(spec: &Value) -> Value {
    let mut spec = redact::json(None, &hidden(spec));
    if let Some(fields) = spec.as_object_mut() {
        fields.remove("id");
    }
    spec
}

/// Writes it where it is another than what stands there; whether it was.
///
/// # Errors
/// A sentence; then nothing was written.
fn keep(
    notes: &Notes,
    sources: &[SourceStatus],
    pipelines: &[PipelineStatus],
) -> Result<bool, String> {
    let mut memory = notes.open()?;
    let active = memory.active().map_err(|e| e.to_string())?;
    let mut value = active.value.clone();
    value.extend(object(sources, pipelines));
    if value == active.value {
        return Ok(false);
    }
    let saved = memory.save_active(&value, active.revision);
    saved.map(|_| true).map_err(|e| e.to_string())
}

/// Asks the runtime and keeps what it says; whether that was another than what stood there.
///
/// # Errors
/// A sentence, when it does not answer or the notes can't be written.
pub async fn keep_current(client: &RuntimeClient, notes: &Notes) -> Result<bool, String> {
    let sources = client.sources().await.map_err(|e| e.in_full())?;
    let pipelines = client.pipelines().await.map_err(|e| e.in_full())?;
    let notes = notes.clone();
    let kept = tokio::task::spawn_blocking(move || keep(&notes, &sources, &pipelines)).await;
    kept.map_err(|e| e.to_string())?
}

/// The same at the start of the agent, as soon as the runtime answers: while the agent was away something may have been changed.
pub async fn keep_at_start(client: RuntimeClient, notes: Notes, closing: watch::Receiver<bool>) {
    loop {
        if client.health().await.is_ok() {
            match keep_current(&client, &notes).await {
                Ok(changed) => tracing::debug!(changed, "the active configuration is kept"),
                Err(why) => tracing::warn!(why, "the active configuration is not kept"),
            }
            return;
        }
        tokio::select! {
            () = closed(closing.clone()) => return,
            () = tokio::time::sleep(RETRY) => {}
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
    fn what_runs_is_kept_once_and_what_a_person_wrote_beside_it_stays() {
        let home = tempfile::tempdir().unwrap();
        let notes = Notes::of(home.path(), &MemoryConfig::default());
        let mut here = situation();
        here.sources[0].spec.uri = "rtsp://admin:hunter2@10.0.0.9/x".to_owned();
        assert!(keep(&notes, &here.sources, &here.pipelines).unwrap());
        assert!(!keep(&notes, &here.sources, &here.pipelines).unwrap());
        let path = home.path().join("memory/active.json");
        let mut kept: Value =
            serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(kept["cameras"]["gate"]["uri"], "rtsp://***@10.0.0.9/x");
        assert!(kept["pipelines"].as_object().unwrap().len() == here.pipelines.len());

        kept["why"] = Value::from("the gate is new");
        std::fs::write(&path, kept.to_string()).unwrap();
        here.sources.truncate(1);
        assert!(keep(&notes, &here.sources, &here.pipelines).unwrap());
        let kept: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(kept["why"], "the gate is new");
        assert_eq!(kept["cameras"].as_object().unwrap().len(), 1);

        std::fs::write(&path, "{\"why\": ").unwrap();
        let why = keep(&notes, &here.sources, &here.pipelines).unwrap_err();
        assert!(why.contains("active.json"), "{why}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"why\": ");
    }
}
