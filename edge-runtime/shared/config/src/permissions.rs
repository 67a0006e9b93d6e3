//! What is confirmed without asking a person, `[agent.auto_approve]`, and what tools of a model may do, `[agent.tools]`: each by the way in which a request came.
//!
//! Invariants: nothing is confirmed where nothing is written, and there is no word for "everything"; there is no tool that acts, so none can be allowed.

use serde::{Deserialize, Serialize};

/// A kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    /// A pipeline pauses.
    Pause,
    /// A pipeline that paused goes on.
    Resume,
    /// A new watch.
    Deploy,
    /// A watch becomes another one.
    Replace,
    /// A pipeline ends and is gone.
    Stop,
}

impl ChangeKind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Pause,
        Self::Resume,
        Self::Deploy,
        Self::Replace,
        Self::Stop,
    ];
    /// Their names, in the same order.
    pub const NAMES: &'static [&'static str] = &["pause", "resume", "deploy", "replace", "stop"];

    /// Its name in the configuration and in the trace.
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

    /// The kind of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// What a tool of a model does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolEffect {
    /// It looks.
    Read,
    /// It writes into what the agent remembers, or into the plan of its own turn.
    Write,
    /// It puts up something new for a person's yes.
    Propose,
    /// It puts up the end, the pause or the replacement of something that runs.
    ProposeLoss,
}

impl ToolEffect {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Propose, Self::ProposeLoss];
    /// Their names, in the same order.
    pub const NAMES: &'static [&'static str] = &["read", "write", "propose", "propose_loss"];

    /// Its name in the configuration and in the trace.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Propose => "propose",
            Self::ProposeLoss => "propose_loss",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|effect| effect.name() == name)
    }
}

/// What tools of a model may do, for each way in which a request comes. `None`: whatever the tools of its job do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolsConfig {
    /// `watchkeeper ask`.
    pub ask: Option<Vec<ToolEffect>>,
    /// `watchkeeper chat`.
    pub chat: Option<Vec<ToolEffect>>,
    /// The agent's API over its socket.
    pub local: Option<Vec<ToolEffect>>,
    /// The agent's API over TCP.
    pub remote: Option<Vec<ToolEffect>>,
}

impl ToolsConfig {
    /// The lists that are written, each with the last part of its key.
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

/// What is confirmed without asking, for each way in which a request comes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PermissionsConfig {
    /// `watchkeeper ask`.
    pub ask: Vec<ChangeKind>,
    /// `watchkeeper chat`.
    pub chat: Vec<ChangeKind>,
    /// The agent's API over its socket.
    pub local: Vec<ChangeKind>,
    /// The agent's API over TCP.
    pub remote: Vec<ChangeKind>,
    /// What tools of a model may do.
    pub tools: ToolsConfig,
}

impl PermissionsConfig {
    /// The lists, each with the last part of its key.
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
    fn every_kind_has_a_name_of_its_own_and_is_found_by_it() {
        let names: Vec<&str> = ChangeKind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names, ChangeKind::NAMES);
        for kind in ChangeKind::ALL {
            assert_eq!(ChangeKind::named(kind.name()), Some(kind));
        }
        assert_eq!(ChangeKind::named("all"), None);
        let names: Vec<&str> = ToolEffect::ALL.iter().map(|effect| effect.name()).collect();
        assert_eq!(names, ToolEffect::NAMES);
        for effect in ToolEffect::ALL {
            assert_eq!(ToolEffect::named(effect.name()), Some(effect));
            let json = serde_json::to_value(effect).expect("a word");
            assert_eq!(json, effect.name());
        }
        assert_eq!(ToolEffect::named("act"), None);
    }
}
