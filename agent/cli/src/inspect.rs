//! Checks of `config check` beyond the file: the files, folders and models that it names exist, and
//! each pipeline compiles and fits its model.
//!
//! - A daemon finds the same errors only when it uses these things.
//! - Invariant: files are read, never written; no camera, broker or model is opened.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use watchkeeper_config::address::Address;
use watchkeeper_config::{
    Config, ConfigError, Findings, Origin, SecretSource, SinksConfig, SkippedSections, redact,
};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::source::SourceSpec;
use watchkeeper_engine::deploy::{self, ModelFacts, Plan, SpecError};
use watchkeeper_models::{MOTION, Zoo};

use watchkeeper_agent::connectors::secrets;
use watchkeeper_agent::fleet::mqtt::tls::{self, TlsError};
use watchkeeper_assistant::llm::catalogue;
use watchkeeper_assistant::notes;

/// Creates the error of a key; the configuration adds its file and line.
fn error(key: impl Into<String>, found: Option<String>, problem: String) -> ConfigError {
    let mut error = ConfigError::new(key, problem, Origin::Default);
    error.found = found;
    error
}

fn shown(path: &Path) -> Option<String> {
    Some(path.display().to_string())
}

/// Checks everything that a configuration names, also in sections that it skips.
pub(super) fn check(config: &Config, skipped: &SkippedSections) -> Findings {
    let mut findings = Findings::default();
    findings.errors.extend(check_tls(config));
    findings.errors.extend(check_runtime(config));
    let sources = config.sources.iter().chain(&skipped.sources);
    findings.errors.extend(sources.filter_map(check_source));
    findings.errors.extend(check_sinks(&config.sinks));
    findings.errors.extend(check_llm(config));
    let zoo = Zoo::with_dirs(config.models.folders());
    if let Some(model) = &config.models.default
        && let Err(problem) = model_facts(&zoo, model)
    {
        let found = Some(model.clone());
        findings
            .errors
            .push(error("models.default", found, problem));
    }
    for spec in &config.pipelines {
        check_pipeline(spec, None, &zoo, &mut findings);
    }
    for draft in &skipped.pipelines {
        check_pipeline(&draft.spec, Some(&draft.rules), &zoo, &mut findings);
    }
    if let Some(folder) = notes::model_folder(&config.memory) {
        let folder = folder.display();
        findings.notes.push(format!(
            "note search uses the sentence embeddings of {folder}; `watchkeeper doctor` loads them"
        ));
    }
    findings
}

fn check_tls(config: &Config) -> Vec<ConfigError> {
    let Some(mqtt) = config.mqtt.as_ref().filter(|mqtt| mqtt.tls) else {
        return Vec::new();
    };
    let problems = tls::problems(mqtt.ca_file.as_deref(), mqtt.client_cert.as_ref());
    problems.iter().map(tls_error).collect()
}

fn check_runtime(config: &Config) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    if let Some(path) = &config.inference.ort_library
        && let Err(cause) = File::open(path)
    {
        errors.push(error(
            "runtime.inference.ort_library",
            shown(path),
            format!("can't read the file: {cause}"),
        ));
    }
    if let Some(problem) = unusable_folder(&config.state_dir) {
        errors.push(error(
            "runtime.state_dir",
            shown(&config.state_dir),
            problem,
        ));
    }
    errors
}

fn check_llm(config: &Config) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    if let Some(llm) = &config.llm
        && let Some(file) = &llm.models_file
        && let Err(problem) = catalogue(llm)
    {
        errors.push(error("llm.models_file", shown(file), problem));
    }
    if let Some(folder) = &config.memory.model
        && let Err(problem) = notes::check_model_files(folder)
    {
        errors.push(error("agent.memory.model", shown(folder), problem));
    }
    errors
}

