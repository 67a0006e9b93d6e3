//! What a blueprint comes to for one request: what the model is told of its job, and the tools that it has there.
//!
//! Invariant: a tool is in it only where the blueprint *and* the gate have it.

use super::prompt;
use super::tool::Registered;
use crate::blueprint::Blueprint;
use crate::permissions::Gate;

/// What a model works by.
#[derive(Debug, Clone)]
pub struct Brief {
    /// The blueprint.
    pub blueprint: Blueprint,
    /// What the tools of the request may do.
    pub gate: Gate,
    /// The tools.
    pub tools: Registered,
    /// The instructions: the job's own, and those of the blueprint behind them.
    pub system: Vec<String>,
}

impl Brief {
    /// What `blueprint` comes to for a request behind this gate.
    #[must_use]
    pub fn new(blueprint: Blueprint, gate: Gate) -> Self {
        Self {
            tools: Registered::of(&gate, &blueprint.tools),
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
    use crate::blueprint::{Job, Name, built_in, read};
    use crate::permissions::{Channel, Effect};

    #[test]
    fn a_blueprint_narrows_and_the_gate_narrows_it_further() {
        let text = "+++\njob = \"archive\"\nwhen = \"x\"\ntools = [\"look_around\", \"memory_note\"]\n+++\nKeep to the dock.";
        let own = read(&Name::new("dock").unwrap(), text).unwrap();
        let brief = Brief::new(own.clone(), Gate::open(Channel::Chat));
        assert_eq!(brief.tools.names(), ["look_around", "memory_note"]);
        assert_eq!(brief.system.len(), 2);
        assert!(brief.system[1].ends_with("Keep to the dock."));
        let mut config = PermissionsConfig::default();
        config.tools.chat = Some(vec![Effect::Read]);
        let looking = Brief::new(own, Gate::of(&config, Channel::Chat));
        assert_eq!(looking.tools.names(), ["look_around"]);
        for job in [Job::SetUp, Job::Question, Job::Archive] {
            let built_in = Brief::new(built_in::of(job).unwrap(), Gate::open(Channel::Chat));
            assert_eq!(built_in.tools.names(), job.tools());
            assert_eq!(built_in.system.len(), 1, "the job's own alone");
        }
    }
}
