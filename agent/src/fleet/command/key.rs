//! Key of a command: its operation, and the id that the requester gave it.
//!
//! Invariant: an id is unique per operation only, as in the topic `cmd/<op>/<id>/req`. `stop/7` is
//! not `snapshot/7`.

use std::fmt;
use std::str::FromStr;

use watchkeeper_config::CommandAccess;
use watchkeeper_contract::command::Operation;

/// Longest id of a command.
pub const MAX_COMMAND_ID_LEN: usize = 64;
/// Id of a command, given by its requester. It has 1 to 64 letters, digits, `-`, `_` or `.`, so it
/// is one topic level.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(String);

/// Text that is not a valid command id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a valid command id; use 1 to 64 letters, digits, '-', '_' or '.'")]
pub struct InvalidCommandId(String);

impl CommandId {
    /// Checks `value` and wraps it.
    ///
    /// # Errors
    /// Returns [`InvalidCommandId`] when it is empty, too long or contains another character.
    pub fn new(value: impl Into<String>) -> Result<Self, InvalidCommandId> {
        let value = value.into();
        let is_valid = (1..=MAX_COMMAND_ID_LEN).contains(&value.len())
            && value
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
        if is_valid {
            Ok(Self(value))
        } else {
            Err(InvalidCommandId(value.chars().take(80).collect()))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Operations that a box offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OperationName {
    /// Take a picture.
    Snapshot,
    /// Create or replace a pipeline.
    Deploy,
    /// Delete a pipeline.
    Stop,
    /// Answer a review.
    Review,
}

impl OperationName {
    /// All operations, in the order of the document.
    pub const ALL: [Self; 4] = [Self::Snapshot, Self::Deploy, Self::Stop, Self::Review];

    /// Whether a box with this access accepts the operation.
    pub fn is_allowed(self, access: CommandAccess) -> bool {
        match access {
            CommandAccess::Off => false,
            CommandAccess::Read => self == Self::Snapshot,
            CommandAccess::All => true,
        }
    }

    /// The operations that a box with this access accepts.
    pub fn allowed(access: CommandAccess) -> impl Iterator<Item = Self> {
        Self::ALL
            .into_iter()
            .filter(move |op| op.is_allowed(access))
    }

    /// Members of a request, without `op` and `expires_at`.
    pub(in crate::fleet) const fn members(self) -> &'static [&'static str] {
        match self {
            Self::Snapshot => &["source"],
            Self::Deploy | Self::Stop => &["pipeline"],
            Self::Review => &["event", "answer", "label", "note", "by"],
        }
    }

    /// Name in topics and in the member `op`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::Deploy => "deploy",
            Self::Stop => "stop",
            Self::Review => "review",
        }
    }
}

impl From<&Operation> for OperationName {
    fn from(operation: &Operation) -> Self {
        match operation {
            Operation::Snapshot { .. } => Self::Snapshot,
            Operation::Deploy { .. } => Self::Deploy,
            Operation::Stop { .. } => Self::Stop,
            Operation::Review { .. } => Self::Review,
        }
    }
}

impl fmt::Display for OperationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An operation that this box does not offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown operation; this box offers snapshot, deploy, stop and review")]
pub struct UnknownOperation;

impl FromStr for OperationName {
    type Err = UnknownOperation;

    fn from_str(name: &str) -> Result<Self, UnknownOperation> {
        Self::ALL
            .into_iter()
            .find(|op| op.as_str() == name)
            .ok_or(UnknownOperation)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandKey {
    pub operation: OperationName,
    /// Id given by the requester.
    pub id: CommandId,
}

impl fmt::Display for CommandKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.operation, self.id)
    }
}

/// Text that is not a command key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a command key; write OPERATION/ID")]
pub struct InvalidCommandKey;

impl FromStr for CommandKey {
    type Err = InvalidCommandKey;

    /// Reverses `Display`; neither part can contain a slash.
    fn from_str(text: &str) -> Result<Self, InvalidCommandKey> {
        let (operation, id) = text.split_once('/').ok_or(InvalidCommandKey)?;
        Ok(Self {
            operation: operation.parse().map_err(|_| InvalidCommandKey)?,
            id: CommandId::new(id).map_err(|_| InvalidCommandKey)?,
        })
    }
}
