//! What `config check` sees beyond the file: does what the configuration names exist, and does each pipeline hold together?
//!
//! A daemon finds these things out when it uses them, and says so in its status; here they are told before. Invariant: files are looked at, never
//! written; no camera, broker or model is opened.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use watchkeeper_config::address::Address;
use watchkeeper_config::{Config, ConfigError, Findings, Origin, redact};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::source::SourceSpec;
use watchkeeper_engine::deploy::{self, ModelFacts, SpecError};
use watchkeeper_models::Zoo;

use crate::mqtt::tls::{self, TlsError};

/// Name of the detector that needs no model file.
const MOTION: &str = "motion";

/// Looks at everything that a good configuration names.
pub(super) fn look(config: &Config) -> Findings {
    let mut findings = Findings::default();
    let mut wrong = |key: String, found: Option<String>, problem: String| {
        let mut error = ConfigError::new(key, problem, Origin::Default);
        error.found = found;
        findings.errors.push(error);
    };
    if let Some(mqtt) = config.mqtt.as_ref().filter(|mqtt| mqtt.tls) {
        for error in tls::problems(mqtt.ca_file.as_deref(), mqtt.client_cert.as_ref()) {
            let (key, found, problem) = of_tls(&error);
            wrong(key.to_owned(), found, problem);
        }
    }
    if let Some(path) = &config.inference.ort_library
        && let Err(error) = File::open(path)
    {
        let key = "runtime.inference.ort_library".to_owned();
        wrong(
            key,
            Some(path.display().to_string()),
            format!("can't read the file: {error}"),
        );
    }
    for source in &config.sources {
        if let Some(error) = unusable(source) {
            let key = format!("sources.{}.uri", source.id);
            wrong(key, Some(redact::uri(&source.uri)), error);
        }
    }
    let zoo = Zoo::with_dirs(config.models.folders());
    if let Some(model) = &config.models.default
        && let Err(error) = known(&zoo, model)
    {
        wrong("models.default".to_owned(), Some(model.clone()), error);
    }
    for spec in &config.pipelines {
        pipeline(spec, &zoo, &mut findings);
    }
    findings
}

/// Key, value and sentence of what keeps the agent from the broker.
fn of_tls(error: &TlsError) -> (&'static str, Option<String>, String) {
    let shown = |path: &Path| Some(path.display().to_string());
    let silent = "nothing is published until then";
    match error {
        TlsError::Unreadable { key, path, source } => {
            let problem = match source.kind() {
                ErrorKind::NotFound => format!("there is no such file; put it there, {silent}"),
                ErrorKind::PermissionDenied => format!(
                    "this user may not read it ({source}); the agent's user must, {silent} (`sudo -u watchkeeper watchkeeper \
                     config check` looks as that user)"
                ),
                _ => format!("can't read the file: {source}; {silent}"),
            };
            (key, shown(path), problem)
        }
        TlsError::Empty { key, path, wanted } => (
            key,
            shown(path),
            format!("the file holds no {wanted} in PEM form; put one there, {silent}"),
        ),
        TlsError::ClientCert(cause) => (
            "mqtt.cert_file",
            None,
            format!(
                "can't be used together with mqtt.key_file ({cause}); give the key that it was made with, {silent}"
            ),
        ),
        TlsError::SystemRoots => ("mqtt.ca_file", None, format!("{error}, {silent}")),
        TlsError::Library(_) => ("mqtt.tls", None, error.to_string()),
    }
}

/// Why no picture can ever come from the address of a source: it is none, or its file, folder or device is not there.
fn unusable(source: &SourceSpec) -> Option<String> {
    let path = match Address::parse(&source.uri) {
        Err(error) => return Some(error.to_string()),
        Ok(Address::Path(path) | Address::V4l2 { device: path, .. }) => path,
        Ok(Address::Rtsp { .. } | Address::Http { .. } | Address::Demo(_)) => return None,
    };
    let missing = path.is_absolute().then(|| path.metadata().err()).flatten();
    missing.map(|error| format!("can't be found: {error}"))
}