/// Checks `[sinks]`, but for variables and credentials, which only the agent's service has.
fn check_sinks(sinks: &SinksConfig) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    for (nth, folder) in sinks.folders.iter().enumerate() {
        if !folder.is_dir() {
            let problem = "no such folder; create it, writable by the agent's user".to_owned();
            errors.push(error(
                format!("sinks.folders[{nth}]"),
                shown(folder),
                problem,
            ));
        }
    }
    if let Some(path) = &sinks.ca_file
        && let Err(cause) = File::open(path)
    {
        let problem = format!("can't read the file: {cause}");
        errors.push(error("sinks.ca_file", shown(path), problem));
    }
    for (name, source) in &sinks.secrets {
        if matches!(source, SecretSource::File(_) | SecretSource::Value(_))
            && let Err(problem) = secrets::read(name, source, None)
        {
            errors.push(error(format!("sinks.secrets.{name}"), None, problem));
        }
    }
    errors
}

/// Converts an error of the agent's TLS set-up to that of a key.
fn tls_error(cause: &TlsError) -> ConfigError {
    let until = "nothing is published until then";
    match cause {
        TlsError::Unreadable { key, path, source } => {
            let problem = match source.kind() {
                ErrorKind::NotFound => format!("no such file; put it there, {until}"),
                ErrorKind::PermissionDenied => format!(
                    "this user may not read it ({source}); the agent's user must, {until}. To check as \
                     that user: sudo -u watchkeeper watchkeeper config check"
                ),
                _ => format!("can't read the file: {source}; {until}"),
            };
            error(*key, shown(path), problem)
        }
        TlsError::Empty { key, path, wanted } => error(
            *key,
            shown(path),
            format!("the file has no {wanted} in PEM form; put one there, {until}"),
        ),
        TlsError::ClientCert(cause) => error(
            "mqtt.cert_file",
            None,
            format!("does not match mqtt.key_file ({cause}); give its own key, {until}"),
        ),
        TlsError::SystemRoots { .. } => error("mqtt.ca_file", None, format!("{cause}, {until}")),
        TlsError::Host { .. } => error("mqtt.host", None, format!("{cause}, {until}")),
        TlsError::Library(_) => error("mqtt.tls", None, cause.to_string()),
    }
}

/// Describes why no user can write this folder.
fn unusable_folder(path: &Path) -> Option<String> {
    let existing = path.ancestors().find(|above| above.exists())?;
    if !existing.is_dir() {
        let what = if existing == path {
            "this".to_owned()
        } else {
            existing.display().to_string()
        };
        return Some(format!(
            "{what} is not a folder; name one that the daemons may write"
        ));
    }
    // procfs shows by its type, a read-only disk by its mount flags.
    let is_proc =
        rustix::fs::statfs(existing).is_ok_and(|fs| fs.f_type == rustix::fs::PROC_SUPER_MAGIC);
    let is_read_only = rustix::fs::statvfs(existing)
        .is_ok_and(|fs| fs.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY));
    (is_proc || is_read_only).then(|| {
        format!(
            "{} is read-only; name a folder on a writable disk",
            existing.display()
        )
    })
}

/// Checks the address of a source: its syntax, and that its file, folder or device exists.
fn check_source(source: &SourceSpec) -> Option<ConfigError> {
    let problem = match Address::parse(&source.uri) {
        Err(cause) => cause.to_string(),
        Ok(Address::Path(path) | Address::V4l2 { device: path, .. }) => {
            let missing = path.is_absolute().then(|| path.metadata().err()).flatten();
            format!("not found: {}", missing?)
        }
        Ok(Address::Rtsp { .. } | Address::Http { .. } | Address::Demo(_)) => return None,
    };
    let key = format!("sources.{}.uri", source.id);
    Some(error(key, Some(redact::uri(&source.uri)), problem))
}

/// Reads what a model's manifest says about it.
fn model_facts(zoo: &Zoo, model: &str) -> Result<ModelFacts, String> {
    if model == MOTION {
        return Ok(ModelFacts::motion());
    }
    let found = zoo.resolve(model).map_err(|e| e.to_string())?;
    let labels = found.manifest.labels.iter().map(ToString::to_string);
    Ok(ModelFacts::network(found.manifest.task.name(), labels))
}

