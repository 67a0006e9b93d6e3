//! What a blueprint comes to for one request: what the model is told of its job, and the tools that it has there.
//!
//! Invariant: a tool is in it only where the blueprint *and* the gate have it.

use super::prompt;
use super::tool::ToolSet;
use crate::blueprint::Blueprint;
use crate::permissions::ToolPermissions;

/// What a model works by.
#[derive(Debug, Clone)]
pub struct SetupSpec {
    /// The blueprint.
    pub blueprint: Blueprint,
    /// What the tools of the request may do.
    pub gate: ToolPermissions,
    /// The tools.
    pub tools: ToolSet,
    /// The instructions: the job's own, and those of the blueprint behind them.
    pub system: Vec<String>,
}

impl SetupSpec {
    /// What `blueprint` comes to for a request behind this gate.
    #[must_use]
    pub fn new(blueprint: Blueprint, gate: ToolPermissions) -> Self {
        Self {
            tools: ToolSet::of(&gate, &blueprint.tools),
            system: prompt::system(&blueprint),
            gate,
            blueprint,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use watchkeeper_config::PermissionsConfig;

    use super::*;
    use crate::blueprint::{BlueprintName, Job, built_in, read};
    use crate::permissions::{Effect, Entrypoint};

    #[test]
    fn a_blueprint_narrows_and_the_gate_narrows_it_further() {
        let text = "+++\njob = \"archive\"\nwhen = \"x\"\ntools = [\"look_around\", \"memory_note\"]\n+++\nKeep to the dock.";
        let own = read(&BlueprintName::new("dock").unwrap(), text).unwrap();
        let brief = SetupSpec::new(own.clone(), ToolPermissions::open(Entrypoint::Chat));
        assert_eq!(brief.tools.names(), ["look_around", "memory_note"]);
        assert_eq!(brief.system.len(), 2);
        assert!(brief.system[1].ends_with("Keep to the dock."));
        let mut config = PermissionsConfig::default();
        config.tools.chat = Some(vec![Effect::Read]);
        let looking = SetupSpec::new(own, ToolPermissions::of(&config, Entrypoint::Chat));
        assert_eq!(looking.tools.names(), ["look_around"]);
        for job in [Job::SetUp, Job::Question, Job::Archive] {
            let built_in = SetupSpec::new(
                built_in::of(job).unwrap(),
                ToolPermissions::open(Entrypoint::Chat),
            );
            assert_eq!(built_in.tools.names(), job.tools());
            assert_eq!(built_in.system.len(), 1, "the job's own alone");
        }
    }
}
