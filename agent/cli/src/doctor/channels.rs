//! What `doctor` says about the channels: whether the address of each is readable and somebody answers there.
//!
//! Invariant: nothing is sent to a channel, and of its address no more is shown than host and port.

use std::path::Path;

use secrecy::ExposeSecret as _;
use watchkeeper_config::{ChannelConfig, SecretSource, channels};

use super::Finding;
use super::tcp_probe::knock;
use watchkeeper_agent::connectors::secrets;

/// Looks at the sections `[channels.NAME]`. `credentials` is the folder of the service's credentials, which whoever runs this by hand has not.
pub(super) fn look(channels: &[ChannelConfig], credentials: Option<&Path>) -> Vec<Finding> {
    channels
        .iter()
        .map(|channel| one(channel, credentials))
        .collect()
}

fn one(channel: &ChannelConfig, credentials: Option<&Path>) -> Finding {
    let id = &channel.id;
    let of_service = match &channel.url {
        SecretSource::Credential(name) => Some(format!("the credential {name}")),
        SecretSource::Variable(name) => Some(format!("the variable {name}")),
        SecretSource::Value(_) | SecretSource::File(_) => None,
    };
    let key = format!("channels.{id}.url");
    let address = match (secrets::read(&key, &channel.url, credentials), of_service) {
        (Ok(address), _) => address,
        // Only the agent's service has them.
        (Err(_), Some(place)) => {
            return Finding::advice(
                format!(
                    "channel {id}: its address is in {place}, which only the agent's service has"
                ),
                "look at the agent's log for what could not be told",
            );
        }
        (Err(why), None) => {
            return Finding::problem(
                format!("channel {id}: {why}"),
                format!("put the address there, or change {key} or {key}_file"),
            );
        }
    };
    match channels::address(address.expose_secret()) {
        Err(why) => Finding::problem(
            format!("channel {id}: what is given as its address {why}"),
            format!("give the whole address of the webhook, https://…, in {key} or {key}_file"),
        ),
        Ok(url) => match knock(&url) {
            Ok(place) => Finding::ok(format!("channel {id}: {place} can be reached")),
            Err(why) => Finding::problem(
                format!("channel {id}: {why}"),
                format!(
                    "see to the network, a firewall or {key}; what could not be told is told once it can be"
                ),
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use watchkeeper_config::channels::ChannelKind;

    use super::super::Level;
    use super::*;

    fn channel(url: SecretSource) -> ChannelConfig {
        ChannelConfig {
            id: "office".parse().expect("a name"),
            kind: ChannelKind::Slack,
            url,
            min_severity: None,
            notify_end: false,
            pictures: false,
        }
    }

    fn found(url: SecretSource) -> Finding {
        one(&channel(url), None)
    }

    #[test]
    fn a_channel_that_answers_is_told_without_the_secret_part_of_its_address() {
        let listening = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listening.local_addr().expect("its address").port();
        let at = |path: &str| SecretSource::Value(format!("http://127.0.0.1:{port}{path}").into());
        let there = found(at("/services/T0K3N"));
        assert_eq!(there.level, Level::Ok);
        assert_eq!(
            there.what,
            format!("channel office: 127.0.0.1:{port} can be reached")
        );
        drop(listening);
        let gone = found(at("/services/T0K3N"));
        assert_eq!(gone.level, Level::Problem);
        let said = format!("{} {:?}", gone.what, gone.remedy);
        assert!(
            said.contains(&port.to_string()) && !said.contains("T0K3N"),
            "{said}"
        );
    }

    #[test]
    fn an_address_that_is_missing_or_none_is_a_problem_that_names_the_key() {
        for (source, word) in [
            (
                SecretSource::File("/nowhere/at/all".into()),
                "/nowhere/at/all",
            ),
            (
                SecretSource::Value("T0K3N".to_owned().into()),
                "is not an address",
            ),
        ] {
            let finding = found(source);
            assert_eq!(finding.level, Level::Problem);
            assert!(finding.what.contains(word), "{}", finding.what);
            let remedy = finding.remedy.unwrap_or_default();
            assert!(remedy.contains("channels.office.url"), "{remedy}");
            assert!(!format!("{}{remedy}", finding.what).contains("T0K3N"));
        }
    }

    #[test]
    fn what_only_the_service_can_read_is_no_problem_of_whoever_asks() {
        let finding = found(SecretSource::Credential("slack".to_owned()));
        assert_eq!(finding.level, Level::Advice);
    }
}
