//! How people are told of events: the sections `[channels.NAME]`, as used.
//!
//! Invariant: a channel that is here has exactly one address. Whoever owns the box wrote it, so the host needs no other permission; a rule
//! can only name a channel and never say where it leads.

use url::Url;
use watchkeeper_contract::id::ChannelId;
use watchkeeper_contract::rule::Severity;

use crate::SecretSource;
use crate::sinks::web_url;

/// Most channels of one box: each follows the journal by itself.
pub const MAX_CHANNELS: usize = 16;

/// One channel.
#[derive(Debug, Clone)]
pub struct ChannelConfig {
    /// Its name.
    pub id: ChannelId,
    /// What is spoken there.
    pub kind: ChannelKind,
    /// Where it is. In an address of a webhook is what allows to post there, so all of it is a secret.
    pub url: SecretSource,
    /// Severity from which it is told of every event; absent: only of those whose rule names it.
    pub min_severity: Option<Severity>,
    /// Whether it is told when an event ends, too.
    pub notify_end: bool,
    /// Whether pictures go along, where the kind can take them.
    pub pictures: bool,
}

/// What is spoken on a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelKind {
    /// The event as JSON, and its picture, in a form of the web.
    Webhook,
    /// `{"text": …}`, as Slack's incoming webhooks take it, and Mattermost's, Rocket.Chat's and Discord's (`…/slack`).
    Slack,
}

/// The address of a channel.
///
/// # Errors
/// One phrase without the address, which is a secret.
pub fn address(text: &str) -> Result<Url, String> {
    let url = web_url(text).map_err(|_| "is no address".to_owned())?;
    if !["http", "https"].contains(&url.scheme()) || !url.has_host() {
        return Err("is no address of the web".to_owned());
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_an_address_is_said_without_it() {
        assert!(address("https://hooks.example.org/services/T0/K3N").is_ok());
        for bad in ["", "hooks.example.org/T0K3N", "ftp://a.example/T0K3N"] {
            let why = address(bad).expect_err("no address");
            assert!(!why.contains("T0K3N"), "{why}");
        }
    }
}
