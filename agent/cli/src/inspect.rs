//! Checks of `config check` beyond the file: the files, folders and models that it names exist, and
//! each pipeline compiles and fits its model.
//!
//! - A daemon finds the same errors only when it uses these things.
//! - Invariant: files are read, never written; no camera, broker or model is opened.

mod archive;
mod besides;
mod chains;
mod finding;
mod pictures;
mod rule_notes;
mod schedules;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use secrecy::ExposeSecret as _;
use watchkeeper_config::address::Address;
use watchkeeper_config::{
    ChannelConfig, Config, ConfigError, Findings, PrivacyMasks, SecretSource, SinksConfig,
    SkippedSections, channels, redact,
};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::{ClipMaterial, RuleSpec, reference_sets};
use watchkeeper_contract::source::{Pace, SourceSpec};
use watchkeeper_engine::deploy::{self, ModelFacts, Plan, SpecError};
use watchkeeper_evidence::reference::likeness::Calibration;
use watchkeeper_models::{MOTION, Zoo, ZooError};

use super::lookup_check;
pub(super) use besides::deployed;
pub(super) use chains::missing_references;
use finding::{error, missing_folders, shown, unreadable};
use watchkeeper_agent::api::token::Token;
use watchkeeper_agent::connectors::secrets;
use watchkeeper_agent::embedding;
use watchkeeper_agent::fleet::mqtt::tls::{self, TlsError};
use watchkeeper_assistant::blueprint::BlueprintStore;
use watchkeeper_assistant::llm::{catalogue, refused_model};
use watchkeeper_assistant::notes;
use watchkeeper_assistant::trace::TRACE_FOLDER;

/// Checks everything that a configuration names, also in sections that it skips.
pub(super) fn check(config: &Config, skipped: &SkippedSections) -> Findings {
    let mut findings = Findings::default();
    findings.errors.extend(check_tls(config));
    check_runtime(config, &mut findings);
    for source in config.sources.iter().chain(&skipped.sources) {
        check_source(source, &mut findings);
    }
    findings.errors.extend(check_sinks(&config.sinks));
    findings.errors.extend(check_api_token(config));
    let addresses = config.channels.iter().filter_map(check_channel);
    findings.errors.extend(addresses);
    findings.errors.extend(check_llm(config));
    findings.notes.extend(refused_blueprints(config));
    let lookups = lookup_check::problems(config).into_iter();
    let lookups = lookups.map(|(key, problem)| error(key, None, problem));
    findings.errors.extend(lookups);
    findings.errors.extend(archive::check(&config.archive));
    schedules::check(config, skipped, &mut findings);
    let zoo = Zoo::with_dirs(config.models.folders());
    findings.errors.extend(check_embedding(config, &zoo));
    findings.errors.extend(check_references(config, &zoo));
    if let Some(model) = &config.models.default
        && let Err(absent) = model_facts(&zoo, model)
    {
        let key = "models.default".to_owned();
        findings.errors.push(ConfigError { key, ..absent });
    }
    if let Some(folder) = config.models.dir.as_ref().filter(|folder| !folder.exists()) {
        let folder = folder.display();
        findings.notes.push(format!(
            "models.dir: there is no folder {folder} yet, so no model is installed; `watchkeeper models \
             pull NAME` creates it"
        ));
    }
    check_pipelines(config, &zoo, &mut findings);
    for draft in &skipped.pipelines {
        check_pipeline(&draft.spec, Some(&draft.rules), &zoo, &mut findings);
    }
    findings.errors.extend(chains::check(config, skipped));
    let unnamed = besides::unnamed_channels(config, skipped);
    findings.notes.extend(unnamed);
    findings.notes.extend(chains::reference_notes(config));
    if let Some(folder) = notes::model_folder(&config.memory) {
        let folder = folder.display();
        findings.notes.push(format!(
            "note search uses the sentence embeddings of {folder}; `watchkeeper doctor` loads them"
        ));
    }
    findings
}

/// Checks each pipeline with its source and the source's mask.
fn check_pipelines(config: &Config, zoo: &Zoo, findings: &mut Findings) {
    let masks = PrivacyMasks::new(config);
    for spec in &config.pipelines {
        let fitted = check_pipeline(spec, None, zoo, findings);
        let source = config.sources.iter().find(|s| s.id == spec.source);
        let mask = masks.by_name(&spec.source).map(Arc::as_ref);
        if let Some((plan, facts)) = &fitted {
            let unseen = mask.map(|mask| pictures::unseen_classes(spec, facts, mask));
            findings.errors.extend(unseen.into_iter().flatten());
            let size = source.and_then(pictures::known_size);
            pictures::check_bounds(spec, plan, size, findings);
        }
        let notes = source.into_iter().flat_map(|s| notes_of_source(spec, s));
        findings.notes.extend(notes.chain(rule_notes::notes(spec)));
    }
}

fn check_embedding(config: &Config, zoo: &Zoo) -> Option<ConfigError> {
    let model = config.archive.embedding.as_ref()?;
    let problem = embedding::choose(&zoo.list(), model).err()?.to_string();
    Some(error(
        "agent.archive.embedding",
        Some(model.clone()),
        problem,
    ))
}

