//! Which tools an [`Entrypoint`] may use, by what a tool does. `[agent.tools]` narrows it.
//!
//! Invariant: no effect changes what the box does, so no entrypoint can allow that. A tool can only
//! propose a change.

use serde::{Deserialize, Serialize};
use watchkeeper_config::PermissionsConfig;
pub use watchkeeper_config::ToolEffect as Effect;

/// Where a request came in from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entrypoint {
    /// One command of a user, who confirms with another command.
    Ask,
    /// A user's conversation.
    Chat,
    /// A program on this box, over the agent's socket.
    Local,
    /// A program with the token, over TCP.
    Remote,
}

impl Entrypoint {
    /// Whether it belongs to the agent's API, which many conversations share.
    pub(crate) const fn is_api(self) -> bool {
        matches!(self, Self::Local | Self::Remote)
    }

    /// The name in the trace.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Chat => "chat",
            Self::Local => "local",
            Self::Remote => "remote",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolPermissions {
    pub entrypoint: Entrypoint,
    allowed: Vec<Effect>,
}

impl ToolPermissions {
    pub fn new(config: &PermissionsConfig, entrypoint: Entrypoint) -> Self {
        let tools = &config.tools;
        let list = match entrypoint {
            Entrypoint::Ask => &tools.ask,
            Entrypoint::Chat => &tools.chat,
            Entrypoint::Local => &tools.local,
            Entrypoint::Remote => &tools.remote,
        };
        // A program that may ask over the API may also confirm there, with the same authority:
        // the socket's permission, or the token.
        let allowed = list.clone().unwrap_or_else(|| Effect::ALL.to_vec());
        Self {
            entrypoint,
            allowed,
        }
    }

    /// The permissions of an entrypoint without a configuration.
    pub fn unrestricted(entrypoint: Entrypoint) -> Self {
        Self::new(&PermissionsConfig::default(), entrypoint)
    }

    /// Checks that a tool with this effect may be used.
    ///
    /// # Errors
    /// A sentence for the language model.
    pub fn allows(&self, effect: Effect) -> Result<(), String> {
        if self.allowed.contains(&effect) {
            return Ok(());
        }
        Err(format!(
            "the operator of the box does not allow this here: agent.tools.{} does not name {}",
            self.entrypoint.name(),
            effect.name()
        ))
    }
}

/// Checks that a proposal made over `made` may be read, confirmed and refused over `asks`.
///
/// - Over the agent's socket: every proposal of the API. A program that can open this socket can
///   open the runtime's too, and deploy there without asking.
/// - Over TCP: only proposals made over TCP. So a stolen token can't confirm what a user at the box
///   was still considering, and can't read it.
///
/// The conversation does not matter: a proposal outlives it, over a restart of the agent too.
///
/// # Errors
/// A sentence with the place where it may be answered.
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
    fn socket_answers_every_api_proposal_and_token_its_own() {
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
    fn list_allows_only_its_effects_on_its_entrypoint() {
        let mut config = PermissionsConfig::default();
        config.tools.remote = Some(vec![Effect::Read]);
        config.tools.chat = Some(Vec::new());
        for effect in Effect::ALL {
            let may = |entrypoint| ToolPermissions::new(&config, entrypoint).allows(effect);
            assert!(may(Entrypoint::Ask).is_ok() && may(Entrypoint::Local).is_ok());
            assert!(may(Entrypoint::Chat).is_err());
            assert_eq!(may(Entrypoint::Remote).is_ok(), effect == Effect::Read);
        }
        let why = ToolPermissions::new(&config, Entrypoint::Remote).allows(Effect::ProposeLoss);
        let why = why.expect_err("not named");
        assert!(
            why.ends_with("agent.tools.remote does not name propose_loss"),
            "{why}"
        );
    }
}
