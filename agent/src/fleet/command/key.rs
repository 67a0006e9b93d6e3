//! The name of a command: what is asked for and the id that the requester gave to it.
//!
//! Invariant: an id counts for its operation only, as the topic `cmd/<op>/<id>/req` suggests. `stop/7` is not `snapshot/7`.

use std::fmt;
use std::str::FromStr;

use crate::fleet::mqtt::{CommandId, OperationName};

/// Which command.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandKey {
    /// What is asked for.
    pub operation: OperationName,
    /// What the requester calls it.
    pub id: CommandId,
}

impl fmt::Display for CommandKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.operation, self.id)
    }
}

/// Text that is not the name of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an operation and an id with a slash in between")]
pub struct InvalidCommandKey;

impl FromStr for CommandKey {
    type Err = InvalidCommandKey;

    /// The reverse of `Display`; neither part can hold a slash.
    fn from_str(text: &str) -> Result<Self, InvalidCommandKey> {
        let (operation, id) = text.split_once('/').ok_or(InvalidCommandKey)?;
        Ok(Self {
            operation: operation.parse().map_err(|_| InvalidCommandKey)?,
            id: CommandId::new(id).map_err(|_| InvalidCommandKey)?,
        })
    }
}