/// Checks `[agent.references]`, where a chain compares with reference pictures.
fn check_references(config: &Config, zoo: &Zoo) -> Option<ConfigError> {
    let rules = config
        .pipelines
        .iter()
        .flat_map(|spec| spec.rules.iter().flatten());
    let mut sources = rules.flat_map(|rule| rule.decide.iter().flat_map(|decide| &decide.chain));
    sources.find(|source| reference_sets(source).is_some())?;
    let wanted = &config.references;
    match embedding::choose(&zoo.list(), &wanted.model) {
        Err(problem) => {
            let found = Some(wanted.model.clone());
            Some(error("agent.references.model", found, problem.to_string()))
        }
        Ok(model) => {
            let problem = Calibration::of(&model.name, wanted.min_likeness).err()?;
            Some(error("agent.references.min_likeness", None, problem))
        }
    }
}

fn check_tls(config: &Config) -> Vec<ConfigError> {
    let Some(mqtt) = config.mqtt.as_ref().filter(|mqtt| mqtt.tls) else {
        return Vec::new();
    };
    let problems = tls::problems(mqtt.ca_file.as_deref(), mqtt.client_cert.as_ref());
    problems.iter().map(tls_error).collect()
}

fn check_runtime(config: &Config, findings: &mut Findings) {
    let errors = &mut findings.errors;
    let libraries = [
        (
            "runtime.inference.ort_library",
            &config.inference.ort_library,
        ),
        (
            "runtime.inference.trt_library",
            &config.inference.trt_library,
        ),
    ];
    for (key, path) in libraries {
        errors.extend(path.as_deref().and_then(|path| unreadable(key, path)));
    }
    errors.extend(missing_folders(
        "runtime.dry_run_roots",
        &config.dry_run_roots,
        "create it, or remove it here",
    ));
    let folder = &config.state_dir;
    let refused = |problem| error("runtime.state_dir", shown(folder), problem);
    match no_folder(folder) {
        Some(problem) => findings.fatal.push(refused(problem)),
        None => findings.errors.extend(read_only_disk(folder).map(refused)),
    }
}

