//! What a blueprint comes to for one request: what the model is told of its job, and the tools that it has there.
//!
//! Invariant: a tool is in it only where the blueprint *and* the gate have it.

use super::gate::Channel;
use super::prompt;
use super::tool::Registered;
use crate::blueprint::Blueprint;

/// What a model works by.
#[derive(Debug, Clone)]
pub struct Brief {
    /// The blueprint.
    pub blueprint: Blueprint,
    /// Which way the request came in.
    pub channel: Channel,
    /// The tools.
    pub tools: Registered,
    /// The instructions: the job's own, and those of the blueprint behind them.
    pub system: Vec<String>,
}

impl Brief {
    /// What `blueprint` comes to for a request of `channel`.
    #[must_use]
    pub fn new(blueprint: Blueprint, channel: Channel) -> Self {
        Self {
            tools: Registered::of(channel, &blueprint.tools),
            system: prompt::system(&blueprint),
            channel,
            blueprint,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;
    use crate::blueprint::{Job, Name, built_in, read};

    #[test]
    fn a_blueprint_narrows_and_the_gate_narrows_it_further() {
        let text = "+++\njob = \"archive\"\nwhen = \"x\"\ntools = [\"look_around\", \"memory_note\"]\n+++\nKeep to the dock.";
        let own = read(&Name::new("dock").unwrap(), text).unwrap();
        let brief = Brief::new(own.clone(), Channel::Chat);
        assert_eq!(brief.tools.names(), ["look_around", "memory_note"]);
        assert_eq!(brief.system.len(), 2);
        assert!(brief.system[1].ends_with("Keep to the dock."));
        let unattended = Brief::new(own, Channel::Unattended);
        assert_eq!(unattended.tools.names(), ["look_around"]);
        for job in [Job::SetUp, Job::Question, Job::Archive] {
            let built_in = Brief::new(built_in::of(job).unwrap(), Channel::Chat);
            assert_eq!(built_in.tools.names(), job.tools());
            assert_eq!(built_in.system.len(), 1, "the job's own alone");
        }
    }
}
