//! Who may use which tool: by the channel that a request came over, and by what the tool does.
//!
//! Invariant: there is no effect that changes what the box does, so no channel can allow it. A change is put up for a person's yes, and only where a
//! person is there to say it.

use serde::{Deserialize, Serialize};

/// Which way a request came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// One command of a person, who confirms with another one.
    Ask,
    /// A person's conversation.
    Chat,
    /// A program on this box, over the agent's socket, for a person or by their order.
    Local,
    /// A program that showed the token, over TCP.
    Remote,
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
            Self::Local => "local",
            Self::Remote => "remote",
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
        // Whoever may ask over the API may also confirm there, with the same authority: the socket's permission, or the token.
        (Channel::Ask | Channel::Chat | Channel::Local | Channel::Remote, _)
        | (Channel::Unattended, Effect::Read) => Ok(()),
        (Channel::Unattended, Effect::Write | Effect::Propose | Effect::ProposeLoss) => {
            Err("nobody is there to confirm it: only looking is allowed now")
        }
    }
}

/// Whether an offer that was made over the one channel of the agent's API may be looked at, confirmed and refused over the other.
///
/// On the box every one may be: who can open the agent's socket can open the runtime's too, and deploy there without asking. Over TCP only what was
/// asked for over TCP: a token that got into other hands can then not push through what somebody at the box has begun and was still thinking about, and
/// learns nothing of it. The conversation does not matter, for an offer outlives it: the agent may have been restarted in between.
///
/// # Errors
/// Where it may not be; the sentence says where it may.
pub const fn may_answer(made: Channel, asks: Channel) -> Result<(), &'static str> {
    match (asks, made) {
        (Channel::Local, Channel::Local | Channel::Remote) | (Channel::Remote, Channel::Remote) => {
            Ok(())
        }
        (Channel::Remote, _) => {
            Err("it was made on the box: confirm it there, over the agent's socket")
        }
        (Channel::Local, _) | (Channel::Ask | Channel::Chat | Channel::Unattended, _) => {
            Err("it was not made over the agent's API")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_box_may_answer_whatever_was_asked_for_and_a_token_only_what_came_by_token() {
        use Channel::{Ask, Chat, Local, Remote, Unattended};
        let all = [Ask, Chat, Local, Remote, Unattended];
        for made in all {
            for asks in all {
                let may = may_answer(made, asks).is_ok();
                let expected = matches!((made, asks), (Local | Remote, Local) | (Remote, Remote));
                assert_eq!(may, expected, "made {made:?}, asks {asks:?}");
            }
        }
    }

    #[test]
    fn where_nobody_can_say_yes_nothing_is_put_up() {
        for effect in [Effect::Write, Effect::Propose, Effect::ProposeLoss] {
            assert!(allows(Channel::Unattended, effect).is_err());
            assert!(allows(Channel::Ask, effect).is_ok());
            assert!(allows(Channel::Chat, effect).is_ok());
            assert!(allows(Channel::Local, effect).is_ok());
            assert!(allows(Channel::Remote, effect).is_ok());
        }
        assert!(allows(Channel::Unattended, Effect::Read).is_ok());
    }
}
