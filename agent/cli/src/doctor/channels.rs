//! Checks that the address of each channel is readable and its host reachable.
//!
//! Invariant: nothing is sent to a channel; findings show only host and port of its address.

use std::path::Path;

use secrecy::ExposeSecret as _;
use watchkeeper_config::{ChannelConfig, SecretSource, channels};

use super::finding::Finding;
use super::tcp_probe::probe_tcp;
use watchkeeper_agent::connectors::secrets;

/// Checks `[channels.NAME]`. `credentials` is the service's credentials folder; only the service
/// has it.
pub(super) fn check(channels: &[ChannelConfig], credentials: Option<&Path>) -> Vec<Finding> {
    channels
        .iter()
        .map(|channel| check_channel(channel, credentials))
        .collect()
}

fn check_channel(channel: &ChannelConfig, credentials: Option<&Path>) -> Finding {
    let id = &channel.id;
    let service_secret = match &channel.url {
        SecretSource::Credential(name) => Some(format!("the credential {name}")),
        SecretSource::Variable(name) => Some(format!("the variable {name}")),
        SecretSource::Value(_) | SecretSource::File(_) => None,
    };
    let key = format!("channels.{id}.url");
    let read = secrets::read(&key, &channel.url, credentials);
    let address = match (read, service_secret) {
        (Ok(address), _) => address,
        (Err(_), Some(place)) => {
            return Finding::advice(
                format!("channel {id}: not checked; only the agent's service can read {place}"),
                "search the agent's log for failed deliveries",
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
            format!("channel {id}: the value of its address {why}"),
            format!("set {key} or {key}_file to the whole address of the webhook, https://…"),
        ),
        Ok(url) => match probe_tcp(&url) {
            Ok(place) => Finding::ok(format!("channel {id}: {place} is reachable")),
            Err(why) => Finding::problem(
                format!("channel {id}: {why}"),
                format!("check the network, the firewall and {key}; failed deliveries are retried"),
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use watchkeeper_config::channels::ChannelKind;

    use super::super::finding::Level;
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
        check_channel(&channel(url), None)
    }

    #[test]
    fn reachability_is_reported_without_the_secret_path() {
        let listening = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listening.local_addr().expect("its address").port();
        let at = |path: &str| SecretSource::Value(format!("http://127.0.0.1:{port}{path}").into());
        let there = found(at("/services/T0K3N"));
        assert_eq!(there.level, Level::Ok);
        assert_eq!(
            there.what,
            format!("channel office: 127.0.0.1:{port} is reachable")
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
    fn missing_or_invalid_address_is_a_problem_with_its_key() {
        for (source, word) in [
            (
                SecretSource::File("/nowhere/at/all".into()),
                "/nowhere/at/all",
            ),
            (
                SecretSource::Value("T0K3N".to_owned().into()),
                "is not a web address",
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
    fn credential_of_the_service_is_only_advice() {
        let finding = found(SecretSource::Credential("slack".to_owned()));
        assert_eq!(finding.level, Level::Advice);
    }
}
