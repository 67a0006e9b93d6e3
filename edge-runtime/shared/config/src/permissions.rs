//! Changes confirmed in advance, `[agent.auto_approve]`, and what tools of a language model may do,
//! `[agent.tools]`, by entrypoint.
//!
//! - Nothing is confirmed in advance unless a list names it; there is no word for "everything".
//! - No tool changes the box, so none can be allowed to.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// A pipeline pauses.
    Pause,
    /// A paused pipeline resumes.
    Resume,
    /// A new pipeline is deployed.
    Deploy,
    /// A pipeline is replaced by another one.
    Replace,
    /// A pipeline is deleted.
    Stop,
}

impl ChangeKind {
    pub const ALL: [Self; 5] = [
        Self::Pause,
        Self::Resume,
        Self::Deploy,
        Self::Replace,
        Self::Stop,
    ];
    /// Names of the kinds, in the same order.
    pub const NAMES: &'static [&'static str] = &["pause", "resume", "deploy", "replace", "stop"];

    /// Returns the name in the configuration and in the trace.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Deploy => "deploy",
            Self::Replace => "replace",
            Self::Stop => "stop",
        }
    }
}

/// Effect of a tool of a language model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolEffect {
    /// The tool only reads.
    Read,
    /// The tool writes notes, or the plan of its own turn.
    Write,
    /// The tool proposes something new.
    Propose,
    /// The tool proposes to stop, pause or replace something that runs.
    ProposeLoss,
}

impl ToolEffect {
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Propose, Self::ProposeLoss];
    /// Names of the effects, in the same order.
    pub const NAMES: &'static [&'static str] = &["read", "write", "propose", "propose_loss"];

    /// Returns the name in the configuration and in the trace.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Propose => "propose",
            Self::ProposeLoss => "propose_loss",
        }
    }
}

/// What tools of a language model may do, by entrypoint. `None`: everything that the tools of the
/// job do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolsConfig {
    pub ask: Option<Vec<ToolEffect>>,
    pub chat: Option<Vec<ToolEffect>>,
    /// The agent's API over its socket.
    pub local: Option<Vec<ToolEffect>>,
    /// The agent's API over TCP.
    pub remote: Option<Vec<ToolEffect>>,
}

impl ToolsConfig {
    /// Returns the lists that are written, each with the last part of its key.
    pub fn lists(&self) -> impl Iterator<Item = (&'static str, &[ToolEffect])> {
        let all = [
            ("ask", &self.ask),
            ("chat", &self.chat),
            ("local", &self.local),
            ("remote", &self.remote),
        ];
        all.into_iter()
            .filter_map(|(channel, list)| Some((channel, list.as_deref()?)))
    }
}

/// Changes confirmed in advance, by entrypoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PermissionsConfig {
    pub ask: Vec<ChangeKind>,
    pub chat: Vec<ChangeKind>,
    /// The agent's API over its socket.
    pub local: Vec<ChangeKind>,
    /// The agent's API over TCP.
    pub remote: Vec<ChangeKind>,
    /// What tools of a language model may do.
    pub tools: ToolsConfig,
}

impl PermissionsConfig {
    /// Returns the lists, each with the last part of its key.
    #[must_use]
    pub fn lists(&self) -> [(&'static str, &[ChangeKind]); 4] {
        [
            ("ask", &self.ask),
            ("chat", &self.chat),
            ("local", &self.local),
            ("remote", &self.remote),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_by_its_name() {
        let names: Vec<&str> = ChangeKind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names, ChangeKind::NAMES);
        for kind in ChangeKind::ALL {
            let read: ChangeKind = serde_json::from_value(kind.name().into()).expect("a kind");
            assert_eq!(read, kind);
        }
        assert!(serde_json::from_str::<ChangeKind>("\"all\"").is_err());
        assert!(serde_json::from_str::<ToolEffect>("\"act\"").is_err());
        let names: Vec<&str> = ToolEffect::ALL.iter().map(|effect| effect.name()).collect();
        assert_eq!(names, ToolEffect::NAMES);
        for effect in ToolEffect::ALL {
            let json = serde_json::to_value(effect).expect("a word");
            assert_eq!(json, effect.name());
        }
    }
}
