//! Findings of `doctor`.

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Level {
    Ok,
    /// The subject can't be checked here.
    Unknown,
    /// The box works without it.
    Advice,
    /// Something will not work.
    Problem,
}

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(super) level: Level,
    pub(super) what: String,
    /// Command or action that fixes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<String>,
}

impl Finding {
    /// The level and what was found, with the remedy in its own line.
    pub(crate) fn text(&self) -> String {
        match &self.remedy {
            Some(remedy) => format!("{}\n         -> {remedy}", self.line()),
            None => self.line(),
        }
    }

    /// The level and what was found.
    pub(super) fn line(&self) -> String {
        let mark = match self.level {
            Level::Ok => "ok     ",
            Level::Unknown => "unknown",
            Level::Advice => "advice ",
            Level::Problem => "PROBLEM",
        };
        format!("{mark}  {}", self.what)
    }

    pub(super) fn ok(what: impl Into<String>) -> Self {
        Self {
            level: Level::Ok,
            what: what.into(),
            remedy: None,
        }
    }

    pub(super) fn unknown(what: impl Into<String>) -> Self {
        Self {
            level: Level::Unknown,
            ..Self::ok(what)
        }
    }

    pub(super) fn advice(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            level: Level::Advice,
            what: what.into(),
            remedy: Some(remedy.into()),
        }
    }

    pub(super) fn problem(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            level: Level::Problem,
            what: what.into(),
            remedy: Some(remedy.into()),
        }
    }
}
