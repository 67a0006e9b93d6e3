//! Where people are notified of events: the sections `[channels.NAME]`.
//!
//! - A channel has exactly one address.
//! - The operator wrote that address, so its host needs no other permission.
//! - A rule can only name a channel; it can't change the address of messages.

use serde::Deserialize;
use url::Url;
use watchkeeper_contract::id::ChannelId;
use watchkeeper_contract::rule::Severity;

use crate::SecretSource;
use crate::sinks::http_url;

/// Most channels of one box: each follows the journal by itself.
pub const MAX_CHANNELS: usize = 16;

/// One section `[channels.NAME]`.
#[derive(Debug, Clone)]
pub struct ChannelConfig {
    pub id: ChannelId,
    pub kind: ChannelKind,
    /// Address. A webhook's address allows to post there, so all of it is a secret.
    pub url: SecretSource,
    /// Severity from which every event is sent; absent: only events whose rule names the channel.
    pub min_severity: Option<Severity>,
    /// Whether the end of an event is sent too.
    pub notify_end: bool,
    /// Whether pictures are sent, where the kind can take them.
    pub pictures: bool,
}

/// Protocol of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChannelKind {
    /// The event as JSON, and its picture, as a web form.
    Webhook,
    /// `{"text": …}`, as the incoming webhooks of Slack, Mattermost, Rocket.Chat and Discord
    /// (`…/slack`) take it.
    Slack,
}

/// Parses the address of a channel.
///
/// # Errors
/// One phrase without the address, which is a secret.
pub fn address(text: &str) -> Result<Url, String> {
    http_url(text).ok_or_else(|| "is not a web address".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_error_does_not_contain_the_address() {
        assert!(address("https://hooks.example.org/services/T0/K3N").is_ok());
        for bad in ["", "hooks.example.org/T0K3N", "ftp://a.example/T0K3N"] {
            let why = address(bad).expect_err("no address");
            assert!(!why.contains("T0K3N"), "{why}");
        }
    }
}
