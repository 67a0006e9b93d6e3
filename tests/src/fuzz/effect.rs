//! Target `effect`: an effect of a workflow as JSON, and the file in which the runtime spools it.
//!
//! - `[sinks]` admits nothing but what it names: host and port of a request, a folder, a secret.
//! - A refusal is one line that shows no part of an address but its host.
//! - An effect that was read is written and read back unchanged.
//! - Bytes that are not a spooled file are refused.

use std::collections::BTreeMap;
use std::path::PathBuf;

use watchkeeper_config::sinks::web_url;
use watchkeeper_config::{HostRule, SecretSource, SinksConfig};
use watchkeeper_contract::effect::{Effect, Sealed};
use watchkeeper_runtime::fuzzing;

/// Text that an address may hold and no refusal may show.
const TOKEN: &str = "T0KEN";

pub(super) fn effect(input: &[u8]) {
    if let Some(body) = fuzzing::effect_file(input) {
        assert_eq!(
            fuzzing::write_effect_file(&body),
            input,
            "it was not written so"
        );
    }
    let Ok(effect) = serde_json::from_slice::<Effect>(input) else {
        return;
    };
    let text = serde_json::to_string(&effect).expect("it was read from JSON");
    let again: Effect = serde_json::from_str(&text).expect("it was just written");
    // Compared as text: NaN is not equal to itself.
    assert_eq!(serde_json::to_string(&again).ok(), Some(text));

    let sinks = sinks();
    match sinks.admits(&effect) {
        Err(why) => {
            assert!(!why.is_empty() && !why.contains(['\n', '\r']), "{why:?}");
            let mut sealed = effect.sealed();
            let is_name = sealed.any(|s| matches!(s, Sealed::Secret(name) if name.contains(TOKEN)));
            if let (Effect::Http(_), false) = (&effect, is_name) {
                assert!(!why.contains(TOKEN), "{why}");
            }
        }
        Ok(()) => admitted(&effect, &sinks),
    }
}

/// Configuration that allows one host, one folder and one secret.
fn sinks() -> SinksConfig {
    let host = HostRule::parse("hooks.example.org").expect("a host");
    SinksConfig {
        hosts: vec![host],
        folders: vec![PathBuf::from("/srv/out")],
        secrets: BTreeMap::from([("HOOK".to_owned(), SecretSource::Variable("H".to_owned()))]),
        ..SinksConfig::default()
    }
}

fn admitted(effect: &Effect, sinks: &SinksConfig) {
    match effect {
        Effect::Http(call) => {
            let url = web_url(&call.url).expect("it was admitted");
            assert_eq!(url.host_str(), Some("hooks.example.org"));
            assert!([Some(80), Some(443)].contains(&url.port_or_known_default()));
        }
        Effect::Email(email) => {
            assert!(email.server.eq_ignore_ascii_case("hooks.example.org"));
        }
        Effect::Mqtt(message) => {
            assert!(message.host.eq_ignore_ascii_case("hooks.example.org"));
            assert!([1883, 8883].contains(&message.port));
            assert!(!message.topic.contains(['#', '+']) && !message.topic.is_empty());
        }
        Effect::File(write) => {
            let place = sinks.place(&write.directory).expect("it was admitted");
            assert_eq!(place.folder, PathBuf::from("/srv/out"));
            for name in &place.below {
                assert!(!name.contains('/') && ![".", "..", ""].contains(&name.as_str()));
            }
            assert!(!write.prefix.contains('/') && !write.extension.contains('/'));
        }
        Effect::Bundle(bundle) => {
            let place = sinks.place(&bundle.directory).expect("it was admitted");
            assert_eq!(place.folder, PathBuf::from("/srv/out"));
            assert!(!bundle.name.contains('/') && !bundle.name.starts_with('.'));
        }
        Effect::Slack(_) | Effect::Sms(_) | Effect::S3(_) => {
            panic!("their hosts are not among those that are named");
        }
    }
    for sealed in effect.sealed() {
        assert!(!matches!(sealed, Sealed::Secret(name) if name != "HOOK"));
    }
}