/// What a model is, as its manifest has it.
fn known(zoo: &Zoo, model: &str) -> Result<ModelFacts, String> {
    if model == MOTION {
        return Ok(ModelFacts::motion());
    }
    let found = zoo.resolve(model).map_err(|e| e.to_string())?;
    let labels = found.manifest.labels.iter().map(ToString::to_string);
    Ok(ModelFacts::network(labels))
}

fn pipeline(spec: &PipelineSpec, zoo: &Zoo, findings: &mut Findings) {
    let section = format!("pipelines.{}", spec.id);
    let mut wrong = |field: &str, mut error: ConfigError| {
        error.key = format!("{section}.{field}");
        findings.errors.push(error);
    };
    let plan = match deploy::plan(spec) {
        Ok(plan) => plan,
        Err(errors) => {
            for error in &errors {
                wrong(error.field(), told(error));
            }
            return;
        }
    };
    let models = match &spec.model {
        Some(model) => vec![("model", model.clone())],
        None => plan
            .models
            .iter()
            .map(|m| ("workflow", m.clone()))
            .collect(),
    };
    let mut facts = BTreeMap::new();
    for (field, model) in models {
        let problem = match known(zoo, &model) {
            Ok(found) => {
                facts.insert(model, found);
                continue;
            }
            Err(problem) => problem,
        };
        let problem = match field {
            "model" => problem,
            _ => format!("{problem}; `model` names another one to take its place"),
        };
        wrong(
            field,
            ConfigError::new("", problem, Origin::Default).found(model),
        );
    }
    let fit = deploy::fit(spec, &plan, &facts);
    for error in &fit.errors {
        wrong(error.field(), told(error));
    }
    let warnings = fit.warnings.into_iter();
    findings
        .notes
        .extend(warnings.map(|w| format!("{section}: {}", w.message)));
    if plan.rule_names.is_empty() {
        findings
            .notes
            .push(format!("{section}: no rules: no events"));
    }
}

