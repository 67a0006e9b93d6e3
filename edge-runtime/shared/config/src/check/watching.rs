//! Checks the sections `[sources.NAME]` and `[pipelines.NAME]`.
//!
//! - An error in a section leaves it out, except in a key that does not change what is watched.

use serde_json::{Map, Value, json};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::RuleSpec;
use watchkeeper_contract::source::SourceSpec;

use super::lenient::{self, Fault};
use super::values::{Values, is_spoilt, missing, origin};
use crate::address::Address;
use crate::config::{PipelineDraft, SkippedSections};
use crate::error::{ConfigError, Origin};

/// Keys that do not change what is watched: an error leaves their default.
const LABELS: [&str; 2] = ["name", "priority"];

/// Whether a section has an error in another key than [`LABELS`].
fn is_wrong(section: &str, warnings: &[ConfigError]) -> bool {
    let labels = LABELS.map(|label| format!("{section}.{label}"));
    let is_of_section = |warning| is_spoilt(section, std::slice::from_ref(warning));
    let mut others = warnings
        .iter()
        .filter(|warning| !labels.contains(&warning.key));
    others.any(is_of_section)
}

pub(super) fn sources(
    values: &Values<'_>,
    warnings: &mut Vec<ConfigError>,
    skipped: &mut SkippedSections,
) -> Vec<SourceSpec> {
    let mut sources = Vec::new();
    for name in values.names("sources") {
        let section = format!("sources.{name}");
        let is_good = !is_wrong(&section, warnings);
        let uri = format!("{section}.uri");
        let mut fields = values.section(&section);
        if values.text(&uri).is_none() {
            if !is_spoilt(&uri, warnings) {
                warnings.push(missing(uri.clone()));
            }
            // So that the rest can be read.
            fields.insert("uri".to_owned(), json!(""));
        }
        // Of the section, not of the specification: a deployment by hand can't change it.
        fields.retain(|field, _| !field.starts_with("privacy."));
        fields.insert("id".to_owned(), json!(name));
        let before = warnings.len();
        let Some(mut spec) = read_source(values, &section, fields, warnings) else {
            continue;
        };
        if spec.uri.is_empty() {
            continue;
        }
        if let Origin::File(_) = values.origin(&uri) {
            spec.uri = absolute(&values.base, spec.uri);
        }
        warnings.extend(needless_controls(values, &section, &spec));
        if is_good && warnings.len() == before {
            sources.push(spec);
        } else {
            skipped.sources.push(spec);
        }
    }
    sources
}

/// Reads a source as far as possible.
fn read_source(
    values: &Values<'_>,
    section: &str,
    fields: Map<String, Value>,
    warnings: &mut Vec<ConfigError>,
) -> Option<SourceSpec> {
    let mut faults = Vec::new();
    let spec = lenient::read(fields, &mut faults);
    for fault in faults {
        let keys: Vec<&str> = fault.keys.iter().map(String::as_str).collect();
        let key = format!("{section}.{}", keys.join("."));
        let form = form_of(&keys).map(str::to_owned);
        let found = fault.found.as_ref().map(lenient::cut);
        let mut refused = fault.into_error(key.clone(), origin(values.read, &key));
        refused.found = found.or(refused.found);
        refused.allowed = refused.allowed.or(form);
        warnings.push(refused);
    }
    spec
}

/// The form of a value whose kind the declarations leave open.
fn form_of(keys: &[&str]) -> Option<&'static str> {
    match keys {
        ["scale"] => Some("[WIDTH, HEIGHT] in whole pixels, such as [1280, 720]"),
        ["controls"] => Some("a table of names and whole numbers, such as { gain = 20 }"),
        ["controls", _] => Some("a whole number"),
        _ => None,
    }
}

/// Refuses controls of a source that can have none; the runtime does so for a deployment by hand.
fn needless_controls(values: &Values<'_>, section: &str, spec: &SourceSpec) -> Option<ConfigError> {
    if spec.controls.is_empty() {
        return None;
    }
    match Address::parse(&spec.uri) {
        // A wrong address has its own error.
        Err(_) | Ok(Address::V4l2 { .. }) => None,
        Ok(_) => {
            let key = format!("{section}.controls");
            let origin = origin(values.read, &key);
            let problem = "only a V4L2 device (/dev/video0) has controls; remove them";
            let found = json!(spec.controls).to_string();
            Some(ConfigError::new(key, problem, origin).found(found))
        }
    }
}

/// Makes a relative file absolute, from the folder of the configuration; addresses stay unchanged.
pub(super) fn absolute(base: &std::path::Path, uri: String) -> String {
    let is_address = uri.starts_with('/')
        || uri.split_once(':').is_some_and(|(scheme, _)| {
            !scheme.is_empty()
                && scheme
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || c == '+')
        });
    if is_address {
        uri
    } else {
        base.join(uri).display().to_string()
    }
}

