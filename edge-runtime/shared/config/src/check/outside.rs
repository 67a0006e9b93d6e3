//! Checks the sections that lead out of the box: `[sinks]` and `[channels.NAME]`.
//!
//! - Each secret and each address is at exactly one place.

use std::collections::BTreeMap;

use secrecy::ExposeSecret as _;
use serde_json::Value;
use watchkeeper_contract::id::ChannelId;

use super::values::{Values, is_spoilt, origin};
use crate::channels::{self, ChannelConfig, ChannelKind, MAX_CHANNELS};
use crate::error::ConfigError;
use crate::sinks::{HostRule, SecretSource, SinksConfig, http_url};

/// Reads the section `[sinks]`.
pub(super) fn sinks(values: &Values<'_>, errors: &mut Vec<ConfigError>) -> SinksConfig {
    let hosts = values.texts("sinks.hosts", errors, HostRule::parse);
    let folders = values.folders("sinks.folders", errors);
    let mut url = |key: &str| {
        let mut text = values.text(key)?;
        // Joining would otherwise cut off the last part of its path.
        if !text.ends_with('/') {
            text.push('/');
        }
        let url = http_url(&text);
        if url.is_none() {
            let error = values.error(key, "is not allowed");
            errors.push(error.allowed("http://… or https://…"));
        }
        url
    };
    let [slack_url, twilio_url, s3_url] =
        ["sinks.slack_url", "sinks.twilio_url", "sinks.s3_url"].map(&mut url);
    SinksConfig {
        hosts,
        folders,
        secrets: secrets(values, errors),
        ca_file: values.path("sinks.ca_file"),
        slack_url,
        twilio_url,
        s3_url,
        max_age: values.seconds("sinks.max_age_s"),
    }
}

/// Reads where each secret of workflows is; each is at one place.
fn secrets(values: &Values<'_>, errors: &mut Vec<ConfigError>) -> BTreeMap<String, SecretSource> {
    const KEYS: [&str; 4] = ["file", "credential", "env", "value"];
    let mut secrets = BTreeMap::new();
    for name in values.names("sinks.secrets") {
        let section = format!("sinks.secrets.{name}");
        if let Some(source) = secret(values, section, KEYS, "the secret", errors) {
            secrets.insert(name.to_owned(), source);
        }
    }
    secrets
}

/// Reads where the secret of a section is. Exactly one of `keys` (file, credential, variable,
/// value) has to say it.
fn secret(
    values: &Values<'_>,
    section: String,
    keys: [&str; 4],
    what: &str,
    errors: &mut Vec<ConfigError>,
) -> Option<SecretSource> {
    if is_spoilt(&section, errors) {
        return None;
    }
    let [file, credential, variable, value] = keys.map(|last| format!("{section}.{last}"));
    let value = values.text(&value);
    let found: Vec<SecretSource> = [
        values.path(&file).map(SecretSource::File),
        values.text(&credential).map(SecretSource::Credential),
        values.text(&variable).map(SecretSource::Variable),
        value.map(|text| SecretSource::Value(text.into())),
    ]
    .into_iter()
    .flatten()
    .collect();
    let found = match <[SecretSource; 1]>::try_from(found) {
        Ok([source]) => return Some(source),
        Err(found) => found,
    };
    let problem = match found.len() {
        0 => format!("does not say where {what} is"),
        _ => format!("says more than once where {what} is; keep one key"),
    };
    let origin = origin(values.read, &section);
    let error = ConfigError::new(section, problem, origin);
    errors.push(error.allowed(format!("one of {}", keys.join(", "))));
    None
}

/// Reads where a secret is, a file or a systemd credential; one of the two keys has to say it.
pub(super) fn file_or_credential(
    values: &Values<'_>,
    file: &str,
    credential: &str,
    errors: &mut Vec<ConfigError>,
) -> Option<SecretSource> {
    let error = match (values.path(file), values.text(credential)) {
        (Some(path), None) => return Some(SecretSource::File(path)),
        (None, Some(name)) => return Some(SecretSource::Credential(name)),
        (Some(_), Some(_)) => values.error(credential, format!("{file} is set too; keep one")),
        (None, None) => values.error(file, format!("is missing, and {credential} too; set one")),
    };
    errors.push(error);
    None
}

/// Reads the channels, in the order of their names.
pub(super) fn channels(values: &Values<'_>, errors: &mut Vec<ConfigError>) -> Vec<ChannelConfig> {
    const KEYS: [&str; 4] = ["url_file", "url_credential", "url_env", "url"];
    let mut channels = Vec::new();
    for name in values.names("channels") {
        let section = format!("channels.{name}");
        let key = |last: &str| format!("{section}.{last}");
        let url = secret(values, section.clone(), KEYS, "the address", errors);
        if let Some(SecretSource::Value(text)) = &url
            && let Err(why) = channels::address(text.expose_secret())
        {
            let origin = values.origin(&key("url"));
            errors.push(ConfigError::new(key("url"), why, origin).allowed("https://… or http://…"));
        }
        let id = match ChannelId::new(name) {
            Ok(id) => id,
            Err(error) => {
                let origin = origin(values.read, &section);
                errors.push(ConfigError::new(section, error.to_string(), origin));
                continue;
            }
        };
        let Some(url) = url else { continue };
        channels.push(ChannelConfig {
            id,
            kind: values.choice(&key("kind")).unwrap_or(ChannelKind::Webhook),
            url,
            min_severity: values.choice(&key("min_severity")),
            notify_end: values.switch(&key("notify_end")),
            pictures: values.switch(&key("pictures")),
        });
    }
    if let Some(over) = channels.get(MAX_CHANNELS) {
        let key = format!("channels.{}", over.id);
        let origin = origin(values.read, &key);
        let problem = format!("is too many: there are {} channels", channels.len());
        let most = format!("{MAX_CHANNELS} channels at most");
        errors.push(ConfigError::new(key, problem, origin).allowed(most));
    }
    channels
}

/// Warns about rules that name an unknown channel, also of pipelines with other errors. The
/// pipeline runs; only this notification is missing.
pub(super) fn unknown_channels(values: &Values<'_>, warnings: &mut Vec<ConfigError>) {
    let known: Vec<&str> = values.names("channels").collect();
    for pipeline in values.names("pipelines") {
        let section = values.section(&format!("pipelines.{pipeline}"));
        let rules = section.get("rules").and_then(Value::as_array);
        for (nth, rule) in rules.into_iter().flatten().enumerate() {
            for (field, channel) in channels_of(rule) {
                if known.contains(&channel) {
                    continue;
                }
                let key = format!("pipelines.{pipeline}.rules[{nth}].{field}");
                let origin = origin(values.read, &key);
                let problem = format!("is not a channel; add a section [channels.{channel}]");
                let error = ConfigError::new(key, problem, origin).found(channel);
                warnings.push(match known.as_slice() {
                    [] => error,
                    known => error.allowed(known.join(", ")),
                });
            }
        }
    }
}

/// Returns the channels that a rule names as it is written, each with its field.
fn channels_of(rule: &Value) -> impl Iterator<Item = (&'static str, &str)> {
    ["notify", "on_act"].into_iter().flat_map(move |field| {
        let named = rule.get(field).and_then(Value::as_array);
        let named = named.into_iter().flatten().filter_map(Value::as_str);
        named.map(move |channel| (field, channel))
    })
}
