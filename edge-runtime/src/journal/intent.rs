//! What a user last wanted of a section of the configuration file, and its form on disk.

use serde::{Deserialize, Serialize};

use super::record::FORMAT;

/// A user's latest change of something that the configuration file names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserIntent {
    /// Run it, although the file declares it paused.
    Run,
    Pause,
    Stop,
}

/// A user's intent about one section; it holds until the section is edited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastIntent<I> {
    /// Name of the pipeline or source.
    pub id: I,
    /// Fingerprint of the section.
    pub fingerprint: String,
    pub intent: UserIntent,
    /// Time of the intent in Unix milliseconds.
    pub at_ms: i64,
}

/// A user's intent on disk. Its name is the key.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct IntentV1 {
    pub(super) format: u16,
    pub(super) fingerprint: String,
    #[serde(rename = "word")]
    pub(super) intent: UserIntent,
    pub(super) at_ms: i64,
}

impl IntentV1 {
    pub(super) fn of<I>(intent: &LastIntent<I>) -> Self {
        Self {
            format: FORMAT,
            fingerprint: intent.fingerprint.clone(),
            intent: intent.intent,
            at_ms: intent.at_ms,
        }
    }
}
