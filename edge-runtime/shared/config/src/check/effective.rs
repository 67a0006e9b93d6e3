//! The configuration as the daemons use it, in the shape of the file.
//!
//! - It loads as a configuration again, from any folder, and holds no secret.
//! - Defaults are shown where they have an effect; look-ups and jobs are shown as written, because
//!   their defaults depend on their kind.
//! - Sections that are left out because of an error are not shown.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::values::Values;
use super::watching::absolute;
use crate::config::Config;
use crate::error::Origin;
use crate::keys::{KEYS, Key, Kind};
use crate::redact;

/// Keys, by the beginning of their declared paths, whose defaults are without effect unless another
/// key is there; empty: always.
const DEFAULTS_NEED: [(&str, &str); 7] = [
    ("mqtt.", "mqtt.host"),
    ("llm.", "llm.provider"),
    ("agent.heartbeat.look_", "agent.heartbeat.look_at"),
    ("agent.archive.s3_", "agent.archive.s3_endpoints"),
    ("sources.*.privacy.", ""),
    ("agent.jobs.", ""),
    ("agent.lookups.", ""),
];
/// Lists of folders.
const FOLDERS: [&str; 3] = [
    "runtime.dry_run_roots",
    "sinks.folders",
    "agent.archive.ingest_roots",
];
/// Ends of members of `headers` that name a file.
const FILE_ENDING: &str = "_file";

/// Builds the tree of the values and of the defaults that hold.
pub(super) fn effective(values: &Values<'_>, config: &Config) -> Value {
    let mut shown = Map::new();
    for key in KEYS {
        for parts in paths(key, values, config) {
            if let Some(value) = shown_value(values, key, &parts.join(".")) {
                insert(&mut shown, &parts, value);
            }
        }
    }
    let mut derived = vec![
        ("box.id", json!(config.box_id)),
        ("agent.api.socket", json!(config.agent_api.socket)),
    ];
    if let Some(mqtt) = &config.mqtt {
        derived.push(("mqtt.port", json!(mqtt.port)));
        derived.push(("mqtt.client_id", json!(mqtt.client_id)));
        derived.push(("mqtt.commands", json!(mqtt.commands)));
    }
    for (path, value) in derived {
        let parts: Vec<&str> = path.split('.').collect();
        insert(&mut shown, &parts, value);
    }
    Value::Object(shown)
}

/// Lists the paths of a key: one for each section with a chosen name that is not left out.
fn paths<'v>(key: &Key, values: &'v Values<'_>, config: &Config) -> Vec<Vec<&'v str>> {
    let Some((section, _)) = key.path.split_once(".*") else {
        return vec![key.path.split('.').collect()];
    };
    let is_used = |name: &&str| match section {
        "sources" => config
            .sources
            .iter()
            .any(|source| source.id.as_str() == *name),
        "pipelines" => config
            .pipelines
            .iter()
            .any(|spec| spec.id.as_str() == *name),
        "agent.jobs" => config.jobs.iter().any(|job| job.name == *name),
        _ => true,
    };
    let named = values.names(section).filter(is_used);
    let part = |name| move |part| if part == "*" { name } else { part };
    named
        .map(|name| key.path.split('.').map(part(name)).collect())
        .collect()
}

fn shown_value(values: &Values<'_>, key: &Key, path: &str) -> Option<Value> {
    let Some(found) = values.found(path) else {
        let needs = DEFAULTS_NEED
            .iter()
            .find(|(begin, _)| key.path.starts_with(begin));
        let is_idle = needs.is_some_and(|(_, needed)| values.found(needed).is_none());
        return key.default.filter(|_| !is_idle).map(|text| match key.kind {
            Kind::Switch | Kind::Integer(..) | Kind::Number(..) => {
                serde_json::from_str(text).unwrap_or_default()
            }
            _ => json!(text),
        });
    };
    let is_in_file = matches!(found.origin, Origin::File(_));
    let base = if is_in_file {
        values.base.as_path()
    } else {
        Path::new("")
    };
    let whole = |text: &str| {
        let joined = base.join(text);
        json!(std::path::absolute(&joined).unwrap_or(joined))
    };
    let mut value = found.value.clone();
    match (key.kind, &mut value) {
        (Kind::Secret, _) => value = json!(redact::MASK),
        (Kind::Path | Kind::FileOrStructure, Value::String(text)) => value = whole(text),
        (Kind::Address, Value::String(text)) => {
            *text = redact::uri(&absolute(base, std::mem::take(text)));
        }
        (Kind::Text, Value::String(text)) => *text = hidden(text),
        (Kind::Texts, Value::Array(items)) => {
            for item in items {
                match item.as_str() {
                    Some(text) if FOLDERS.contains(&key.path) => *item = whole(text),
                    Some(text) => *item = json!(hidden(text)),
                    None => {}
                }
            }
        }
        (Kind::Structure(_), Value::Object(members)) if path.ends_with(".headers") => {
            let files = members
                .iter_mut()
                .filter(|(name, _)| name.ends_with(FILE_ENDING));
            for (_, file) in files {
                if let Some(text) = file.as_str() {
                    *file = whole(text);
                }
            }
        }
        _ => {}
    }
    Some(value)
}

/// A text whose addresses are without their credentials.
fn hidden(text: &str) -> String {
    let words = text.split_inclusive(char::is_whitespace);
    let shown = words.map(|word| match word.contains("://") {
        true => redact::uri(word),
        false => word.to_owned(),
    });
    shown.collect()
}

fn insert(section: &mut Map<String, Value>, path: &[&str], value: Value) {
    match path {
        [] => {}
        [last] => {
            section.insert((*last).to_owned(), value);
        }
        [first, rest @ ..] => {
            let below = section.entry(*first).or_insert_with(|| json!({}));
            if let Some(below) = below.as_object_mut() {
                insert(below, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::hidden;

    #[test]
    fn only_addresses_of_a_text_lose_their_credentials() {
        let request = "an album from https://nas/x, mail it to a@b.org";
        assert_eq!(hidden(request), request);
        assert_eq!(
            hidden("see rtsp://admin:secret@cam/live and a@b.org"),
            "see rtsp://***@cam/live and a@b.org"
        );
    }
}
