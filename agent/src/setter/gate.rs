//! Who may use which tool: by the channel that a request came over, and by what the tool does.
//!
//! Invariant: there is no effect that changes what the box does, so no channel can allow it. A change is put up for a person's yes, and only where a
//! person is there to say it.

use serde::Serialize;

/// Which way a request came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// One command of a person, who confirms with another one.
    Ask,
    /// A person's conversation.
    Chat,
    /// Nobody is there: the agent looks by itself.
    Unattended,
}

impl Channel {
    /// Its name in the trace.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Chat => "chat",
            Self::Unattended => "unattended",
        }
    }
}

/// What a tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It looks.
    Read,
    /// It writes into what the agent remembers, or into the plan of its own turn.
    Write,
    /// It puts up something new for a person's yes.
    Propose,
    /// It puts up the end, the pause or the replacement of something that runs.
    ProposeLoss,
}

/// What a tool touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// What is known without looking: blocks, models.
    Catalogue,
    /// Pictures of the cameras.
    Cameras,
    /// What runs, and the journal.
    Pipelines,
    /// What the agent remembers.
    Memory,
    /// The turn itself.
    Turn,
}

/// Whether a tool with this effect may be used by a request of this channel. The error is a sentence for the model.
///
/// # Errors
/// Where it may not.
pub const fn allows(channel: Channel, effect: Effect) -> Result<(), &'static str> {
    match (channel, effect) {
        (Channel::Ask | Channel::Chat, _) | (Channel::Unattended, Effect::Read) => Ok(()),
        (Channel::Unattended, Effect::Write | Effect::Propose | Effect::ProposeLoss) => {
            Err("nobody is there to confirm it: only looking is allowed now")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nobody_can_say_yes_nothing_is_put_up() {
        for effect in [Effect::Write, Effect::Propose, Effect::ProposeLoss] {
            assert!(allows(Channel::Unattended, effect).is_err());
            assert!(allows(Channel::Ask, effect).is_ok());
            assert!(allows(Channel::Chat, effect).is_ok());
        }
        assert!(allows(Channel::Unattended, Effect::Read).is_ok());
    }
}
