//! Target `config`: a configuration file, and after a NUL the lines `NAME=VALUE` of the
//! environment.
//!
//! - Reading it twice gives the same result.
//! - A refusal has errors; each is a sentence that names its key.
//! - An accepted configuration keeps its bounds; its pipelines watch sources that exist.
//! - The broker's password and the LLM key appear in no message and no debug output.

use std::collections::BTreeMap;
use std::fs;

use secrecy::ExposeSecret;
use watchkeeper_config::{Config, ConfigError, LoadRequest, load};

pub(super) fn config(input: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder for the file");
    let (file, env) = match input.iter().position(|b| *b == 0) {
        Some(at) => (&input[..at], &input[at + 1..]),
        None => (input, &[][..]),
    };
    // The fuzzer must not read files outside the folder, whatever name it finds.
    if contains(input, b"/dev/") || contains(input, b"/proc/") || contains(input, b"sys/") {
        return;
    }
    let path = folder.path().join("watchkeeper.toml");
    fs::write(&path, file).expect("the folder can be written");
    let env: BTreeMap<String, String> = String::from_utf8_lossy(env)
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let request = LoadRequest {
        file: Some(path),
        env,
        overrides: Vec::new(),
        hostname: String::from_utf8_lossy(input).chars().take(70).collect(),
        ..LoadRequest::default()
    };
    let read = load(&request);
    assert_eq!(format!("{read:?}"), format!("{:?}", load(&request)));
    match read {
        Ok(config) => {
            config.warnings.iter().for_each(check_error);
            check(&config, input);
        }
        Err(errors) => {
            assert!(!errors.is_empty(), "refused without a reason");
            errors.iter().for_each(check_error);
        }
    }
}

fn check_error(error: &ConfigError) {
    let text = error.to_string();
    assert!(!error.problem.trim().is_empty(), "{error:?}");
    assert!(text.contains(&error.key), "{text}");
    if let (Some(nearest), Some(allowed)) = (&error.nearest, &error.allowed) {
        assert!(allowed.contains(nearest.as_str()), "{text}");
    }
}

fn check(config: &Config, input: &[u8]) {
    assert!(config.socket_mode & !0o777 == 0 && config.socket_mode & 0o600 == 0o600);
    assert!(config.journal.max_events >= 1 && config.journal.max_bytes >= 1);
    assert!(config.media.max_bytes >= 1);
    assert!(config.agent.outbox_events >= 1 && config.agent.outbox_bytes >= 1);
    assert!(!config.agent.telemetry.is_zero());
    assert!(config.agent_api.socket != config.runtime_socket);
    let tcp = config.agent_api.tcp.as_ref();
    assert!(tcp.is_none_or(|tcp| tcp.listen.ip().is_loopback()));
    let lists = config.permissions.lists();
    assert!(lists.iter().all(|(_, kinds)| kinds.is_sorted()));
    assert!(config.sources.windows(2).all(|w| w[0].id < w[1].id));
    assert!(config.pipelines.windows(2).all(|w| w[0].id < w[1].id));
    for pipeline in &config.pipelines {
        let has_source = config.sources.iter().any(|s| s.id == pipeline.source);
        assert!(has_source, "{} watches nothing", pipeline.id);
    }
    if let Some(llm) = &config.llm {
        assert!(llm.calls_per_hour >= 1 && llm.tokens_per_call >= 1);
        assert!(!llm.idle_timeout.is_zero());
        assert!(llm.day_usd >= 0.0 && llm.month_usd >= 0.0);
    }
    let mqtt = config.mqtt.as_ref();
    assert!(mqtt.is_none_or(|mqtt| mqtt.port != 0 && !mqtt.host.trim().is_empty()));
    let password = mqtt.and_then(|mqtt| mqtt.password.as_ref());
    let key = config.llm.as_ref().and_then(|llm| llm.key.as_ref());
    for secret in [password, key].into_iter().flatten() {
        let secret = secret.expose_secret();
        // A secret that also occurs elsewhere in the file proves nothing.
        let stands_once = secret.len() >= 8 && occurrences(input, secret.as_bytes()) == 1;
        assert!(!stands_once || !format!("{config:?}").contains(secret));
        for warning in &config.warnings {
            assert!(!stands_once || !warning.to_string().contains(secret));
        }
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    occurrences(text, part) > 0
}

fn occurrences(text: &[u8], part: &[u8]) -> usize {
    text.windows(part.len()).filter(|w| *w == part).count()
}