/// Checks one pipeline. `rules` are the original positions of its rules, if some were skipped.
fn check_pipeline(
    spec: &PipelineSpec,
    rules: Option<&[usize]>,
    zoo: &Zoo,
    findings: &mut Findings,
) {
    let section = format!("pipelines.{}", spec.id);
    let mut add_error = |field: &str, mut error: ConfigError| {
        error.key = format!("{section}.{}", original_field(field, rules));
        findings.errors.push(error);
    };
    // The configuration has reported an unreadable workflow.
    let is_reported = rules.is_some() && spec.workflow.is_null();
    let (plan, errors) = match is_reported {
        true => (None, Vec::new()),
        false => compile(spec),
    };
    for error in &errors {
        add_error(error.field(), spec_error(error));
    }
    let mut facts = BTreeMap::new();
    for (field, model) in models_of(spec, plan.as_ref()) {
        match model_facts(zoo, &model) {
            Ok(found) => {
                facts.insert(model, found);
            }
            Err(problem) => {
                let problem = match field {
                    "model" => problem,
                    _ => format!("{problem}; or set `model` to replace it"),
                };
                add_error(field, error("", Some(model), problem));
            }
        }
    }
    let Some(plan) = plan else {
        return;
    };
    let fit = deploy::fit(spec, &plan, &facts);
    for error in &fit.errors {
        add_error(error.field(), spec_error(error));
    }
    if rules.is_some() {
        return;
    }
    let warnings = fit.warnings.into_iter();
    findings
        .notes
        .extend(warnings.map(|w| format!("{section}: {}", w.message)));
    if plan.rule_names.is_empty() {
        findings
            .notes
            .push(format!("{section}: no rules, so it makes no events"));
    }
}

/// Compiles a pipeline; after errors without its rules, so that its models can be checked.
fn compile(spec: &PipelineSpec) -> (Option<Plan>, Vec<SpecError>) {
    match deploy::plan(spec) {
        Ok(plan) => (Some(plan), Vec::new()),
        Err(errors) => {
            let rest = PipelineSpec {
                rules: Some(Vec::new()),
                ..spec.clone()
            };
            (deploy::plan(&rest).ok(), errors)
        }
    }
}

/// Lists the models that a pipeline loads, with the field that names each.
fn models_of(spec: &PipelineSpec, plan: Option<&Plan>) -> Vec<(&'static str, String)> {
    let from_workflow = |model: &String| ("workflow", model.clone());
    let mut models: Vec<(&str, String)> = match (&spec.model, plan) {
        (Some(model), _) => vec![("model", model.clone())],
        (None, Some(plan)) => plan.models.iter().map(from_workflow).collect(),
        (None, None) => Vec::new(),
    };
    let asked = plan.iter().flat_map(|plan| &plan.asked);
    models.extend(asked.map(from_workflow));
    models
}

/// Maps a field to its path in the file; `rules` are the original positions of the remaining rules.
fn original_field(field: &str, rules: Option<&[usize]>) -> String {
    let original = || {
        let (number, rest) = field.strip_prefix("rules[")?.split_once(']')?;
        let position = rules?.get(number.parse::<usize>().ok()?)?;
        Some(format!("rules[{position}]{rest}"))
    };
    original().unwrap_or_else(|| field.to_owned())
}

