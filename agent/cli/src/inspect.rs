//! What `config check` sees beyond the file: does what the configuration names exist, and does each pipeline hold together?
//!
//! A daemon finds these things out when it uses them, and says so in its status; here they are told before. Invariant: files are looked at, never
//! written; no camera, broker or model is opened.

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
use watchkeeper_engine::deploy::{self, ModelFacts, SpecError};
use watchkeeper_models::{MOTION, Zoo};

use watchkeeper_agent::connectors::secrets;
use watchkeeper_agent::fleet::mqtt::tls::{self, TlsError};
use watchkeeper_assistant::llm::catalogue;
use watchkeeper_assistant::notes;

/// Looks at everything that a configuration names, also in what is left out of it.
pub(super) fn look(config: &Config, skipped: &SkippedSections) -> Findings {
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
    if let Some(problem) = no_folder(&config.state_dir) {
        let found = config.state_dir.display().to_string();
        wrong("runtime.state_dir".to_owned(), Some(found), problem);
    }
    for source in config.sources.iter().chain(&skipped.sources) {
        if let Some(error) = unusable(source) {
            let key = format!("sources.{}.uri", source.id);
            wrong(key, Some(redact::uri(&source.uri)), error);
        }
    }
    for (key, found, problem) in sinks(&config.sinks) {
        wrong(key, found, problem);
    }
    if let Some(llm) = &config.llm
        && let Some(file) = &llm.models_file
        && let Err(problem) = catalogue(llm)
    {
        let found = file.display().to_string();
        wrong("llm.models_file".to_owned(), Some(found), problem);
    }
    if let Some(folder) = &config.memory.model
        && let Err(problem) = notes::check_model_files(folder)
    {
        let found = folder.display().to_string();
        wrong("agent.memory.model".to_owned(), Some(found), problem);
    }
    let zoo = Zoo::with_dirs(config.models.folders());
    if let Some(model) = &config.models.default
        && let Err(error) = known(&zoo, model)
    {
        wrong("models.default".to_owned(), Some(model.clone()), error);
    }
    for spec in &config.pipelines {
        pipeline(spec, None, &zoo, &mut findings);
    }
    for draft in &skipped.pipelines {
        pipeline(&draft.spec, Some(&draft.rules), &zoo, &mut findings);
    }
    if let Some(folder) = notes::model_folder(&config.memory) {
        let folder = folder.display();
        findings.notes.push(format!(
            "notes are searched with the embedding model in {folder}; `watchkeeper doctor` tries it"
        ));
    }
    findings
}

/// Key, value and sentence of what workflows may have done and can't be. A variable and a credential are the agent's, of which this command sees nothing.
fn sinks(sinks: &SinksConfig) -> Vec<(String, Option<String>, String)> {
    let mut wrong = Vec::new();
    for (nth, folder) in sinks.folders.iter().enumerate() {
        if !folder.is_dir() {
            let problem = "there is no such folder; make it, and let the agent's user write there";
            let found = folder.display().to_string();
            wrong.push((
                format!("sinks.folders[{nth}]"),
                Some(found),
                problem.to_owned(),
            ));
        }
    }
    if let Some(path) = &sinks.ca_file
        && let Err(error) = File::open(path)
    {
        let found = path.display().to_string();
        let problem = format!("can't read the file: {error}");
        wrong.push(("sinks.ca_file".to_owned(), Some(found), problem));
    }
    for (name, source) in &sinks.secrets {
        if matches!(source, SecretSource::File(_) | SecretSource::Value(_))
            && let Err(problem) = secrets::read(name, source, None)
        {
            wrong.push((format!("sinks.secrets.{name}"), None, problem));
        }
    }
    wrong
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
        TlsError::SystemRoots { .. } => ("mqtt.ca_file", None, format!("{error}, {silent}")),
        TlsError::Library(_) => ("mqtt.tls", None, error.to_string()),
    }
}

