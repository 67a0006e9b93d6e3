//! What the running runtime says about its cameras, pipelines and disk.

use std::path::Path;

use watchkeeper_assistant::wording::local_time;
use watchkeeper_client::{ClientError, RuntimeClient, how_to_start};
use watchkeeper_config::Config;
use watchkeeper_contract::pipeline::{PipelineState, PipelineStatus};

use super::finding::Finding;
use crate::event_loop;
use crate::look_rates;
use crate::privacy;
use crate::runtime_program::PROGRAM as RUNTIME;

/// One finding for each reason in the runtime's health, each look rate and each privacy mask. None
/// where no runtime answers, because its socket has a finding for that.
pub(super) fn health(config: &Config) -> Vec<Finding> {
    if !config.runtime_socket.exists() {
        return Vec::new();
    }
    let client = RuntimeClient::new(&config.runtime_socket);
    let (Ok(runtime), Ok(client)) = (event_loop::new(), client) else {
        return Vec::new();
    };
    let health = match runtime.block_on(client.health()) {
        Ok(health) => health,
        // The finding of its socket says this.
        Err(ClientError::Unreachable { .. } | ClientError::Forbidden { .. }) => return Vec::new(),
        Err(error) => {
            let remedy = how_to_start::restart(Path::new("/"), RUNTIME);
            return vec![Finding::problem(error.to_string(), remedy)];
        }
    };
    let sources = runtime.block_on(client.sources()).unwrap_or_default();
    let pipelines = runtime.block_on(client.pipelines()).unwrap_or_default();
    let masked = sources.into_iter().filter_map(|source| {
        let mask = privacy::describe(&source.privacy?);
        Some(Finding::ok(format!("camera {}: {mask}", source.spec.id)))
    });
    let looks = pipelines.iter().filter_map(watching);
    let limited = look_rates::limited(&pipelines).into_iter();
    let limited = limited.map(|it| Finding::advice(format!("pipeline {}", it.sentence), it.remedy));
    let remedy = "docs/guide/troubleshooting.md has causes and remedies";
    let problem = |reason| Finding::problem(format!("runtime: {reason}"), remedy);
    let works = "runtime: cameras, pipelines and disk work; no load is shed";
    let works = health.reasons.is_empty().then(|| Finding::ok(works));
    let note = |note| Finding::advice(format!("runtime: {note}"), "check that this is intended");
    works
        .into_iter()
        .chain(health.reasons.into_iter().map(problem))
        .chain(health.notes.into_iter().map(note))
        .chain(looks)
        .chain(limited)
        .chain(masked)
        .collect()
}

/// Why a pipeline does not watch, or how often it looks at its camera. `None` for a recording,
/// before the first frame, and while something limits its rate.
fn watching(pipeline: &PipelineStatus) -> Option<Finding> {
    let id = &pipeline.spec.id;
    let since = local_time(pipeline.since.unix_ms);
    let resting = match (&pipeline.state, &pipeline.paused_until) {
        (PipelineState::Paused, None) => Some(format!("paused since {since}")),
        (PipelineState::Paused, Some(until)) => {
            let until = local_time(until.as_millisecond());
            Some(format!("paused since {since}, until {until}"))
        }
        (PipelineState::Stopped, _) => Some(format!("stopped by a request since {since}")),
        _ => None,
    };
    if let Some(resting) = resting {
        let remedy = format!("to watch again: watchkeeper pipelines resume {id}");
        return Some(Finding::advice(format!("pipeline {id}: {resting}"), remedy));
    }
    let looks = pipeline.looks.filter(|looks| looks.limited_by.is_none())?;
    let fps = looks.looked_fps;
    Some(Finding::ok(format!(
        "pipeline {id}: looks at {fps:.1} frames a second, as many as it wants"
    )))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use watchkeeper_contract::pipeline::PipelineResults;

    use super::*;

    fn found(looks: &serde_json::Value) -> Option<String> {
        found_in("running", looks)
    }

    fn found_in(state: &str, looks: &serde_json::Value) -> Option<String> {
        let status: PipelineStatus = serde_json::from_value(json!({
            "spec": {"id": "gate", "source": "yard", "workflow": {}},
            "state": {"state": state},
            "since": {"unix_ms": 0, "quality": "synced"},
            "rules": [],
            "results": PipelineResults::default(),
            "looks": looks,
        }))
        .unwrap_or_else(|e| panic!("{e}"));
        watching(&status).map(|finding| finding.text())
    }

    #[test]
    fn only_a_full_look_rate_is_fine() {
        let full = found(&json!({"wanted_fps": 10.0, "looked_fps": 9.8}));
        assert!(full.is_some_and(|text| text.starts_with("ok") && text.contains("9.8")));
        let hot = found(&json!({"wanted_fps": 10.0, "looked_fps": 1.0, "limited_by": "heat"}));
        assert_eq!(hot, None, "the sum of all hot ones is a finding");
        assert_eq!(found(&serde_json::Value::Null), None);
    }

    #[test]
    fn resting_pipeline_is_advice_and_has_no_look_rate() {
        let looks = json!({"wanted_fps": 10.0, "looked_fps": 0.0});
        for (state, said) in [
            ("paused", "paused since "),
            ("stopped", "stopped by a request"),
        ] {
            let text = found_in(state, &looks).unwrap_or_default();
            assert!(text.starts_with("advice") && text.contains(said), "{text}");
            assert!(text.contains("pipelines resume gate"), "{text}");
            assert!(!text.contains("frames a second"), "{text}");
        }
    }
}