/// Converts an error of the engine; the caller sets the key.
fn spec_error(cause: &SpecError) -> ConfigError {
    let SpecError::Rule(rule) = cause else {
        let found = match cause {
            SpecError::Parameter { value, .. } => value.clone(),
            _ => None,
        };
        return error("", found, cause.to_string());
    };
    let mut error = error("", Some(rule.value.clone()), rule.message.clone());
    error.allowed = (!rule.allowed.is_empty()).then(|| rule.allowed.join(", "));
    error.nearest.clone_from(&rule.nearest);
    error
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
    use watchkeeper_config::{LoadRequest, Report};

    use super::*;

    /// A workflow with a line `road`.
    const ROAD: &str = r#"{"version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}], "steps": [
        {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "detect", "images": "$inputs.image", "model_id": "motion"},
        {"type": "roboflow_core/byte_tracker@v3", "name": "tracker", "image": "$inputs.image", "detections": "$steps.detect.predictions"},
        {"type": "roboflow_core/line_counter@v2", "name": "road", "image": "$inputs.image",
            "detections": "$steps.tracker.tracked_detections", "line_segment": [[0, 5], [9, 5]]}],
        "outputs": [{"type": "JsonField", "name": "in", "selector": "$steps.road.count_in"}]}"#;

    /// A workflow with a zone `hall` and two parameters.
    const HALL: &str = r#"{"version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"},
            {"type": "WorkflowParameter", "name": "conf"}, {"type": "WorkflowParameter", "name": "zone"}], "steps": [
        {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "detect", "images": "$inputs.image", "model_id": "motion",
            "confidence": "$inputs.conf"},
        {"type": "roboflow_core/byte_tracker@v3", "name": "tracker", "image": "$inputs.image", "detections": "$steps.detect.predictions"},
        {"type": "roboflow_core/time_in_zone@v3", "name": "hall", "image": "$inputs.image",
            "detections": "$steps.tracker.tracked_detections", "zone": "$inputs.zone"}], "outputs": []}"#;

    fn check_text(text: &str) -> Report {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("road.json"), ROAD).unwrap();
        std::fs::write(dir.path().join("hall.json"), HALL).unwrap();
        std::fs::write(dir.path().join("wk.toml"), text).unwrap();
        let request = LoadRequest {
            file: Some(dir.path().join("wk.toml")),
            hostname: "h".to_owned(),
            ..LoadRequest::default()
        };
        watchkeeper_config::check(&request, &check)
    }

    fn places(errors: &[ConfigError]) -> Vec<(&str, Option<usize>)> {
        errors.iter().map(|e| (e.key.as_str(), e.line)).collect()
    }

    #[test]
    fn invalid_address_is_an_error_without_its_password() {
        let report = check_text(
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
        assert_eq!(places(&report.warnings), wanted);
        let text: Vec<String> = report.warnings.iter().map(ToString::to_string).collect();
        assert!(!text.concat().contains("hunter2"), "{text:?}");
    }

    #[test]
    fn error_at_the_top_hides_none_below() {
        let report = check_text(
            "[runtime]\njournal_events = 5\n\n[sources.s]\nuri = \"demo:\"\n\n[sources.t]\npace = \"fast\"\n\n\
             [pipelines.p]\nsource = \"x\"\nworkflow = \"none.json\"\n\n\
             [pipelines.q]\nsource = \"s\"\nworkflow = \"road.json\"\nmodel = \"nosuch\"\n\n\
             [pipelines.r]\nsource = \"s\"\nworkflow = \"road.json\"\n\
             [[pipelines.r.rules]]\nname = \"a\"\nwhen = { kind = \"crosses\", line = \"raod\" }\n\n\
             [mqtt]\nhost = \"b\"\ntls = true\nca_file = \"none.pem\"\n",
        );
        assert_eq!(
            places(&report.errors),
            [("runtime.journal_events", Some(2))]
        );
        let expected = [
            ("sources.t.uri", Some(7)),
            ("pipelines.p.source", Some(11)),
            ("pipelines.p.workflow", Some(12)),
            ("mqtt.ca_file", Some(29)),
            ("pipelines.q.model", Some(17)),
            ("pipelines.r.rules[0].when.line", Some(24)),
        ];
        assert_eq!(places(&report.warnings), expected);
        let rule = report.warnings.last().unwrap().to_string();
        assert!(
            rule.contains("did you mean road?") && rule.ends_with(":24)"),
            "{rule}"
        );
    }

    #[test]
    fn error_in_a_section_hides_no_other_error() {
        let report = check_text(
            "[sources.a]\nuri = \"rtps://cam/1\"\nmax_fps = -1\n\n[sources.b]\nuri = \"missing.mp4\"\n\n\
             [pipelines.p]\nsource = \"a\"\nworkflow = \"road.json\"\nmodel = \"yolo\"\n\
             rules = [{ name = \"x\", when = { kind = \"crossed\" } }, { name = \"y\", when = { kind = \"crosses\", line = \"raod\" } }]\n\n\
             [pipelines.q]\nsource = \"bb\"\nworkflow = \"none.json\"\nmodel = \"yolo\"\ndetect = { mode = \"sometimes\" }\n\n\
             [runtime]\nstate_dir = \"/proc/nope\"\n",
        );
        let mut keys: Vec<&str> = report.warnings.iter().map(|w| w.key.as_str()).collect();
        keys.sort_unstable();
        assert_eq!(
            keys,
            [
                "pipelines.p.model",
                "pipelines.p.rules[0].when.kind",
                "pipelines.p.rules[1].when.line",
                "pipelines.p.source",
                "pipelines.q.detect.mode",
                "pipelines.q.model",
                "pipelines.q.source",
                "pipelines.q.workflow",
                "runtime.state_dir",
                "sources.a.max_fps",
                "sources.a.uri",
                "sources.b.uri",
            ]
        );
        let said = |key: &str| {
            let error = report.warnings.iter().find(|w| w.key == key);
            error.map(ToString::to_string).unwrap_or_default()
        };
        assert!(said("sources.a.uri").contains("did you mean rtsp?"));
        assert!(said("pipelines.p.source").contains("left out because of an error in [sources.a]"));
        assert!(said("pipelines.q.source").contains("allowed: a, b"));
    }

    #[test]
    fn missing_tls_files_are_errors_with_key_value_and_remedy() {
        let report = check_text(
            "[mqtt]\nhost = \"b\"\ntls = true\nca_file = \"road.json\"\ncert_file = \"none.crt\"\nkey_file = \"none.key\"\n",
        );
        let expected = [
            ("mqtt.cert_file", Some(5)),
            ("mqtt.key_file", Some(6)),
            ("mqtt.ca_file", Some(4)),
        ];
        assert_eq!(places(&report.warnings), expected);
        let lines: Vec<String> = report.warnings.iter().map(ToString::to_string).collect();
        assert!(
            lines[0].contains("none.crt: no such file; put it there"),
            "{lines:?}"
        );
        assert!(
            lines[2].contains("road.json: the file has no certificate in PEM form"),
            "{lines:?}"
        );
    }

    #[test]
    fn rule_with_a_class_unknown_to_its_model_is_an_error() {
        let text = "[sources.s]\nuri = \"demo:\"\n[pipelines.p]\nsource = \"s\"\nworkflow = \"road.json\"\n\
             [[pipelines.p.rules]]\nname = \"a\"\nwhen = { kind = \"crosses\", line = \"road\" }\nclasses = [\"person\"]\n";
        let report = check_text(text);
        assert_eq!(
            places(&report.warnings),
            [("pipelines.p.rules[0].classes[0]", Some(9))]
        );
    }

    #[test]
    fn invalid_parameter_is_an_error_and_empty_zone_a_note() {
        let with = |parameters: &str| {
            check_text(&format!(
                "[sources.s]\nuri = \"demo:\"\n[pipelines.p]\nsource = \"s\"\nworkflow = \"hall.json\"\nparameters = {{ {parameters} }}\n"
            ))
        };
        let wrong = with("conf = 7, zone = []");
        let [error] = wrong.warnings.as_slice() else {
            panic!("{:?}", wrong.warnings);
        };
        assert_eq!(error.key, "pipelines.p.parameters.conf");
        assert_eq!(error.found.as_deref(), Some("7"));
        assert!(error.to_string().contains("from 0 to 1"), "{error}");
        let empty = with("conf = 0.5, zone = []");
        assert_eq!(places(&empty.warnings), []);
        assert!(
            empty.notes.len() == 1
                && empty.notes[0].contains("zone of step hall has fewer than three corners"),
            "{:?}",
            empty.notes
        );
    }

    #[test]
    fn pipeline_without_rules_is_a_note() {
        let text = "[sources.s]\nuri = \"demo:\"\n[pipelines.p]\nsource = \"s\"\nworkflow = \"road.json\"\n";
        let quiet = check_text(&format!("{text}rules = []\n"));
        assert_eq!(
            quiet.notes,
            ["pipelines.p: no rules, so it makes no events"]
        );
        let derived = check_text(text);
        assert_eq!((derived.notes.len(), derived.warnings), (0, vec![]));
    }
}
