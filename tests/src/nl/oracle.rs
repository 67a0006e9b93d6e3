//! Hand-written solutions, as outcomes of a run.
//!
//! They show that the product can pass a task at all. If it can't do what a task asks, the solution
//! says so in `impossible`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::Value;
use watchkeeper_contract::pipeline::PipelineSpec;

use super::outcome::{AgentReply, Call, Cost, Deployed, Outcome, Pipelines, RunState};
use super::scene::Scene;
use super::site::existing_spec;

/// Hand-written solution of one task.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Oracle {
    /// Reason why no solution passes: what the product can't do.
    pub impossible: Option<String>,
    /// Pipelines that are deployed, replacing those of the same id.
    #[serde(default)]
    deploy: Vec<PipelineSpec>,
    /// Ids of pipelines that are deleted.
    #[serde(default)]
    stop: Vec<String>,
    /// Ids of pipelines that are paused.
    #[serde(default)]
    pause: Vec<String>,
    /// Reply of the agent.
    #[serde(default)]
    says: String,
    /// Whether the reply asks a question.
    #[serde(default)]
    asks: bool,
    /// Tool calls: name and arguments.
    #[serde(default)]
    calls: Vec<(String, Value)>,
    /// Notes: source and text.
    #[serde(default)]
    notes: Vec<(String, String)>,
    /// Cost: LLM calls, dollars, seconds.
    #[serde(default)]
    spends: (u64, f64, f64),
}

/// Solutions by the ids of their tasks.
pub type Oracles = BTreeMap<String, Oracle>;

/// Reads a file of solutions.
///
/// # Errors
/// If the file can't be read or parsed.
pub fn read(path: &Path) -> anyhow::Result<Oracles> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("can't read the solutions in {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("in {}", path.display()))
}

/// Returns the pipelines that run in a scene before the request.
///
/// # Errors
/// If one of them is invalid.
pub fn before(scene: &Scene) -> anyhow::Result<Pipelines> {
    let existing = scene
        .existing
        .iter()
        .filter(|e| e.state.as_deref() != Some("stopped"));
    existing
        .map(|existing| {
            let spec: PipelineSpec = serde_json::from_value(existing_spec(scene, existing))
                .with_context(|| format!("existing {}", existing.id))?;
            let doing = if spec.paused {
                RunState::Paused
            } else {
                RunState::Running
            };
            Ok((existing.id.clone(), Deployed { spec, doing }))
        })
        .collect()
}

impl Oracle {
    /// Returns the outcome of the solution in a scene.
    ///
    /// # Errors
    /// If a pipeline of the scene is invalid.
    pub fn outcome(&self, scene: &Scene) -> anyhow::Result<Outcome> {
        let before = before(scene)?;
        let mut after = before.clone();
        for spec in &self.deploy {
            let deployed = Deployed {
                spec: spec.clone(),
                doing: RunState::Running,
            };
            after.insert(spec.id.to_string(), deployed);
        }
        for id in &self.stop {
            after.remove(id);
        }
        for id in &self.pause {
            if let Some(deployed) = after.get_mut(id) {
                deployed.doing = RunState::Paused;
            }
        }
        let (model_calls, usd, wall_s) = self.spends;
        Ok(Outcome {
            before,
            after,
            said: AgentReply {
                text: self.says.clone(),
                asks: self.asks,
            },
            calls: self
                .calls
                .iter()
                .map(|(name, arguments)| Call::new(&[name.as_str()], arguments.clone()))
                .collect(),
            notes: self.notes.clone(),
            spent: Cost {
                model_calls,
                usd,
                wall_s,
            },
            submitted: self.deploy.len() as u64,
            ..Outcome::default()
        })
    }
}
