//! Who may use which tool: by the channel that a request came over, and by what the tool does. The owner of the box narrows it: `[agent.tools]`.
//!
//! Invariant: there is no effect that changes what the box does, so no channel can allow it. A change is put up for a person's yes.

use serde::{Deserialize, Serialize};
use watchkeeper_config::PermissionsConfig;
pub use watchkeeper_config::ToolEffect as Effect;

/// Which way a request came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entrypoint {
    /// One command of a person, who confirms with another one.
    Ask,
    /// A person's conversation.
    Chat,
    /// A program on this box, over the agent's socket, for a person or by their order.
    Local,
    /// A program that showed the token, over TCP.
    Remote,
}

impl Entrypoint {
    /// Whether it is one of the agent's API, which many conversations share.
    #[must_use]
    pub const fn is_api(self) -> bool {
        matches!(self, Self::Local | Self::Remote)
    }

    /// Its name in the trace.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Chat => "chat",
            Self::Local => "local",
            Self::Remote => "remote",
        }
    }
}

/// What a tool touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolScope {
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

/// What the tools of one request may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolPermissions {
    /// Which way the request came in.
    pub channel: Entrypoint,
    may: Vec<Effect>,
}

impl ToolPermissions {
    /// The gate of a channel, as the owner has it.
    #[must_use]
    pub fn of(config: &PermissionsConfig, channel: Entrypoint) -> Self {
        let tools = &config.tools;
        let list = match channel {
            Entrypoint::Ask => &tools.ask,
            Entrypoint::Chat => &tools.chat,
            Entrypoint::Local => &tools.local,
            Entrypoint::Remote => &tools.remote,
        };
        // Whoever may ask over the API may also confirm there, with the same authority: the socket's permission, or the token.
        let may = list.clone().unwrap_or_else(|| Effect::ALL.to_vec());
        Self { channel, may }
    }

    /// The gate of a channel of which the owner has said nothing.
    #[must_use]
    pub fn open(channel: Entrypoint) -> Self {
        Self::of(&PermissionsConfig::default(), channel)
    }

    /// Whether a tool with this effect may be used. The error is a sentence for the model.
    ///
    /// # Errors
    /// Where it may not.
    pub fn allows(&self, effect: Effect) -> Result<(), String> {
        if self.may.contains(&effect) {
            return Ok(());
        }
        Err(format!(
            "the owner of the box does not have tools do this here: agent.tools.{} does not name {}",
            self.channel.name(),
            effect.name()
        ))
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
pub const fn may_answer(made: Entrypoint, asks: Entrypoint) -> Result<(), &'static str> {
    match (asks, made) {
        (Entrypoint::Local, Entrypoint::Local | Entrypoint::Remote)
        | (Entrypoint::Remote, Entrypoint::Remote) => Ok(()),
        (Entrypoint::Remote, _) => {
            Err("it was made on the box: confirm it there, over the agent's socket")
        }
        (Entrypoint::Local, _) | (Entrypoint::Ask | Entrypoint::Chat, _) => {
            Err("it was not made over the agent's API")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_box_may_answer_whatever_was_asked_for_and_a_token_only_what_came_by_token() {
        use Entrypoint::{Ask, Chat, Local, Remote};
        let all = [Ask, Chat, Local, Remote];
        for made in all {
            for asks in all {
                let may = may_answer(made, asks).is_ok();
                let expected = matches!((made, asks), (Local | Remote, Local) | (Remote, Remote));
                assert_eq!(may, expected, "made {made:?}, asks {asks:?}");
            }
        }
    }

    #[test]
    fn a_list_allows_what_it_names_on_its_channel_and_nothing_else() {
        let mut config = PermissionsConfig::default();
        config.tools.remote = Some(vec![Effect::Read]);
        config.tools.chat = Some(Vec::new());
        for effect in Effect::ALL {
            let may = |channel| ToolPermissions::of(&config, channel).allows(effect);
            assert!(may(Entrypoint::Ask).is_ok() && may(Entrypoint::Local).is_ok());
            assert!(may(Entrypoint::Chat).is_err());
            assert_eq!(may(Entrypoint::Remote).is_ok(), effect == Effect::Read);
        }
        let why = ToolPermissions::of(&config, Entrypoint::Remote).allows(Effect::ProposeLoss);
        let why = why.expect_err("not named");
        assert!(
            why.ends_with("agent.tools.remote does not name propose_loss"),
            "{why}"
        );
    }
}