pub(super) fn pipelines(
    values: &Values<'_>,
    sources: &[SourceSpec],
    warnings: &mut Vec<ConfigError>,
    skipped: &mut SkippedSections,
) -> Vec<PipelineSpec> {
    let mut pipelines = Vec::new();
    for name in values.names("pipelines") {
        let before = warnings.len();
        let is_good = !is_wrong(&format!("pipelines.{name}"), warnings);
        let Some(draft) = pipeline(values, name, sources, warnings, skipped) else {
            continue;
        };
        if is_good && warnings.len() == before {
            pipelines.push(draft.spec);
        } else {
            skipped.pipelines.push(draft);
        }
    }
    pipelines
}

/// Reads a pipeline as far as possible.
fn pipeline(
    values: &Values<'_>,
    name: &str,
    sources: &[SourceSpec],
    warnings: &mut Vec<ConfigError>,
    skipped: &mut SkippedSections,
) -> Option<PipelineDraft> {
    let section = format!("pipelines.{name}");
    let mut fields = values.section(&section);
    add_placeholders(&mut fields, &section, warnings);
    let key = format!("{section}.source");
    if let Some(source) = values.text(&key)
        && !sources.iter().any(|s| s.id.as_str() == source)
    {
        warnings.push(no_source(values, &source, key));
    }
    if let Some(workflow) = workflow(values, format!("{section}.workflow"), warnings) {
        fields.insert("workflow".to_owned(), workflow);
    }
    fields.insert("id".to_owned(), json!(name));
    let mut report = |below: &str, fault: Fault| {
        skipped.has_unread = true;
        let parts = [section.as_str(), below, fault.path.as_str()];
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        let key = parts.collect::<Vec<_>>().join(".");
        let origin = origin(values.read, &key);
        warnings.push(fault.into_error(key, origin));
    };
    let rules = retain_good_rules(&mut fields, &mut report);
    let mut faults = Vec::new();
    let spec = lenient::read(fields, &mut faults);
    faults.into_iter().for_each(|fault| report("", fault));
    Some(PipelineDraft { spec: spec?, rules })
}

/// Takes the place of a value below the section, and the error in it.
type Report<'r> = dyn FnMut(&str, Fault) + 'r;

/// Reports missing fields, and adds placeholders so that the rest can be read.
fn add_placeholders(
    fields: &mut Map<String, Value>,
    section: &str,
    warnings: &mut Vec<ConfigError>,
) {
    for (required, placeholder) in [("source", json!("none")), ("workflow", Value::Null)] {
        if fields.contains_key(required) {
            continue;
        }
        let key = format!("{section}.{required}");
        if !is_spoilt(&key, warnings) {
            warnings.push(missing(key));
        }
        fields.insert(required.to_owned(), placeholder);
    }
}

/// Reads the workflow from the file at `key`, if that is a path; `null` if it can't be read.
fn workflow(values: &Values<'_>, key: String, warnings: &mut Vec<ConfigError>) -> Option<Value> {
    let path = values.path(&key)?;
    let read = crate::bounded::read(&path)
        .map_err(|e| format!("can't read the workflow: {e}"))
        .and_then(|text| {
            serde_json::from_str(&text).map_err(|e| format!("the workflow is not JSON: {e}"))
        });
    Some(read.unwrap_or_else(|problem| {
        let origin = values.origin(&key);
        let found = path.display().to_string();
        warnings.push(ConfigError::new(key, problem, origin).found(found));
        Value::Null
    }))
}

/// Reports and removes rules that can't be read; returns the positions of the others.
fn retain_good_rules(fields: &mut Map<String, Value>, report: &mut Report<'_>) -> Vec<usize> {
    let mut positions = Vec::new();
    if let Some(Value::Array(rules)) = fields.get_mut("rules") {
        let mut position = 0..;
        rules.retain(|rule| {
            let position = position.next().unwrap_or_default();
            let below = format!("rules[{position}]");
            let mut faults = Vec::new();
            // The specification reports a rule that is not a table.
            if let Value::Object(rule) = rule {
                lenient::read::<RuleSpec>(rule.clone(), &mut faults);
            }
            let is_good = faults.is_empty();
            faults.into_iter().for_each(|fault| report(&below, fault));
            positions.extend(is_good.then_some(position));
            is_good
        });
    }
    positions
}

/// Makes the error for a source that isn't there, or has an error itself.
fn no_source(values: &Values<'_>, source: &str, key: String) -> ConfigError {
    let origin = values.origin(&key);
    let declared: Vec<&str> = values.names("sources").collect();
    let error = |problem: &str| ConfigError::new(key, problem, origin).found(source);
    if declared.contains(&source) {
        error(&format!(
            "this camera is left out because of an error in [sources.{source}]"
        ))
    } else if declared.is_empty() {
        error(&format!("no camera is declared; write [sources.{source}]"))
    } else {
        error("no such camera").allowed(declared.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_file_is_joined_to_configuration_folder() {
        let base = std::path::Path::new("/etc/wk");
        for same in [
            "/dev/video0",
            "rtsp://cam/1",
            "demo:?seed=1",
            "v4l2:/dev/video0",
        ] {
            assert_eq!(absolute(base, same.to_owned()), same);
        }
        assert_eq!(
            absolute(base, "clips/a.mp4".to_owned()),
            "/etc/wk/clips/a.mp4"
        );
    }
}