/// Lists the agent's blueprints that name a refused model. A folder that this user may not read is
/// left out.
fn refused_blueprints(config: &Config) -> Vec<String> {
    let store = BlueprintStore::new(&config.state_dir.join(TRACE_FOLDER));
    let all = store.list().map(|(all, _)| all).unwrap_or_default();
    let served = all.iter().filter_map(|listed| listed.serves.as_ref());
    served
        .filter_map(|blueprint| refused_model(blueprint, config.llm.as_ref()))
        .collect()
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

/// Checks `[sinks]`, except for variables and credentials, which only the agent's service has.
fn check_sinks(sinks: &SinksConfig) -> Vec<ConfigError> {
    let remedy = "create it, writable by the agent's user";
    let mut errors = missing_folders("sinks.folders", &sinks.folders, remedy);
    let ca_file = sinks.ca_file.as_deref();
    errors.extend(ca_file.and_then(|path| unreadable("sinks.ca_file", path)));
    for (name, source) in &sinks.secrets {
        if matches!(source, SecretSource::File(_) | SecretSource::Value(_))
            && let Err(problem) = secrets::read(name, source, None)
        {
            errors.push(error(format!("sinks.secrets.{name}"), None, problem));
        }
    }
    errors
}

/// Checks the token of the agent's API in a file; a credential only the agent's service has.
fn check_api_token(config: &Config) -> Option<ConfigError> {
    let token = &config.agent_api.tcp.as_ref()?.token;
    let SecretSource::File(path) = token else {
        return None;
    };
    let problem = Token::read(token, None).err()?;
    Some(error("agent.api.token_file", shown(path), problem))
}

/// Checks the address of a channel that is in a file. Its content is a secret, so it isn't shown.
fn check_channel(channel: &ChannelConfig) -> Option<ConfigError> {
    let SecretSource::File(path) = &channel.url else {
        return None;
    };
    let key = format!("channels.{}.url_file", channel.id);
    let problem = match File::open(path) {
        Err(cause) => format!("can't read the file: {cause}; put the address there"),
        Ok(_) => match secrets::read(&key, &channel.url, None) {
            Err(problem) => problem,
            Ok(address) => channels::address(address.expose_secret()).err()?,
        },
    };
    Some(error(key, shown(path), problem))
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

/// Describes why there can be no such folder.
fn no_folder(path: &Path) -> Option<String> {
    let existing = path.ancestors().find(|above| above.exists())?;
    let what = match existing == path {
        true => "this".to_owned(),
        false => existing.display().to_string(),
    };
    let remedy = "name one that the daemons may write";
    if !existing.is_dir() {
        return Some(format!("{what} is not a folder; {remedy}"));
    }
    let is_proc =
        rustix::fs::statfs(existing).is_ok_and(|fs| fs.f_type == rustix::fs::PROC_SUPER_MAGIC);
    is_proc.then(|| format!("{what} is of the kernel and takes no file; {remedy}"))
}

/// Describes why no user can write this folder now. The daemons start, and wait for the disk.
fn read_only_disk(path: &Path) -> Option<String> {
    let existing = path.ancestors().find(|above| above.exists())?;
    let is_read_only = rustix::fs::statvfs(existing)
        .is_ok_and(|fs| fs.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY));
    is_read_only.then(|| {
        format!(
            "{} is read-only; name a folder on a writable disk",
            existing.display()
        )
    })
}

/// Checks the address of a source: its syntax, and that its file or folder exists. A device that is
/// absent is not an error, because the runtime waits for it.
fn check_source(source: &SourceSpec, findings: &mut Findings) {
    let key = format!("sources.{}.uri", source.id);
    let missing = |path: &Path| path.is_absolute().then(|| path.metadata().err()).flatten();
    let problem = match Address::parse(&source.uri) {
        Err(cause) => cause.to_string(),
        Ok(Address::Path(path)) => match missing(&path) {
            Some(cause) => format!("not found: {cause}"),
            None => return,
        },
        Ok(Address::V4l2 { device, .. }) => {
            findings.notes.extend(missing(&device).map(|cause| {
                let device = device.display();
                format!("{key}: {device} is not there now ({cause}); the runtime waits for it")
            }));
            return;
        }
        Ok(
            Address::Rtsp { .. } | Address::Http { .. } | Address::Csi { .. } | Address::Demo(_),
        ) => return,
    };
    let found = Some(redact::uri(&source.uri));
    findings.errors.push(error(key, found, problem));
}

/// Reports settings of a pipeline without effect on its source. These are `target_fps` of a
/// recording that is played as fast as possible, and clips of a stream if the source has none.
fn notes_of_source(spec: &PipelineSpec, source: &SourceSpec) -> Vec<String> {
    let address = Address::parse(&source.uri);
    let is_recording = address.as_ref().is_ok_and(Address::is_recording);
    let mut notes = Vec::new();
    if spec.target_fps.is_some() && is_recording && source.pace == Pace::Fast {
        notes.push(format!(
            "pipelines.{}.target_fps: no effect, because every frame of a recording is looked at; \
             set sources.{}.pace = \"native\" to play it as a camera",
            spec.id, source.id
        ));
    }
    let wants_stream = |rule: &RuleSpec| {
        let clip = rule.clip.as_ref();
        clip.is_some_and(|clip| clip.made_of == ClipMaterial::Stream)
    };
    let has_none = match address {
        Ok(Address::Path(path)) => path.is_dir(),
        Ok(Address::Demo(_) | Address::V4l2 { .. } | Address::Csi { .. }) => true,
        Ok(Address::Rtsp { .. } | Address::Http { .. }) | Err(_) => false,
    };
    let rules = spec.rules.iter().flatten().enumerate();
    let rules = rules.filter(|(_, rule)| has_none && wants_stream(rule));
    notes.extend(rules.map(|(nth, _)| {
        format!(
            "pipelines.{}.rules[{nth}].clip.made_of: the source {} has no encoded stream; its clips \
             are made of pictures",
            spec.id, source.id
        )
    }));
    notes
}

/// Reads what a model's manifest says about it. The caller sets the key of the error.
fn model_facts(zoo: &Zoo, model: &str) -> Result<ModelFacts, ConfigError> {
    if model == MOTION {
        return Ok(ModelFacts::motion());
    }
    let unusable = |cause: ZooError| {
        let error = error("", Some(model.to_owned()), cause.problem());
        let remedy = cause.remedy().map(str::to_owned);
        ConfigError { remedy, ..error }
    };
    let found = zoo.resolve(model).map_err(unusable)?;
    let labels = found.manifest.labels.iter().map(ToString::to_string);
    Ok(ModelFacts::network(found.manifest.task.name(), labels))
}

/// Checks one pipeline, and returns its plan with what is known of its models. `rules` are the
/// original positions of its rules, if some were skipped.
fn check_pipeline(
    spec: &PipelineSpec,
    rules: Option<&[usize]>,
    zoo: &Zoo,
    findings: &mut Findings,
) -> Option<(Plan, BTreeMap<String, ModelFacts>)> {
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
            Err(mut absent) => {
                if field != "model" {
                    let own = absent.remedy.iter().map(String::as_str);
                    let all: Vec<&str> = own.chain(["or set `model` to replace it"]).collect();
                    absent.remedy = Some(all.join("; "));
                }
                add_error(field, absent);
            }
        }
    }
    let plan = plan?;
    let fit = deploy::fit(spec, &plan, &facts);
    for error in &fit.errors {
        add_error(error.field(), spec_error(error));
    }
    if rules.is_some() {
        return Some((plan, facts));
    }
    let warnings = fit.warnings.into_iter();
    findings
        .notes
        .extend(warnings.map(|w| format!("{section}: {}", w.message)));
    if errors.is_empty() && plan.rule_names.is_empty() {
        findings
            .notes
            .push(format!("{section}: no rules, so it makes no events"));
    }
    Some((plan, facts))
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
mod tests;
