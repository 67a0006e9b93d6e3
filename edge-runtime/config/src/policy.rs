//! What is confirmed without asking a person: `[agent.policy]`.
//!
//! Invariant: nothing is, where nothing is written; there is no word for "everything".

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

/// What is confirmed without asking, for each way in which a request comes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyConfig {
    /// `watchkeeper ask`.
    pub ask: Vec<ChangeKind>,
    /// `watchkeeper chat`.
    pub chat: Vec<ChangeKind>,
    /// The agent's API over its socket.
    pub local: Vec<ChangeKind>,
    /// The agent's API over TCP.
    pub remote: Vec<ChangeKind>,
}

impl PolicyConfig {
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
    }
}