fn told(error: &SpecError) -> ConfigError {
    let SpecError::Rule(rule) = error else {
        return ConfigError::new("", error.to_string(), Origin::Default);
    };
    let mut told = ConfigError::new("", rule.message.clone(), Origin::Default);
    told.found = Some(rule.value.clone());
    told.allowed = (!rule.allowed.is_empty()).then(|| rule.allowed.join(", "));
    told.nearest.clone_from(&rule.nearest);
    told
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
    use watchkeeper_config::{LoadRequest, Report, check};

    use super::*;

    /// A workflow with a line `road`.
    const ROAD: &str = r#"{"version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}], "steps": [
        {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "detect", "images": "$inputs.image", "model_id": "motion"},
        {"type": "roboflow_core/byte_tracker@v3", "name": "tracker", "image": "$inputs.image", "detections": "$steps.detect.predictions"},
        {"type": "roboflow_core/line_counter@v2", "name": "road", "image": "$inputs.image",
            "detections": "$steps.tracker.tracked_detections", "line_segment": [[0, 5], [9, 5]]}],
        "outputs": [{"type": "JsonField", "name": "in", "selector": "$steps.road.count_in"}]}"#;

    fn checked(text: &str) -> Report {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("road.json"), ROAD).unwrap();
        std::fs::write(dir.path().join("wk.toml"), text).unwrap();
        let request = LoadRequest {
            file: Some(dir.path().join("wk.toml")),
            hostname: "h".to_owned(),
            ..LoadRequest::default()
        };
        check(&request, &look)
    }

    fn told(errors: &[ConfigError]) -> Vec<(&str, Option<usize>)> {
        errors.iter().map(|e| (e.key.as_str(), e.line)).collect()
    }

    #[test]
    fn an_address_that_can_never_work_is_wrong_and_its_password_is_not_shown() {
        let report = checked(
            "[sources.a]\nuri = \"rstp://cam/1\"\n[sources.b]\nuri = \"demo:?sed=1\"\n\
             [sources.c]\nuri = \"admin:hunter2@cam/live\"\n[sources.d]\nuri = \"/no/such.mp4\"\n[sources.e]\nuri = \"demo:?seed=1\"\n",
        );
        let keys = [
            "sources.a.uri",
            "sources.b.uri",
            "sources.c.uri",
            "sources.d.uri",
        ];
        let lines = [2, 4, 6, 8].map(Some);
        let wanted: Vec<_> = keys.into_iter().zip(lines).collect();
        assert_eq!(told(&report.warnings), wanted);
        let text: Vec<String> = report.warnings.iter().map(ToString::to_string).collect();
        assert!(!text.concat().contains("hunter2"), "{text:?}");
    }

    #[test]
    fn a_mistake_at_the_top_hides_none_below_and_each_has_its_line() {
        let report = checked(
            "[runtime]\njournal_events = 5\n\n[sources.s]\nuri = \"demo:\"\n\n[sources.t]\npace = \"fast\"\n\n\
             [pipelines.p]\nsource = \"x\"\nworkflow = \"none.json\"\n\n\
             [pipelines.q]\nsource = \"s\"\nworkflow = \"road.json\"\nmodel = \"nosuch\"\n\n\
             [pipelines.r]\nsource = \"s\"\nworkflow = \"road.json\"\n\
             [[pipelines.r.rules]]\nname = \"a\"\nwhen = { kind = \"crosses\", line = \"raod\" }\n\n\
             [mqtt]\nhost = \"b\"\ntls = true\nca_file = \"none.pem\"\n",
        );
        assert_eq!(told(&report.errors), [("runtime.journal_events", Some(2))]);
        let expected = [
            ("sources.t.uri", Some(7)),
            ("pipelines.p.source", Some(11)),
            ("pipelines.p.workflow", Some(12)),
            ("mqtt.ca_file", Some(29)),
            ("pipelines.q.model", Some(17)),
            ("pipelines.r.rules[0].when.line", Some(24)),
        ];
        assert_eq!(told(&report.warnings), expected);
        let rule = report.warnings.last().unwrap().to_string();
        assert!(
            rule.contains("did you mean road?") && rule.ends_with(":24)"),
            "{rule}"
        );
    }

    #[test]
    fn files_of_tls_that_are_missing_or_hold_something_else_are_told_with_key_value_and_remedy() {
        let report = checked(
            "[mqtt]\nhost = \"b\"\ntls = true\nca_file = \"road.json\"\ncert_file = \"none.crt\"\nkey_file = \"none.key\"\n",
        );
        let expected = [
            ("mqtt.cert_file", Some(5)),
            ("mqtt.key_file", Some(6)),
            ("mqtt.ca_file", Some(4)),
        ];
        assert_eq!(told(&report.warnings), expected);
        let lines: Vec<String> = report.warnings.iter().map(ToString::to_string).collect();
        assert!(
            lines[0].contains("none.crt: there is no such file; put it there"),
            "{lines:?}"
        );
        assert!(
            lines[2].contains("road.json: the file holds no certificate in PEM form"),
            "{lines:?}"
        );
    }

    #[test]
    fn a_rule_about_a_class_that_its_model_can_not_see_is_found() {
        let text = "[sources.s]\nuri = \"demo:\"\n[pipelines.p]\nsource = \"s\"\nworkflow = \"road.json\"\n\
             [[pipelines.p.rules]]\nname = \"a\"\nwhen = { kind = \"crosses\", line = \"road\" }\nclasses = [\"person\"]\n";
        let report = checked(text);
        assert_eq!(
            told(&report.warnings),
            [("pipelines.p.rules[0].classes[0]", Some(9))]
        );
    }

    #[test]
    fn a_pipeline_that_can_make_no_event_is_noted() {
        let text = "[sources.s]\nuri = \"demo:\"\n[pipelines.p]\nsource = \"s\"\nworkflow = \"road.json\"\n";
        let quiet = checked(&format!("{text}rules = []\n"));
        assert_eq!(quiet.notes, ["pipelines.p: no rules: no events"]);
        let derived = checked(text);
        assert_eq!((derived.notes.len(), derived.warnings), (0, vec![]));
    }
}