/// Why the daemons can keep nothing in this folder, whoever runs them.
fn no_folder(path: &Path) -> Option<String> {
    let existing = path.ancestors().find(|above| above.exists())?;
    if !existing.is_dir() {
        let what = if existing == path {
            "it".to_owned()
        } else {
            existing.display().to_string()
        };
        return Some(format!(
            "{what} is no folder; name one that the daemons may write"
        ));
    }
    // Neither has room for a file of ours: `proc` says so by its type, a disk by the way it is mounted.
    let is_proc =
        rustix::fs::statfs(existing).is_ok_and(|fs| fs.f_type == rustix::fs::PROC_SUPER_MAGIC);
    let is_read_only = rustix::fs::statvfs(existing)
        .is_ok_and(|fs| fs.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY));
    (is_proc || is_read_only).then(|| {
        format!(
            "nothing can be written into {}; name a folder on a disk that can be written",
            existing.display()
        )
    })
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
    Ok(ModelFacts::network(found.manifest.task.name(), labels))
}

/// Looks at one pipeline. `rules` are the positions of its rules where some of those that were written are missing.
fn pipeline(spec: &PipelineSpec, rules: Option<&[usize]>, zoo: &Zoo, findings: &mut Findings) {
    let section = format!("pipelines.{}", spec.id);
    let mut wrong = |field: &str, mut error: ConfigError| {
        error.key = format!("{section}.{}", as_written(field, rules));
        findings.errors.push(error);
    };
    let plan = match deploy::plan(spec) {
        // Why it could not be read is told already.
        Err(_) if rules.is_some() && spec.workflow.is_null() => None,
        Err(errors) => {
            for error in &errors {
                wrong(error.field(), told(error));
            }
            // Without its rules it may hold together, and its models can be looked at.
            let rest = PipelineSpec {
                rules: Some(Vec::new()),
                ..spec.clone()
            };
            deploy::plan(&rest).ok()
        }
        Ok(plan) => Some(plan),
    };
    let of_workflow = |m: &String| ("workflow", m.clone());
    let mut models: Vec<(&str, String)> = match (&spec.model, &plan) {
        (Some(model), _) => vec![("model", model.clone())],
        (None, Some(plan)) => plan.models.iter().map(of_workflow).collect(),
        (None, None) => Vec::new(),
    };
    let asked = plan.iter().flat_map(|plan| &plan.asked);
    models.extend(asked.map(of_workflow));
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
    let Some(plan) = plan else {
        return;
    };
    let fit = deploy::fit(spec, &plan, &facts);
    for error in &fit.errors {
        wrong(error.field(), told(error));
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
            .push(format!("{section}: no rules: no events"));
    }
}

/// The path of a field as it was written, where `rules` are the positions of the rules that are left.
fn as_written(field: &str, rules: Option<&[usize]>) -> String {
    let written = || {
        let (number, rest) = field.strip_prefix("rules[")?.split_once(']')?;
        let position = rules?.get(number.parse::<usize>().ok()?)?;
        Some(format!("rules[{position}]{rest}"))
    };
    written().unwrap_or_else(|| field.to_owned())
}

fn told(error: &SpecError) -> ConfigError {
    let SpecError::Rule(rule) = error else {
        let mut told = ConfigError::new("", error.to_string(), Origin::Default);
        if let SpecError::Parameter { value, .. } = error {
            told.found.clone_from(value);
        }
        return told;
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

    /// A workflow with a zone `hall` and two parameters.
    const HALL: &str = r#"{"version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"},
            {"type": "WorkflowParameter", "name": "conf"}, {"type": "WorkflowParameter", "name": "zone"}], "steps": [
        {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "detect", "images": "$inputs.image", "model_id": "motion",
            "confidence": "$inputs.conf"},
        {"type": "roboflow_core/byte_tracker@v3", "name": "tracker", "image": "$inputs.image", "detections": "$steps.detect.predictions"},
        {"type": "roboflow_core/time_in_zone@v3", "name": "hall", "image": "$inputs.image",
            "detections": "$steps.tracker.tracked_detections", "zone": "$inputs.zone"}], "outputs": []}"#;

    fn checked(text: &str) -> Report {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("road.json"), ROAD).unwrap();
        std::fs::write(dir.path().join("hall.json"), HALL).unwrap();
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
    fn one_mistake_in_a_section_hides_no_other_there_and_none_in_what_names_it() {
        let report = checked(
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
    fn a_parameter_that_no_step_can_use_is_wrong_and_a_zone_without_corners_is_noted() {
        let with = |parameters: &str| {
            checked(&format!(
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
        assert_eq!(told(&empty.warnings), []);
        assert!(
            empty.notes.len() == 1
                && empty.notes[0].contains("zone of step hall has fewer than three corners"),
            "{:?}",
            empty.notes
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
